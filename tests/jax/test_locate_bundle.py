"""`firstnan locate`: from a bundle on disk and the name of the step to the line."""

import json
import sys

import pytest
from steps import SCENARIOS, initial, make_step

from firstnan.cli import main
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
    (place / "norm_training.py").write_text(TRAINING)
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
        ("norm_training:absent", "cannot be imported: AttributeError"),
        ("absent:step", "cannot be imported: ModuleNotFoundError"),
        ("norm_training:number", "is no function"),
        ("norm_training:broken", "raised RuntimeError"),
    ],
)
def test_a_step_that_cannot_be_run(located, step, words):
    code, text, complaint = located(step)
    assert (code, text) == (2, "")
    assert words in complaint
    assert "secret" not in complaint
