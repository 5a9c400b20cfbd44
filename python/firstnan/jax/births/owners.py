"""Which link each non-finite element of an equation's output comes by, and where one is born."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode

from firstnan.jax.births.cells import NAN_CONSTANT, Cell, Kind, is_inexact
from firstnan.jax.births.execution import Execution
from firstnan.jax.births.trail import Trail

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
        "clamp", "complex", "conj", "convert_element_type", "cos", "cosh", "digamma", "div", "erf", "erf_inv", "erfc", "exp",
        "exp2", "expm1", "floor", "imag", "integer_pow", "lgamma", "log", "log1p", "logistic", "max", "min", "mul",
        "neg", "nextafter", "pow", "real", "reduce_precision", "rem", "round", "rsqrt", "select_n", "sign", "sin",
        "sinh", "sqrt", "square", "sub", "tan", "tanh",
    ]
)
# fmt: on

# Elements that come from more different links than this share one link.
_MOST_GROUPS = 64
_FILLED = NAN_CONSTANT - 1


def own_moved(eqn: JaxprEqn, ins: Sequence[Cell], outs: Sequence[Cell], execution: Execution, trail: Trail) -> None:
    """Gives the outputs of an equation of `MOVING` their owners.

    What is born there is a NaN that the equation fills in, or a constant one that it lets in.
    """
    for out, owners in zip(outs, _moved(eqn, ins, outs, execution), strict=True):
        if out.finite:
            continue
        born = out.mask("nan") & ((owners == _FILLED) | ((owners == NAN_CONSTANT) & (out.arguments != 0)))
        if born.any():
            owners = np.where(born, np.int32(trail.add("nan", (), out, born)), owners)
        # An infinity that is filled in is a constant of the program.
        out.own(owners if isinstance(owners, int) else np.where(owners == _FILLED, np.int32(0), owners), trail.links)


def _moved(eqn: JaxprEqn, ins: Sequence[Cell], outs: Sequence[Cell], execution: Execution) -> list[Any]:
    """The owners of each output, one number or an array of them; `_FILLED` where the equation made the element itself."""
    fills = eqn.params.get("mode") == GatherScatterMode.FILL_OR_DROP
    found = {cell.owner for cell in ins if not cell.finite}
    if len(found) == 1 and None not in found and not fills:
        # The common case needs no second run of the equation, which would have to be compiled.
        return [*found] * len(outs)
    if fills:
        eqn = eqn.replace(params=eqn.params | {"fill_value": _FILLED})
    shadows = [cell.owners if is_inexact(cell.value) else cell.value for cell in ins]
    return [np.array(owners) for owners in execution.bind(eqn, shadows)]


def own_made(eqn: JaxprEqn, ins: Sequence[Cell], out: Cell, trail: Trail) -> None:
    """Gives an output of any other equation its owners.

    In an elementwise one an input accounts for an element where it is non-finite itself (and, for a select, is the case
    taken). In any other it accounts for the whole output.

    An infinity made of constants alone is deliberate. A NaN constant accounts for no NaN: where it is first let into a
    value that depends on the arguments, it is born.
    """
    by_element = eqn.primitive.name in ELEMENTWISE and not _all_alike(eqn, ins, out)
    owners = {kind: (_by_element if by_element else _as_one)(kind, eqn, ins, out, trail) for kind in _kinds(out)}
    if len(owners) == 1:
        out.own(next(iter(owners.values())), trail.links)
        return
    out.own(np.where(out.mask("nan"), owners["nan"], np.where(out.mask("inf"), owners["inf"], np.int32(0))), trail.links)


def own_constant(ins: Sequence[Cell], outs: Sequence[Cell], trail: Trail) -> None:
    """Marks where an infinity of the program meets a value of the step, so that a report can mention it.

    Not where one came in with an argument as well: which of the two an element has is not followed.
    """
    if not any(cell.has_inf and not cell.arguments for cell in ins):
        return
    if any(cell.has_inf and cell.arguments and bool(np.any(cell.mask("inf") & (cell.owners == 0))) for cell in ins):
        return
    for out in outs:
        if not (out.has_inf and out.arguments):
            continue
        unexplained = out.mask("inf") & (out.owners == 0)
        if unexplained.any():
            number = trail.enter()
            whole = out.every == "inf" and bool(unexplained.all())
            out.own(number if whole else np.where(unexplained, np.int32(number), out.owners), trail.links)


def _all_alike(eqn: JaxprEqn, ins: Sequence[Cell], out: Cell) -> bool:
    """Whether every element of an elementwise equation comes the same way, so that none need be looked at."""
    if out.every is None or eqn.primitive.name == "select_n":
        return False
    return all(cell.finite or (cell.every in (out.every, "inf") and cell.owner is not None) for cell in ins)


def _as_one(kind: Kind, eqn: JaxprEqn, ins: Sequence[Cell], out: Cell, trail: Trail) -> int:
    """One owner for all elements of a kind."""
    parents = {n for cell in ins for n, link in cell.links.items() if kind == "nan" or link.kind == "inf"}
    explained = any(cell.has(kind) and bool(np.any(_explains(kind, cell, out))) for cell in ins)
    born = None if explained or not _may_be_born(kind, out) else out.mask(kind)
    return _owner(kind, parents, out, born, trail)


def _by_element(kind: Kind, eqn: JaxprEqn, ins: Sequence[Cell], out: Cell, trail: Trail) -> Any:
    """An owner for all elements that come by the same links; 0 where the output is not of the kind."""
    elements = out.mask(kind)
    shape = elements.shape
    case = _spread(np.asarray(ins[0].value).astype(np.int32), shape) if eqn.primitive.name == "select_n" else None
    explained = np.zeros(shape, bool)
    ways = _Ways(shape)
    for n, cell in enumerate(ins):
        if cell.finite:
            continue
        taken = elements if case is None else elements & (case == n - 1)
        same = taken & _spread(cell.mask(kind), shape)
        explained |= same & _spread(np.asarray(_explains(kind, cell, out)), shape)
        ways.add(same | (taken & _spread(cell.mask("inf"), shape)) if kind == "nan" else same, cell)
    born = elements & ~explained if _may_be_born(kind, out) else np.zeros(shape, bool)
    key = ways.key * 2 + born
    present = np.flatnonzero(np.bincount((key if out.every else key[elements]).ravel()))
    owner_of = np.zeros(2 * len(ways.links), np.int32)
    for number in present.tolist():
        own_born = born & (key == number) if number % 2 else None
        owner_of[number] = _owner(kind, ways.links[number // 2], out, own_born, trail)
    return int(owner_of[present[0]]) if len(present) == 1 else np.where(elements, owner_of[key], np.int32(0))


class _Ways:
    """Which links each element comes by: `key` is a place in `links` for each."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.key = np.zeros(shape, np.int32)
        self.links: list[frozenset[int]] = [frozenset()]

    def add(self, here: Any, cell: Cell) -> None:
        """The links of an input, for the elements where `here` is true."""
        if not cell.links:
            return
        numbers = [0, *cell.links]
        if cell.owner is None:
            place = np.zeros(max(numbers) + 1, np.int32)
            place[numbers] = np.arange(len(numbers))
            here = np.where(here, _spread(place[np.maximum(cell.owners, 0)], here.shape), np.int32(0))
        key = self.key * np.int32(len(numbers)) + here
        present = np.flatnonzero(np.bincount(key.ravel())).tolist()
        if len(present) > _MOST_GROUPS:
            self.key = np.zeros_like(self.key)
            self.links = [frozenset().union(cell.links, *self.links)]
            return
        old = self.links
        self.links = [old[n // len(numbers)] | {numbers[n % len(numbers)]} - {0} for n in present]
        place = np.zeros(len(old) * len(numbers), np.int32)
        place[present] = np.arange(len(present))
        self.key = place[key]


def _owner(kind: Kind, parents: Collection[int], out: Cell, born: Any, trail: Trail) -> int:
    """The number of a new link; without parents and birth, that of what is deliberate, came in, or is constant."""
    if parents or born is not None:
        return trail.add(kind, parents, out, born)
    return NAN_CONSTANT if kind == "nan" and not out.arguments else 0


def _explains(kind: Kind, cell: Cell, out: Cell) -> Any:
    """Whether, or where, an input of a kind accounts for that kind in the output: a constant NaN does not."""
    if kind == "inf" or not out.arguments:
        return True
    return cell.owner != NAN_CONSTANT if cell.owner is not None else cell.mask("nan") & (cell.owners != NAN_CONSTANT)


def _may_be_born(kind: Kind, out: Cell) -> bool:
    return kind == "nan" or out.arguments != 0


def _spread(array: Any, shape: tuple[int, ...]) -> Any:
    """A scalar (one a shard, inside shard_map) beside arrays, or an array of the shape itself."""
    return np.broadcast_to(array.reshape(array.shape + (1,) * (len(shape) - array.ndim)), shape)


def _kinds(cell: Cell) -> list[Kind]:
    kinds: tuple[Kind, Kind] = ("inf", "nan")
    return [kind for kind in kinds if cell.has(kind)]
