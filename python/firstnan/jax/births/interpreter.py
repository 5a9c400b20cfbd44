"""Walks a jaxpr equation by equation with concrete values, and follows each NaN and Inf from where it is born."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from firstnan.jax.births.cells import Cell, Kind, Link, Scope, Site
from firstnan.jax.births.execution import Execution, Plain, Sharded
from firstnan.jax.births.masks import Flow, facts_of
from firstnan.jax.births.stacking import stack, take

_COUNT = "_device_row"
_IDENTITIES = ("copy", "pcast", "pvary", "stop_gradient")
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


class Walk:
    """One walk. `counts` are the cells that `count_stages` counted, in order.

    A region that is compiled and gives only finite values is not entered: what is born and lost in it reaches nothing.
    """

    def __init__(self) -> None:
        self.counts: list[Cell] = []
        self._links = 0
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
        if name in ("jit", "pjit", "scan", "while", "cond") and not where.execution.sharded and not self.counting_eqn(eqn):
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

    def carry_out(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell]:
        """An equation as one operation, and what becomes non-finite in it."""
        values = where.execution.bind(eqn, [cell.value for cell in ins])
        if eqn.primitive.name in _IDENTITIES:
            return [cell.part(value) for cell, value in zip(ins, values, strict=True)]
        outs = [_together(value, ins) for value in values]
        for out in outs:
            for kind in _kinds(out):
                self.attribute(kind, eqn, ins, values, out, where)
        return outs

    def attribute(self, kind: Kind, eqn: JaxprEqn, ins: list[Cell], values: list[Any], out: Cell, where: Where) -> None:
        """Links an output to the inputs that its NaN or Inf came from, or notes that it was born here.

        An infinity made of constants alone is deliberate. A NaN constant explains no NaN: where it is first let into a
        value that depends on the arguments, it is born.
        """
        flow = Flow(eqn, ins, out)
        same = flow.sources(kind, kind)
        constants_explain = kind == "inf" or not out.arguments
        explaining = [cell for cell in same if constants_explain or cell.arguments or cell.nan]
        born = not flow.all_explained(kind, explaining) and (kind == "nan" or out.arguments != 0)
        links = [cell.link(kind) for cell in same]
        if kind == "nan":
            links += [cell.inf for cell in flow.sources("nan", "inf")]
        parents = tuple(dict.fromkeys(link for link in links if link is not None))
        if not born and not parents:
            return
        self._links += 1
        facts = facts_of(kind, ins, values, out) if born else None
        out.set_link(Link(self._links, kind, Site(eqn, where.scope), where.iteration, parents, facts))

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
        if not where.execution.sharded and not self.counting(closed.jaxpr):
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
            xs = [cell.part(take(cell.value, n, execution.lead)) for cell in ins[over:]]
            outs = iter(self.iterate(eqn, params["jaxpr"], [*ins[:consts], *carry, *xs], n, where))
            carry = list(islice(outs, params["num_carry"]))
            rows.append(list(outs))
        if params["reverse"]:
            rows.reverse()
        return [*carry, *(self.stacked(eqn, list(column), where) for column in zip(*rows, strict=True))]

    def stacked(self, eqn: JaxprEqn, rows: list[Cell], where: Where) -> Cell:
        """The outputs of all iterations as one cell."""
        whole = _together(stack([row.value for row in rows], where.execution.lead), rows)
        for kind in _kinds(whole):
            links = tuple(dict.fromkeys(link for row in rows if (link := row.link(kind)) is not None))
            if links:
                self._links += 1
                whole.set_link(Link(self._links, kind, Site(eqn, where.scope), where.iteration, links))
        return whole

    def while_loop(self, eqn: JaxprEqn, ins: list[Cell], where: Where) -> list[Cell] | None:
        """None where shards disagree on whether to go on, so that no common order of equations exists."""
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
        shards = execution.enter([cell.value for cell in ins])
        inner = Where(where.scope.inner(eqn, eqn.params["jaxpr"]), where.iteration, execution)
        cells = [cell.part(value) for cell, value in zip(ins, shards, strict=True)]
        outs = self.walk(eqn.params["jaxpr"], [], cells, inner)
        return [out.part(value) for out, value in zip(outs, execution.leave([out.value for out in outs]), strict=True)]

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


def _kinds(cell: Cell) -> list[Kind]:
    kinds: tuple[Kind, Kind] = ("inf", "nan")
    return [kind for kind in kinds if cell.has(kind)]


def _jaxprs(eqn: JaxprEqn) -> list[Jaxpr]:
    found = []
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                found.append(part.jaxpr)
            elif isinstance(part, Jaxpr):
                found.append(part)
    return found
