"""A small transformer in Equinox, and real English to train it on: the standard library's own help texts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pydoc_data.topics import topics
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HEADS, BLOCKS, CONTEXT, BATCH, BYTES = 384, 6, 6, 128, 8, 256


class Block(eqx.Module):
    """Attention and a perceptron, each behind a layer norm, each added to the residual stream f32[CONTEXT, WIDTH]."""

    before_attention: eqx.nn.LayerNorm
    queries_keys_values: eqx.nn.Linear
    merge: eqx.nn.Linear
    before_perceptron: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        attention, merge, up, down = jax.random.split(key, 4)
        self.before_attention = eqx.nn.LayerNorm(WIDTH)
        self.queries_keys_values = eqx.nn.Linear(WIDTH, 3 * WIDTH, key=attention)
        self.merge = eqx.nn.Linear(WIDTH, WIDTH, key=merge)
        self.before_perceptron = eqx.nn.LayerNorm(WIDTH)
        self.up = eqx.nn.Linear(WIDTH, 4 * WIDTH, key=up)
        self.down = eqx.nn.Linear(4 * WIDTH, WIDTH, key=down)

    def __call__(self, x: jax.Array) -> jax.Array:
        heads = jax.vmap(self.queries_keys_values)(jax.vmap(self.before_attention)(x))
        q, k, v = jnp.split(heads.reshape(CONTEXT, 3 * HEADS, WIDTH // HEADS), 3, axis=1)
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + jax.vmap(self.merge)(attended.reshape(CONTEXT, WIDTH))
        y = jax.vmap(self.before_perceptron)(x)
        return x + jax.vmap(self.down)(jax.nn.gelu(jax.vmap(self.up)(y)))


class Transformer(eqx.Module):
    """Bytes in, logits of the next byte out, with the residual stream after every block beside them."""

    embedding: eqx.nn.Embedding
    positions: jax.Array
    blocks: list[Block]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        embedding, positions, head, *blocks = jax.random.split(key, 3 + BLOCKS)
        self.embedding = eqx.nn.Embedding(BYTES, WIDTH, key=embedding)
        self.positions = 0.02 * jax.random.normal(positions, (CONTEXT, WIDTH))
        self.blocks = [Block(block) for block in blocks]
        self.norm = eqx.nn.LayerNorm(WIDTH)
        self.head = eqx.nn.Linear(WIDTH, BYTES, key=head)

    def __call__(self, text: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        x = jax.vmap(self.embedding)(text) + self.positions
        streams = []
        for block in self.blocks:
            x = block(x)
            streams.append(x)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x)), streams


def loss_fn(model: Transformer, batch: jax.Array) -> tuple[jax.Array, Any]:
    """The mean cross-entropy in nats a byte of a batch u8[BATCH, CONTEXT + 1], and what the forward pass made."""
    logits, streams = jax.vmap(model)(batch[:, :-1].astype(jnp.int32))
    log_p = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_p, batch[:, 1:, None].astype(jnp.int32), axis=-1)
    return -jnp.mean(picked), {"streams": streams, "logits": logits}


@partial(jax.jit, static_argnums=0)
def initial(seed: int) -> Transformer:
    """The parameters before the first step, all of them arrays."""
    return eqx.filter(Transformer(jax.random.key(seed)), eqx.is_array)


def batches(seed: int = 0) -> Iterator[np.ndarray[Any, Any]]:
    """Endless random windows u8[BATCH, CONTEXT + 1] of `pydoc_data.topics`, about 700 KB of English."""
    text = np.frombuffer("\n".join(topics[name] for name in sorted(topics)).encode(), np.uint8)
    rng = np.random.default_rng(seed)
    while True:
        starts = rng.integers(0, len(text) - CONTEXT - 1, BATCH)
        yield np.stack([text[start : start + CONTEXT + 1] for start in starts])
