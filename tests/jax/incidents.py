"""Public incidents made small: real steps, each with the first bad stage and leaf that are expected of it.

The letters are those of the collection they come from; `words` are observations that must stand beside the verdict, and
`without` some that must not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from firstnan import ExpectedNonfinite, LeafRole, NonfinitePolicy, RoleOfLeaves
from firstnan.jax import count_stages

HALF = jnp.float16
INF, NAN = jnp.inf, jnp.nan
ROLES = (RoleOfLeaves(LeafRole.PARAMETERS, "params*"), RoleOfLeaves(LeafRole.OPTIMIZER_STATE, "optimizer*"),
         RoleOfLeaves(LeafRole.MODEL_STATE, "model*"))


def declared(*expected: tuple[str, str, str], skips: int = 0, may_change: tuple[str, ...] = ()) -> NonfinitePolicy:
    kinds = ("nan", "positive_infinity", "negative_infinity")
    entries = [ExpectedNonfinite(stage=stage, path=path, reason="intended", **{k: k == kind for k in kinds})
               for stage, path, kind in expected]
    return NonfinitePolicy(policy_version="v1", expected=tuple(entries), missing=(), roles=ROLES,
                           maximum_consecutive_skips=skips, skip_may_change=may_change)


@dataclass
class Case:
    """`loss(params, batch)` gives the loss (a tree; its sum is differentiated) and the forward tree."""

    stage: str | None
    leaf: str | None
    params: Any
    batches: list[Any]
    loss: Callable[[Any, Any], tuple[Any, Any]]
    optimizer: optax.GradientTransformation = field(default_factory=lambda: optax.sgd(0.1))
    opt_state: Any = None
    policy: NonfinitePolicy = field(default_factory=declared)
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    model: Callable[[Any], Any] | None = None

    def state(self) -> dict[str, Any]:
        params = jax.tree.map(jnp.asarray, self.params)
        opt_state = self.optimizer.init(params) if self.opt_state is None else self.opt_state
        return {"params": params, "optimizer": opt_state} | ({"model": jnp.ones(2)} if self.model else {})

    def step(self) -> Callable[[Any, Any], Any]:
        def step(state, batch):
            def total(params):
                loss, forward = self.loss(params, batch)
                return sum(jax.tree.leaves(loss)), (loss, forward)

            grads, (loss, forward) = jax.grad(total, has_aux=True)(state["params"])
            updates, opt_state = self.optimizer.update(grads, state["optimizer"], state["params"])  # born: NaN
            new = {"params": optax.apply_updates(state["params"], updates), "optimizer": opt_state}
            if self.model is not None:
                new["model"] = self.model(batch)
            counts = count_stages(input=batch, forward=forward, loss=loss, backward=grads,
                                  optimizer={"updates": updates, **new})
            return new, counts, {"loss": sum(jax.tree.leaves(loss))}

        return jax.jit(step)


def a1_log_of_zero() -> Case:
    def loss(w, p):
        return -jnp.sum(jnp.log(w * p)), w * p  # born: NaN, Inf

    return Case("loss", "", jnp.ones(2), [jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])], loss, words=("reached_parameters",))


def a2_all_labels_ignored() -> Case:
    def loss(logits, labels):
        kept = labels != -100
        each = -jax.nn.log_softmax(logits)[jnp.arange(2), jnp.where(kept, labels, 0)]
        return jnp.sum(jnp.where(kept, each, 0.0)) / kept.sum(), logits  # born: NaN

    return Case("loss", "", jnp.array([[1.0, 2.0], [0.0, 1.0]]), [jnp.array([0, 1]), jnp.array([-100, -100])], loss,
                optimizer=optax.sgd(0.1), words=("gradients_zero", "contained"), without=("reached_parameters",))


def a5_one_hot_of_masked_logits() -> Case:
    mask = jnp.array([0.0, 0.0, -INF])

    def loss(logits, one_hot):
        masked = logits + mask
        return optax.softmax_cross_entropy(masked, one_hot).sum(), {"masked": masked}  # born: NaN

    return Case("loss", "", jnp.array([1.0, 2.0, 0.0]), [jnp.array([1.0, 0.0, 0.0])], loss,
                policy=declared(("forward", "masked", "negative_infinity")), words=("excluded_by_policy",))


def a7_auxiliary_loss_of_weight_zero() -> Case:
    def loss(w, x):
        return {"main": jnp.sum((w * x) ** 2), "aux": 0.0 * jnp.sum(jnp.log(x - 1.0))}, w * x  # born: NaN

    return Case("loss", "aux", jnp.ones(2), [jnp.array([2.0, 3.0]), jnp.array([0.5, 3.0])], loss)


def a9_metric_only() -> Case:
    def loss(w, x):
        value = jnp.sum(w * x)
        return value, w * x  # a perplexity exp(value) would overflow, and is no part of the step

    return Case(None, None, jnp.ones(2), [jnp.array([50.0, 50.0])] * 2, loss)


def b1_float16_overflow() -> Case:
    def loss(a, b):
        h = a * b  # born: Inf
        return -jax.nn.log_softmax(h)[1], {"hidden": h}  # born: NaN

    ones = jnp.ones(2, HALF)
    return Case("forward", "hidden", jnp.array([300.0, 1.0], HALF), [ones, jnp.array([300.0, 1.0], HALF)], loss)


def b2_fully_masked_row() -> Case:
    def loss(scores, mask):
        masked = scores + mask
        p = jax.nn.softmax(masked)  # born: NaN
        return jnp.sum(p**2), {"masked": masked, "probabilities": p}

    causal = jnp.array([[0.0, -INF], [0.0, 0.0]])
    whole = jnp.array([[0.0, 0.0], [-INF, -INF]])
    return Case("forward", "probabilities", jnp.array([[1.0, 2.0], [3.0, 4.0]]), [causal, whole], loss,
                policy=declared(("input", "", "negative_infinity"), ("forward", "masked", "negative_infinity")))


def b3_masked_row_that_is_sliced_away() -> Case:
    mask = jnp.array([[0.0, 0.0], [-INF, -INF]])

    def loss(w, x):
        out = jax.nn.softmax(w * x + mask) @ jnp.array([1.0, 2.0])  # born: NaN
        return jnp.sum(out[:1] ** 2), {"out": out}

    return Case("forward", "out", jnp.ones((2, 2)), [jnp.ones((2, 2))], loss, words=("reached_parameters",))


def b5_causal_mask_is_clean() -> Case:
    mask = jnp.array([[0.0, -INF], [0.0, 0.0]])

    def loss(w, x):
        scores = w * x + mask
        return jnp.sum(jax.nn.softmax(scores) ** 2), {"scores": scores}

    return Case(None, None, jnp.ones((2, 2)), [jnp.ones((2, 2))] * 2, loss,
                policy=declared(("forward", "scores", "negative_infinity")))


def b6_one_value_a_channel() -> Case:
    def loss(w, x):
        return jnp.sum((w * x) ** 2), w * x

    def running(x):
        return 0.9 * jnp.ones(2) + 0.1 * jnp.var(x, axis=0, ddof=1)  # born: NaN

    return Case("optimizer", "model", jnp.ones(2), [jnp.ones((3, 2)), jnp.ones((1, 2))], loss, model=running,
                words=("reached_state",), without=("reached_parameters",))


def b8_index_out_of_bounds() -> Case:
    def loss(table, ids):
        rows = jnp.take(table, ids, axis=0)  # born: NaN
        return jnp.sum(rows**2), {"rows": rows}

    return Case("forward", "rows", jnp.ones((4, 2)), [jnp.array([3]), jnp.array([7])], loss)


def b10_empty_expert() -> Case:
    def loss(w, routed):
        sums = w * jnp.array([1.0, 2.0, 3.0])
        means = sums / jax.lax.stop_gradient(routed)
        out = jnp.where(routed > 0, sums / jnp.maximum(routed, 1.0), 0.0)
        return jnp.sum(out**2), {"means": jnp.where(routed > 0, means, 0.0 / routed), "out": out}  # born: NaN

    return Case("forward", "means", jnp.ones(3), [jnp.ones(3), jnp.array([1.0, 0.0, 2.0])], loss,
                words=("contained",), without=("reached_parameters", "reached_state"))


def b10_empty_expert_declared() -> Case:
    case = b10_empty_expert()
    case.stage = case.leaf = None
    case.policy, case.words = declared(("forward", "means", "nan")), ()
    return case


def b11_float8_cast() -> Case:
    def loss(w, x):
        cast = (w * x).astype(jnp.float8_e4m3fn)  # born: NaN
        return jnp.sum((w * x) ** 2), {"cast": cast}

    return Case("forward", "cast", jnp.ones(2), [jnp.array([10.0, 50.0]), jnp.array([10.0, 500.0])], loss)


def b13_washed_nan() -> Case:
    def loss(w, x):
        inner = jnp.log(x)  # born: NaN
        return jnp.sum(w * jnp.nan_to_num(jax.lax.stop_gradient(inner))), {"inner": inner}

    return Case("forward", "inner", jnp.ones(2), [jnp.ones(2), jnp.array([-1.0, 1.0])], loss, words=("contained",))


def c1_guard_after_the_square_root() -> Case:
    def loss(w, x):
        o = w * x
        return jnp.sum(jnp.where(o > 0, jnp.sqrt(o), 0.0)), o  # born: NaN, Inf

    return Case("backward", "", jnp.ones(2), [jnp.array([4.0, 1.0]), jnp.array([4.0, 0.0])], loss, words=("reached_parameters",))


def c3_epsilon_outside_the_square_root() -> Case:
    def loss(w, x):
        h = w * x
        normal = (h - h.mean()) / (jnp.sqrt(jnp.var(h)) + 1e-5)  # born: NaN, Inf
        return jnp.sum(normal**2), normal

    return Case("backward", "", jnp.ones(3), [jnp.array([1.0, 2.0, 4.0]), jnp.ones(3)], loss,
                optimizer=optax.sgd(0.0))


def c6_nan_padding() -> Case:
    def loss(w, batch):
        x, mask = batch["x"], batch["mask"]
        out = x @ w
        return jnp.sum(jnp.where(mask > 0, out**2, 0.0)), {"out": out}

    clean = {"x": jnp.array([[1.0, 2.0], [0.0, 0.0]]), "mask": jnp.array([1.0, 0.0])}
    padded = {"x": jnp.array([[1.0, 2.0], [NAN, NAN]]), "mask": jnp.array([1.0, 0.0])}
    return Case("input", "x", jnp.ones(2), [clean, padded], loss, words=("present_on_entry", "reached_parameters"))


def c8_logsumexp_of_nothing() -> Case:
    def loss(w, batch):
        total = jax.nn.logsumexp(w * batch["x"] + batch["mask"])  # born: NaN, Inf
        return jnp.exp(total), {"total": total, "scores": w * batch["x"]}

    def batch(mask):
        return {"x": jnp.ones(3), "mask": jnp.full(3, mask)}

    return Case("backward", "", jnp.ones(3), [batch(0.0), batch(-INF)], loss,
                policy=declared(("forward", "total", "negative_infinity"), ("input", "mask", "negative_infinity")))


def d5_padding_of_a_flat_buffer() -> Case:
    def loss(w, x):
        flat = jnp.concatenate([w * x, jnp.full(2, NAN)])  # the padding is never used, and no leaf of the step
        return jnp.sum(flat[:2] ** 2), flat[:2]

    return Case(None, None, jnp.ones(2), [jnp.ones(2)] * 2, loss)


def e1_epsilon_vanishes_in_float16() -> Case:
    def loss(w, x):
        return jnp.sum(w * 0 * x), w

    return Case("optimizer", "updates", jnp.ones(3, HALF), [jnp.ones(3, HALF)], loss,
                optimizer=optax.chain(optax.scale_by_adam(eps=1e-8), optax.scale(-1e-3)), words=("reached_parameters",))


def e3_clipping_of_an_infinity() -> Case:
    def loss(w, x):
        return jnp.sum(w["a"].astype(jnp.float32) * x) + jnp.sum(w["b"].astype(jnp.float32) * 2.0), w  # born: Inf

    params = {"a": jnp.zeros(2, HALF), "b": jnp.zeros(1, HALF)}
    return Case("backward", "a", params, [jnp.ones(2), jnp.array([1e5, 1.0])], loss,
                optimizer=optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1)), words=("reached_parameters",))


def e5_nan_learning_rate() -> Case:
    def loss(w, batch):
        return jnp.sum((w * batch["x"]) ** 2), w

    good = {"x": jnp.ones(2), "learning_rate": jnp.float32(0.1)}
    bad = good | {"learning_rate": jnp.float32(0.0) / jnp.float32(0.0)}
    return Case("input", "learning_rate", jnp.ones(2), [good, bad], loss)


def e6_nan_in_the_optimizer_state_on_resume() -> Case:
    params = jnp.ones(2)
    optimizer = optax.adam(1e-3)
    moments, rest = optimizer.init(params)
    resumed = (moments._replace(nu=jnp.array([NAN, 0.0])), rest)

    def loss(w, x):
        return jnp.sum((w * x) ** 2), w

    return Case("optimizer", "optimizer/0/nu", params, [jnp.ones(2)], loss, optimizer=optimizer, opt_state=resumed,
                words=("present_on_entry", "began_before_window"))


def e8_nan_in_a_frozen_leaf() -> Case:
    def loss(w, x):
        return jnp.sum((w["used"] * x) ** 2), w["used"]

    params = {"used": jnp.ones(2), "frozen": jnp.array([NAN, 1.0])}
    return Case("optimizer", "params/frozen", params, [jnp.ones(2)], loss, optimizer=optax.adamw(1e-3),
                words=("present_on_entry", "began_before_window"), without=("reached_parameters",))


def f1_nan_in_the_data() -> Case:
    def loss(w, x):
        return jnp.sum((w * x) ** 2), w * x

    return Case("input", "", jnp.ones(3), [jnp.ones(3), jnp.array([1.0, NAN, 2.0])], loss, words=("present_on_entry",))


def f3_too_large_for_the_device() -> Case:
    def loss(w, x):
        return jnp.sum(w * x), w * x

    return Case("input", "", jnp.ones(2), [np.array([1.0, 2.0]), np.array([1e300, 1.0])], loss)


def f6_divergence() -> Case:
    def loss(p, x):
        return jnp.sum(p**4), p  # born: Inf

    return Case("loss", "", jnp.full(1, 10.0), [jnp.ones(1)] * 3, loss, optimizer=optax.sgd(1.0))


CASES = {name: make for name, make in globals().items()
         if callable(make) and name[:1] in "abcdef" and name[1:2].isdigit() and "_" in name}
