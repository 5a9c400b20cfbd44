"""What is kept of the inputs and outputs of a birth: shapes, counts, extremes and a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firstnan.jax.births.cells import Cell, Facts, is_inexact
from firstnan.jax.births.findings import Operand


def facts_of(born: Any, ins: Sequence[Cell], outs: Sequence[Any], out: Cell) -> Facts:
    """What a report needs of a birth, at the true elements of `born`, in one of the outputs."""
    index = first_index(born)
    shape = np.shape(out.value)
    inputs = tuple(operand(cell.value, index, shape) for cell in ins)
    return Facts(inputs, tuple(operand(value, index, shape) for value in outs), index, out.arguments)


def first_index(mask: Any) -> tuple[int, ...]:
    """The index of the first true element, in row-major order."""
    return tuple(map(int, np.unravel_index(int(np.argmax(mask)), np.shape(mask))))


def operand(value: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Operand:
    """Shape, dtype, counts and extremes of a value; its element at an index into an array of a shape, if it has one."""
    own = tuple(np.shape(value))
    dtype = str(getattr(value, "dtype", type(value).__name__))
    if not is_inexact(value):
        return Operand(own, dtype)
    host = np.asarray(value)
    nan, infinite = np.isnan(host), np.isinf(host)
    wide = host.astype(np.complex128 if host.dtype.kind == "c" else np.float64)
    finite = wide[~(nan | infinite)]
    parts = finite.view(np.float64)
    negative = infinite & (wide.real == -np.inf)
    at = own and own == shape[: len(own)]
    sample = wide[index[: len(own)]].item() if at or not own else None
    return Operand(
        own,
        dtype,
        int(nan.sum()),
        int((infinite & ~negative & ~nan).sum()),
        int((negative & ~nan).sum()),
        float(parts.min()) if parts.size else None,
        float(parts.max()) if parts.size else None,
        sample,
    )
