"""Carrying out one equation: as it stands, or inside shard_map on every shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn
from jax.sharding import PartitionSpec


class Plain:
    """Outside shard_map a value is itself."""

    lead = 0
    sharded = False

    def bind(self, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
        """The outputs of an equation whose parameters stand for themselves."""
        return _bind(eqn, values)

    def lift(self, value: Any) -> Any:
        """A constant in the form that values have here."""
        return value

    def agreed(self, value: Any) -> Any:
        """A scalar as a Python number; None where shards, or the lanes of a vmap, may disagree."""
        return np.asarray(value).item() if np.ndim(value) == 0 else None


class Sharded:
    """Inside shard_map a value is one array of all shards: its first `lead` axes are those of the mesh."""

    sharded = True

    def __init__(self, eqn: JaxprEqn) -> None:
        self.mesh = eqn.params["mesh"]
        manual = eqn.params["newly_manual_axes"]
        self.axes = tuple(name for name in self.mesh.axis_names if name in manual)
        self.sizes = tuple(self.mesh.shape[name] for name in self.axes)
        self.lead = len(self.axes)
        self._in, self._out = eqn.params["in_specs"], eqn.params["out_specs"]

    def enter(self, values: Sequence[Any]) -> list[Any]:
        """Arrays outside to arrays of shards."""
        return self._map(lambda *xs: tuple(map(self._add_axes, xs)), values, self._in, self._spread(len(values)), False)

    def leave(self, values: Sequence[Any]) -> list[Any]:
        """Arrays of shards to arrays outside."""
        return self._map(lambda *xs: tuple(x[(0,) * self.lead] for x in xs), values, self._spread(len(values)), self._out, False)

    def bind(self, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
        if eqn.primitive.name in ("pvary", "pcast"):
            # Here every value differs from shard to shard already, as far as the types go.
            return list(values)

        def local(*xs: Any) -> tuple[Any, ...]:
            return tuple(map(self._add_axes, _bind(eqn, [x[(0,) * self.lead] for x in xs])))

        return self._map(local, values, self._spread(len(values)), self._spread(len(eqn.outvars)))

    def lift(self, value: Any) -> Any:
        return jnp.broadcast_to(jnp.asarray(value), self.sizes + np.shape(value))

    def agreed(self, value: Any) -> Any:
        different = set(np.asarray(value).ravel().tolist())
        return different.pop() if len(different) == 1 else None

    def _add_axes(self, x: Any) -> Any:
        return jnp.expand_dims(x, tuple(range(self.lead)))

    def _spread(self, count: int) -> tuple[PartitionSpec, ...]:
        return (PartitionSpec(*self.axes),) * count  # type: ignore[no-untyped-call]

    def _map(self, local: Callable[..., Any], values: Sequence[Any], ins: Any, outs: Any, typed: bool = True) -> list[Any]:
        # Entering and leaving a replicated value is an array of equal shards, which the types do not allow; the
        # collectives in between insist on them.
        mapped = jax.shard_map(local, mesh=self.mesh, in_specs=ins, out_specs=outs, axis_names=set(self.axes), check_vma=typed)
        return list(jax.jit(mapped)(*values))


Execution = Plain | Sharded


def _bind(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    params = eqn.params
    if "donated_invars" in params:
        # The walk still needs what the step would give away.
        params = params | {"donated_invars": (False,) * len(params["donated_invars"])}
    with eqn.ctx.manager:
        outs = eqn.primitive.bind(*values, **params)  # type: ignore[no-untyped-call]
    return list(outs) if eqn.primitive.multiple_results else [outs]
