"""Trains on handwritten digits in float16 until a step goes non-finite; triages, holds, shows it, and goes on.

    python examples/digits.py [--out DIR] [--steps N]

The data are the 1,797 real digits that scikit-learn ships. The fault is one that people meet: features are normalised
by `sqrt(sum(z * z)) + eps`, which is fine going forward, but the square root has no gradient at exactly zero. Random
erasing, a usual augmentation, wipes out a whole digit once in a few thousand images; that image's features are all
zero, the loss is finite, and the gradient is NaN. Nothing is placed into the telemetry by hand.

Exit codes: 0 the run was held, its bundle verified and the training finished; 1 otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax
import plotext
from rich.console import Console
from rich.progress import Progress
from sklearn.datasets import load_digits

from firstnan import STAGES, TrainingIncidentContract
from firstnan.cli import main as firstnan_command
from firstnan.jax import RunResult, StepSummary, count_stages, run

TRAINED_ON = 1500
BATCH_SIZE = 128
SEED = 9
ERASED_SHARE = 0.002
FIRST_SCALE, LARGEST_SCALE, GROW_AFTER = 2.0**8, 2.0**12, 60
FLOAT16_MAX = float(np.finfo(np.float16).max)
OPTIMIZER = optax.adam(2e-3)

CONTRACT = TrainingIncidentContract(
    contract_version="digits-v1",
    run_id="digits-demo",
    step_id=0,
    model_version="two-layer-cosine-v1",
    dataset_version="scikit-learn-digits",
    batch_id="batch",
    objective_version="cross-entropy-v1",
    optimizer_version="adam-v1",
    precision="float16-compute-float32-master",
    loss_scale_version="dynamic-v1",
    loss_scale=FIRST_SCALE,
    minimum_numeric_resolution=1e-12,
    maximum_absolute_finite=1e9,
    maximum_elements_per_stage=10**6,
    maximum_total_elements=5 * 10**6,
    numeric_convention="binary64-summary-mixed-precision-v1",
    data_owner="team:data",
    model_owner="team:model",
    objective_owner="team:objective",
    optimizer_owner="team:optimizer",
    incident_owner="team:oncall",
)


class Batch(NamedTuple):
    """float32[128, 64] pixels in 0..1, and int32[128] labels."""

    images: Any
    labels: Any


def erase(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Random erasing: in a few images, a rectangle of random size becomes background."""
    erased = images.reshape(-1, 8, 8).copy()
    for row in np.flatnonzero(random.random(len(erased)) < ERASED_SHARE):
        height, width = random.integers(1, 9, 2)
        top, left = random.integers(0, 9 - height), random.integers(0, 9 - width)
        erased[row, top : top + height, left : left + width] = 0
    return erased.reshape(-1, 64)


def make_batches(images: np.ndarray, labels: np.ndarray, steps: int) -> Iterator[Batch]:
    """One batch a step, each a function of the seed and its index alone."""
    for index in range(steps):
        random = np.random.default_rng([SEED, index])
        chosen = random.integers(0, TRAINED_ON, BATCH_SIZE)
        yield Batch(erase(images[chosen], random), labels[chosen])


def first_state(key: jax.Array) -> dict[str, Any]:
    """float32 master parameters, Adam's state, the loss scale and the good steps since it last changed."""
    first, second, third = jax.random.split(key, 3)
    params = {
        "hidden": jax.random.normal(first, (64, 128)) * np.sqrt(2 / 64),
        "features": jax.random.normal(second, (128, 32)) * np.sqrt(2 / 128),
        "classes": jax.random.normal(third, (32, 10)) * 0.3,
    }
    return {
        "params": params,
        "optimizer": OPTIMIZER.init(params),
        "loss_scale": jnp.float32(FIRST_SCALE),
        "good_steps": jnp.int32(0),
    }


def model(params: Any, images: jax.Array) -> dict[str, jax.Array]:
    """Cosine logits over normalised features; float16 in, float16 out."""
    hidden = jax.nn.relu(images @ params["hidden"])
    features = hidden @ params["features"]
    # The usual mistake: epsilon stands outside the square root, so its gradient at zero is infinite.
    length = jnp.sqrt(jnp.sum(features * features, axis=-1, keepdims=True)) + jnp.float16(1e-3)
    return {"features": features, "logits": (features / length) @ params["classes"] * jnp.float16(8)}


