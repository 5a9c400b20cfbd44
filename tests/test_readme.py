"""Every command and every block of code of README.md runs."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import firstnan

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the README's relative paths hold, after its Python blocks have run there in order."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("examples", "schemas"):
        (folder / name).symlink_to(ROOT / name)
    assert len(blocks("python")) == 3
    for code in blocks("python"):
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return folder


def test_the_commands(folder):
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(commands) == 9
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "firstnan"
        subprocess.run([sys.executable, "-m", "firstnan", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    assert (folder / "incident.html").read_text().startswith("<!")


def test_the_bounds_that_are_as_wide_as_can_be():
    example = json.loads((ROOT / "schemas/v1/training-incident-contract.json").read_text())["examples"][0]
    low, high, least = re.search(r"such as `(.+?)` and `(.+?)`: the\nsecond .* at least `(.+?)`", README).groups()

    def contract(low, high):
        bounds = {"minimum_numeric_resolution": float(low), "maximum_absolute_finite": float(high)}
        return firstnan.TrainingIncidentContract(**(example | bounds))

    assert contract(low, high).maximum_absolute_finite == 1e14
    assert contract(least, 1 / float(least)).minimum_numeric_resolution == 1e-15
    for below, above in [(float(least) / 2, 1.0), (low, float(high) * 1.001)]:
        with pytest.raises(firstnan.ContractError):
            contract(below, above)


def test_the_make_targets():
    targets = [line.split()[1] for block in blocks("sh") for line in block.splitlines()]
    assert targets == ["demo", "test"]
    for target in [*targets, *re.findall(r"`make ([a-z-]+)`", README)]:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_the_demo(tmp_path):
    demo = [sys.executable, str(ROOT / "examples/digits.py"), "--out", str(tmp_path / "demo")]
    shown = subprocess.run(demo, check=True, capture_output=True, text=True).stdout
    assert "step 303" in shown
    assert "verified: " in shown
    held = float(re.search(r"held 1 time\(s\), accuracy ([\d.]+)%", shown)[1])
    assert held > 95
    assert (tmp_path / "demo/magnitudes-step-303.png").stat().st_size > 10_000
    assert (tmp_path / "demo/report-step-303.html").stat().st_size > 10_000


def test_the_names_of_the_api_exist():
    rows = README.split("## The records")[1].split("## On the command line")[0].split("```")[-1]
    for name in re.findall(r"`([A-Za-z_]+)[`(]", rows):
        places = [firstnan]
        for module in ("firstnan.jax", "firstnan.supervisor", "firstnan.ingest"):
            __import__(module)
            places.append(sys.modules[module])
        assert any(hasattr(place, name) for place in places), name


def test_the_example_is_the_reference_incident():
    import json

    reference = json.loads((ROOT / "schemas/vectors/triage/reference.json").read_text())
    for name in ("contract", "evidence"):
        assert json.loads((ROOT / f"examples/incident/{name}.json").read_text()) == reference[name]


def test_the_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_examples_of_the_reference_page_validate():
    page = (ROOT / "docs/records.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```json ([a-z-]+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) > 10
    for kind, text in examples:
        firstnan.decode(kind, text)
