"""What the tests of the training side share: a contract, and processes with eight virtual devices."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from firstnan import TrainingIncidentContract


@pytest.fixture(scope="session")
def contract() -> TrainingIncidentContract:
    return TrainingIncidentContract(
        contract_version="training-incident-v1",
        run_id="run-test",
        step_id=0,
        model_version="model-v1",
        dataset_version="data-v1",
        batch_id="batch",
        objective_version="objective-v1",
        optimizer_version="optimizer-v1",
        precision="float32",
        loss_scale_version="static-v1",
        loss_scale=1.0,
        minimum_numeric_resolution=1e-15,
        maximum_absolute_finite=9e14,
        maximum_elements_per_stage=1_000_000,
        maximum_total_elements=5_000_000,
        numeric_convention="binary64-summary-mixed-precision-v1",
        data_owner="team:data",
        model_owner="team:model",
        objective_owner="team:objective",
        optimizer_owner="team:optimizer",
        incident_owner="team:oncall",
    )


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a new interpreter and returns it when it has ended well."""

    def run(program: str, *arguments: str, devices: int = 1) -> subprocess.CompletedProcess[str]:
        flags = f"--xla_force_host_platform_device_count={devices}"
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run