@jax.jit
def step(state: dict[str, Any], batch: Batch) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """One mixed-precision step with dynamic loss scaling, counted in its five stages."""
    scale = state["loss_scale"]
    half = jax.tree.map(lambda x: x.astype(jnp.float16), (state["params"], batch.images))

    def scaled_loss(params: Any) -> tuple[jax.Array, Any]:
        outputs = model(params, half[1])
        logits = outputs["logits"].astype(jnp.float32)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch.labels).mean()
        return loss * scale, (loss, outputs)

    (_, (loss, outputs)), scaled = jax.value_and_grad(scaled_loss, has_aux=True)(half[0])
    gradients = jax.tree.map(lambda g: g.astype(jnp.float32) / scale, scaled)
    updates, optimizer = OPTIMIZER.update(gradients, state["optimizer"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    counts = count_stages(
        input=batch, forward=outputs, loss=loss, backward=scaled, optimizer=(updates, optimizer, params)
    )
    # As any loss scaler: skip and halve on overflow, grow after a while. On its own it would skip silently.
    good = jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda g: jnp.isfinite(g).all(), scaled))
    grown = state["good_steps"] + 1 >= GROW_AFTER
    stepped = {
        "params": params,
        "optimizer": optimizer,
        "loss_scale": jnp.where(grown, jnp.minimum(scale * 2, LARGEST_SCALE), scale),
        "good_steps": jnp.where(grown, 0, state["good_steps"] + 1),
    }
    skipped = {**state, "loss_scale": jnp.maximum(scale / 2, 1), "good_steps": jnp.int32(0)}
    new_state = jax.tree.map(lambda a, b: jnp.where(good, a, b), stepped, skipped)
    return new_state, counts, {"loss": loss, "loss_scale": scale}


def accuracy(params: Any, images: np.ndarray, labels: np.ndarray) -> float:
    half = jax.tree.map(lambda x: jnp.asarray(x, jnp.float16), (params, images))
    return float((model(*half)["logits"].argmax(-1) == labels).mean())


def plot(history: tuple[StepSummary, ...], picture: Path) -> None:
    """The largest finite magnitude of each stage over the last steps: to a PNG, and to the terminal."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [summary.step_id for summary in history]
    figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    plotext.clear_figure()
    plotext.plot_size(100, 22)
    plotext.theme("clear")
    seen = False
    for stage in STAGES:
        values = [summary.maximum.get(stage, 0.0) for summary in history]
        (line,) = axes.semilogy(steps, values, label=stage)
        bad = [(summary.step_id, value) for summary, value in zip(history, values, strict=True) if summary.nonfinite.get(stage)]
        if bad:
            # The step computed all five stages before it was held; its evidence ends at the first with NaN or Inf.
            label, mark = ("counted after it: NOT_RUN", "o") if seen else ("first with NaN or Inf", "x")
            style = {"color": line.get_color(), "markersize": 11, "markeredgewidth": 3, "markerfacecolor": "none"}
            axes.plot(*zip(*bad, strict=True), mark, label=label, **style)
            seen = True
        plotext.plot(steps, [np.log10(max(value, 1e-12)) for value in values], label=stage, marker=stage[0])
    axes.axhline(FLOAT16_MAX, color="black", linewidth=0.8, linestyle="--", label="float16 maximum")
    axes.set(xlabel="step", ylabel="largest finite magnitude", title="The last steps before the hold")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(picture, dpi=130)
    pyplot.close(figure)
    plotext.title("log10 of the largest finite magnitude, by step")
    print(plotext.build() if sys.stdout.isatty() else plotext.uncolorize(plotext.build()))


def show_incident(result: RunResult, out: Path) -> bool:
    """What a held step leaves: verdict, picture, report; whether its bundle verifies from the disk."""
    bundle, step_id = str(result.bundle), result.bad_step
    firstnan_command(["triage", bundle])
    print()
    plot(result.history, out / f"magnitudes-step-{step_id}.png")
    print(f"\n{out / f'magnitudes-step-{step_id}.png'}: the same as a picture")
    firstnan_command(["report", bundle, "-o", str(out / f"report-step-{step_id}.html")])
    return firstnan_command(["verify", bundle]) == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where the bundle, picture and report go")
    parser.add_argument("--steps", type=int, default=350, help="steps of training")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    console = Console()
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pixels))
    images, labels = (pixels[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    console.print(f"training on {TRAINED_ON} digits, float16 compute, dynamic loss scale from {FIRST_SCALE:g}")
    verified = True
    holds = 0
    with Progress(console=console) as progress:
        task = progress.add_task("training", total=arguments.steps)

        def advance(summary: StepSummary, _aux: Any) -> None:
            loss, scale = summary.metrics["loss"], summary.metrics["loss_scale"]
            progress.update(task, advance=1, description=f"loss {loss:.3f}, scale {scale:g}")
            if not console.is_terminal and summary.step_id % 50 == 0:
                print(f"step {summary.step_id}: loss {loss:.3f}, loss scale {scale:g}", flush=True)

        result = run(step, first_state(jax.random.key(0)), make_batches(images, labels, arguments.steps),
                     contract=CONTRACT, bundle_dir=arguments.out / "incidents", on_step=advance)  # fmt: skip
        while result.held:
            holds += 1
            progress.stop()
            verified &= show_incident(result, arguments.out)
            print(f"\nrestarting at step {result.next_step} without batch {result.bad_batch}")
            progress.start()
            progress.update(task, advance=1)
            result = result.restart()
    score = accuracy(result.state["params"], images[TRAINED_ON:], labels[TRAINED_ON:])
    console.print(f"finished: held {holds} time(s), accuracy {score:.1%} on {len(labels) - TRAINED_ON} digits it never saw")
    console.print(f"look at {arguments.out}")
    return 0 if holds and verified else 1


if __name__ == "__main__":
    sys.exit(main())
