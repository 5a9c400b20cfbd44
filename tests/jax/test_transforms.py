"""Every example under `examples/transforms/`: what it says of a seeded fault, its silence without one, the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "transforms"

# The lines that each example prints of its seeded fault.
FAULTS = {
    "donated_buffers": ["step 2: ['optimizer/seen']", "step 3: ['optimizer/seen']"],
    "equinox_modules": ["step 2: first seen in backward/layers/1/weight; stages ['backward', 'optimizer']"],
    "flax_nnx": [
        "step 0: first seen in forward/outputs; stages ['backward', 'forward', 'loss', 'optimizer']",
        "step 1: first seen in forward/hidden; stages ['backward', 'forward', 'loss', 'optimizer']",
        "step 2: first seen in forward/hidden; stages ['backward', 'forward', 'loss', 'optimizer']",
    ],
    "gradient_accumulation": ["micro-batch 4: first seen in backward ['w']"],
    "named_sharding": ["first seen in forward outputs", "on the device at {'data': 3}"],
    # Clipping by the global norm spreads a NaN to a leaf whose gradient is finite; apply_if_finite keeps it out.
    "optax_chains": [
        "clipping, step 2: backward/a optimizer/params/a optimizer/params/b optimizer/updates/a optimizer/updates/b",
        "clipping, step 3: loss/ backward/a backward/b optimizer/params/a optimizer/params/b optimizer/updates/a "
        "optimizer/updates/b",
        "MultiSteps, step 2: backward/a optimizer/params/a optimizer/updates/a",
        "MultiSteps, step 3: loss/ backward/a optimizer/params/a optimizer/updates/a",
        "apply_if_finite, step 2: backward/a",
    ],
    "shard_map": ["first seen on the device at {'data': 3} in ['loss/', 'backward/w']"],
    "transforms_of_functions": [
        "grad: first seen in forward/hidden",
        "value_and_grad: first seen in forward/hidden",
        "remat: first seen in forward/hidden",
        "vmap, example 1: first seen in forward/hidden",
    ],
}


def printed(name, *arguments):
    """The lines of an example on eight devices: those on bits, and the others."""
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [line for line in lines if "bit-identical" in line], [line for line in lines if "bit-identical" not in line]


def test_no_example_is_left_out():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_seeded_fault_is_seen_where_it_is_and_nothing_without_it(name):
    for arguments, expected in ((["--fault"], FAULTS[name]), ([], [])):
        bits, told = printed(name, *arguments)
        assert told == expected
        assert bits
        assert all(line.endswith("bit-identical without the probe: True") for line in bits)


def test_an_example_is_short():
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 60 for path in EXAMPLES.glob("*.py"))
