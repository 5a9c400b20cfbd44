"""Walks a jaxpr equation by equation with concrete values, and follows each NaN and Inf from where it is born."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from firstnan.jax.births.cells import Cell, Scope, Site
from firstnan.jax.births.execution import Execution, Plain, Sharded
from firstnan.jax.births.owners import MOVING, own_constant, own_made, own_moved
from firstnan.jax.births.stacking import stack, take
from firstnan.jax.births.trail import Trail

_COUNT = "_device_row"
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


_COMPILED = frozenset(["jit", "pjit", "scan", "while", "cond"])


class Walk:
    """One walk. `counts` are the cells that `count_stages` counted, in order.

    A region that is compiled and gives only finite values is not entered: what is born and lost in it reaches nothing.
    """

    def __init__(self) -> None:
        self.counts: list[Cell] = []
        self._numbers = count(1)
        self._compiled: dict[int, Callable[..., Any]] = {}
        self._counting: dict[int, bool] = {}

    def walk(self, jaxpr: Jaxpr, consts: Sequence[Cell], ins: Sequence[Cell], where: Where) -> list[Cell]:
        """The outputs of a jaxpr. A value is let go after the last equation that uses it."""
        cells: dict[Var, Cell] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *ins], strict=True))
        last = {v: n for n, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if isinstance(v, Var)}
        last |= {v: len(jaxpr.eqns) for v in jaxpr.outvars if isinstance(v, Var)}

        def read(atom: Any) -> Cell:
            return Cell(where.execution.lift(atom.val)) if isinstance(atom, Literal) else cells[atom]

        for n, eqn in enumerate(jaxpr.eqns):
            outs = self.equation(eqn, [read(v) for v in eqn.invars], where)
            cells.update((v, out) for v, out in zip(eqn.outvars, outs, strict=True) if v in last)
            for v in eqn.invars:
                if isinstance(v, Var) and last[v] == n:
                    cells.pop(v, None)
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell]:
        """The outputs of one equation, walking into what it calls."""
        name = eqn.primitive.name
        if name in ("jit", "pjit") and eqn.params.get("name") == _COUNT:
            return self.count(eqn, ins, where)
        if name in _COMPILED and self.may_be_finite(ins, where) and not self.counting_eqn(eqn):
            outs = [_together(value, ins) for value in where.execution.bind(eqn, [cell.value for cell in ins])]
            if all(out.finite for out in outs):
                return outs
        if name in _CALLS:
            inner = eqn.params[_CALLS[name]]
            closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
            return self.call(eqn, closed, ins, where)
        if name == "scan":
            return self.scan(eqn, ins, where)
        if name == "while":
            return self.while_loop(eqn, ins, where) or self.carry_out(eqn, ins, where)
        if name == "cond":
            branch = where.execution.agreed(ins[0].value)
            if branch is not None:
                return self.call(eqn, eqn.params["branches"][int(branch)], ins[1:], where)
        if name == "shard_map" and not where.execution.sharded:
            return self.shard_map(eqn, ins, where)
        return self.carry_out(eqn, ins, where)

    def may_be_finite(self, ins: Sequence[Cell], where: Where) -> bool:
        """Whether to run a region compiled first: not from NaN, which hardly ever is lost again, so that it is run twice."""
        return not where.execution.sharded and not any(cell.has_nan for cell in ins)

    def carry_out(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell]:
        """An equation as one operation, and what becomes non-finite in it."""
        values = where.execution.bind(eqn, [cell.value for cell in ins])
        outs = [_together(value, ins) for value in values]
        if all(out.finite for out in outs):
            return outs
        trail = Trail(Site(eqn, where.scope), where.iteration, ins, values, self._numbers)
        if eqn.primitive.name in MOVING:
            own_moved(eqn, ins, outs, where.execution, trail)
        else:
            for out in outs:
                if not out.finite:
                    own_made(eqn, ins, out, trail)
        own_constant(ins, outs, trail)
        return outs

    def count(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell]:
        """The counting of one leaf by `count_stages`: what its row, then the step's counts, tell of."""
        (row,) = where.execution.bind(eqn, [cell.value for cell in ins])
        self.counts.append(ins[0])
        return [Cell(row, ins[0].arguments, ins[0].counted | 1 << len(self.counts) - 1)]

    def call(self, eqn: JaxprEqn, closed: ClosedJaxpr, ins: Sequence[Cell], where: Where) -> list[Cell]:
        """The outputs of a jaxpr that an equation calls."""
        inner = Where(where.scope.inner(eqn, closed.jaxpr), where.iteration, where.execution)
        return self.walk(closed.jaxpr, [Cell(where.execution.lift(c)) for c in closed.consts], ins, inner)

    def iterate(self, eqn: JaxprEqn, closed: ClosedJaxpr, ins: Sequence[Cell], number: int, where: Where) -> list[Cell]:
        """One iteration of a loop's body: compiled, and equation by equation where that gives a NaN or Inf."""
        if self.may_be_finite(ins, where) and not self.counting(closed.jaxpr):
            if id(closed) not in self._compiled:
                self._compiled[id(closed)] = jax.jit(jaxpr_as_fun(closed))
            values = self._compiled[id(closed)](*[cell.value for cell in ins])
            outs = [_together(value, ins) for value in values]
            if all(out.finite for out in outs):
                return outs
        return self.call(eqn, closed, ins, Where(where.scope, (*where.iteration, number), where.execution))

    def scan(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell]:
        params, execution = eqn.params, where.execution
        consts, length = params["num_consts"], params["length"]
        over = consts + params["num_carry"]
        if length == 0:
            return self.carry_out(eqn, ins, where)
        carry, rows = ins[consts:over], []
        order = reversed(range(length)) if params["reverse"] else range(length)
        for n in order:
            xs = [_element(cell, n, execution.lead) for cell in ins[over:]]
            outs = iter(self.iterate(eqn, params["jaxpr"], [*ins[:consts], *carry, *xs], n, where))
            carry = list(islice(outs, params["num_carry"]))
            rows.append(list(outs))
        if params["reverse"]:
            rows.reverse()
        return [*carry, *(_stacked(column, execution.lead) for column in zip(*rows, strict=True))]

    def while_loop(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell] | None:
        """None where shards, or the lanes of a vmap, decide by themselves whether to go on: there is no common order then."""
        params = eqn.params
        tests, body = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry = ins[body:]
        number = 0
        while True:
            (test,) = self.iterate(eqn, params["cond_jaxpr"], [*ins[:tests], *carry], number, where)
            going_on = where.execution.agreed(test.value)
            if going_on is None:
                return None
            if not going_on:
                return carry
            carry = self.iterate(eqn, params["body_jaxpr"], [*ins[tests:body], *carry], number, where)
            number += 1

    def shard_map(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell]:
        execution = Sharded(eqn)
        shards = zip(execution.enter([cell.value for cell in ins]), execution.enter([cell.owners for cell in ins]), strict=True)
        inner = Where(where.scope.inner(eqn, eqn.params["jaxpr"]), where.iteration, execution)
        cells = [cell.part(*shard) for cell, shard in zip(ins, shards, strict=True)]
        outs = self.walk(eqn.params["jaxpr"], [], cells, inner)
        wholes = zip(execution.leave([out.value for out in outs]), execution.leave([out.owners for out in outs]), strict=True)
        return [out.part(*whole) for out, whole in zip(outs, wholes, strict=True)]

    def counting(self, jaxpr: Jaxpr) -> bool:
        """Whether `count_stages` counts somewhere in a jaxpr, so that it has to be walked."""
        if id(jaxpr) not in self._counting:
            self._counting[id(jaxpr)] = any(eqn.params.get("name") == _COUNT or self.counting_eqn(eqn) for eqn in jaxpr.eqns)
        return self._counting[id(jaxpr)]

    def counting_eqn(self, eqn: JaxprEqn) -> bool:
        return any(self.counting(jaxpr) for jaxpr in _jaxprs(eqn))


