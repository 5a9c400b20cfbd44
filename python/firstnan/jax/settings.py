"""What the training loop was asked, checked before the first step is spent."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax

from firstnan import NonfinitePolicy, TrainingIncidentContract
from firstnan.arguments import checked_integer, checked_path, refused_argument, shown_name
from firstnan.jax.history import StepSummary
from firstnan.jax.peers import Peers
from firstnan.jax.policy import checked_policy
from firstnan.jax.verdict import ContractOf

Step = Callable[[Any, Any], tuple[Any, ...]]
OnStep = Callable[[StepSummary, Mapping[str, Any]], object]

# The largest step id of a contract (schemas/v1/common.json, step).
MAX_STEP: Final = 10**12
_MAX_COUNT: Final = 2**63 - 1


class Settings(NamedTuple):
    """The arguments of `run` that a restart may change."""

    step: Step
    contract: TrainingIncidentContract | ContractOf
    bundle_dir: Path
    every: int
    history: int
    on_step: OnStep | None
    skip: Container[int]
    policy: NonfinitePolicy | None
    peers: Peers | None


def checked_settings(
    *,
    step: Any,
    contract: Any,
    bundle_dir: Any,
    every: Any,
    history: Any,
    on_step: Any,
    skip: Any,
    policy: Any,
    peers: Any,
) -> Settings:
    """The settings, each of its type and in its bounds.

    Raises:
        ContractError: one is not; it is named.
    """
    if not callable(step):
        raise refused_argument("step", "type", "has the wrong type", "callable")
    if not isinstance(contract, TrainingIncidentContract) and not callable(contract):
        raise refused_argument("contract", "type", "has the wrong type", "TrainingIncidentContract or callable")
    if on_step is not None and not callable(on_step):
        raise refused_argument("on_step", "type", "has the wrong type", "callable or None")
    if not isinstance(skip, Container) or isinstance(skip, str | bytes | bytearray):
        raise refused_argument("skip", "type", "has the wrong type", "container of integers")
    if peers is not None and not isinstance(peers, Peers):
        raise refused_argument("peers", "type", "has the wrong type", "Peers or None")
    settings = Settings(
        step,
        contract,
        checked_path("bundle_dir", bundle_dir),
        checked_integer("every", every, 1, _MAX_COUNT),
        checked_integer("history", history, 1, _MAX_COUNT),
        on_step,
        skip,
        checked_policy(policy),
        peers,
    )
    if settings.peers and settings.policy and settings.policy.maximum_consecutive_skips and settings.every > 1:
        # Which steps are run again to check a skip would differ between the processes.
        raise refused_argument("every", "maximum", "is above what several processes with skips can have", "1")
    return settings


def changed_settings(settings: Settings, changes: dict[str, Any]) -> Settings:
    """The settings with some changed.

    Raises:
        ContractError: a name is not one of theirs, or a value is not as it must be.
    """
    for name in changes:
        if name not in Settings._fields:
            words = "is not an argument that a restart can change"
            raise refused_argument(shown_name(name), "unknown_name", words, ", ".join(Settings._fields))
    return checked_settings(**settings._asdict() | changes)


def check_start(state: Any, batches: Any) -> None:
    """Looks at what a run starts with, as far as that costs nothing.

    Raises:
        ContractError: the state is no pytree; the batches cannot be iterated over.
    """
    if not isinstance(batches, Iterable) and not hasattr(batches, "__getitem__"):
        raise refused_argument("batches", "type", "has the wrong type", "iterable")
    try:
        jax.tree.leaves(state)
    except (ValueError, TypeError):
        raise refused_argument("state", "type", "cannot be taken apart", "pytree, its dicts with keys of one type") from None
