"""`firstnan report`: a page that needs nothing else, says nothing of its own accord, and claims no cause."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, Reference
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan import STAGES, IncidentReport, encode, triage_training_incident
from firstnan.jax.history import StepSummary
from firstnan.jax.tally import LeafCount, Tally
from firstnan.report import render

HOSTILE = "</style></script><script>alert(1)</script>\"'&<img src=x onerror=y>\u202e\x00\ud800"
VOID = {"meta"}


class Page(HTMLParser):
    """A page taken apart: elements with their attributes, and the text outside of style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


@pytest.fixture
def report(reference: Reference) -> IncidentReport:
    return triage_training_incident(reference.contract, reference.evidence)


def step(step_id: int, maximum: dict[str, float], nonfinite: dict[str, int] | None = None) -> StepSummary:
    return StepSummary(step_id, step_id, maximum, dict.fromkeys(maximum, 0) | (nonfinite or {}), {})


def test_the_page_of_a_bundle_has_what_the_bundle_has(
    command: Command, written_bundle: Path, reference: Reference, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    done = command("report", str(written_bundle), "-o", str(path))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"{path}: written, {path.stat().st_size:,} bytes\n"
    page = Page(path.read_text(encoding="utf-8"))
    for text in (
        "Non-finite values were first observed in backward",
        "2 of 4,096 elements are not finite there. Not run after that: optimizer.",
        "Where a symptom first shows is not why it arose. This page says where, and claims no cause.",
        "hold-and-inspect-gradient-path-and-loss-scaling",
        "1 of 2 tensors of backward have elements that are not finite.",
        "it gave the same counts",
        reference.contract_id,
        reference.evidence_id,
        "NONE_SYMPTOM_LOCATION_IS_NOT_CAUSALITY",
    ):
        assert text in page.text
    assert page.text.index("dense/kernel") < page.text.index("dense/bias")
    assert command("report", str(written_bundle)).stdout == path.read_bytes()


def test_the_identity_on_the_page_is_what_sha256sum_prints(command: Command, written_bundle: Path) -> None:
    digest = hashlib.sha256((written_bundle / "contract.json").read_bytes()).hexdigest()
    assert f"It must print <code>{digest}</code>".encode() in command("report", str(written_bundle)).stdout


def test_json_says_what_was_written(command: Command, written_bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    document = json.loads(command("report", str(written_bundle), "-o", str(path), "--json").stdout)
    data = path.read_bytes()
    assert document == {"file": str(path), "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert command("report", str(written_bundle), "--json").returncode == 2


def test_a_page_that_cannot_be_written_is_misuse(command: Command, written_bundle: Path, tmp_path: Path) -> None:
    for output in (tmp_path, tmp_path / "no" / "such" / "page.html", "/dev/full"):
        done = command("report", str(written_bundle), "-o", str(output))
        assert done.returncode == 2
        assert done.stderr.startswith(f"firstnan: {output}: ".encode())
        assert b"Traceback" not in done.stderr


def test_a_report_that_triage_does_not_give_is_refused(
    command: Command, bundle: Path, report: IncidentReport, sealed: Callable[[Path, str, bytes], None]
) -> None:
    other = replace(report, earliest_nonfinite_stage="loss", action="hold-and-inspect-objective-reduction")
    sealed(bundle, "report.json", encode(other))
    done = command("report", str(bundle))
    assert done.returncode == 1
    assert b"report.json is not what triage says of the evidence" in done.stdout


def test_the_page_loads_nothing(reference: Reference, report: IncidentReport) -> None:
    html = render(reference.contract, reference.evidence, report, history=[step(1, dict.fromkeys(STAGES, 1.0))])
    page = Page(html)
    names = {tag for tag, _ in page.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "base", "a", "form", "image", "use"}
    assert not {name for _, attributes in page.elements for name in attributes} & {"src", "href", "style", "onclick"}
    assert not re.search(r"https?:|//[a-z]|url\(|@import", html)
    policy = next(attributes for _, attributes in page.elements if "http-equiv" in attributes)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_hostile_names_stay_text(reference: Reference, report: IncidentReport) -> None:
    leaf = LeafCount("backward", HOSTILE, HOSTILE, 4, 1, 1, 1, 2.5)
    plain = LeafCount("backward", "name", "type", 4, 1, 1, 1, 2.5)
    history = [StepSummary(1, 1, {HOSTILE: 1.0, "loss": 2.0}, {HOSTILE: 1}, {HOSTILE: 1.0})]
    stages = ("backward",)
    html = render(reference.contract, reference.evidence, report, Tally((leaf,), stages), history)
    usual = render(reference.contract, reference.evidence, report, Tally((plain,), stages), history)
    assert [tag for tag, _ in Page(html).elements] == [tag for tag, _ in Page(usual).elements]
    assert "</style></script><script>alert(1)</script>\"'&<img src=x onerror=y>\\u202e\\x00\\ud800" in Page(html).text
    html.encode("utf-8")


def test_the_page_claims_no_cause(reference: Reference, report: IncidentReport, written_bundle: Path) -> None:
    from firstnan.jax.bundle import read_bundle

    bundle = read_bundle(written_bundle)
    page = Page(render(reference.contract, reference.evidence, report, bundle.counts, bundle.history, reproduced=False))
    text = page.text
    for allowed in ("and claims no cause", "NONE_SYMPTOM_LOCATION_IS_NOT_CAUSALITY", "root cause", "is not why it arose"):
        assert allowed in text
        text = text.replace(allowed, "")
    assert not re.search(r"\b(caus\w*|because|due to|why|reason|culprit|blame|fault|origin\w*)\b", text, re.IGNORECASE)


def test_a_step_without_a_nonfinite_value_has_no_leaf_table(reference: Reference) -> None:
    from test_cli_triage import finite_evidence

    evidence = finite_evidence(reference)
    report = triage_training_incident(reference.contract, evidence)
    page = Page(render(reference.contract, evidence, report, Tally((), STAGES)))
    assert "No non-finite value was observed" in page.text
    assert "all 40 elements checked are finite." in page.text
    assert "Tensors of" not in page.text
    assert "bad" not in {attributes.get("class") for _, attributes in page.elements}


def test_many_leaves_and_steps_are_cut_and_it_is_said(reference: Reference, report: IncidentReport) -> None:
    leaves = tuple(LeafCount("backward", f"leaf-{n:04}", "float32", 4, int(n == 777), 0, 0, 1.0) for n in range(1000))
    history = [step(n, {"loss": 1.0 + n}) for n in range(5000)]
    page = Page(render(reference.contract, reference.evidence, report, Tally(leaves, ("backward",)), history))
    assert "1 of 1,000 tensors" in page.text
    assert "The first 200 are shown" in page.text
    assert re.findall(r"leaf-\d{4}", page.text)[0] == "leaf-0777"
    assert len(re.findall(r"leaf-\d{4}", page.text)) == 200
    assert "The last 256 of 5,000 steps" in page.text
    assert sum(tag == "circle" for tag, _ in page.elements) == 256


def test_a_cross_marks_the_step_with_elements_that_are_not_finite(reference: Reference, report: IncidentReport) -> None:
    history = [
        step(1, {"backward": 10.0}),
        step(2, {"backward": 100.0}, {"backward": 2}),
        step(3, {"backward": 0.0}, {"backward": 8}),
    ]
    page = Page(render(reference.contract, reference.evidence, report, history=history))
    crosses = [attributes for _, attributes in page.elements if attributes.get("class") == "cross"]
    assert len(crosses) == 2
    assert "step 2, backward: 100, 2 not finite" in page.text
    # A magnitude of 0 leaves a gap: the line ends at step 2.
    (line,) = [attributes["points"] for tag, attributes in page.elements if tag == "polyline"]
    assert line is not None
    assert len(line.split()) == 2


magnitudes = st.floats(0, allow_infinity=False, allow_nan=False) | st.sampled_from([0.0, 5e-324, 1.7976931348623157e308, 1.0])
summaries = st.builds(
    step,
    st.integers(0, 10**12),
    st.dictionaries(st.sampled_from(STAGES), magnitudes),
    st.dictionaries(st.sampled_from(STAGES), st.integers(0, 10**10)),
)


@settings(deadline=None, max_examples=150)
@given(history=st.lists(summaries, max_size=20))
def test_every_mark_lies_within_the_drawing(reference: Reference, history: list[StepSummary]) -> None:
    report = triage_training_incident(reference.contract, reference.evidence)
    page = Page(render(reference.contract, reference.evidence, report, history=history))
    drawings: list[dict[str, Any]] = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert len(drawings) == any(value > 0 for summary in history for value in summary.maximum.values())
    for drawing in drawings:
        _, _, width, height = map(float, drawing["viewbox"].split())
        for tag, attributes in page.elements:
            xs = [attributes.get(name) for name in ("x", "cx", "x1", "x2")]
            ys = [attributes.get(name) for name in ("y", "cy", "y1", "y2")]
            if tag == "polyline":
                pairs = [pair.split(",") for pair in (attributes["points"] or "").split()]
                xs, ys = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            assert all(0 <= float(x) <= width for x in xs if x is not None)
            assert all(0 <= float(y) <= height for y in ys if y is not None)
