"""Whether the parts of a bundle say the same. Needs neither jax nor numpy.

A manifest can be written anew over changed files; what the files say of each other cannot be made to fit so easily:

- the report is what triage says of the contract and the evidence;
- the evidence is what the counts of the leaves add up to, and, where it says that `capture` made it, is that to the byte;
- what the policy took out is what it names, and the observations are of this contract, evidence and policy;
- a refusal stands where triage refuses, or no evidence can be made, and nowhere else;
- the incident is of the contract's step, and its state of a step no later;
- the last step of the history is the incident's, with the counts' magnitudes.

Not found from the disk: a bundle that agrees with itself throughout, made up whole; or one of a step that was refused
before it had a contract, which has no record to hold anything against.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from firstnan import ContractError, IncidentReport, TrainingRunEvidence, triage_training_incident
from firstnan.jax.evidence import EVIDENCE_SOURCE, capture
from firstnan.jax.history import StepSummary
from firstnan.jax.manifest import Difference
from firstnan.jax.policy import apply_policy
from firstnan.jax.tally import Tally

if TYPE_CHECKING:
    from firstnan.jax.bundle import Bundle

_ENVIRONMENT: Final[dict[str, type]] = {
    "python": str,
    "jax": str,
    "jaxlib": str,
    "numpy": str,
    "ml_dtypes": str,
    "system": str,
    "machine": str,
    "platform": str,
    "device_kind": str,
    "device_count": int,
    "process_count": int,
    "settings": dict,
    "xla_flags": list,
}


def disagreements(bundle: Bundle) -> tuple[Difference, ...]:
    """The first part of a bundle that does not agree with those before it, or nothing."""
    checks: tuple[Callable[[Bundle], Difference | None], ...] = (_records, _counts, _policy, _incident, _history, _environment)
    for check in checks:
        if found := check(bundle):
            return (found,)
    return ()


def _records(bundle: Bundle) -> Difference | None:
    """Which records there must be, and whether the report, or the refusal, follows from the others."""
    contract, evidence, refused = bundle.contract, bundle.evidence, bundle.incident.refusal is not None
    if refused and bundle.report is not None:
        return Difference("report.json", "disagrees")
    if contract is None or evidence is None:
        if not refused:
            absent = "report" if bundle.report is None else "contract" if contract is None else "evidence"
            return Difference(f"{absent}.json", "missing")
        if contract is None:
            return None if evidence is None else Difference("contract.json", "missing")
        # No evidence could be made of these counts: then none can be made now.
        fails = _fails(lambda: capture(bundle.counts, contract, policy=bundle.policy))
        return None if fails else Difference("evidence.json", "missing")
    verdict: list[IncidentReport] = []
    refuses = _fails(lambda: verdict.append(triage_training_incident(contract, evidence)))
    if refused:
        return None if refuses else Difference("incident.json", "disagrees")
    if bundle.report is None:
        return Difference("report.json", "missing")
    if refuses:
        return Difference("evidence.json", "disagrees")
    return None if verdict == [bundle.report] else Difference("report.json", "disagrees")


def _counts(bundle: Bundle) -> Difference | None:
    counts, contract, evidence = bundle.counts, bundle.contract, bundle.evidence
    if not _possible(counts):
        return Difference("counts.json", "disagrees")
    if contract is None or evidence is None:
        return None
    if not _adds_up(apply_policy(counts, bundle.policy).tally, evidence):
        return Difference("counts.json", "disagrees")
    if any(stage.evidence_source_id != EVIDENCE_SOURCE for stage in evidence.stages):
        return None
    made: list[TrainingRunEvidence] = []
    if _fails(lambda: made.append(capture(counts, contract, evidence_id=evidence.evidence_id, policy=bundle.policy))):
        return Difference("counts.json", "disagrees")
    # The counts add up to it, so what differs is a name: of a leaf in the counts, or in the evidence.
    return None if made == [evidence] else Difference("counts.json", "disagrees")


def _policy(bundle: Bundle) -> Difference | None:
    """Whether what was taken out is what the policy says, and the observations are of these records."""
    triaged = apply_policy(bundle.counts, bundle.policy)
    if bundle.excluded != triaged.excluded:
        return Difference("excluded.json", "disagrees")
    told, contract, evidence = bundle.observations, bundle.contract, bundle.evidence
    if told is None:
        # Who writes a bundle without `run` need not look around the step.
        return None
    if contract is None or evidence is None:
        return Difference("observations.json", "disagrees")
    expected = (contract.content_id, evidence.evidence_content_id, triaged.policy_digest)
    of = (told.contract_content_id, told.evidence_content_id, told.policy_digest)
    return None if of == expected else Difference("observations.json", "disagrees")


def _possible(counts: Tally) -> bool:
    """Whether counts could be of anything: a leaf of a stage that was measured, no more bad elements than all."""
    return all(
        leaf.stage in counts.stages
        and leaf.nonfinite <= leaf.checked
        and (leaf.maximum_absolute_finite is None or 0 <= leaf.maximum_absolute_finite < math.inf)
        and (isinstance(leaf.maximum_absolute_finite, float) or leaf.nonfinite == 0)
        for leaf in counts.leaves
    )


def _adds_up(counts: Tally, evidence: TrainingRunEvidence) -> bool:
    for told in evidence.stages:
        if told.state == "OBSERVED":
            if told.stage not in counts.stages:
                return False
            total = counts.total(told.stage)
            measured = (total.checked, total.nonfinite, total.maximum_absolute_finite)
            if measured != (told.checked_elements, told.nonfinite_elements, told.maximum_absolute_finite):
                return False
    return True


def _incident(bundle: Bundle) -> Difference | None:
    incident = bundle.incident
    behind = incident.step_id - incident.state_step_id
    # A replay that ended early did not give the same counts.
    agrees = 0 <= behind < max(1, incident.every) and incident.every >= 1 and not (behind and incident.reproduced)
    if bundle.contract is not None:
        agrees = agrees and bundle.contract.step_id == incident.step_id
    return None if agrees else Difference("incident.json", "disagrees")


def _history(bundle: Bundle) -> Difference | None:
    if not bundle.history:
        return None
    last, incident = bundle.history[-1], bundle.incident
    expected = StepSummary.of(incident.step_id, incident.batch_index, bundle.counts, last.metrics)
    return None if last == expected else Difference("history.json", "disagrees")


def _environment(bundle: Bundle) -> Difference | None:
    told: dict[str, Any] = bundle.environment
    agrees = all(type(told.get(name)) is kind for name, kind in _ENVIRONMENT.items())
    return None if agrees else Difference("environment.json", "unreadable")


def _fails(make: Callable[[], object]) -> bool:
    try:
        make()
    except ContractError:
        return True
    return False
