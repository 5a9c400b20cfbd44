"""What the tests of scanning share: the real command, counts by numpy, and safetensors bytes by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FIRSTNAN = [sys.executable, "-m", "firstnan"]


def command(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs `firstnan …` in a process of its own."""
    return subprocess.run([*FIRSTNAN, *map(str, arguments)], capture_output=True, timeout=120, check=False, **options)


def expected(array: np.ndarray) -> tuple[int, int, int, int, float, int | None]:
    """checked, nan, +Inf, -Inf, largest finite magnitude and first index in C order, by numpy in binary64."""
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64).ravel()
    parts = [wide.real, wide.imag] if array.dtype.kind == "c" else [wide]
    nan = np.logical_or.reduce([np.isnan(part) for part in parts])
    sign = np.zeros(wide.shape)
    for part in reversed(parts):
        sign = np.where(np.isinf(part), np.sign(part), sign)
    sign = np.where(nan, 0, sign)
    bad = nan | (sign != 0)
    largest = max((float(np.abs(part[~bad]).max()) for part in parts if (~bad).any()), default=0.0)
    first = int(np.flatnonzero(bad)[0]) if bad.any() else None
    return wide.size, int(nan.sum()), int((sign > 0).sum()), int((sign < 0).sum()), largest, first


def told(counts: Any) -> tuple[int, int, int, int, float, int | None]:
    """The same of our counts."""
    return (
        *(counts.checked, counts.nan, counts.positive_infinity, counts.negative_infinity),
        *(counts.maximum_absolute_finite, counts.first_nonfinite),
    )


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of each common dtype and of many shapes, some with non-finite elements, some longer than a piece."""
    rng = np.random.default_rng(seed)
    out: dict[str, np.ndarray] = {
        "long": rng.normal(size=(700, 401)).astype(np.float32),
        "half": rng.normal(size=(33, 5)).astype(np.float16),
        "double": rng.normal(size=(4, 3, 2)),
        "complex": (rng.normal(size=(6,)) + 1j * rng.normal(size=(6,))).astype(np.complex64),
        "whole": rng.integers(-(2**40), 2**40, size=(5, 5)),
        "byte": rng.integers(0, 255, size=(7,), dtype=np.uint8),
        "truth": rng.integers(0, 2, size=(9,)).astype(bool),
        "brain": rng.normal(size=(12, 12)).astype(ml_dtypes.bfloat16),
        "scalar": np.array(2.5, np.float32),
        "empty": np.zeros((0, 3), np.float32),
    }
    out["long"].flat[[200_000, 280_000]] = np.nan, -np.inf
    out["half"][3, 3] = np.inf
    out["double"][1, 2, 0] = out["double"][3, 0, 1] = np.nan
    out["complex"][2] = complex(-np.inf, 1)
    out["brain"][11, 11] = np.nan
    return out


def safetensors_bytes(header: Any, data: bytes = b"") -> bytes:
    """A file of a header, as an object or as its text."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(start: int, end: int, dtype: str = "F32", shape: list[int] | None = None) -> dict[str, Any]:
    """The header's entry of a tensor of 32-bit elements, unless said otherwise."""
    return {"dtype": dtype, "shape": [(end - start) // 4] if shape is None else shape, "data_offsets": [start, end]}


PEAK = """
import sys, firstnan
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
firstnan.scan(sys.argv[1], threads=2)  # loads what a scan needs
before = peak()
scanned = firstnan.scan(sys.argv[2], threads=2)
held = bytearray(int(sys.argv[3]))
print(peak() - before, scanned.checked, scanned.nan)
"""


def peak_growth(small: Path, large: Path, held: int = 0) -> tuple[int, int, int]:
    """The bytes by which the peak of a process grows when it scans a large file after a small one; checked and nan.

    From VmHWM, which begins anew in a process; ru_maxrss begins with what the process that started it had. With `held`
    the process sets aside so many bytes besides, to show that they are seen.
    """
    arguments = [sys.executable, "-c", PEAK, small, large, str(held)]
    grown, checked, nan = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    return int(grown), int(checked), int(nan)
