"""Which device of a mesh held a non-finite element, before a reduction over the mesh spread it to all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from firstnan import STAGES, IncidentObservation, NonfinitePolicy
from firstnan.jax.counts import StageCounts, count_stages
from firstnan.jax.reductions import ShardsSeen, observe_reduction, shards_seen
from firstnan.jax.tally import Tally


@dataclass(frozen=True, slots=True)
class Shard:
    """What one device holds. `device` is JAX's device id; `coordinates` its place along each mesh axis, by name."""

    device: int
    coordinates: Mapping[str, int]
    tally: Tally

    @property
    def nonfinite(self) -> bool:
        return self.tally.first_nonfinite is not None


@dataclass(frozen=True, slots=True)
class BeforeReduction:
    """Where non-finite elements were first seen: on `shards`, in the `reduce` after them, or nowhere (None)."""

    first_seen: Literal["shard", "reduce"] | None
    shards: tuple[Shard, ...]


def count_shards(
    *, mesh: Mesh, specs: PartitionSpec | Mapping[str, Any], policy: NonfinitePolicy | None = None, **stages: Any
) -> StageCounts:
    """`count_stages` of each shard by itself, for use inside `jit`. No value leaves its device, only counts do.

    Args:
        mesh: whose devices hold the shards.
        specs: how the leaves lie on the mesh: one PartitionSpec for all, or for each stage given a PartitionSpec or a
            pytree of them that is a prefix of the stage's. What lies otherwise is moved there first.
        policy: as `count_stages` takes it.
        stages: as `count_stages` takes them.

    Returns:
        Counts stacked along one axis, in the order of `mesh.devices`: `data` is uint32[mesh.size, leaves, 8]. A leaf
        that is whole on several devices is counted on each.

    Raises:
        TypeError: no such stage, or a leaf that is no array or number.
        ValueError: a stage without specs, or specs that do not fit its leaves.
    """
    unknown = sorted(set(stages) - set(STAGES))
    if unknown:
        raise TypeError(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
    given = {name: tree for name, tree in stages.items() if tree is not None}
    if isinstance(specs, PartitionSpec):
        laid = dict.fromkeys(given, specs)
    else:
        missing = sorted(set(given) - set(specs))
        if missing:
            raise ValueError(f"no specs for the stage {', '.join(missing)}")
        laid = {name: specs[name] for name in given}

    def local(trees: dict[str, Any]) -> StageCounts:
        return stacked_shard(count_stages(**trees, policy=policy))

    every = PartitionSpec(tuple(mesh.axis_names))  # type: ignore[no-untyped-call]
    counted: StageCounts = jax.shard_map(local, mesh=mesh, in_specs=(laid,), out_specs=every)(given)
    return counted


def stacked_shard(counts: StageCounts) -> StageCounts:
    """Counts made inside your own `shard_map`, ready to leave it with `out_specs=P(mesh.axis_names)`."""
    return replace(counts, data=counts.data[None])


def each_shard(counts: StageCounts, mesh: Mesh) -> tuple[Shard, ...]:
    """The counts of every device of a mesh, from `count_shards` or `stacked_shard`. Waits for the device.

    Raises:
        ValueError: the counts are not stacked along one axis of `mesh.size`.
    """
    if np.ndim(counts.data) != 3 or counts.data.shape[0] != mesh.size:
        raise ValueError(
            f"counts of {mesh.size} shards have the shape ({mesh.size}, leaves, 8), these have {np.shape(counts.data)}"
        )
    return tuple(
        Shard(device.id, _coordinates(mesh, place), one.to_host())
        for place, (device, one) in enumerate(zip(mesh.devices.flat, counts.unstack(), strict=True))
    )


def seen_shards(counts: StageCounts) -> tuple[tuple[Shard, ...], int]:
    """The shards whose counts this process holds, and how many there are: of counts as they left `jit`. Waits for the device.

    Raises:
        ValueError: the counts are not of one shard a device, still on these devices, nor copied whole to all of them.
    """
    data, sharding = counts.data, getattr(counts.data, "sharding", None)
    mesh = sharding.mesh if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh) else None
    if np.ndim(data) == 3 and mesh is not None and data.shape[0] == mesh.size and data.is_fully_replicated:
        host = replace(counts, data=np.asarray(data.addressable_data(0)))
        return each_shard(host, mesh), mesh.size
    parts = [] if sharding is None or np.ndim(data) != 3 else data.addressable_shards
    if not parts or any(part.data.shape[0] != 1 for part in parts):
        raise ValueError("these are not the counts of one shard a device, as count_shards gives them inside jit")
    places = {} if mesh is None else {device: _coordinates(mesh, n) for n, device in enumerate(mesh.devices.flat)}
    seen = [
        Shard(part.device.id, places.get(part.device, {}), replace(counts, data=np.asarray(part.data)[0]).to_host())
        for part in sorted(parts, key=lambda part: part.index[0].start or 0)
    ]
    return tuple(seen), data.shape[0]


def bad_shards(counts: StageCounts, mesh: Mesh) -> tuple[Shard, ...]:
    """Those of `each_shard(counts, mesh)` that hold a NaN or an infinity."""
    return tuple(shard for shard in each_shard(counts, mesh) if shard.nonfinite)


def shards_of(array: jax.Array) -> tuple[Shard, ...]:
    """Counts of the parts of an array that this process holds, one a device, outside `jit`.

    The stage is called `forward` for want of another. Coordinates are those of the array's mesh, none without one.

    Raises:
        TypeError: no JAX array.
    """
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        raise TypeError(f"shards_of takes a JAX array outside jit, this is a {type(array).__name__}")
    mesh = array.sharding.mesh if isinstance(array.sharding, NamedSharding) else None
    places = {device: place for place, device in enumerate(mesh.devices.flat)} if isinstance(mesh, Mesh) else {}
    return tuple(
        Shard(
            part.device.id,
            _coordinates(mesh, places[part.device]) if isinstance(mesh, Mesh) else {},
            count_stages(forward=part.data).to_host(),
        )
        for part in array.addressable_shards
    )


def before_reduction(before: Sequence[Shard], after: Tally) -> BeforeReduction:
    """Compares the shards that entered a reduction over the mesh with what came out of it.

    Non-finite on some shard: first seen there. Finite on every shard and not after: first seen in the reduction, a sum
    beyond the format for one, and no shard is to be named.
    """
    bad = tuple(shard for shard in before if shard.nonfinite)
    if bad:
        return BeforeReduction("shard", bad)
    return BeforeReduction(None if after.first_nonfinite is None else "reduce", ())


def around_reduction(aux: Mapping[str, Any], counts: Tally) -> tuple[ShardsSeen | None, list[IncidentObservation]]:
    """What the aux of a step tells of its shards before a reduction, and what that supports; see `firstnan.jax.reductions`.

    Counts that tell of no device are warned of and left out: the run is held already, and this only stands beside it.
    """
    if aux.get("before_reduction") is None:
        return None, []
    try:
        shards, in_mesh = seen_shards(aux["before_reduction"])
    except ValueError as error:
        warnings.warn(f"before_reduction is left out: {error}", stacklevel=2)
        return None, []
    after = counts if (told := aux.get("after_reduction")) is None else told.to_host()
    return shards_seen(shards, in_mesh), observe_reduction(shards, in_mesh, after)


def _coordinates(mesh: Mesh, place: int) -> dict[str, int]:
    indices = np.unravel_index(place, mesh.devices.shape)
    return {name: int(index) for name, index in zip(mesh.axis_names, indices, strict=True)}
