"""`firstnan locate`: from a bundle on disk and the name of the step to the line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from steps import SCENARIOS, initial, make_step

from firstnan.cli import main
from firstnan.jax import locate, run

EXAMPLES = Path(__file__).parents[2] / "examples"

TRAINING = """import steps

SCENARIO = steps.SCENARIOS["norm_at_zero"]()
step = steps.make_step(SCENARIO, donate_argnums=0)
other = steps.make_step(SCENARIO._replace(loss=lambda w, batch: (batch[0].sum() * w.sum(), w)))
number = 1


def alone(state):
    return state


def uncounted(state, batch):
    return state, batch


def broken(state, batch):
    raise RuntimeError("secret")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory, contract):
    """A working directory with the user's module, and the bundle of a held step."""
    place = tmp_path_factory.mktemp("locate")
    (place / "norm_training.py").write_text(TRAINING)
    (place / "failing.py").write_text("1 / 0\n")
    (place / "needing.py").write_text("import absent_dependency\n")
    scenario = SCENARIOS["norm_at_zero"]()
    result = run(make_step(scenario), initial(scenario), scenario.batches, contract=contract, bundle_dir=place)
    result.bundle.rename(place / "incident")
    return place


@pytest.fixture
def located(place, monkeypatch, capsys):
    """Runs the command in that directory, as a process that starts there would."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "norm_training", raising=False)

    def run(step, *options):
        code = main(["locate", "incident", "--step", step, *options])
        return code, *capsys.readouterr()

    return run


def test_the_line_from_a_bundle(located):
    code, text, _ = located("norm_training:step")
    assert code == 0
    assert text.startswith("step 3 reproduced: every count is that of the bundle\n")
    assert "first Inf: div, " in text
    code, text, _ = located("norm_training:step", "--json")
    found = json.loads(text)
    assert (code, found["same_counts"], found["differing"]) == (0, True, [])
    birth = found["located"]["first_inf"]
    assert (birth["primitive"], birth["sweep"], birth["function"]) == ("div", "derivative", "loss")
    assert found["located"]["first_nan"]["reaches"] == ["output 0/0", "backward", "optimizer 0"]


def test_another_step_does_not_reproduce_it(located):
    code, text, _ = located("norm_training:other")
    assert code == 1
    assert text.startswith("step 3 NOT reproduced: ")
    assert "nothing non-finite" in text
    code, text, _ = located("norm_training:other", "--json")
    assert (code, json.loads(text)["same_counts"]) == (1, False)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("norm_training", "MODULE:FUNCTION"),
        ("norm_training:absent", "norm_training has no absent"),
        ("absent.py:step", "takes the name of a module: absent, not a file"),
        ("norm_training.py:step", "takes the name of a module: norm_training, not a file"),
        ("norm_training:uncounted", "returns no counts from count_stages"),
        ("absent:step", "there is no module absent"),
        ("norm_training:number", "is no function"),
        ("norm_training:alone", "does not take two arguments"),
        ("failing:step", "importing failing raised ZeroDivisionError at "),
        ("needing:step", "importing needing raised ModuleNotFoundError at "),
        ("norm_training:broken", "raised RuntimeError on the state and batch of the bundle at "),
    ],
)
def test_a_step_that_cannot_be_run(located, step, words):
    code, text, complaint = located(step)
    assert (code, text) == (2, "")
    assert words in complaint
    assert "secret" not in complaint


SCRIPT = """from typing import Any, NamedTuple
import sys
import steps
from firstnan.jax import run

class Batch(NamedTuple):
    x: Any
    y: Any

SCENARIO = steps.SCENARIOS["norm_at_zero"]()
step = steps.make_step(SCENARIO)

def go(contract, place):
    batches = [Batch(*batch) for batch in SCENARIO.batches]
    run(step, steps.initial(SCENARIO), batches, contract=contract, bundle_dir=place)
"""


def test_types_of_the_script_that_wrote_the_bundle(tmp_path, monkeypatch, capsys, contract):
    (tmp_path / "script_with_types.py").write_text(SCRIPT)
    ran = {"__name__": "__main__"}
    exec(compile(SCRIPT, "script_with_types.py", "exec"), ran)
    ran["go"](contract, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ours = sys.modules["__main__"]
    assert main(["locate", "incident-step-3", "--step", "script_with_types:step"]) == 0
    assert "first Inf: div, " in capsys.readouterr().out
    assert sys.modules["__main__"] is ours


def test_the_bundle_of_the_demo(tmp_path):
    """As the docs say it: from the folder of the script, in another process than the one that wrote the bundle."""
    python = [sys.executable, "-m", "firstnan"]
    demo = [sys.executable, "digits.py", "--out", str(tmp_path / "demo"), "--steps", "305"]
    trained = subprocess.run(demo, cwd=EXAMPLES, env=os.environ, capture_output=True, text=True, check=False)
    assert trained.returncode == 0, trained.stderr
    (bundle,) = (tmp_path / "demo/incidents").iterdir()
    command = [*python, "locate", str(bundle), "--step", "digits:step", "--json"]
    done = subprocess.run(command, cwd=EXAMPLES, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["same_counts"], found["located"]["reproduced"]) == (True, True)
    source = (EXAMPLES / "digits.py").read_text().splitlines()
    root = 1 + next(n for n, line in enumerate(source) if "length = jnp.sqrt(" in line)
    nan, inf = found["located"]["first_nan"], found["located"]["first_inf"]
    assert (inf["primitive"], inf["sweep"], inf["line"], inf["function"]) == ("div", "derivative", root, "model")
    assert (nan["primitive"], nan["sweep"], nan["function"]) == ("mul", "transpose", "model")
    # The row of the digit that was erased whole.
    assert nan["index"][0] == inf["index"][0]
    assert "backward features" in nan["reaches"]


@pytest.mark.parametrize("version", [(0, 9, 2), (0, 11, 0), (1, 0, 0)])
def test_a_jax_that_is_not_supported(located, monkeypatch, version):
    monkeypatch.setattr(jax, "__version_info__", version)
    monkeypatch.setattr(jax, "__version__", ".".join(map(str, version)))
    words = f"locate needs jax >=0.10,<0.11, and this is {jax.__version__}: pip install 'firstnan[jax]'"
    with pytest.raises(ImportError, match=words.replace("[", r"\[")):
        locate(lambda x: x, 1.0)
    code, text, complaint = located("norm_training:step")
    assert (code, text) == (2, "")
    assert words in complaint


def test_the_bounds_are_those_of_the_extra():
    import tomllib

    from firstnan.jax.births import supported

    extra = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]["jax"]
    bounds = [".".join(map(str, bound)) for bound in (supported.OLDEST, supported.FIRST_UNKNOWN)]
    assert f"jax>={bounds[0]},<{bounds[1]}" in extra
