"""Counts inside `jit`, evidence from them, and a training loop that holds at the first non-finite step.

    import jax, optax
    from firstnan.jax import count_stages, run

    @jax.jit
    def step(state, batch):
        params, opt_state = state
        (loss, outputs), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        counts = count_stages(input=batch, forward=outputs, loss=loss, backward=grads,
                              optimizer=(updates, opt_state, params))
        return (params, opt_state), counts, {"loss": loss}

    result = run(step, state, batches, contract=contract, bundle_dir="incidents")
    while result.held:
        result = result.restart()   # from the last good step, without the bad batch

The parts, each on top of the one before:

counts      `count_stages`, pure, inside jit: five pytrees become one uint32 array, eight numbers a leaf. One pass a
            leaf, over integer tests of the bits; no arithmetic on the values, no host round trip, no 64-bit types.
            Totals are exact to 2**64 elements: below 2**32 one 32-bit half cannot overflow, above it both are carried.
shards      the same of each device of a mesh, to name the one that went bad before a reduction spread it.
hosttree    counts of a pytree that lies on the host: `firstnan.count_finite` of every leaf.
tally       the same as Python numbers, per leaf and per stage.
evidence    a tally and a contract become `TrainingRunEvidence`; what follows the first bad stage is NOT_RUN.
verdict     evidence and triage of the steps of a window, in order.
loop        `run`: dispatch, triage every Nth step, roll back, bundle, restart. The step is the user's own function and
            is called as it is; nothing is wrapped into it, and nothing of a held step reaches the state.
locate      the step once more, equation by equation: the line where its first NaN and its first Inf are born.
bundle      the folder that is left: written whole or not at all, verified from the disk, read without pickle.

What later work builds on: a leaf has a path that a policy can name; counts inside `shard_map` are per shard and stack;
`bundle.state` and `bundle.batch` give the arguments of the step again; a history of magnitudes goes with every verdict.

Names are loaded when first used, so that a bundle can be read and verified where jax is not installed.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from firstnan.jax.missing import needs_jax as _needs_jax

if TYPE_CHECKING:
    from firstnan.jax.births.finder import locate as locate
    from firstnan.jax.births.findings import Birth as Birth
    from firstnan.jax.births.findings import Constant as Constant
    from firstnan.jax.births.findings import Entered as Entered
    from firstnan.jax.births.findings import Located as Located
    from firstnan.jax.births.findings import Operand as Operand
    from firstnan.jax.births.findings import Place as Place
    from firstnan.jax.bundle import Bundle as Bundle
    from firstnan.jax.bundle import Incident as Incident
    from firstnan.jax.bundle import read_bundle as read_bundle
    from firstnan.jax.bundle import verify_bundle as verify_bundle
    from firstnan.jax.bundle import write_incident_bundle as write_incident_bundle
    from firstnan.jax.counts import LeafKind as LeafKind
    from firstnan.jax.counts import StageCounts as StageCounts
    from firstnan.jax.counts import count_stages as count_stages
    from firstnan.jax.evidence import capture as capture
    from firstnan.jax.history import StepSummary as StepSummary
    from firstnan.jax.hosttree import TreeCounts as TreeCounts
    from firstnan.jax.hosttree import count_finite_tree as count_finite_tree
    from firstnan.jax.loop import run as run
    from firstnan.jax.manifest import Difference as Difference
    from firstnan.jax.peers import Peers as Peers
    from firstnan.jax.peers import Word as Word
    from firstnan.jax.policy import Exclusion as Exclusion
    from firstnan.jax.result import RunResult as RunResult
    from firstnan.jax.result import StepRefused as StepRefused
    from firstnan.jax.shards import BeforeReduction as BeforeReduction
    from firstnan.jax.shards import Shard as Shard
    from firstnan.jax.shards import bad_shards as bad_shards
    from firstnan.jax.shards import before_reduction as before_reduction
    from firstnan.jax.shards import count_shards as count_shards
    from firstnan.jax.shards import each_shard as each_shard
    from firstnan.jax.shards import shards_of as shards_of
    from firstnan.jax.shards import stacked_shard as stacked_shard
    from firstnan.jax.tally import LeafCount as LeafCount
    from firstnan.jax.tally import StageTotal as StageTotal
    from firstnan.jax.tally import Tally as Tally

_HOMES = {
    "births.finder": ("locate",),
    "births.findings": ("Birth", "Constant", "Entered", "Located", "Operand", "Place"),
    "bundle": ("Bundle", "Incident", "read_bundle", "verify_bundle", "write_incident_bundle"),
    "evidence": ("capture",),
    "counts": ("LeafKind", "StageCounts", "count_stages"),
    "history": ("StepSummary",),
    "hosttree": ("TreeCounts", "count_finite_tree"),
    "loop": ("run",),
    "manifest": ("Difference",),
    "peers": ("Peers", "Word"),
    "policy": ("Exclusion",),
    "result": ("RunResult", "StepRefused"),
    "shards": ("BeforeReduction", "Shard", "bad_shards", "before_reduction", "count_shards", "each_shard", "shards_of",
               "stacked_shard"),
    "tally": ("LeafCount", "StageTotal", "Tally"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BeforeReduction",
    "Birth",
    "Bundle",
    "Constant",
    "Difference",
    "Entered",
    "Exclusion",
    "Incident",
    "LeafCount",
    "LeafKind",
    "Located",
    "Operand",
    "Peers",
    "Place",
    "RunResult",
    "Shard",
    "StageCounts",
    "StageTotal",
    "StepRefused",
    "StepSummary",
    "Tally",
    "TreeCounts",
    "Word",
    "bad_shards",
    "before_reduction",
    "capture",
    "count_finite_tree",
    "count_shards",
    "count_stages",
    "each_shard",
    "locate",
    "read_bundle",
    "run",
    "shards_of",
    "stacked_shard",
    "verify_bundle",
    "write_incident_bundle",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _needs_jax(f"{__name__}.{name}"):
        return getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)
