"""From the arguments to one command, and from whatever that ends in to an exit code."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from importlib import import_module
from typing import Final

from firstnan import __version__
from firstnan.cli.output import complain, say, say_json
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError

COMMANDS: Final = (
    "schema", "validate", "digest", "triage", "verify", "report", "locate", "scan", "drill", "ingest", "quarantine", "sql",
    "incidents", "timeline", "compact",
)  # fmt: skip
"""Each is a module beside this one, with `add_arguments(parser)` and `run(arguments) -> int`."""
EXIT_CODES: Final = """exit codes:
  0    done; what was looked at is in order
  1    something was refused or differs, or HOLD where --exit-code asks for it
  2    misuse: no such command or kind, a file that cannot be read or written, a bad argument
  130  interrupted (Ctrl-C)
  141  the reader of our output went away"""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: the arguments after the program's name; those of the process where None.
    """
    if sys.stdout is None:
        complain("standard output is closed")
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding lacks is escaped, not an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_output()
        return 141
    except OSError as error:
        name = "standard output" if error.filename is None else error.filename or "''"
        complain(f"{name}: {error.strerror or type(error).__name__}")
        silence_output()
        return 2
    except MemoryError:
        complain("there is not enough memory for this")
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    return code


def run(argv: list[str] | None) -> int:
    """Parse and run; what a command raises on purpose becomes its message and code."""
    try:
        arguments = parsed(sys.argv[1:] if argv is None else argv)
    except SystemExit as ended:
        # argparse has printed the help, or what is wrong.
        return ended.code if isinstance(ended.code, int) else 2
    try:
        code: int = arguments.run(arguments)
    except Misuse as misuse:
        complain(str(misuse))
        return 2
    except (Refused, ContractError) as error:
        refused = error if isinstance(error, Refused) else Refused(error)
        if arguments.json:
            say_json({"refused": refused.to_json()})
        else:
            say(str(refused))
        return 1
    return code


def parsed(words: list[str]) -> argparse.Namespace:
    """The arguments of a command, options and files in any order.

    Raises:
        SystemExit: help was asked for, or something is wrong with the arguments.
    """
    if any("\0" in word for word in words):
        root_parser().error("an argument holds a NUL, which no file has in its name")
    if not words or words[0] not in COMMANDS:
        root = root_parser()
        root.parse_args(words)
        root.error("give the COMMAND first")
    return command_parser(words[0]).parse_intermixed_args(words[1:])


def root_parser() -> argparse.ArgumentParser:
    """What stands before a command: help and version."""
    width = max(map(len, COMMANDS))
    summaries = "\n".join(f"  {name:{width}}  {description(name).partition(chr(10))[0]}" for name in COMMANDS)
    root = argparse.ArgumentParser(
        prog="firstnan",
        usage="firstnan COMMAND ... | firstnan COMMAND --help",
        description="Says which stage of a training step went non-finite first, and checks the evidence.",
        epilog=f"commands:\n{summaries}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="one of the commands below")
    root.add_argument("--version", action="version", version=f"firstnan {__version__}")
    return root


def command_parser(name: str) -> argparse.ArgumentParser:
    """The arguments of one command."""
    command = argparse.ArgumentParser(
        prog=f"firstnan {name}",
        description=description(name),
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module = import_module(f"firstnan.cli.{name}")
    module.add_arguments(command)
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.set_defaults(run=module.run)
    return command


def description(name: str) -> str:
    """A command's description: its module's docstring, a summary in the first line."""
    return (import_module(f"firstnan.cli.{name}").__doc__ or "").strip()


def silence_output() -> None:
    """Point standard output at nothing, so that the interpreter's last flush does not fail a second time."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
