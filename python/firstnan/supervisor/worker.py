"""The reference worker: linear regression in JAX, one process, its state sealed in a checkpoint.

`launch` copies this file to its root and runs it there. It imports nothing of firstnan, so its SHA-256, the worker
hash, covers all that it does but the interpreter and JAX. By hand, beside a `config.json`: `python worker.py`.

Exit codes: 0 after `completed`, 23 after `failed`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import secrets
import signal
import stat
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = 64
EXIT_FAILED = 23
MAX_CHECKPOINT_BYTES = 65536
SCHEMA_VERSION = 1

State = dict[str, Any]


class InjectedFailure(RuntimeError):
    """The configuration asked for this failure."""


class CheckpointRefused(ValueError):
    """A checkpoint that must not be resumed from."""


def canonical(value: object) -> bytes:
    """The evidence profile's bytes of a JSON value: what the json module writes under these options."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` so that a crash leaves the old file or the new one, on disk before this returns."""
    temporary = path.parent / f".firstnan-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def emit(event: str, **fields: object) -> None:
    line = json.dumps({"event": event, "monotonic_s": time.monotonic(), **fields}, allow_nan=False)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def die_with(supervisor: int) -> None:
    """Have the kernel kill this process when the supervisor dies, even by SIGKILL (prctl(2), PR_SET_PDEATHSIG)."""
    pr_set_pdeathsig = 1
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != supervisor:  # it died before the call above
        os.kill(os.getpid(), signal.SIGKILL)


