"""The page of one incident, section by section."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from xml.etree.ElementTree import Element

from firstnan._core import __version__
from firstnan.records import (
    STAGES,
    IncidentObservations,
    IncidentReport,
    StageTelemetry,
    TrainingIncidentContract,
    TrainingRunEvidence,
)
from firstnan.report.chart import MAX_STEPS, magnitude_chart
from firstnan.report.markup import Child, html_text, node, stylesheet
from firstnan.report.measured import Counts, Leaf, Shards, Step
from firstnan.report.observed import observed, of_shards
from firstnan.report.parts import command, facts, scrolling, section, table

MAX_LEAVES = 200
STATEMENT = "Where a symptom first shows is not why it arose. This page says where, and claims no cause."
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
SCOPE = (
    ("run", "run_id"),
    ("step", "step_id"),
    ("batch", "batch_id"),
    ("model", "model_version"),
    ("data set", "dataset_version"),
    ("objective", "objective_version"),
    ("optimizer", "optimizer_version"),
    ("precision", "precision"),
    ("loss-scaling policy", "loss_scale_version"),
    ("loss scale", "loss_scale"),
    ("largest magnitude allowed", "maximum_absolute_finite"),
    ("smallest magnitude told from 0", "minimum_numeric_resolution"),
    ("numeric convention", "numeric_convention"),
    ("incident owner", "incident_owner"),
)


def render(
    contract: TrainingIncidentContract,
    evidence: TrainingRunEvidence,
    report: IncidentReport,
    counts: Counts | None = None,
    history: Sequence[Step] = (),
    *,
    reproduced: bool | None = None,
    observations: IncidentObservations | None = None,
    shards: Shards | None = None,
) -> str:
    """The page as text. It depends on the arguments alone: no clock, no file of the machine, no network.

    Args:
        contract: of the step.
        evidence: of the step.
        report: what triage says of them; that it does is the caller's to check.
        counts: of every leaf of the step; those of the first non-finite stage are shown.
        history: the last steps, this one at the end.
        reproduced: whether running the step again gave the same counts; None where it was not tried.
        observations: what was observed beside the verdict.
        shards: of a reduction, where the step tells of one.
    """
    stage = report.earliest_nonfinite_stage
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    head = node(
        "head",
        node("meta", charset="utf-8"),
        node("meta", name="viewport", content="width=device-width, initial-scale=1"),
        node("meta", name="color-scheme", content="light dark"),
        node("meta", http_equiv="Content-Security-Policy", content=POLICY),
        node("title", f"{report.decision}: step {contract.step_id} of {contract.run_id}"),
        stylesheet(css),
    )
    body = node(
        "body",
        node(
            "main",
            verdict(contract, evidence, report, reproduced),
            stages(evidence),
            None if observations is None else observed(observations),
            None if shards is None else of_shards(shards),
            magnitudes(history),
            None if stage is None or counts is None else leaf_table(stage, counts),
            scope(contract),
            verification(report),
        ),
        node("footer", f"Made by firstnan {__version__}. The bundle is the evidence; this page restates it."),
    )
    return html_text(node("html", head, body, lang="en"))


def verdict(
    contract: TrainingIncidentContract, evidence: TrainingRunEvidence, report: IncidentReport, reproduced: bool | None
) -> Element:
    stage = report.earliest_nonfinite_stage
    hold = report.decision == "HOLD"
    title: list[Child] = ["No non-finite value was observed"]
    if stage is not None:
        title = ["Non-finite values were first observed in ", node("em", stage)]
    told: list[tuple[str, Element | str]] = [
        ("decision", node("code", report.decision)),
        ("look at next", node("code", report.action)),
        ("incident owner", contract.incident_owner),
    ]
    if stage is not None:
        told.insert(2, (f"owner of {stage}", contract.expected_owner(stage)))
    if reproduced is not None:
        told.append(("step run again", "it gave the same counts" if reproduced else "it gave other counts"))
    return node(
        "header",
        node("p", "firstnan incident report", class_="eyebrow"),
        node("p", "Hold" if hold else "Continue, bounded", class_="pill hold" if hold else "pill go"),
        node("h1", *title),
        node("p", counted(contract, evidence, report), class_="lead"),
        flow(evidence),
        node("p", STATEMENT, class_="statement"),
        facts(told),
    )


def counted(contract: TrainingIncidentContract, evidence: TrainingRunEvidence, report: IncidentReport) -> str:
    """What was counted, in a sentence or two."""
    step = f"Step {contract.step_id} of {contract.run_id}, batch {contract.batch_id}: "
    observed = [stage for stage in evidence.stages if stage.state == "OBSERVED"]
    if report.earliest_nonfinite_stage is None:
        return f"{step}all {sum(stage.checked_elements for stage in observed):,} elements checked are finite."
    first = next(stage for stage in observed if stage.stage == report.earliest_nonfinite_stage)
    waiting = [stage.stage for stage in evidence.stages if stage.state == "NOT_RUN"]
    rest = f" Not run after that: {', '.join(waiting)}." if waiting else ""
    return f"{step}{first.nonfinite_elements:,} of {first.checked_elements:,} elements are not finite there.{rest}"


def flow(evidence: TrainingRunEvidence) -> Element:
    """The five stages in a row, each with its state in words, a sign and a colour."""
    chips = []
    found = False
    for stage in evidence.stages:
        bad = stage.nonfinite_elements > 0
        sign, state, name = ("–", "not run", "idle") if stage.state == "NOT_RUN" else ("✓", "finite", "fine")
        if bad:
            sign, state, name = "✕", f"{stage.nonfinite_elements:,} not finite", "bad later" if found else "bad"
        found = found or bad
        chips.append(
            node(
                "li",
                node("span", sign, class_="sign", aria_hidden="true"),
                node("b", stage.stage),
                node("small", state),
                class_=name,
            )
        )
    return node("ol", *chips, class_="flow")


def stages(evidence: TrainingRunEvidence) -> Element:
    columns = ["stage", "state", "#not finite", "#checked", "#largest finite magnitude", "owner"]
    return section("stages", "Stages", None, table(columns, [stage_row(stage) for stage in evidence.stages]))


def stage_row(stage: StageTelemetry) -> tuple[str, list[str]]:
    if stage.state == "NOT_RUN":
        return "idle", [stage.stage, "not run", "–", "–", "–", stage.owner]
    numbers = (stage.nonfinite_elements, stage.checked_elements)
    largest = f"{stage.maximum_absolute_finite:.6g}"
    name = "bad" if stage.nonfinite_elements else ""
    return name, [stage.stage, "observed", *(f"{number:,}" for number in numbers), largest, stage.owner]


def magnitudes(steps: Sequence[Step]) -> Element | None:
    """The chart and, folded away, its numbers."""
    shown = steps[-MAX_STEPS:]
    chart = magnitude_chart(shown)
    if chart is None:
        return None
    about = "Logarithmic; a cross marks elements that are not finite, and a magnitude of 0 leaves a gap. "
    about += "A stage that the evidence calls not run is drawn as it was measured."
    if len(steps) > len(shown):
        about += f" The last {len(shown)} of {len(steps):,} steps that the bundle has."
    rows = [step_row(step) for step in reversed(shown)]
    return section(
        "magnitudes",
        "Largest finite magnitude over the last steps",
        about,
        scrolling(chart, "chart of magnitudes"),
        node("details", node("summary", "The numbers"), table(["step", *(f"#{stage}" for stage in STAGES)], rows)),
    )


def step_row(step: Step) -> tuple[str, list[str]]:
    name = "bad" if any(step.nonfinite.values()) else ""
    return name, [str(step.step_id), *(number_at(step, stage) for stage in STAGES)]


def number_at(step: Step, stage: str) -> str:
    bad = step.nonfinite.get(stage, 0)
    number = f"{step.maximum[stage]:.4g}" if stage in step.maximum else "–"
    return f"{number} ({bad:,} not finite)" if bad else number


def leaf_table(stage: str, counts: Counts) -> Element:
    """The leaves of one stage, those with most non-finite elements first."""
    leaves = sorted((leaf for leaf in counts.leaves if leaf.stage == stage), key=lambda leaf: -leaf.nonfinite)
    columns = ["tensor", "#NaN", "#+Inf", "#−Inf", "#checked", "#share", "#largest finite", "type"]
    bad = sum(leaf.nonfinite > 0 for leaf in leaves)
    about = f"{bad:,} of {len(leaves):,} tensors of {stage} have elements that are not finite."
    if len(leaves) > MAX_LEAVES:
        about += f" The first {MAX_LEAVES} are shown; counts.json has all."
    rows = [leaf_row(leaf) for leaf in leaves[:MAX_LEAVES]]
    return section("leaves", f"Tensors of {stage}", about, table(columns, rows))


def leaf_row(leaf: Leaf) -> tuple[str, list[str]]:
    numbers = (leaf.nan, leaf.positive_infinity, leaf.negative_infinity, leaf.checked)
    share = f"{leaf.nonfinite / leaf.checked:.2%}" if 0 < leaf.nonfinite <= leaf.checked else "–"
    magnitude = leaf.maximum_absolute_finite
    largest = "–" if magnitude is None else f"{magnitude:,}" if isinstance(magnitude, int) else f"{magnitude:.6g}"
    return "bad" if leaf.nonfinite else "", [leaf.path or ".", *(f"{n:,}" for n in numbers), share, largest, leaf.dtype]


def scope(contract: TrainingIncidentContract) -> Element:
    named = [(name, str(getattr(contract, field))) for name, field in SCOPE]
    return section("scope", "What ran", "As the contract names it.", facts(named))


def verification(report: IncidentReport) -> Element:
    contract_digest = report.contract_content_id.rpartition(":")[2]
    steps = [
        node("li", "Every file against its digest, and the records against each other: ", command("firstnan verify .")),
        node(
            "li",
            "The verdict afresh, from the contract and the evidence alone: ",
            command("firstnan triage contract.json evidence.json"),
            " It must name the two identities below.",
        ),
        node(
            "li",
            "The contract's identity without firstnan, since contract.json holds the canonical bytes: ",
            command("sha256sum contract.json"),
            " It must print ",
            node("code", contract_digest),
            ".",
        ),
    ]
    identities: list[tuple[str, Element | str]] = [
        ("contract", node("code", report.contract_content_id)),
        ("evidence", node("code", report.evidence_content_id)),
        ("evidence id", node("code", report.evidence_id)),
        ("root cause", node("code", report.root_cause_claim)),
    ]
    return section(
        "verify",
        "How to verify",
        "In the bundle's folder, on any machine:",
        node("ol", *steps, class_="steps"),
        facts(identities, "identities"),
    )
