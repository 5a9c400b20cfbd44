"""The configuration's defaults and bounds, and what importing the supervisor costs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import firstnan
from firstnan.supervisor import default_config, launch

DEFAULTS = {
    "seed": 3,
    "learning_rate": 0.04,
    "momentum": 0.8,
    "batch_size": 8,
    "steps": 8,
    "checkpoint_every": 2,
    "backend": "cpu",
    "min_devices": 1,
    "resume": False,
    "fail_after": None,
    "stall_at": None,
    "stall_seconds": 10,
}


def test_defaults() -> None:
    assert default_config() == DEFAULTS
    assert default_config(steps=20, resume=True) == {**DEFAULTS, "steps": 20, "resume": True}


def test_each_call_gives_its_own_dict() -> None:
    default_config()["steps"] = 99
    assert default_config() == DEFAULTS


@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0},
        {"momentum": 0.999},
        {"learning_rate": 1e-9},
        {"batch_size": 64},
        {"steps": 1},
        {"fail_after": 3},
    ],
)
def test_accepts(changes: dict[str, Any]) -> None:
    assert default_config(**changes) == {**DEFAULTS, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {name: value}
            for name in ("steps", "checkpoint_every", "batch_size", "min_devices")
            for value in (0, -1, True, 1.0, "1", None)
        ),
        {"batch_size": 65},
        {"momentum": 1},
        {"momentum": -0.1},
        {"momentum": float("nan")},
        {"learning_rate": 0},
        {"learning_rate": 1.0},
        {"learning_rate": float("inf")},
        {"seed": -1},
        {"seed": 2**32},
        {"seed": True},
        {"backend": ""},
        {"backend": "cpu\n"},
        {"resume": 1},
        {"fail_after": 0},
        {"stall_at": 1.5},
        {"stall_seconds": -1},
        {"no_such_field": 1},
    ],
    ids=repr,
)
def test_refuses(changes: dict[str, Any]) -> None:
    with pytest.raises(firstnan.ContractError):
        default_config(**changes)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), True, "1", None, 10**400])
def test_refuses_timeout_before_anything_is_written(tmp_path: Any, timeout: Any) -> None:
    with pytest.raises(firstnan.ContractError):
        launch(tmp_path / "root", None, timeout)
    assert not (tmp_path / "root").exists()


def test_refuses_configuration_before_anything_is_written(tmp_path: Any) -> None:
    with pytest.raises(firstnan.ContractError):
        launch(tmp_path / "root", {"steps": 0})
    assert not (tmp_path / "root").exists()


def test_import_loads_no_jax() -> None:
    look = "import sys, firstnan.supervisor; print(sorted({'jax', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, check=True).stdout == b"[]\n"
