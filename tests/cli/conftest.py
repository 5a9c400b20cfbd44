"""What the tests of the command line share: the real command, the reference incident, and a real bundle of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from firstnan import StageTelemetry, TrainingIncidentContract, TrainingRunEvidence, triage_training_incident

VECTORS = Path(__file__).parents[2] / "schemas/vectors"
Command = Callable[..., "subprocess.CompletedProcess[bytes]"]


class Reference(NamedTuple):
    """The reference incident of the vectors, as files and as records."""

    contract_path: str
    evidence_path: str
    contract: TrainingIncidentContract
    evidence: TrainingRunEvidence
    contract_id: str
    evidence_id: str


@pytest.fixture
def command() -> Command:
    """Runs `firstnan …` in a process of its own."""

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([sys.executable, "-m", "firstnan", *arguments], input=stdin, capture_output=True, timeout=120)

    return run


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    vector: dict[str, Any] = json.loads((VECTORS / "triage/reference.json").read_text())
    folder = tmp_path_factory.mktemp("reference")
    for name in ("contract", "evidence"):
        (folder / f"{name}.json").write_text(json.dumps(vector[name], indent=2))
    stages = tuple(StageTelemetry(**stage) for stage in vector["evidence"]["stages"])
    return Reference(
        os.fspath(folder / "contract.json"),
        os.fspath(folder / "evidence.json"),
        TrainingIncidentContract(**vector["contract"]),
        TrainingRunEvidence(**vector["evidence"] | {"stages": stages}),
        vector["contract_content_id"],
        vector["evidence"]["evidence_content_id"],
    )


@pytest.fixture(scope="session")
def written_bundle(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    """A bundle of the reference incident, written by the code that the training loop calls."""
    import numpy as np

    from firstnan.jax.bundle import Incident, write_incident_bundle
    from firstnan.jax.history import StepSummary
    from firstnan.jax.tally import LeafCount, Tally

    leaves = []
    for stage in reference.evidence.stages:
        if stage.state == "OBSERVED":
            half, bad, largest = stage.checked_elements // 2, stage.nonfinite_elements, stage.maximum_absolute_finite
            leaves.append(LeafCount(stage.stage, "dense/bias", "float32", half, 0, 0, 0, largest))
            leaves.append(LeafCount(stage.stage, "dense/kernel", "float16", half, bad // 2, bad - bad // 2, 0, largest / 2))
    tally = Tally(tuple(leaves), ("input", "forward", "loss", "backward"))
    step_id = reference.contract.step_id
    return write_incident_bundle(
        tmp_path_factory.mktemp("bundles") / "incident-step-1842",
        incident=Incident(step_id=step_id, batch_index=7, every=1, state_step_id=step_id, reproduced=True),
        counts=tally,
        state={"w": np.ones((2, 3), np.float32)},
        batch={"x": np.zeros((4,), np.float16)},
        contract=reference.contract,
        evidence=reference.evidence,
        report=triage_training_incident(reference.contract, reference.evidence),
        history=[StepSummary.of(step_id, 7, tally, {"loss": 0.5, "loss_scale": 1024.0})],
    )


@pytest.fixture
def bundle(written_bundle: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(written_bundle, tmp_path / written_bundle.name))


@pytest.fixture
def sealed() -> Callable[[Path, str, bytes], None]:
    """Replaces a file of a bundle and lists its new digest, as one would who can write the manifest too."""
    import hashlib

    def replace(bundle: Path, name: str, data: bytes) -> None:
        (bundle / name).write_bytes(data)
        manifest = json.loads((bundle / "manifest.json").read_bytes())
        manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        (bundle / "manifest.json").write_text(json.dumps(manifest))

    return replace
