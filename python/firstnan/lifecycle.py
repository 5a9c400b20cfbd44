"""The distributed run's lifecycle: which state follows which, and what the ranks must agree on before they start."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from firstnan import _core
from firstnan._generated.records import RankInventory, RunIdentity, RuntimeStage
from firstnan.errors import ContractError

FORWARD: Final = (
    RuntimeStage.CREATED,
    RuntimeStage.PREFLIGHTED,
    RuntimeStage.LOADED,
    RuntimeStage.PROBED,
    RuntimeStage.DISTILLED,
    RuntimeStage.PREPARED,
    RuntimeStage.MUTATING,
    RuntimeStage.VERIFIED,
    RuntimeStage.STAGED,
    RuntimeStage.PUBLISHED,
)
TRANSITIONS: Final[dict[RuntimeStage, frozenset[RuntimeStage]]] = {
    **{now: frozenset((after, RuntimeStage.ABORTING)) for now, after in pairwise(FORWARD)},
    RuntimeStage.ABORTING: frozenset((RuntimeStage.ABORTED, RuntimeStage.QUARANTINED)),
    RuntimeStage.PUBLISHED: frozenset(),
    RuntimeStage.ABORTED: frozenset(),
    RuntimeStage.QUARANTINED: frozenset(),
}
"""What may follow each state; published, aborted and quarantined are terminal."""


def advance_stage(current: RuntimeStage, requested: RuntimeStage) -> RuntimeStage:
    """`requested`, if it may follow `current`.

    Raises:
        ContractError: it may not, or an argument is not a RuntimeStage (a plain string is refused).
    """
    for name, value in (("current", current), ("requested", requested)):
        if type(value) is not RuntimeStage:
            raise ContractError(f"/{name} has the wrong type [type: RuntimeStage]",
                                kind="type", layer="shape", pointer=f"/{name}", bound="RuntimeStage")
    if requested not in TRANSITIONS[current]:
        allowed = ", ".join(sorted(stage.value for stage in TRANSITIONS[current])) or "nothing: it is terminal"
        raise ContractError(f"{requested.value} cannot follow {current.value} [transition: {allowed}]",
                            kind="transition", layer="rule", pointer="/requested", bound=allowed)
    return requested


def validate_inventory_consensus(identity: RunIdentity, inventories: tuple[RankInventory, ...]) -> None:
    """Refuses a run whose ranks do not agree.

    The ranks cover 0 to world_size - 1, each with the identity's world_size; pairs (host, device) and (host,
    local rank) are unique; there is one software digest and one storage digest.

    Args:
        identity: what the run is made of.
        inventories: one for each rank, in any order.

    Raises:
        ContractError: they do not agree, or an argument is not of its class; the message names the first rank that
            differs and never a digest.
    """
    _core.validate_inventory_consensus(identity, inventories)
