"""Which elements of an equation's output are non-finite, and which inputs account for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn

from firstnan.jax.births.cells import Cell, Facts, Kind, is_inexact
from firstnan.jax.births.findings import Operand

# fmt: off
_ELEMENTWISE = frozenset(
    [
        "abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
        "clamp", "convert_element_type", "cos", "cosh", "digamma", "div", "erf", "erf_inv", "erfc", "exp",
        "exp2", "expm1", "floor", "integer_pow", "lgamma", "log", "log1p", "logistic", "max", "min", "mul",
        "neg", "nextafter", "pow", "reduce_precision", "rem", "round", "rsqrt", "select_n", "sign", "sin",
        "sinh", "sqrt", "square", "sub", "tan", "tanh",
    ]
)
# fmt: on


class Flow:
    """How the non-finite elements of one output relate to the inputs of its equation.

    In an elementwise equation an input accounts for an element only where it is non-finite at the same place (and, for a
    select, is the case taken there). In any other it accounts for the whole output.
    """

    def __init__(self, eqn: JaxprEqn, ins: Sequence[Cell], out: Cell) -> None:
        self.ins, self.out = ins, out
        self.elementwise = eqn.primitive.name in _ELEMENTWISE
        self.which = None
        if eqn.primitive.name == "select_n":
            self.which = np.asarray(ins[0].value).astype(np.int32)

    def sources(self, kind: Kind, of: Kind) -> list[Cell]:
        """The inputs with NaN or Inf of one kind that account for elements of the output of a kind."""
        return [cell for n, cell in enumerate(self.ins) if cell.has(of) and self._overlaps(n, cell, kind, of)]

    def all_explained(self, kind: Kind, sources: Sequence[Cell]) -> bool:
        """Whether these inputs, non-finite of the same kind, account for every such element of the output."""
        if not self.elementwise:
            return bool(sources)
        left = non_finite(self.out.value, kind)
        for n, cell in enumerate(self.ins):
            if any(cell is source for source in sources):
                left = left & ~self._mask(n, cell, kind)
        return not left.any()

    def _overlaps(self, number: int, cell: Cell, kind: Kind, of: Kind) -> bool:
        return not self.elementwise or bool((non_finite(self.out.value, kind) & self._mask(number, cell, of)).any())

    def _mask(self, number: int, cell: Cell, kind: Kind) -> Any:
        ndim = np.ndim(self.out.value)
        mask = _with_trailing_axes(non_finite(cell.value, kind), ndim)
        return mask if self.which is None else mask & (_with_trailing_axes(self.which, ndim) == number - 1)


def non_finite(value: Any, kind: Kind) -> Any:
    """A boolean array: where a value is NaN, or infinite."""
    return np.isnan(np.asarray(value)) if kind == "nan" else np.isinf(np.asarray(value))


def facts_of(kind: Kind, ins: Sequence[Cell], outs: Sequence[Any], out: Cell) -> Facts:
    """What a report needs of a birth in one of the outputs."""
    index = first_index(non_finite(out.value, kind))
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


def _with_trailing_axes(array: Any, ndim: int) -> Any:
    return array.reshape(array.shape + (1,) * (ndim - array.ndim))