class Regression:
    """y = 2x + 1 on 64 points, fitted by momentum SGD; every state is plain JSON at rest.

    A state is {"step": int, "params": [slope, intercept], "velocity": [...], "key": [word, word]}, the floats being
    float32 values, so that JSON holds them bit for bit.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        # Settings that change the numbers are set whatever the user's are, so that a resume cannot differ.
        os.environ |= {"JAX_ENABLE_X64": "0", "JAX_THREEFRY_PARTITIONABLE": "1", "JAX_DISABLE_JIT": "0"}
        os.environ["JAX_PLATFORMS"] = config["backend"]
        import jax
        import jax.numpy as jnp

        devices = jax.devices()
        emit("started", pid=os.getpid(), backend=devices[0].platform, device_count=len(devices))
        if len(devices) < config["min_devices"]:
            raise RuntimeError(f"min_devices: found {len(devices)} of {config['min_devices']}")

        x = jnp.linspace(-1.0, 1.0, EXAMPLES, dtype=jnp.float32)
        y = 2.0 * x + 1.0
        self.data_hash = digest({"x": x.tolist(), "y": y.tolist()})
        self.config_hash = digest({name: config[name] for name in ("seed", "learning_rate", "momentum", "batch_size")})
        seed_key = jax.random.key(config["seed"], impl="threefry2x32")
        self.initial: State = {
            "step": 0,
            "params": [0.0, 0.0],
            "velocity": [0.0, 0.0],
            "key": jax.random.key_data(seed_key).tolist(),
        }

        def update(params: jax.Array, velocity: jax.Array, words: jax.Array) -> tuple[jax.Array, ...]:
            key, draw = jax.random.split(jax.random.wrap_key_data(words, impl="threefry2x32"))
            rows = jax.random.choice(draw, EXAMPLES, (config["batch_size"],), replace=False)

            def mean_squared_error(params: jax.Array) -> jax.Array:
                return jnp.mean((params[0] * x[rows] + params[1] - y[rows]) ** 2)

            loss, gradient = jax.value_and_grad(mean_squared_error)(params)
            velocity = config["momentum"] * velocity + gradient
            params = params - config["learning_rate"] * velocity
            return params, velocity, jax.random.key_data(key), loss

        compiled = jax.jit(update)

        def call(state: State) -> tuple[State, float]:
            params, velocity, key, loss = compiled(
                jnp.asarray(state["params"], jnp.float32),
                jnp.asarray(state["velocity"], jnp.float32),
                jnp.asarray(state["key"], jnp.uint32),
            )
            after = {"step": state["step"] + 1, "params": params.tolist(), "velocity": velocity.tolist()}
            return {**after, "key": key.tolist()}, float(loss)

        self.update: Callable[[State], tuple[State, float]] = call

    def step(self, state: State) -> tuple[State, float]:
        """One update; FloatingPointError where it leaves a number that is not finite."""
        after, loss = self.update(state)
        if not all(map(math.isfinite, [loss, *after["params"], *after["velocity"]])):
            raise FloatingPointError(f"step {after['step']}: loss, params or velocity is not finite")
        return after, loss


def seal(state: State, model: Regression, worker_hash: str) -> dict[str, Any]:
    rest = {
        "schema_version": SCHEMA_VERSION,
        "worker_hash": worker_hash,
        "config_hash": model.config_hash,
        "data_hash": model.data_hash,
        **state,
    }
    return {**rest, "checksum": digest(rest)}


def restore(path: Path, model: Regression, worker_hash: str, steps: int) -> State:
    """The state in a checkpoint; CheckpointRefused, naming the field, unless every part of it is as it must be."""
    checkpoint = read_checkpoint(path)
    expected = seal(model.initial, model, worker_hash)
    if not isinstance(checkpoint, dict) or checkpoint.keys() != expected.keys():
        raise CheckpointRefused("the fields are not those of a checkpoint")
    if checkpoint["checksum"] != digest({k: v for k, v in checkpoint.items() if k != "checksum"}):
        raise CheckpointRefused("checksum: does not match the other fields")
    for name in ("schema_version", "worker_hash", "config_hash", "data_hash"):
        if type(checkpoint[name]) is not type(expected[name]) or checkpoint[name] != expected[name]:
            raise CheckpointRefused(f"{name}: is not that of this run")
    if type(checkpoint["step"]) is not int or not 1 <= checkpoint["step"] <= steps:
        raise CheckpointRefused(f"step: is not an integer from 1 to {steps}")
    for name in ("params", "velocity"):
        if not is_pair(checkpoint[name], is_float32):
            raise CheckpointRefused(f"{name}: is not two finite float32 values")
    if not is_pair(checkpoint["key"], lambda word: type(word) is int and 0 <= word < 2**32):
        raise CheckpointRefused("key: is not two 32-bit words")
    return {name: checkpoint[name] for name in ("step", "params", "velocity", "key")}


def read_checkpoint(path: Path) -> object:
    def no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name stands twice")
        return dict(pairs)

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError("a number is not finite")
        return value

    try:
        # Not to wait for whoever may write into a pipe of that name.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("not a file")
            text = file.read(MAX_CHECKPOINT_BYTES + 1)
        if len(text) > MAX_CHECKPOINT_BYTES:
            raise ValueError(f"longer than {MAX_CHECKPOINT_BYTES} bytes")
        return json.loads(text.decode(), object_pairs_hook=no_duplicates, parse_float=finite, parse_constant=finite)
    except OSError as error:
        raise CheckpointRefused(f"checkpoint.json cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointRefused("checkpoint.json is not one JSON object") from error


def is_pair(value: object, holds: Callable[[object], bool]) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(holds, value))


def is_float32(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and ctypes.c_float(value).value == value


def train(root: Path) -> None:
    config = json.loads((root / "config.json").read_bytes())
    worker_hash = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    model = Regression(config)
    state = model.initial
    if config["resume"]:
        state = restore(root / "checkpoint.json", model, worker_hash, config["steps"])
        emit("restored", step=state["step"], state_hash=digest(state))

    began = time.monotonic()
    model.update(state)  # compiles; the result is thrown away, so no step is used up
    emit("ready", compile_warmup_s=time.monotonic() - began, step=state["step"])

    while state["step"] < config["steps"]:
        if config["stall_at"] == state["step"] + 1:
            emit("stall_injected", step=config["stall_at"])
            time.sleep(config["stall_seconds"])
        began = time.monotonic()
        state, loss = model.step(state)
        update_s = time.monotonic() - began
        step, state_hash = state["step"], digest(state)
        examples = config["batch_size"]
        emit("progress", step=step, loss=loss, examples=examples, update_s=update_s, state_hash=state_hash)
        if step % config["checkpoint_every"] == 0 or step == config["steps"]:
            replace_file(root / "checkpoint.json", canonical(seal(state, model, worker_hash)))
            emit("checkpoint", step=step, state_hash=state_hash)
        if config["fail_after"] == step:
            raise InjectedFailure(f"failed on purpose after step {step}")
    emit("completed", step=state["step"], state_hash=digest(state))


def main() -> int:
    if len(sys.argv) > 1:
        die_with(int(sys.argv[1]))
    try:
        train(Path(__file__).resolve().parent)
    except Exception as error:  # whatever it is, the supervisor hears of it
        traceback.print_exc()
        message = str(error).encode("utf-8", "backslashreplace").decode()
        emit("failed", kind=type(error).__name__[:128], message=message[:1000])
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
