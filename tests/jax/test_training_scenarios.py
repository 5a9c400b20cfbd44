"""Ways in which steps go non-finite in practice: the loop names the stage, holds, and keeps the state before it."""

import jax
import numpy as np
import pytest
from steps import SCENARIOS, initial, make_step

from firstnan.jax import read_bundle, run, verify_bundle


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("every", [1, 7])
def test_the_stage_of_a_scenario(name, every, contract, tmp_path):
    scenario = SCENARIOS[name]()
    step = make_step(scenario)
    result = run(step, initial(scenario), scenario.batches, contract=contract, bundle_dir=tmp_path, every=every)
    good = len(scenario.batches) - (scenario.expected is not None)
    assert (result.steps, result.held) == (good, scenario.expected is not None)
    assert result.report.earliest_nonfinite_stage == scenario.expected
    if result.held:
        assert (result.bad_step, result.bad_batch, result.reproduced) == (good, good, True)
        assert verify_bundle(result.bundle) == ()
        assert read_bundle(result.bundle).report == result.report
    else:
        assert list(tmp_path.iterdir()) == []
    state = initial(scenario)
    for batch in scenario.batches[:good]:
        state = step(state, batch)[0]
    for kept, expected in zip(jax.tree.leaves(result.state), jax.tree.leaves(state), strict=True):
        assert np.asarray(kept).tobytes() == np.asarray(expected).tobytes()
