"""Sums over leaves stay exact, and a stage beyond a bound is refused with what to do instead."""

from dataclasses import replace

import pytest

from firstnan import ContractError
from firstnan.jax import LeafCount, Tally, capture

STAGES = ("input", "forward", "loss", "backward", "optimizer")


def tally(*sizes, nan=0):
    leaves = [LeafCount(stage, "w", "float32", 1, 0, 0, 0, 1.0) for stage in STAGES if stage != "forward"]
    leaves += [LeafCount("forward", f"w{i}", "float32", size, nan, 0, 0, 1.0) for i, size in enumerate(sizes)]
    return Tally(tuple(leaves), STAGES)


@pytest.fixture
def widest(contract):
    return replace(contract, maximum_elements_per_stage=10**10, maximum_total_elements=2 * 10**10)


@pytest.mark.parametrize("power", [31, 32, 53, 63, 64])
def test_a_sum_over_leaves_is_exact_beyond_every_width(power):
    size = 2**power - 1
    total = tally(size, size, 3, nan=3).total("forward")
    assert (total.checked, total.nan, total.finite) == (2 * size + 3, 9, 2 * size - 6)


def test_the_largest_stage_that_a_contract_allows_becomes_evidence(widest):
    forward = capture(tally(5 * 10**9, 5 * 10**9), widest).stages[1]
    assert forward.checked_elements == forward.finite_elements == 10**10


@pytest.mark.parametrize("sizes", [(10**10 + 1,), (5 * 10**9, 5 * 10**9 + 1), (2**64, 2**64)])
def test_a_larger_stage_is_refused_with_the_advice_to_count_per_rank_or_shard(widest, sizes):
    with pytest.raises(ContractError, match=rf"stage forward has {sum(sizes)} elements.*10000000000: .*per rank or shard"):
        capture(tally(*sizes), widest)


def test_a_step_beyond_the_total_is_refused_with_that_advice(widest):
    with pytest.raises(ContractError, match=r"the stages have 10000 elements.*per rank or shard"):
        capture(tally(10**4 - 4), replace(widest, maximum_elements_per_stage=9999, maximum_total_elements=9999))
