"""`locate` against the same step run eagerly, on a transformer in which NaN is nearly everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TARGET = 10.0
LAYERS, WIDTH, HEADS, TOKENS, BATCH, VOCABULARY = 6, 256, 8, 128, 8, 512


@dataclass(frozen=True)
class LocateFigures:
    """Seconds of one eager step and of one `locate`, each the second run in a process of its own, and peak bytes."""

    eager_s: float
    locate_s: float
    first_eager_s: float
    first_locate_s: float
    eager_peak: int | None
    locate_peak: int | None

    @property
    def ratio(self) -> float:
        return self.locate_s / self.eager_s

    @property
    def first_ratio(self) -> float:
        return self.first_locate_s / self.first_eager_s


def measured() -> LocateFigures:
    """Both, each in a process of its own, so that neither finds the other's compiled operations."""
    eager, locate = _child("eager"), _child("locate")
    return LocateFigures(eager[1], locate[1], eager[0], locate[0], int(eager[2]) or None, int(locate[2]) or None)


def _child(what: str) -> list[float]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, __file__, what], env=environment, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def _peak() -> int:
    """The most resident memory of this process so far; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _step_and_arguments():  # type: ignore[no-untyped-def]
    import jax
    import jax.numpy as jnp

    def layer(x, p):  # type: ignore[no-untyped-def]
        def norm(x):  # type: ignore[no-untyped-def]
            return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

        q, k, v = jnp.split(norm(x) @ p["qkv"], 3, -1)
        q, k, v = (part.reshape(BATCH, TOKENS, HEADS, -1).swapaxes(1, 2) for part in (q, k, v))
        scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(WIDTH / HEADS)
        scores = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), scores, -jnp.inf)
        mixed = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
        x = x + mixed @ p["out"]
        return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]

    def loss(params, ids):  # type: ignore[no-untyped-def]
        x = params["table"][ids] / params["scale"][ids][..., None]  # 0 / 0 in the first embedding
        for p in params["layers"]:
            x = layer(x, p)
        logits = x @ params["table"].T
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), ids[:, 1:, None], -1))

    def step(params, moments, ids):  # type: ignore[no-untyped-def]
        value, grads = jax.value_and_grad(loss)(params, ids)
        moments = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments, grads)
        return jax.tree.map(lambda p, m: p - 1e-3 * m, params, moments), moments, value

    keys = iter(jax.random.split(jax.random.key(0), 64))

    def matrix(*shape):  # type: ignore[no-untyped-def]
        return jax.random.normal(next(keys), shape) * 0.02

    layers = [
        {
            "qkv": matrix(WIDTH, 3 * WIDTH),
            "out": matrix(WIDTH, WIDTH),
            "up": matrix(WIDTH, 4 * WIDTH),
            "down": matrix(4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    params = {"table": matrix(VOCABULARY, WIDTH).at[0].set(0), "scale": jnp.ones(VOCABULARY).at[0].set(0), "layers": layers}
    ids = jax.random.randint(next(keys), (BATCH, TOKENS), 1, VOCABULARY).at[:, 0].set(0)
    return step, (params, jax.tree.map(jnp.zeros_like, params), ids)


def _run(what: str) -> None:
    import jax

    from firstnan.jax import locate

    step, arguments = _step_and_arguments()
    times = []
    for _ in range(2):
        start = time.perf_counter()
        if what == "eager":
            with jax.disable_jit():
                jax.block_until_ready(step(*arguments))
        else:
            found = locate(step, *arguments)
            assert found.first_nan is not None, found
            assert found.first_nan.primitive == "div", found
        times.append(time.perf_counter() - start)
    print(*times, _peak())


if __name__ == "__main__":
    _run(sys.argv[1])
