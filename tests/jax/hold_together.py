"""One of several processes that train together and hold together: RANK PROCESSES PORT FOLDER MODE EVERY FAULT_STEP.

MODE `alone` steps without a collective, so only the rank with the fault sees it; `reduced` averages the gradients over
the ranks inside the step, so all of them do, each in its own stage. Prints how the run ended as one JSON line.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from firstnan import TrainingIncidentContract
from firstnan.jax import StageCounts, count_stages, run

RANK, PROCESSES, EVERY, FAULT_STEP = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[6]), int(sys.argv[7])
PORT, FOLDER, MODE = sys.argv[3], sys.argv[4], sys.argv[5]
STEPS, FAULT_RANK = 12, 1

CONTRACT = TrainingIncidentContract(
    contract_version="v1", run_id="together", step_id=0, model_version="m1", dataset_version="d1", batch_id="batch",
    objective_version="o1", optimizer_version="sgd", precision="float32", loss_scale_version="none", loss_scale=1.0,
    minimum_numeric_resolution=1e-15, maximum_absolute_finite=9e14, maximum_elements_per_stage=10**6,
    maximum_total_elements=5 * 10**6, numeric_convention="binary64-summary-mixed-precision-v1", data_owner="team:data",
    model_owner="team:model", objective_owner="team:objective", optimizer_owner="team:optimizer",
    incident_owner="team:oncall")


def loss_of(w, x):
    # The gradient of a norm at exactly zero: forward and loss are finite there.
    return jnp.linalg.norm(w * x) + jnp.sum(w) ** 2, w * x


def parts(w, x, reduce):
    (loss, outputs), grads = jax.value_and_grad(loss_of, has_aux=True)(w, x)
    updates = -0.01 * reduce(grads)
    new = w + updates
    return new, count_stages(input=x, forward=outputs, loss=loss, backward=grads, optimizer=(updates, new))


def alone():
    step = jax.jit(lambda w, x: parts(w, x, lambda grads: grads))
    return lambda w, x: step(w, jnp.asarray(x)), jnp.ones(4)


def reduced():
    mesh = jax.make_mesh((PROCESSES,), ("rank",))
    whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("rank"))

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(P(), P("rank")), out_specs=(P(), P("rank")), check_vma=False)
    def step(w, x):
        new, counts = parts(w, x[0], lambda grads: jax.lax.pmean(grads, "rank"))
        return new, StageCounts(counts.data[None], counts.leaves, counts.stages)

    def own(w, x):
        new, counts = step(w, jax.make_array_from_process_local_data(split, x[None]))
        return new, StageCounts(counts.data.addressable_data(0)[0], counts.leaves, counts.stages)

    return own, jax.device_put(jnp.ones(4), whole)


def batches():
    for index in range(STEPS):
        bad = RANK == FAULT_RANK and index == FAULT_STEP
        yield np.zeros(4, np.float32) if bad else np.arange(1, 5, dtype=np.float32) + index


def main():
    jax.distributed.initialize(f"127.0.0.1:{PORT}", PROCESSES, RANK)
    step, state = {"alone": alone, "reduced": reduced}[MODE]()
    result = run(step, state, batches(), contract=CONTRACT, bundle_dir=FOLDER, every=EVERY)
    ended = {
        "rank": RANK,
        "held": result.held,
        "held_by": list(result.held_by),
        "bad_step": result.bad_step,
        "steps": result.steps,
        "stage": None if result.report is None else result.report.earliest_nonfinite_stage,
        "bundle": None if result.bundle is None else result.bundle.name,
        "reproduced": result.reproduced,
    }
    if result.held:
        result = result.restart()
    ended |= {"steps_after": result.steps, "held_after": result.held, "state": np.asarray(result.state).tolist()}
    print(json.dumps(ended))


main()
