"""What a step's shards held before a reduction over its mesh, beside what came out of the reduction.

A step tells it in its aux: `before_reduction` holds the counts of each shard, as `count_shards` or `stacked_shard` makes
them; `after_reduction` those of the reduced leaves, or else the step's own counts are taken for these. A leaf is the same
before and after if it has the same stage and path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from firstnan import ContractError, IncidentObservation, ObservationWord
from firstnan.jax.fields import checked_fields
from firstnan.jax.tally import LeafCount, Tally

if TYPE_CHECKING:
    from firstnan.jax.shards import Shard

MAX_SHARDS: Final = 64
"""The most bad shards that a bundle tells of one by one."""


@dataclass(frozen=True, slots=True)
class BadShard:
    """A device whose shard held non-finite elements, and the leaves that did. As `Shard`, with the bad leaves only."""

    device: int
    coordinates: Mapping[str, int]
    leaves: tuple[LeafCount, ...]


@dataclass(frozen=True, slots=True)
class ShardsSeen:
    """The shards that this process saw of `in_mesh`: `bad` of `seen` held non-finite elements, the first of them listed."""

    in_mesh: int
    seen: int
    bad: int
    listed: tuple[BadShard, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields."""
        listed = [
            {"device": one.device, "coordinates": dict(one.coordinates), "leaves": [leaf.to_json() for leaf in one.leaves]}
            for one in self.listed
        ]
        return {"in_mesh": self.in_mesh, "seen": self.seen, "bad": self.bad, "listed": listed}

    @classmethod
    def from_json(cls, value: Any) -> ShardsSeen:
        """The inverse of `to_json`.

        Raises:
            ContractError: the object is of another form.
        """
        fields = checked_fields(value, {"in_mesh": (int,), "seen": (int,), "bad": (int,), "listed": (list,)})
        listed = tuple(map(_bad_shard, fields["listed"]))
        if not len(listed) == min(fields["bad"], MAX_SHARDS) <= fields["bad"] <= fields["seen"] <= fields["in_mesh"]:
            raise ContractError("/listed, /bad, /seen and /in_mesh must be in this order, and the bad ones listed")
        return cls(**fields | {"listed": listed})


def _bad_shard(value: Any) -> BadShard:
    fields = checked_fields(value, {"device": (int,), "coordinates": (dict,), "leaves": (list,)})
    checked_fields(fields["coordinates"], dict.fromkeys(fields["coordinates"], (int,)))
    leaves = tuple(map(LeafCount.from_json, fields["leaves"]))
    if not leaves or not all(0 < leaf.nonfinite <= leaf.checked for leaf in leaves):
        raise ContractError("/leaves must be the ones with non-finite elements")
    return BadShard(fields["device"], fields["coordinates"], leaves)


def shards_seen(shards: Sequence[Shard], in_mesh: int) -> ShardsSeen:
    """Of all the shards of a mesh that were seen, what a bundle keeps."""
    bad = [shard for shard in shards if shard.nonfinite]
    listed = (
        BadShard(shard.device, shard.coordinates, tuple(leaf for leaf in shard.tally.leaves if leaf.nonfinite))
        for shard in bad[:MAX_SHARDS]
    )
    return ShardsSeen(in_mesh, len(shards), len(bad), tuple(listed))


def observe_reduction(shards: Sequence[Shard], in_mesh: int, after: Tally) -> list[IncidentObservation]:
    """Of each leaf whose reduced value is not finite, whether some shards were before, or all of them.

    Where other processes hold shards that were not seen here, it is said only if the shards seen decide it.
    """
    reduced = {(leaf.stage, leaf.path): leaf for leaf in after.leaves if leaf.nonfinite}
    found = []
    for number, leaf in enumerate(shards[0].tally.leaves if shards else ()):
        result = reduced.get((leaf.stage, leaf.path))
        if result is None:
            continue
        bad = [count for shard in shards if (count := shard.tally.leaves[number].nonfinite)]
        if bad and len(bad) < len(shards):
            found.append(_of(ObservationWord.SPREAD_BY_REDUCTION, leaf, sum(bad)))
        elif not bad and len(shards) == in_mesh:
            found.append(_of(ObservationWord.FIRST_AFTER_REDUCTION, leaf, result.nonfinite))
    return found


def _of(word: ObservationWord, leaf: LeafCount, elements: int) -> IncidentObservation:
    return IncidentObservation(word=word, stage=leaf.stage, role=None, path=leaf.path[:1024], elements=elements)  # type: ignore[arg-type]
