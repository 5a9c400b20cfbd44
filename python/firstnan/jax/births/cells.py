"""Values of a walked jaxpr, and the trail that each NaN or Inf leaves from its birth on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Var

from firstnan.jax.births.findings import Operand

Kind = Literal["nan", "inf"]
NAN_CONSTANT = -1
"""The owner of a NaN that the program has as a constant, and that no value of the step has let in yet."""


class Scope:
    """A jaxpr in its place: the equation that calls it and where that stands. The same for every iteration of a loop.

    `kept` says of each output of the jaxpr whether a value outside differentiation's own sweeps uses it.
    """

    def __init__(self, jaxpr: Jaxpr, outer: Site | None) -> None:
        self.jaxpr = jaxpr
        self.outer = outer
        self._inner: dict[tuple[int, int], Scope] = {}

    def inner(self, eqn: JaxprEqn, jaxpr: Jaxpr) -> Scope:
        """The scope of a jaxpr that an equation of this one calls."""
        return self._inner.setdefault((id(eqn), id(jaxpr)), Scope(jaxpr, Site(eqn, self)))

    @cached_property
    def name_stack(self) -> str:
        return "" if self.outer is None else self.outer.name_stack

    @cached_property
    def primal(self) -> frozenset[Var]:
        """Variables that are values of the program itself, not only coefficients for a derivative."""
        used = {v for v, kept in zip(self.jaxpr.outvars, self._kept(), strict=True) if kept and isinstance(v, Var)}
        for eqn in reversed(self.jaxpr.eqns):
            stack = Site(eqn, self).name_stack
            if in_transpose(stack) or ("jvp(" in stack and used.isdisjoint(eqn.outvars)):
                continue
            used.update(v for v in eqn.invars if isinstance(v, Var))
        return frozenset(used)

    def _kept(self) -> list[bool]:
        if self.outer is None:
            return [True] * len(self.jaxpr.outvars)
        eqn = self.outer.eqn
        if eqn.primitive.name == "while" or len(eqn.outvars) != len(self.jaxpr.outvars):
            return [True] * len(self.jaxpr.outvars)
        carried = eqn.params["num_carry"] if eqn.primitive.name == "scan" else 0
        return [n < carried or v in self.outer.scope.primal for n, v in enumerate(eqn.outvars)]


@dataclass(frozen=True, slots=True)
class Site:
    """An equation and the scope it stands in."""

    eqn: JaxprEqn
    scope: Scope

    @property
    def name_stack(self) -> str:
        """JAX's name stack, continued from that of the equations around."""
        return f"{self.scope.name_stack}/{self.eqn.source_info.name_stack}"


def in_transpose(name_stack: str) -> bool:
    """Whether a name stack is of the transposed sweep; what remat computes again there is not."""
    return "transpose(" in name_stack and "rematted_computation" not in name_stack


@dataclass(frozen=True, slots=True)
class Facts:
    """What is kept of a birth: the values themselves are not."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    index: tuple[int, ...]
    arguments: int


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One equation on the way of a NaN or an Inf. `number` is the order of the walk; `facts` only where it is born.

    `constant` is where an infinity of the program meets a value of the step: a way begins there, without a birth.
    """

    number: int
    kind: Kind
    site: Site
    iteration: tuple[int, ...]
    parents: tuple[Link, ...]
    facts: Facts | None = None
    constant: bool = False


class Cell:
    """A value. `arguments` and `counted` are bit sets: the arguments it depends on, the counted leaves it tells of.

    A cell that depends on no argument is a constant of the program. `links` are those that its non-finite elements come
    by, by number; `owner` says which of them all do, or `owners` which of them each does.
    """

    __slots__ = ("_masks", "_owner", "_owners", "arguments", "counted", "every", "has_inf", "has_nan", "links", "value")

    def __init__(self, value: Any, arguments: int = 0, counted: int = 0) -> None:
        self.value = value
        self.arguments = arguments
        self.counted = counted
        self.links: dict[int, Link] = {}
        self._owner: int | None = None
        self._owners: Any = None
        self._masks: dict[Kind, Any] = {}
        self.has_nan = self.has_inf = False
        self.every: Kind | None = None
        """The kind that each element is, where one kind is everywhere: then no mask is kept, and none is looked at."""
        if is_inexact(value):
            host = np.asarray(value)
            finite = np.isfinite(host)
            if not finite.all():
                self._look(host, finite)

    def _look(self, host: Any, finite: Any) -> None:
        nan = np.isnan(host)
        nans, infs = int(np.count_nonzero(nan)), host.size - int(np.count_nonzero(finite))
        infs -= nans
        self.has_nan, self.has_inf = nans > 0, infs > 0
        if nans == host.size or infs == host.size:
            self.every = "nan" if nans else "inf"
        elif nans:
            self._masks["nan"] = nan

    @property
    def finite(self) -> bool:
        return not (self.has_nan or self.has_inf)

    def has(self, kind: Kind) -> bool:
        return self.has_nan if kind == "nan" else self.has_inf

    def mask(self, kind: Kind) -> Any:
        """A boolean array of the value's shape: where it is NaN, or infinite. Not to be written to."""
        if not self.has(kind) or self.every is not None:
            return np.broadcast_to(self.has(kind), np.shape(self.value))
        if kind not in self._masks:
            # A complex element with a NaN part is NaN, whatever the other part is.
            self._masks[kind] = np.isinf(np.asarray(self.value)) & ~self.mask("nan")
        return self._masks[kind]

    @property
    def owner(self) -> int | None:
        """The number that `owners` has at every non-finite element; None where it has different ones."""
        if self._owner is None and self._owners is None and not (self.has_nan and self.has_inf and not self.arguments):
            self._owner = NAN_CONSTANT if self.has_nan and not self.arguments else 0
        return self._owner

    @property
    def owners(self) -> Any:
        """int32 of the value's shape: a link's number; 0 where finite, deliberate or come in; `NAN_CONSTANT`."""
        if self._owners is not None:
            return self._owners
        if self.owner is None:
            return np.where(self.mask("nan"), np.int32(NAN_CONSTANT), np.int32(0))
        return np.where(self.mask("nan") | self.mask("inf"), np.int32(self.owner), np.int32(0))

    def own(self, owners: Any, links: Mapping[int, Link]) -> None:
        """Says which links the elements come by, all by one number or each; of those given, the owning ones are kept."""
        if isinstance(owners, int):
            self._owner, self._owners = owners, None
            self.links = {owners: links[owners]} if owners > 0 else {}
            return
        bad = owners if self.every is not None else owners[self.mask("nan") | self.mask("inf")]
        lowest = min(int(bad.min()), 0)
        present = (np.flatnonzero(np.bincount((bad - lowest).ravel())) + lowest).tolist()
        self.links = {number: links[number] for number in present if number > 0}
        self._owner, self._owners = (present[0], None) if len(present) == 1 else (None, owners)

    def part(self, value: Any, owners: Any) -> Cell:
        """A cell of some of this value's elements, or of all in another form, with the owners of each."""
        cell = Cell(value, self.arguments, self.counted)
        if not cell.finite:
            cell.own(owners if isinstance(owners, int) else np.asarray(owners), self.links)
        return cell


def is_inexact(value: Any) -> bool:
    """Whether a value has a dtype with NaN or Inf. Keys, float0, integers and tokens have not."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, float | complex)
    return bool(dtype != jax.dtypes.float0 and jnp.issubdtype(dtype, jnp.inexact))
