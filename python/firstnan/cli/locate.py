"""Run the bad step of a bundle again and name the line where its first NaN and Inf are born.

The step is imported from the working directory, or from what is installed, and run on the state and batch in the
bundle. First it says whether the counts of that run are those of the bundle: on another machine, or with other code,
they need not be. The exit code is 1 where they are not. Needs jax, and runs the code of the step.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from firstnan.cli.incident import read_bundle
from firstnan.cli.output import CAUSE, count, say, say_json, waiting
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help="the folder of an incident bundle")
    parser.add_argument("--step", metavar="MODULE:FUNCTION", required=True, help="the step that was given to run")


def run(arguments: argparse.Namespace) -> int:
    bundle = read_bundle(arguments.bundle)
    step = imported(arguments.step)
    from firstnan.jax.births.replay import NoCounts, replay
    from firstnan.jax.births.supported import require_supported_jax

    try:
        require_supported_jax()
    except ImportError as error:
        raise Misuse(str(error)) from None
    try:
        with waiting("running the step, equation by equation"), main_is(arguments.step.partition(":")[0]):
            replayed = replay(bundle, step)
    except ContractError as error:
        raise Refused(error, arguments.bundle) from None
    except NoCounts:
        raise Misuse(f"{arguments.step} returns no counts from count_stages: give the step that was given to run") from None
    except Exception as error:
        wrong = arguments_differ(step)
        what = wrong or f"raised {type(error).__name__} on the state and batch of the bundle{last_line(error)}"
        raise Misuse(f"{arguments.step} {what}") from error
    located = replayed.located
    if arguments.json:
        differing = [leaf.to_json() for leaf in replayed.differing]
        say_json({"same_counts": replayed.same_counts, "differing": differing, "located": located.to_json()})
        return 0 if replayed.same_counts else 1
    if replayed.same_counts:
        say(f"step {bundle.incident.step_id} reproduced: every count is that of the bundle")
    else:
        say(f"step {bundle.incident.step_id} NOT reproduced: {count(len(replayed.differing))} leaves have other counts here")
        for leaf in replayed.differing:
            say(f"  {leaf.stage} {leaf.path}: {count(leaf.nonfinite)} non-finite of {count(leaf.checked)} here")
    for line in str(located).splitlines():
        say(line.replace(f"{os.getcwd()}{os.sep}", ""))
    say(CAUSE)
    return 0 if replayed.same_counts else 1


def imported(name: str) -> Callable[..., Any]:
    """The function of a MODULE:FUNCTION.

    Raises:
        Misuse: there is none, or importing the module fails.
    """
    module_name, colon, path = name.partition(":")
    if not module_name or not colon or not path:
        raise Misuse("--step takes MODULE:FUNCTION")
    # As `python -m` does, so that a script in the working directory is found.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module_name}.".startswith(f"{error.name}."):
            if module_name.endswith(".py"):
                raise Misuse(f"--step takes the name of a module: {module_name.removesuffix('.py')}, not a file") from error
            raise Misuse(f"there is no module {error.name} here or installed: run this where its file is") from error
        raise Misuse(f"importing {module_name} raised {type(error).__name__}{last_line(error)}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise Misuse(f"{module_name} has no {path}")
        found = getattr(found, part)
    if not callable(found):
        raise Misuse(f"{name} is no function")
    function: Callable[..., Any] = found
    return function


@contextlib.contextmanager
def main_is(module_name: str) -> Iterator[None]:
    """Lets saved types of `__main__` be found in a module: the script that wrote the bundle, imported under its name."""
    ours = sys.modules["__main__"]
    sys.modules["__main__"] = sys.modules[module_name]
    try:
        yield
    finally:
        sys.modules["__main__"] = ours


def arguments_differ(step: Callable[..., Any]) -> str:
    """What is wrong with the parameters of a step that cannot take a state and a batch; empty where it can."""
    try:
        inspect.signature(step).bind(None, None)
    except TypeError:
        return "does not take two arguments, the state and the batch"
    except ValueError:
        pass
    return ""


def last_line(error: BaseException) -> str:
    """` at FILE:LINE`, the innermost one outside firstnan and the import system; empty where there is none."""
    inside = (os.path.dirname(os.path.dirname(__file__)) + os.sep, "<frozen ")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(inside)]
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
