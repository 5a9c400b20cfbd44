"""Which link each non-finite element of an equation's output comes by, and where one is born."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode

from firstnan.jax.births.cells import NAN_CONSTANT, Cell, Kind, Link, is_inexact
from firstnan.jax.births.execution import Execution
from firstnan.jax.births.operands import non_finite

# fmt: off
MOVING = frozenset(
    [
        "broadcast_in_dim", "concatenate", "copy", "dynamic_slice", "dynamic_update_slice", "expand_dims",
        "gather", "pad", "pcast", "pvary", "reshape", "rev", "slice", "split", "squeeze", "stop_gradient",
        "transpose",
    ]
)
# fmt: on
"""Equations whose output elements are elements of their inputs. They are carried out once more on the owners."""
# fmt: off
ELEMENTWISE = frozenset(
    [
        "abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
        "clamp", "convert_element_type", "cos", "cosh", "digamma", "div", "erf", "erf_inv", "erfc", "exp",
        "exp2", "expm1", "floor", "integer_pow", "lgamma", "log", "log1p", "logistic", "max", "min", "mul",
        "neg", "nextafter", "pow", "reduce_precision", "rem", "round", "rsqrt", "select_n", "sign", "sin",
        "sinh", "sqrt", "square", "sub", "tan", "tanh",
    ]
)
# fmt: on

# Elements that come from more different links than this share one link.
_MOST_GROUPS = 64
_FILLED = NAN_CONSTANT - 1


class Group(NamedTuple):
    """Elements of one output (a boolean array) that come the same way: born here, or by these parents, or both."""

    kind: Kind
    elements: Any
    born: bool
    parents: tuple[Link, ...]


def moved_owners(eqn: JaxprEqn, ins: Sequence[Cell], outs: Sequence[Cell], execution: Execution) -> list[Any]:
    """The owners of the outputs of an equation of `MOVING`; `_FILLED` where it made the element itself."""
    bad = [cell for cell in ins if not cell.finite]
    owned = [cell.owners[~np.isfinite(np.asarray(cell.value))] for cell in bad]
    number = int(owned[0][0]) if owned else 0
    if owned and all((part == number).all() for part in owned) and eqn.primitive.name != "gather":
        # The common case needs no second run of the equation, which would have to be compiled.
        return [np.where(np.isfinite(np.asarray(out.value)), 0, number) for out in outs]
    if eqn.params.get("mode") == GatherScatterMode.FILL_OR_DROP:
        eqn = eqn.replace(params=eqn.params | {"fill_value": _FILLED})
    shadows = [cell.owners if is_inexact(cell.value) else cell.value for cell in ins]
    return [np.array(owners) for owners in execution.bind(eqn, shadows)]


def groups_of_moved(out: Cell, owners: Any) -> Iterator[Group]:
    """What is born where elements are moved: a NaN that the equation fills in, or a constant one that it lets in."""
    filled = non_finite(out.value, "nan") & (owners == _FILLED)
    let_in = non_finite(out.value, "nan") & (owners == NAN_CONSTANT) & (out.arguments != 0)
    if (filled | let_in).any():
        yield Group("nan", filled | let_in, True, ())


def groups_of_made(eqn: JaxprEqn, ins: Sequence[Cell], out: Cell) -> Iterator[Group]:
    """The groups of an output of any other equation.

    In an elementwise one an input accounts for an element where it is non-finite itself (and, for a select, is the case
    taken). In any other it accounts for the whole output.

    An infinity made of constants alone is deliberate. A NaN constant accounts for no NaN: where it is first let into a
    value that depends on the arguments, it is born.
    """
    by_element = eqn.primitive.name in ELEMENTWISE
    for kind in _kinds(out):
        elements = non_finite(out.value, kind)
        if by_element:
            yield from _by_element(kind, elements, eqn, ins, out)
            continue
        parents = {n: link for cell in ins for n, link in cell.links.items() if kind == "nan" or link.kind == "inf"}
        explained = any(cell.has(kind) and (kind == "inf" or _explains(cell, out).any()) for cell in ins)
        yield Group(kind, elements, not explained and _may_be_born(kind, out), tuple(parents.values()))


def _by_element(kind: Kind, elements: Any, eqn: JaxprEqn, ins: Sequence[Cell], out: Cell) -> Iterator[Group]:
    shape = elements.shape
    case = _spread(np.asarray(ins[0].value).astype(np.int32), shape) if eqn.primitive.name == "select_n" else None
    explained = np.zeros(shape, bool)
    columns = []
    links: dict[int, Link] = {}
    for n, cell in enumerate(ins):
        if cell.finite:
            continue
        taken = elements if case is None else elements & (case == n - 1)
        same = taken & _spread(non_finite(cell.value, kind), shape)
        explained |= same if kind == "inf" else same & _spread(_explains(cell, out), shape)
        here = same | (taken & _spread(non_finite(cell.value, "inf"), shape)) if kind == "nan" else same
        columns.append(np.where(here, np.maximum(_spread(cell.owners, shape), 0), 0)[elements])
        links |= cell.links
    born = ~explained[elements] & _may_be_born(kind, out)
    rows, which = _distinct(np.stack([born, *columns], -1))
    if len(rows) > _MOST_GROUPS:
        rows, which = _distinct(born[:, None])
        everything = sorted({number for column in columns for number in column.tolist()})
        rows = np.concatenate([rows, np.tile(np.array(everything, np.int64), (len(rows), 1))], 1)
    for n, (is_born, *numbers) in enumerate(rows.tolist()):
        group = np.zeros(shape, bool)
        group[elements] = which.reshape(-1) == n
        yield Group(kind, group, bool(is_born), tuple(links[number] for number in dict.fromkeys(numbers) if number))


def _distinct(rows: Any) -> tuple[Any, Any]:
    """The different rows, and which of them each is. By columns: sorting whole rows takes many times as long."""
    which = np.zeros(len(rows), np.int64)
    for column in rows.T:
        low, high = int(column.min()), int(column.max())
        if low != high:
            which = np.unique(which * (high - low + 1) + (column - low), return_inverse=True)[1].reshape(-1)
    first = np.zeros(int(which.max()) + 1, np.int64)
    first[which[::-1]] = np.arange(len(rows))[::-1]
    return rows[first], which


def _explains(cell: Cell, out: Cell) -> Any:
    """The NaN elements of an input that account for a NaN of the output."""
    nan = non_finite(cell.value, "nan")
    return nan & (cell.owners != NAN_CONSTANT) if out.arguments else nan


def _may_be_born(kind: Kind, out: Cell) -> bool:
    return kind == "nan" or out.arguments != 0


def _spread(array: Any, shape: tuple[int, ...]) -> Any:
    """A scalar (one a shard, inside shard_map) beside arrays, or an array of the shape itself."""
    return np.broadcast_to(array.reshape(array.shape + (1,) * (len(shape) - array.ndim)), shape)


def _kinds(cell: Cell) -> list[Kind]:
    kinds: tuple[Kind, Kind] = ("inf", "nan")
    return [kind for kind in kinds if cell.has(kind)]
