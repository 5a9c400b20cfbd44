"""States and the consensus of the ranks, on random input: the package and the second implementation agree."""

from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st

import firstnan
from properties.outcome import REFUSED, of_package, of_reference
from properties.records import ANY, pick
from reference import lifecycle, records

MEMBERS = st.sampled_from(list(firstnan.RuntimeStage))


class Look(str):
    """Equal to the state's text, and no state."""


STRANGERS = st.one_of(MEMBERS.map(lambda stage: stage.value), MEMBERS.map(lambda stage: Look(stage.value)),
                      st.sampled_from([*firstnan.Vote, *records.RuntimeStage, None, 0, (), "CREATED"]))  # fmt: skip


@settings(max_examples=2 * settings.default.max_examples)
@given(MEMBERS, MEMBERS)
def test_advance_stage(current, requested):
    ours = of_package(firstnan.advance_stage, current, requested)
    theirs = of_reference(lifecycle.advance_stage, *[records.RuntimeStage(stage.value) for stage in (current, requested)])
    assert ours == theirs
    assert ours == REFUSED or ours is requested


@given(st.lists(MEMBERS, max_size=30))
def test_no_walk_leaves_a_terminal_state(requests):
    current = firstnan.RuntimeStage.CREATED
    terminal = {firstnan.RuntimeStage.PUBLISHED, firstnan.RuntimeStage.ABORTED, firstnan.RuntimeStage.QUARANTINED}
    for requested in requests:
        after = of_package(firstnan.advance_stage, current, requested)
        if after != REFUSED:
            assert current not in terminal
            assert current is not requested
            current = after


@given(MEMBERS, STRANGERS)
def test_what_is_no_state_is_refused(stage, stranger):
    for pair in [(stage, stranger), (stranger, stage), (stranger, stranger)]:
        assert of_package(firstnan.advance_stage, *pair) == REFUSED


DIGESTS = [character * 64 for character in "abcdef"]


@st.composite
def ranks(draw):
    """The inventories of a run as plain dicts: one for each rank, agreeing but for what is spoiled."""
    world = draw(st.integers(2, 6))
    per_host = draw(st.integers(1, world))
    inventories = [
        {
            "rank": rank, "local_rank": rank % per_host, "world_size": world,
            "host_digest": DIGESTS[rank // per_host], "device_digest": DIGESTS[rank % per_host], "device_kind": "cuda",
            "total_memory_bytes": 8, "free_memory_bytes": 8 - rank, "software_digest": DIGESTS[0], "storage_digest": DIGESTS[1],
        }
        for rank in range(world)
    ]  # fmt: skip
    for at in draw(st.lists(ANY, max_size=2)):
        spoil(draw, inventories, at)
    return world, draw(st.permutations(inventories))


def spoil(draw, inventories, at):
    """Drops or doubles an inventory, or gives it a value of another one or of none."""
    one = pick(inventories, at)
    name = draw(st.sampled_from([*one, "host_digest", "rank", "drop", "twice"]))
    if name == "drop":
        inventories.remove(one)
    elif name == "twice":
        inventories.append(dict(one))
    elif isinstance(one[name], int):
        one[name] = max(1 if name.startswith(("total", "world")) else 0, one[name] + draw(st.integers(-1, 1)))
    else:
        one[name] = draw(st.sampled_from(["cpu", "cuda"] if name == "device_kind" else DIGESTS))
    if not inventories:
        inventories.append(one)


def run_identity(cls, world):
    return cls("0" * 32, *DIGESTS[:4], "1" * 40, world)


def made(cls, values):
    """The records, or REFUSED: a spoiled inventory may break a rule of its own."""
    make = of_package if cls is firstnan.RankInventory else of_reference
    return make(lambda: tuple(cls(**each) for each in values))


def test_consensus():
    seen = set()

    @settings(max_examples=2 * settings.default.max_examples)
    @given(ranks())
    def each(case):
        world, values = case
        ours, theirs = made(firstnan.RankInventory, values), made(records.RankInventory, values)
        assert (ours == REFUSED) == (theirs == REFUSED)
        if ours == REFUSED:
            return
        verdict = of_package(firstnan.validate_inventory_consensus, run_identity(firstnan.RunIdentity, world), ours)
        assert verdict == of_reference(lifecycle.validate_inventory_consensus, run_identity(records.RunIdentity, world), theirs)
        seen.add(verdict)

    each()
    assert seen == {None, REFUSED}


class Inventory(firstnan.RankInventory):
    """A subclass is not the class."""


def agreeing(world):
    return tuple(
        firstnan.RankInventory(rank, rank, world, DIGESTS[0], f"{rank:064x}", "cpu", 9, 0, DIGESTS[1], DIGESTS[2])
        for rank in range(world)
    )


OTHER_SHAPES = [
    list,
    iter,
    lambda all: all[0],
    lambda _: None,
    lambda all: (*all[:-1], Inventory(**vars(all[-1]))),
    lambda all: (*all[:-1], records.RankInventory(**vars(all[-1]))),
    lambda all: (*all[:-1], vars(all[-1])),
]


@given(st.integers(2, 9), st.sampled_from(OTHER_SHAPES))
def test_consensus_takes_a_tuple_of_exactly_its_records(world, reshape):
    identity, inventories = run_identity(firstnan.RunIdentity, world), agreeing(world)
    assert of_package(firstnan.validate_inventory_consensus, identity, inventories) is None
    assert of_package(firstnan.validate_inventory_consensus, identity, reshape(inventories)) == REFUSED
    for look_alike in (run_identity(records.RunIdentity, world), None, vars(identity)):
        assert of_package(firstnan.validate_inventory_consensus, look_alike, inventories) == REFUSED


@given(st.integers(2, 5), ANY, ANY, st.sampled_from([True, -1, 2**63, "a" * 63, "A" * 64, "a" * 64 + "\n", None, 1.0]))
def test_consensus_sees_a_forced_field(world, at, which, value):
    inventories, identity = agreeing(world), run_identity(firstnan.RunIdentity, world)
    target = pick([identity, *inventories], at)
    name = pick(fields(target), which).name
    object.__setattr__(target, name, value)
    # `True` is no integer, and nothing else here is in any field's range.
    assert of_package(replace, target) == REFUSED
    assert of_package(firstnan.validate_inventory_consensus, identity, inventories) == REFUSED


def test_the_largest_world():
    world = firstnan.MAX_WORLD_SIZE
    identity, inventories = run_identity(firstnan.RunIdentity, world), agreeing(world)
    assert of_package(firstnan.validate_inventory_consensus, identity, inventories[::-1]) is None
    for wrong in (inventories[1:], (*inventories, inventories[0]), (*inventories[1:], inventories[1])):
        assert of_package(firstnan.validate_inventory_consensus, identity, wrong) == REFUSED
