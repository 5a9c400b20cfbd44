"""Steps whose births are known, beyond the scenarios; the line of each is found by the mark in its comment."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from firstnan.jax import Birth, Located, locate


class Told(NamedTuple):
    """What a birth has to say: `text` is found on the user's line."""

    primitive: str
    sweep: str
    text: str
    iteration: tuple[int, ...] = ()


def told(birth: Birth | None) -> Told | None:
    """A birth as far as a test asserts it, with the text of the line that it names."""
    if birth is None:
        return None
    assert birth.file is not None
    line = Path(birth.file).read_text(encoding="utf-8").splitlines()[birth.line - 1]
    return Told(birth.primitive, birth.sweep, line.strip(), birth.iteration)


def same(birth: Birth | None, expected: Told | None) -> bool:
    found = told(birth)
    if found is None or expected is None:
        return found is expected
    return found._replace(text="") == expected._replace(text="") and expected.text in found.text


def births(step: Any, *args: Any) -> tuple[Told | None, Told | None]:
    """The first NaN and the first Inf, of a run that the compiled step agrees with."""
    located: Located = locate(step, *args)
    assert located.reproduced
    return told(located.first_nan), told(located.first_inf)


def scaled_half_precision(w, x):
    """A float32 gradient that overflows where it is converted to the float16 of the weights."""

    def loss(w):
        wide = w.astype(jnp.float32)  # widened
        return jnp.mean(wide * x) * 2.0**16

    return jax.grad(loss)(w)


@jax.custom_jvp
def unsafe_root(x):
    return jnp.sqrt(x)


@unsafe_root.defjvp
def _unsafe_root_jvp(primals, tangents):
    root = unsafe_root(primals[0])
    return root, tangents[0] * (0.5 / root)  # custom rule


@jax.custom_vjp
def unsafe_log(x):
    return jnp.log(x)  # custom forward


def _log_forward(x):
    return jnp.log(x), x


def _log_backward(x, g):
    return (g / x,)  # custom backward


unsafe_log.defvjp(_log_forward, _log_backward)
