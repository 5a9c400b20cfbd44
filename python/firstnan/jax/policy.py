"""What a run declares as expected (`NonfinitePolicy`), applied to counts. Needs neither jax nor numpy.

A policy takes elements out of what is triaged, and never silently: each exclusion is kept with its leaf and its counts,
stands in the bundle, and is part of the evidence's identity (through `tensor_set_id`, which names what was triaged).
Elements that equal an integer which means missing are counted where the leaf is, by `count_stages(policy=…)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from firstnan import ContractError, LeafRole, NonfinitePolicy, contract_digest
from firstnan.jax.fields import checked_fields
from firstnan.jax.formats import INTEGERS
from firstnan.jax.tally import LeafCount, Tally

_FIELDS: dict[str, tuple[type, ...]] = {
    "stage": (str,),
    "path": (str,),
    "nan": (int,),
    "positive_infinity": (int,),
    "negative_infinity": (int,),
}
_MISSING_FIELDS: dict[str, tuple[type, ...]] = {"missing": (int,)}


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Elements of one leaf that a policy calls intended, non-finite or `missing`: counted, and not triaged."""

    stage: str
    path: str
    nan: int
    positive_infinity: int
    negative_infinity: int
    missing: int = 0

    @property
    def nonfinite(self) -> int:
        return self.nan + self.positive_infinity + self.negative_infinity

    @property
    def elements(self) -> int:
        return self.nonfinite + self.missing

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields; what is missing is told where there is some."""
        return {name: getattr(self, name) for name in _FIELDS} | ({"missing": self.missing} if self.missing else {})

    @classmethod
    def from_json(cls, value: Any) -> Exclusion:
        """The inverse of `to_json`.

        Raises:
            ContractError: the object is of another form.
        """
        missing = isinstance(value, dict) and "missing" in value
        return cls(**checked_fields(value, _FIELDS | _MISSING_FIELDS if missing else _FIELDS))


@dataclass(frozen=True, slots=True)
class Triaged:
    """The counts that are triaged, and what a policy took out of them."""

    tally: Tally
    excluded: tuple[Exclusion, ...]
    policy_digest: str | None


def apply_policy(tally: Tally, policy: NonfinitePolicy | None) -> Triaged:
    """Takes the intended non-finite elements and the missing ones out of the counts of the leaves that the policy names.

    An excluded element is no longer checked, so that checked stays finite plus non-finite. A kind of a leaf that no
    entry names stays as it was counted. What is missing is taken out where it was counted (`check_missing_counted`).

    Args:
        tally: every leaf's counts, as measured.
        policy: what is expected; None changes nothing.
    """
    if policy is None:
        return Triaged(tally, (), None)
    leaves, excluded = [], []
    for leaf in tally.leaves:
        out = _intended(leaf, policy)
        if out.elements:
            excluded.append(out)
            leaf = replace(
                leaf,
                checked=leaf.checked - out.elements,
                nan=leaf.nan - out.nan,
                positive_infinity=leaf.positive_infinity - out.positive_infinity,
                negative_infinity=leaf.negative_infinity - out.negative_infinity,
                missing=leaf.missing - out.missing,
            )
        leaves.append(leaf)
    return Triaged(Tally(tuple(leaves), tally.stages), tuple(excluded), contract_digest(policy))


def role_of(path: str, policy: NonfinitePolicy | None) -> LeafRole:
    """What a leaf of the state is to the step: as the first entry that matches says, else `LeafRole.STATE`."""
    for entry in policy.roles if policy else ():
        if matches(entry.path, path):
            return entry.role
    return LeafRole.STATE


def may_change_in_a_skip(path: str, policy: NonfinitePolicy) -> bool:
    """Whether a skipped step may change this leaf of the state."""
    return any(matches(pattern, path) for pattern in policy.skip_may_change)


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern names a leaf: `*` is any run of characters, everything else is itself."""
    start, *rest = pattern.split("*")
    if not rest:
        return pattern == path
    if not path.startswith(start):
        return False
    at = len(start)
    for part in rest[:-1]:
        # The earliest place leaves most for what follows.
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(path) - at >= len(rest[-1]) and path.endswith(rest[-1])


def missing_values(policy: NonfinitePolicy | None, stage: str, path: str, dtype: str) -> tuple[int, ...]:
    """The integers that a policy calls missing in a leaf, ascending; none in a leaf that is not of integers."""
    if policy is None or not holds_integers(dtype):
        return ()
    return tuple(sorted({entry.value for entry in policy.missing if entry.stage == stage and matches(entry.path, path)}))


def holds_integers(dtype: str) -> bool:
    """Whether a leaf of this dtype can hold an integer that means missing; a boolean cannot."""
    return dtype in INTEGERS and dtype != "bool"


def _intended(leaf: LeafCount, policy: NonfinitePolicy) -> Exclusion:
    named = [entry for entry in policy.expected if entry.stage == leaf.stage and matches(entry.path, leaf.path)]
    return Exclusion(
        leaf.stage,
        leaf.path,
        leaf.nan if any(entry.nan for entry in named) else 0,
        leaf.positive_infinity if any(entry.positive_infinity for entry in named) else 0,
        leaf.negative_infinity if any(entry.negative_infinity for entry in named) else 0,
        leaf.missing if leaf.missing_values == missing_values(policy, leaf.stage, leaf.path, leaf.dtype) else 0,
    )


def check_missing_counted(tally: Tally, policy: NonfinitePolicy | None) -> None:
    """Refuses counts that were made without the integers that the policy calls missing, or with others.

    Raises:
        ContractError: they were; the leaf is named.
    """
    for leaf in tally.leaves:
        wanted = missing_values(policy, leaf.stage, leaf.path, leaf.dtype)
        if wanted and wanted != leaf.missing_values:
            raise ContractError(
                f"the policy calls {[*wanted]} missing in the {leaf.stage} leaf {leaf.path!r}, and "
                f"{[*leaf.missing_values] or 'nothing'} was counted there as missing: give count_stages this policy"
            )


def unused_entries(policy: NonfinitePolicy, tally: Tally) -> tuple[str, ...]:
    """The paths of entries that name no leaf of a measured stage; a misspelt path hides nothing, so it is told."""
    entries = [(entry.stage, entry.path, False) for entry in policy.expected]
    entries += [(entry.stage, entry.path, True) for entry in policy.missing]

    def named(stage: str, path: str, integers: bool) -> bool:
        leaves = (leaf for leaf in tally.leaves if leaf.stage == stage and matches(path, leaf.path))
        return any(not integers or holds_integers(leaf.dtype) for leaf in leaves)

    return tuple(
        f"{stage}: {path}" for stage, path, integers in entries if stage in tally.stages and not named(stage, path, integers)
    )


def checked_policy(policy: object) -> NonfinitePolicy | None:
    """The policy itself.

    Raises:
        ContractError: it is no `NonfinitePolicy`.
    """
    if policy is None or type(policy) is NonfinitePolicy:
        return policy
    raise ContractError("policy must be a NonfinitePolicy", kind="type", layer="shape", pointer="/policy",
                        bound="NonfinitePolicy", record="nonfinite-policy")
