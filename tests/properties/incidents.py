"""Contracts and the evidence of one step, right or wrong in a few places, in both implementations."""

import json

from hypothesis import strategies as st

from properties.records import ANY, pick
from reference import records
from reference.canonical import canonical_evidence
from reference.triage import SCOPE, evidence_content_id

IDS = st.sampled_from(["a", "a.b", "run-1", "Z:9/x@y-_", "0" * 128])
TEAMS = st.sampled_from(["team:a", "team:b", "team:", "team:x/y"])
TEXTS = ("contract_version", "run_id", "model_version", "dataset_version", "batch_id", "objective_version", "optimizer_version",
         "precision", "loss_scale_version")  # fmt: skip
TEAM_NAMES = ("data_owner", "model_owner", "objective_owner", "optimizer_owner", "incident_owner")


@st.composite
def contracts(draw):
    """A contract as its plain dict, with small bounds, so that evidence comes near them."""
    resolution = draw(st.sampled_from([1e-15, 1e-12, 1e-6, 0.001, 3e-7]))
    bounds = st.one_of(st.sampled_from([resolution, 1 / resolution]), st.integers(1, 1000), st.floats(resolution, 1 / resolution))
    per_stage = draw(st.integers(1, 9))
    return {
        **{name: draw(IDS) for name in TEXTS},
        **{name: draw(TEAMS) for name in TEAM_NAMES},
        "step_id": draw(st.sampled_from([0, 1842, 10**12])),
        "loss_scale": draw(bounds),
        "minimum_numeric_resolution": resolution,
        "maximum_absolute_finite": draw(bounds),
        "maximum_elements_per_stage": per_stage,
        "maximum_total_elements": draw(st.one_of(st.just(5 * per_stage), st.integers(per_stage, 5 * per_stage))),
        "numeric_convention": "binary64-summary-mixed-precision-v1",
    }

ZERO = st.sampled_from([0, 0.0, -0.0])


@st.composite
def stages_of(draw, contract, first):
    """Five stages, `first` the earliest that is not finite; the contract may find their sum too much."""
    ran = 5 if first is None else draw(st.integers(first + 1, 5))
    low, high = contract["minimum_numeric_resolution"], contract["maximum_absolute_finite"]
    magnitudes = st.one_of(st.sampled_from([0, 0.0, -0.0, low, high]), st.floats(min(low, high), high))
    stages = []
    for order, stage in enumerate(records.STAGES):
        checked = draw(st.integers(1, contract["maximum_elements_per_stage"])) if order < ran else 0
        least = int(order == first)
        most = checked if first is not None and order >= first else 0
        bad = draw(st.integers(min(least, most), most))
        stages.append({
            "telemetry_id": f"t{order}", "tensor_set_id": f"s{order}", "stage": stage, "stage_order": order,
            "state": "OBSERVED" if order < ran else "NOT_RUN",
            "checked_elements": checked, "finite_elements": checked - bad, "nonfinite_elements": bad,
            "maximum_absolute_finite": draw(magnitudes) if order < ran else draw(ZERO),
            **{name: contract[name] for name in SCOPE},
            "evidence_source_id": draw(IDS), "owner": contract[records.OWNERS[stage]],
        })  # fmt: skip
    return stages


def identity(contract):
    return records.content_id("training-incident-contract", contract)


def sealed(contract, stages, evidence_id="e"):
    contract_id = identity(contract)
    return {
        "evidence_id": evidence_id,
        "evidence_content_id": evidence_content_id(contract_id, evidence_id, stages),
        "contract_content_id": contract_id,
        "stages": stages,
    }


WHAT = st.sampled_from(["nothing", "nothing", "stage", "stage", "order", "seal"])


@st.composite
def incidents(draw, first=None):
    """A contract and its evidence as plain dicts, perhaps with one field changed, before sealing or after it.

    `first` is the number of the earliest stage that is not finite, unless that is changed.
    """
    contract = draw(contracts())
    stages = draw(stages_of(contract, first))
    what = draw(WHAT)
    if what == "stage":
        spoil(draw, pick(stages, draw(ANY)), contract)
    if what == "order":
        stages = draw(st.permutations(stages))
    evidence = sealed(contract, stages)
    if what == "seal":
        spoil(draw, pick([contract, evidence, *stages], draw(ANY)), contract)
    return json.loads(canonical_evidence(contract)), json.loads(canonical_evidence(evidence))


def spoil(draw, record, contract):
    """Gives one field of a record another value."""
    name = pick(sorted(record.keys() - {"stages"}), draw(ANY))
    value = record[name]
    if type(value) in (int, float):
        bounds = [contract["maximum_absolute_finite"], contract["minimum_numeric_resolution"] / 2]
        choices = [value + 1, max(0, value - 1), value * 2, 0, 0.0, float(value), int(value), 1, 4, *bounds]
    else:
        near = [other for other in contract.values() if type(other) is str]
        choices = [f"{value}x", value[:-1], "a", "t0", "s0", "t1", "s1", "team:a", *records.STAGES, "OBSERVED", "NOT_RUN", *near]
    record[name] = pick(choices, draw(ANY))
