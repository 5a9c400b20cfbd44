"""The verdict on one training step."""

from dataclasses import replace

from .canonical import content_id
from .records import (
    ACTIONS,
    NO_CAUSE,
    OWNERS,
    RECORDS_OF_EVIDENCE,
    STAGES,
    IncidentReport,
    TrainingIncidentContract,
    TrainingRunEvidence,
)
from .text import Refused

SCOPE = ("run_id", "step_id", "model_version", "dataset_version", "batch_id", "objective_version", "optimizer_version",
         "precision", "loss_scale_version", "loss_scale")  # fmt: skip


def evidence_content_id(contract_content_id, evidence_id, stages):
    payload = {"contract_content_id": contract_content_id, "evidence_id": evidence_id, "stages": stages}
    return content_id("training-incident-evidence", payload, RECORDS_OF_EVIDENCE)


def triage_training_incident(contract, evidence):
    """The report, or Refused."""
    if type(contract) is not TrainingIncidentContract or type(evidence) is not TrainingRunEvidence:
        raise TypeError("contract and evidence")
    # Validated again, since a frozen dataclass can be forced.
    contract, evidence = replace(contract), replace(evidence)
    stages = [replace(stage) for stage in evidence.stages]
    contract_id = contract.content_id
    refuse_unless(evidence.contract_content_id == contract_id, "another contract")
    refuse_unless(tuple(stage.stage for stage in stages) == STAGES, "order")
    refuse_unless(tuple(stage.stage_order for stage in stages) == (0, 1, 2, 3, 4), "numbers")
    own_id = evidence_content_id(contract_id, evidence.evidence_id, stages)
    refuse_unless(evidence.evidence_content_id == own_id, "identity")
    refuse_unless(len({stage.telemetry_id for stage in stages}) == 5, "telemetry_id")
    refuse_unless(len({stage.tensor_set_id for stage in stages}) == 5, "tensor_set_id")
    earliest, held = None, False
    for stage in stages:
        refuse_unless(all(getattr(stage, name) == getattr(contract, name) for name in SCOPE), "scope")
        refuse_unless(stage.owner == getattr(contract, OWNERS[stage.stage]), "owner")
        refuse_unless(stage.checked_elements <= contract.maximum_elements_per_stage, "stage bound")
        refuse_unless(stage.maximum_absolute_finite <= contract.maximum_absolute_finite, "finite bound")
        small = 0 < stage.maximum_absolute_finite < contract.minimum_numeric_resolution
        refuse_unless(not small, "resolution")
        if stage.state == "NOT_RUN":
            refuse_unless(earliest is not None, "NOT_RUN")
            held = True
        else:
            refuse_unless(not held, "OBSERVED")
            if stage.nonfinite_elements and earliest is None:
                earliest = stage.stage
    refuse_unless(sum(stage.checked_elements for stage in stages) <= contract.maximum_total_elements, "total")
    decision = "CONTINUE_BOUNDED_DIAGNOSTICS" if earliest is None else "HOLD"
    return IncidentReport(contract_id, evidence.evidence_id, own_id, decision, earliest, ACTIONS[earliest], NO_CAUSE)


def refuse_unless(kept, why):
    if not kept:
        raise Refused(why)
