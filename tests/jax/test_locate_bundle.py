"""`firstnan locate`: from a bundle on disk and the name of the step to the line, in a process of its own."""

import json
import os
import subprocess
import sys

import pytest
from steps import SCENARIOS, initial, make_step

from firstnan.jax import run

TRAINING = """import steps

SCENARIO = steps.SCENARIOS["norm_at_zero"]()
step = steps.make_step(SCENARIO, donate_argnums=0)
other = steps.make_step(SCENARIO._replace(loss=lambda w, batch: (batch[0].sum() * w.sum(), w)))
number = 1


def broken(state, batch):
    raise RuntimeError("secret")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory, contract):
    """A working directory with the user's module, and the bundle of a held step."""
    place = tmp_path_factory.mktemp("locate")
    (place / "training.py").write_text(TRAINING)
    scenario = SCENARIOS["norm_at_zero"]()
    result = run(make_step(scenario), initial(scenario), scenario.batches, contract=contract, bundle_dir=place)
    result.bundle.rename(place / "incident")
    return place


def located(place, step, *options):
    folder = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-m", "firstnan", "locate", "incident", "--step", step, *options],
        cwd=place,
        env=os.environ | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_line_from_a_bundle(place):
    code, text, _ = located(place, "training:step")
    assert code == 0
    assert text.startswith("step 3 reproduced: every count is that of the bundle\n")
    assert "first Inf: div, " in text
    code, text, _ = located(place, "training:step", "--json")
    found = json.loads(text)
    assert (code, found["same_counts"], found["differing"]) == (0, True, [])
    birth = found["located"]["first_inf"]
    assert (birth["primitive"], birth["sweep"], birth["function"]) == ("div", "derivative", "loss")
    assert found["located"]["first_nan"]["reaches"] == ["output 0/0", "backward", "optimizer 0"]


def test_another_step_does_not_reproduce_it(place):
    code, text, _ = located(place, "training:other")
    assert code == 1
    assert text.startswith("step 3 NOT reproduced: ")
    assert "nothing non-finite" in text
    code, text, _ = located(place, "training:other", "--json")
    assert (code, json.loads(text)["same_counts"]) == (1, False)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("training", "MODULE:FUNCTION"),
        ("training:absent", "cannot be imported: AttributeError"),
        ("absent:step", "cannot be imported: ModuleNotFoundError"),
        ("training:number", "is no function"),
        ("training:broken", "raised RuntimeError"),
    ],
)
def test_a_step_that_cannot_be_run(place, step, words):
    code, text, complaint = located(place, step)
    assert (code, text) == (2, "")
    assert words in complaint
    assert "secret" not in complaint
