"""What `import firstnan` gives, and what it must not load."""

import subprocess
import sys

# fmt: off
PUBLIC = [
    "TrainingIncidentContract", "StageTelemetry", "TrainingRunEvidence", "IncidentReport", "RunIdentity",
    "RankInventory", "TopologyPlan", "LogicalPlacement", "StageMessage", "RuntimeStage", "Vote", "PlacementKind",
    "ContractError", "RuntimeContractError", "STAGES", "MAX_ELEMENTS_PER_STAGE", "MAX_TOTAL_ELEMENTS",
    "MIN_BINARY64_RESOLUTION", "MAX_BINARY64_RESOLUTION", "MAX_CONSENSUS_BYTES", "MAX_TEXT_BYTES", "MAX_WORLD_SIZE",
    "MAX_RECORD_DEPTH", "MAX_RECORD_ITEMS", "canonical_record", "contract_digest", "canonical_evidence", "content_id",
    "canonicalize", "decode", "encode", "triage_training_incident", "advance_stage", "validate_inventory_consensus",
]
# fmt: on


def test_every_name_of_the_contract_is_public():
    import firstnan

    assert [name for name in PUBLIC if not hasattr(firstnan, name)] == []


def test_neither_jax_nor_numpy_is_loaded():
    code = "import sys, firstnan; print([m for m in ('jax', 'numpy', 'ml_dtypes', 'rich', 'jsonschema') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_supervisor_loads_no_jax():
    code = "import sys, firstnan.supervisor; print('jax' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_every_generated_record_is_public_and_nothing_else():
    import pytest

    import firstnan
    from firstnan._generated import records

    assert all(getattr(firstnan, name) is getattr(records, name) for name in records.__all__)
    with pytest.raises(AttributeError, match="StageTelemetri"):
        firstnan.StageTelemetri  # noqa: B018
