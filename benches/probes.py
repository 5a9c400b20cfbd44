"""What watching every step costs: one jitted training step bare, with our probes, and with each peer, in turn.

    python benches/probes.py [--rounds N] [--only VARIANT] [--json FILE]

A transformer of about ten million parameters on real English, two cores. Every round takes one step of each variant, in
an order that turns, from that variant's own state; the figure is the median over rounds of its time over the bare
step's. Ours counts input, every block's output and the logits, loss, gradients, updates, optimizer state and new
parameters, and reads the counts on the host after every step.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import optax
from jax.experimental import checkify

import transformer
from firstnan.jax import StageCounts, count_stages

TARGET = 1.03
ROUNDS = 24


@dataclass(frozen=True)
class Cost:
    """Median seconds a step, and the median over rounds of its time over the bare step's of the same round."""

    variant: str
    step_s: float
    ratio: float
    rounds: list[float]


def training_step(optimizer: optax.GradientTransformation, counted: bool) -> Callable[..., Any]:
    def step(state: Any, batch: jax.Array) -> Any:
        params, opt_state = state
        (loss, outputs), grads = jax.value_and_grad(transformer.loss_fn, has_aux=True)(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        if not counted:
            return (params, opt_state), loss
        return (params, opt_state), count_stages(
            input=batch, forward=outputs, loss=loss, backward=grads, optimizer=(updates, opt_state, params)
        )

    return step


class Trainee:
    """One variant with its own state. `take` does a step and waits for it, `check` included."""

    def __init__(self, step: Callable[..., Any], optimizer: optax.GradientTransformation, check: Callable[[Any], Any]) -> None:
        params = transformer.initial(0)
        self.state = (params, jax.jit(optimizer.init)(params))
        self.step, self.check = step, check

    def take(self, batch: Any) -> float:
        start = time.perf_counter()
        self.state, told = self.step(self.state, batch)
        self.check(told)
        jax.block_until_ready(self.state)
        return time.perf_counter() - start


def trainees() -> dict[str, Trainee]:
    adam = optax.adamw(3e-4)
    skipping = optax.apply_if_finite(adam, max_consecutive_errors=5)
    checked = checkify.checkify(training_step(adam, counted=False), errors=checkify.float_checks)

    def debug_nans(step: Callable[..., Any]) -> Callable[..., Any]:
        def under_debug_nans(state: Any, batch: Any) -> Any:
            with jax.debug_nans(True):
                return step(state, batch)

        return under_debug_nans

    def throwing(step: Callable[..., Any]) -> Callable[..., Any]:
        def under_checkify(state: Any, batch: Any) -> Any:
            error, out = step(state, batch)
            error.throw()
            return out

        return under_checkify

    def jit(step: Callable[..., Any]) -> Callable[..., Any]:
        return jax.jit(step, donate_argnums=0)

    def bare() -> Callable[..., Any]:
        return training_step(adam, counted=False)

    return {
        "bare": Trainee(jit(bare()), adam, jax.block_until_ready),
        "count_stages": Trainee(jit(training_step(adam, counted=True)), adam, _first_nonfinite),
        "apply_if_finite": Trainee(jit(training_step(skipping, counted=False)), skipping, jax.block_until_ready),
        "jax_debug_nans": Trainee(debug_nans(jit(bare())), adam, jax.block_until_ready),
        "checkify": Trainee(throwing(jit(checked)), adam, jax.block_until_ready),
    }


def _first_nonfinite(counts: StageCounts) -> str | None:
    return counts.to_host().first_nonfinite


def costs(rounds: int = ROUNDS, only: list[str] | None = None) -> list[Cost]:
    """Every variant's cost, ours and the peers'."""
    variants = {name: trainee for name, trainee in trainees().items() if not only or name in ["bare", *only]}
    batches = transformer.batches()
    for trainee in variants.values():
        trainee.take(next(batches))
        trainee.take(next(batches))
    names = list(variants)
    times: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            batch = jax.device_put(next(batches))
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                times[name].append(variants[name].take(batch))
    finally:
        gc.enable()
    paired = {name: [a / b for a, b in zip(times[name], times["bare"], strict=True)] for name in names}
    return [Cost(name, statistics.median(times[name]), statistics.median(paired[name]), paired[name]) for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", action="append", help="a variant to time beside the bare step; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    watched = costs(arguments.rounds, arguments.only)
    for cost in watched:
        print(line(cost), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(cost) for cost in watched]) + "\n", encoding="utf-8")
    return 0


def line(cost: Cost) -> str:
    """One variant as text; the quartiles over rounds say how quiet the machine was."""
    low, _, high = statistics.quantiles(cost.rounds, n=4)
    missed = f"  target {TARGET}{'' if cost.ratio <= TARGET else '  MISSED'}" if cost.variant == "count_stages" else ""
    return f"{cost.variant:18} {cost.step_s * 1e3:8.1f} ms a step  ratio {cost.ratio:6.3f} quartiles {low:.3f} {high:.3f}{missed}"


if __name__ == "__main__":
    sys.exit(main())