class Where:
    """The scope, the iteration of each loop around, and the way equations are carried out there."""

    __slots__ = ("execution", "iteration", "scope")

    def __init__(self, scope: Scope, iteration: tuple[int, ...] = (), execution: Execution | None = None) -> None:
        self.scope = scope
        self.iteration = iteration
        self.execution = execution or Plain()


def _together(value: Any, ins: Sequence[Cell]) -> Cell:
    """A cell that depends on all that these depend on."""
    arguments = counted = 0
    for cell in ins:
        arguments |= cell.arguments
        counted |= cell.counted
    return Cell(value, arguments, counted)


def _element(cell: Cell, index: int, axis: int) -> Cell:
    """One element along an axis as a cell."""
    return cell.part(take(cell.value, index, axis), cell.owner if cell.owner is not None else take(cell.owners, index, axis))


def _stacked(rows: Sequence[Cell], axis: int) -> Cell:
    """An output of all iterations of a loop as one cell."""
    whole = _together(stack([row.value for row in rows], axis), rows)
    if not whole.finite:
        links = {number: link for row in rows for number, link in row.links.items()}
        owners = {row.owner for row in rows if not row.finite}
        whole.own(owners.pop() if len(owners) == 1 and None not in owners else stack([row.owners for row in rows], axis), links)
    return whole


def _jaxprs(eqn: JaxprEqn) -> list[Jaxpr]:
    found = []
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                found.append(part.jaxpr)
            elif isinstance(part, Jaxpr):
                found.append(part)
    return found
