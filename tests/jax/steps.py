"""Real training steps that go non-finite in the ways that happen, one for each row of the table of scenarios.

Each is a batch, parameters, a loss with its outputs, and an optimizer; `expected` is the earliest bad stage, or None.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from firstnan.jax import count_stages


class Scenario(NamedTuple):
    """`loss(params, batch)` gives the loss and the outputs; `batches` are good ones and, last, the bad one."""

    expected: str | None
    params: Any
    batches: list[Any]
    loss: Callable[[Any, Any], tuple[jax.Array, Any]]
    optimizer: optax.GradientTransformation = optax.sgd(0.0)
    loss_scale: float = 1.0


def make_step(scenario: Scenario, **jit: Any) -> Callable[[Any, Any], Any]:
    """The jitted step of a scenario, counted at the five stages."""

    def step(state, batch):
        params, opt_state = state

        def scaled(params):
            loss, outputs = scenario.loss(params, batch)
            return loss * jnp.asarray(scenario.loss_scale, loss.dtype), (loss, outputs)

        grads, (loss, outputs) = jax.grad(scaled, has_aux=True)(params)
        updates, opt_state = scenario.optimizer.update(grads, opt_state, params)
        counts = count_stages(input=batch, forward=outputs, loss=loss, backward=grads, optimizer=(updates, opt_state))
        state = (optax.apply_updates(params, updates), opt_state)
        return state, counts, {"loss": loss, "loss_scale": scenario.loss_scale}

    return jax.jit(step, **jit)


def initial(scenario: Scenario) -> Any:
    return jax.tree.map(jnp.asarray, (scenario.params, scenario.optimizer.init(scenario.params)))


def _regression_batches(bad: Any, good: int = 3) -> list[Any]:
    rng = np.random.default_rng(0)
    batch = [(rng.normal(size=(4, 2)).astype(np.float32), rng.normal(size=4).astype(np.float32)) for _ in range(good)]
    return [*batch, bad]


def norm_at_zero() -> Scenario:
    w = jnp.array([1.0, 2.0])
    x = jnp.array([[1.0, 1.0], [2.0, 0.0], [0.0, 1.0], [3.0, 1.0]])

    def loss(w, batch):
        prediction = batch[0] @ w
        return jnp.linalg.norm(prediction - batch[1]), prediction

    return Scenario("backward", w, _regression_batches((x, x @ w)), loss)


def where_guard_after_log() -> Scenario:
    x = jnp.array([[1.0, 1.0], [0.0, 0.0]])

    def loss(w, batch):
        y = batch[0] @ w
        return jnp.mean(jnp.where(y > 0, jnp.log(y), 0.0)), jnp.abs(y)

    return Scenario("backward", jnp.ones(2), _regression_batches((x, None)), loss)


def log_of_zero_probability() -> Scenario:
    def loss(w, batch):
        logits = batch["x"] * w
        p = jax.nn.softmax(logits)
        return -jnp.mean(jnp.log(p[jnp.arange(1), batch["label"]])), logits

    good = {"x": jnp.array([[1.0, 2.0]]), "label": jnp.array([0])}
    return Scenario("loss", jnp.float32(1), [good, good | {"x": jnp.array([[0.0, 2000.0]])}], loss)


def fp16_activation_overflow() -> Scenario:
    def loss(w, x):
        h = x.astype(jnp.float16) @ w
        return jnp.mean(h.astype(jnp.float32)), h

    w = jnp.full((2, 3), 250.0, jnp.float16)
    return Scenario("forward", w, [jnp.ones((2, 2)), jnp.full((2, 2), 200.0)], loss)


def loss_scale_overflow() -> Scenario:
    def loss(w, x):
        h = x.astype(jnp.float16) * w.astype(jnp.float16)
        return jnp.mean(h.astype(jnp.float32)), h

    return Scenario("backward", jnp.ones(4), [jnp.full(4, 0.01), jnp.full(4, 8.0)], loss, loss_scale=2.0**16)


def _attention(scores_mask: Any) -> Callable[[Any, Any], tuple[jax.Array, Any]]:
    def loss(w, batch):
        mask = batch["mask"] if scores_mask is None else scores_mask
        weights = jax.nn.softmax(jnp.where(mask, batch["scores"] * w, -jnp.inf))
        return jnp.mean(weights**2), weights

    return loss


def fully_masked_attention_row() -> Scenario:
    scores = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    good = {"scores": scores, "mask": jnp.array([[True, False], [True, True]])}
    bad = {"scores": scores, "mask": jnp.array([[True, False], [False, False]])}
    return Scenario("forward", jnp.float32(1), [good, bad], _attention(None))


def minus_inf_mask_is_fine() -> Scenario:
    batch = {"scores": jnp.arange(9.0).reshape(3, 3)}
    return Scenario(None, jnp.float32(1), [batch] * 3, _attention(jnp.tril(jnp.ones((3, 3), bool))))


def mean_over_no_labels() -> Scenario:
    def loss(w, batch):
        y = batch["x"] @ w
        return jnp.sum(batch["m"] * y**2) / jnp.sum(batch["m"]), y

    x = jnp.ones((3, 2))
    return Scenario("loss", jnp.ones(2), [{"x": x, "m": jnp.ones(3)}, {"x": x, "m": jnp.zeros(3)}], loss)


def nan_in_data() -> Scenario:
    def loss(w, batch):
        y = batch[0] @ w
        return jnp.mean((y - batch[1]) ** 2), y

    x = np.ones((4, 2), np.float32)
    x[2, 1] = np.nan
    return Scenario("input", jnp.ones(2), _regression_batches((x, np.ones(4, np.float32))), loss)


def embedding_index_out_of_range() -> Scenario:
    def loss(table, ids):
        rows = jnp.take(table, ids, axis=0)
        return jnp.mean(rows**2), rows

    return Scenario("forward", jnp.ones((5, 3)), [jnp.array([0, 4]), jnp.array([0, 7])], loss)


def std_of_constant_feature() -> Scenario:
    def loss(w, x):
        scaled = x * w
        return jnp.mean(jnp.std(scaled, 0)), scaled

    good = jnp.array([[1.0, 2.0], [2.0, 5.0]])
    return Scenario("backward", jnp.ones(2), [good, good.at[:, 1].set(3.0)], loss)


def exp_overflow_in_scan() -> Scenario:
    def loss(w, xs):
        _, outputs = jax.lax.scan(lambda c, x: (jnp.exp(2 * c) * w + x,) * 2, jnp.float32(0), xs)
        return jnp.mean(outputs), outputs

    return Scenario("forward", jnp.float32(1), [-jnp.ones(4), jnp.ones(4)], loss)


def clip_by_norm_of_inf() -> Scenario:
    def loss(w, x):
        y = x @ w
        return jnp.mean(y) * 1e25, y

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.0))
    batches = [jnp.full((2, 2), 1e-12), jnp.full((2, 2), 1e14)]
    return Scenario("backward", jnp.zeros((2, 2)), batches, loss, optimizer)


def adam_second_moment_overflow() -> Scenario:
    def loss(w, x):
        y = x * w
        return jnp.sum(y.astype(jnp.float32)), y

    w = jnp.ones(3, jnp.float16)
    batches = [jnp.full(3, 1.0, jnp.float16), jnp.full(3, 20000.0, jnp.float16)]
    return Scenario("optimizer", w, batches, loss, optax.adam(1e-3, eps=1e-4))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    make.__name__: make
    for make in (
        norm_at_zero,
        where_guard_after_log,
        log_of_zero_probability,
        fp16_activation_overflow,
        loss_scale_overflow,
        fully_masked_attention_row,
        minus_inf_mask_is_fine,
        mean_over_no_labels,
        nan_in_data,
        embedding_index_out_of_range,
        std_of_constant_feature,
        exp_overflow_in_scan,
        clip_by_norm_of_inf,
        adam_second_moment_overflow,
    )
}
