"""States and consensus of a distributed run."""

from itertools import pairwise

from .records import RuntimeStage
from .text import Refused

FORWARD = list(RuntimeStage)[:10]
ALLOWED = set(pairwise(FORWARD))
ALLOWED |= {(now, RuntimeStage.ABORTING) for now in FORWARD[:9]}
ALLOWED |= {(RuntimeStage.ABORTING, RuntimeStage.ABORTED), (RuntimeStage.ABORTING, RuntimeStage.QUARANTINED)}


def advance_stage(current, requested):
    # Members equal their strings, which are refused.
    if {type(current), type(requested)} != {RuntimeStage} or (current, requested) not in ALLOWED:
        raise Refused("transition")
    return requested


def validate_inventory_consensus(identity, inventories):
    same_world = all(one.world_size == identity.world_size for one in inventories)
    agreed = (
        same_world
        and sorted(one.rank for one in inventories) == list(range(identity.world_size))
        and len({(one.host_digest, one.device_digest) for one in inventories}) == len(inventories)
        and len({(one.host_digest, one.local_rank) for one in inventories}) == len(inventories)
        and len({one.software_digest for one in inventories}) == 1
        and len({one.storage_digest for one in inventories}) == 1
    )
    if not agreed:
        raise Refused("consensus")
