"""The loop: the same verdict, state and evidence however seldom it looks; donation, refusal, interruption, restart."""

import itertools
import os
import signal
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from steps import initial, make_step, norm_at_zero

from firstnan import ContractError
from firstnan.jax import StepRefused, count_stages, read_bundle, run, verify_bundle

GOOD = 11


def training(bad_index=GOOD, total=16, **jit):
    """A regression whose batch `bad_index` has targets that are met exactly, so that the norm's gradient is NaN."""
    scenario = norm_at_zero()
    rng = np.random.default_rng(1)
    batches = [(rng.normal(size=(4, 2)).astype(np.float32), rng.normal(size=4).astype(np.float32)) for _ in range(total)]
    if bad_index is not None:
        batches[bad_index] = tuple(np.asarray(part) for part in scenario.batches[-1])
    return make_step(scenario, **jit), initial(scenario), batches


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


@pytest.fixture
def go(contract, tmp_path):
    def go(step, state, batches, **changes):
        return run(step, state, batches, **{"contract": contract, "bundle_dir": tmp_path} | changes)

    return go


@pytest.mark.parametrize("donate", [(), (0,)], ids=["kept", "donated"])
def test_every_says_nothing_about_the_verdict(go, donate, tmp_path):
    ends = []
    for every in (1, 7, 100):
        step, state, batches = training(donate_argnums=donate)
        result = go(step, state, iter(batches), every=every, start_step=40, bundle_dir=tmp_path / str(every))
        assert (result.held, result.bad_step, result.bad_batch, result.steps) == (True, 40 + GOOD, GOOD, GOOD)
        assert (result.next_step, result.reproduced, result.interrupted) == (40 + GOOD, True, False)
        assert result.report.earliest_nonfinite_stage == "backward"
        files = {name: (result.bundle / name).read_bytes() for name in ("contract.json", "evidence.json", "report.json")}
        again = result.restart()
        assert (again.held, again.steps, again.next_step) == (False, 4, 40 + GOOD + 4)
        ends.append((bits(result.state), result.evidence, files, result.history, bits(again.state), again.history))
    assert ends[0] == ends[1] == ends[2]


def test_the_last_good_state_is_that_of_a_run_without_the_bad_batch(go):
    step, state, batches = training()
    held = go(step, state, batches)
    plain = state
    for batch in batches[:GOOD]:
        plain = step(plain, batch)[0]
    assert bits(held.state) == bits(plain)
    for batch in batches[GOOD + 1 :]:
        plain = step(plain, batch)[0]
    assert bits(held.restart().state) == bits(plain)


def test_a_run_in_a_new_process_skips_what_was_used_and_the_bad_batch(go):
    step, state, batches = training()
    held = go(step, state, batches)
    saved = read_bundle(held.bundle).state()
    fresh = go(step, saved, batches, start_step=held.next_step, skip=range(held.bad_batch + 1))
    assert (fresh.held, fresh.next_step) == (False, 15)
    assert bits(fresh.state) == bits(held.restart().state)
    assert fresh.history[0].batch_index == GOOD + 1


def test_restart_works_once_and_only_after_a_stop(go):
    step, state, batches = training()
    held = go(step, state, batches, every=4)
    end = held.restart(every=2)
    with pytest.raises(ValueError, match="already"):
        held.restart()
    with pytest.raises(ValueError, match="came to its end"):
        end.restart()


def test_several_bad_batches_are_held_one_by_one(go, tmp_path):
    step, state, batches = training()
    batches[13] = batches[3] = batches[GOOD]
    result = go(step, state, iter(batches), every=5)
    found = []
    while result.held:
        found.append((result.bad_step, result.bad_batch))
        result = result.restart()
    assert found == [(3, 3), (10, 11), (11, 13)]
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [
        "incident-step-10",
        "incident-step-11",
        "incident-step-3",
    ]


def test_a_second_bundle_of_a_step_gets_a_name_of_its_own(go, tmp_path):
    for _ in range(2):
        step, state, batches = training()
        go(step, state, batches)
    assert {folder.name for folder in tmp_path.iterdir()} == {f"incident-step-{GOOD}", f"incident-step-{GOOD}-2"}
    assert verify_bundle(tmp_path / f"incident-step-{GOOD}") == ()


@pytest.mark.parametrize("every", [1, 7])
def test_the_history_reaches_back_and_into_the_bundle(go, every):
    step, state, batches = training()
    result = go(step, state, batches, every=every, history=5)
    assert [entry.step_id for entry in result.history] == list(range(GOOD - 4, GOOD + 1))
    assert result.history[-1].nonfinite["backward"] == 2
    assert all(entry.nonfinite["backward"] == 0 for entry in result.history[:-1])
    assert {"loss", "loss_scale"} == set(result.history[0].metrics)
    assert read_bundle(result.bundle).history == result.history


@pytest.mark.parametrize("every", [1, 4])
def test_donated_state_and_batch_are_kept(go, every):
    @jax.jit
    def plain(state, batch):
        counts = count_stages(input=batch, forward=batch, loss=state.sum(), backward=batch, optimizer=state)
        return state + 1, counts, {"batch": batch * 2}

    donating = jax.jit(plain, donate_argnums=(0, 1))
    batches = [jnp.full(3, float(index)) for index in range(9)]
    batches[6] = jnp.array([1.0, jnp.inf, 2.0])
    result = go(donating, jnp.zeros(4), list(batches), every=every)
    assert (result.held, result.bad_step, result.report.earliest_nonfinite_stage) == (True, 6, "input")
    assert result.state.tolist() == [6.0] * 4
    bundle = read_bundle(result.bundle)
    assert bundle.batch().tolist() == [1.0, np.inf, 2.0]
    assert bundle.state().tolist() == [6.0] * 4
    assert result.restart().state.tolist() == [8.0] * 4


def test_a_first_state_of_numpy_arrays_does_not_hide_donation(go):
    donating = jax.jit(lambda s, b: (s + 1, count_stages(input=b, forward=b, loss=b, backward=b, optimizer=s)), donate_argnums=0)
    result = go(donating, np.zeros(4, np.float32), [jnp.float32(1)] * 5 + [jnp.float32(np.nan)])
    assert result.held
    assert result.state.tolist() == [5.0] * 4


def test_a_step_that_begins_to_donate_late_is_told_apart(go):
    def body(s, b):
        return s + 1, count_stages(input=b, forward=b, loss=b, backward=b, optimizer=s)

    calls = itertools.count()
    kept, donating = jax.jit(body), jax.jit(body, donate_argnums=0)
    step = lambda s, b: (kept if next(calls) < 3 else donating)(s, b)  # noqa: E731
    with pytest.raises(RuntimeError, match="step 5 is bad and the state before it is gone"):
        go(step, jnp.zeros(4), [jnp.float32(1)] * 5 + [jnp.float32(np.nan)])


def test_a_loader_may_reuse_its_buffer(go):
    step, state, batches = training()

    def loader():
        x, y = np.empty((4, 2), np.float32), np.empty(4, np.float32)
        for batch in batches:
            x[:], y[:] = batch
            yield x, y

    result = go(lambda s, b: step(s, jax.tree.map(jnp.array, b)), state, loader(), every=7)
    assert (result.bad_step, result.reproduced) == (GOOD, True)
    assert bits(read_bundle(result.bundle).batch()) == bits(batches[GOOD])


def test_a_step_that_does_not_repeat_itself_is_recorded(go):
    calls = itertools.count()

    def step(state, batch):
        noise = jnp.float32(1 + next(calls))
        return state + 1, count_stages(input=batch, forward=noise, loss=batch, backward=batch, optimizer=state)

    result = go(step, 0.0, [1.0, 2.0, float("nan")], every=3)
    assert (result.bad_step, result.reproduced, result.state) == (2, False, 2.0)
    assert read_bundle(result.bundle).incident.reproduced is False


def test_a_replay_that_goes_bad_earlier_gives_the_state_before_it(go):
    calls = itertools.count()

    def step(state, batch):
        # The second step is finite when first run and not when run again.
        forward = float("inf") if next(calls) == 4 else 1.0
        return state + 1, count_stages(input=batch, forward=forward, loss=batch, backward=batch, optimizer=state)

    result = go(step, 0.0, [1.0, 2.0, float("nan"), 3.0], every=3)
    assert (result.bad_step, result.state, result.steps, result.next_step) == (2, 1.0, 1, 1)
    assert result.reproduced is False
    assert read_bundle(result.bundle).incident.state_step_id == 1
    # The batch of the step that was not taken again is still to be used.
    end = result.restart()
    assert (end.held, end.state, [entry.batch_index for entry in end.history[-2:]]) == (False, 3.0, [1, 3])


def test_a_replay_that_raises_is_recorded(go):
    calls = itertools.count()

    def step(state, batch):
        if next(calls) >= 2:
            raise OSError("the device is gone")
        return state + 1, count_stages(input=batch, forward=batch, loss=batch, backward=batch, optimizer=state)

    with pytest.warns(UserWarning, match="running step 1 again raised OSError"):
        result = go(step, 0.0, [1.0, float("nan")])
    assert (result.held, result.state, result.reproduced) == (True, 1.0, False)


@pytest.mark.parametrize("every", [1, 3])
def test_refused_evidence_is_kept_aside_and_the_step_named(go, contract, every):
    step, state, batches = training(None, total=6)
    batches[4] = (batches[4][0] * 1e5, batches[4][1])
    small = replace(contract, maximum_absolute_finite=1e4)
    with pytest.raises(StepRefused, match="step 4 was refused") as caught:
        go(step, state, batches, contract=small, every=every)
    assert isinstance(caught.value, ContractError)
    assert caught.value.__cause__ is not None
    result = caught.value.result
    assert (result.held, result.steps, result.bad_step, result.bad_batch) == (False, 4, 4, 4)
    assert result.bundle.name == "refused-step-4"
    bundle = read_bundle(result.bundle)
    assert bundle.report is None
    assert bundle.evidence.stages[0].maximum_absolute_finite > 1e4
    assert bundle.incident.refusal
    assert verify_bundle(result.bundle) == ()
    assert result.restart().next_step == 5


def test_a_loss_scale_that_is_no_scale_is_refused_with_the_counts_kept(go):
    def step(state, batch):
        counts = count_stages(input=batch, forward=batch, loss=batch, backward=batch, optimizer=state)
        return state, counts, {"loss_scale": jnp.where(batch > 2, 0.0, 8.0)}

    with pytest.raises(StepRefused, match=r"step 2 was refused: .*loss_scale") as caught:
        go(jax.jit(step), 1.0, [jnp.float32(x) for x in (1, 2, 3)])
    bundle = read_bundle(caught.value.result.bundle)
    assert (bundle.contract, bundle.evidence) == (None, None)
    assert bundle.counts.total("input").maximum_absolute_finite == 3.0
    assert bundle.history[0].metrics == {"loss_scale": 8.0}


def test_the_contract_follows_the_step(go, contract):
    step, state, batches = training()
    result = go(step, state, batches, start_step=100, first_batch=5)
    assert (result.contract.step_id, result.contract.batch_id) == (100 + GOOD, f"batch-{5 + GOOD}")
    asked = []

    def contract_of(step_id, batch_index, loss_scale):
        asked.append((step_id, batch_index, loss_scale))
        return replace(contract, step_id=step_id, batch_id=f"shuffled/{batch_index}")

    step, state, batches = training()
    own = go(step, state, batches, contract=contract_of)
    assert own.evidence.stages[0].batch_id == f"shuffled/{GOOD}"
    assert asked == [(index, index, 1.0) for index in range(GOOD + 1)]


@pytest.mark.parametrize("every", [1, 4])
def test_a_contract_of_another_step_is_refused(go, contract, every):
    step, state, batches = training()
    with pytest.raises(StepRefused, match=r"step 2 was refused: .*gave a contract of step 3 for step 2") as caught:
        go(step, state, batches, every=every, contract=lambda step, *_: replace(contract, step_id=step + (step == 2)))
    assert (caught.value.pointer, caught.value.bound) == ("/step_id", "2")
    bundle = caught.value.result.bundle
    assert (verify_bundle(bundle), read_bundle(bundle).contract) == ((), None)
    with pytest.raises(StepRefused, match="gave a dict for step 0, not a TrainingIncidentContract"):
        go(step, state, batches, contract=lambda *_: {"step_id": 0})


def test_on_step_sees_the_good_steps_in_order(go):
    seen = []
    step, state, batches = training()
    go(step, state, batches, every=5, on_step=lambda entry, aux: seen.append((entry.step_id, float(aux["loss"]))))
    assert [number for number, _ in seen] == list(range(GOOD))
    assert all(np.isfinite(loss) for _, loss in seen)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, OSError])
def test_a_hold_outlives_what_on_step_raises(go, raised, tmp_path):
    step, state, batches = training()

    def on_step(entry, aux):
        if entry.step_id == GOOD - 1:
            raise raised

    if raised is KeyboardInterrupt:
        result = go(step, state, batches, every=100, on_step=on_step)
        assert (result.held, result.interrupted, result.bad_step) == (True, True, GOOD)
        assert result.restart(on_step=None).next_step == 15
    else:
        with pytest.raises(raised) as caught:
            go(step, state, batches, every=100, on_step=on_step)
        assert f"step {GOOD} was held before this" in caught.value.__notes__[0]
    assert [folder.name for folder in tmp_path.iterdir()] == [f"incident-step-{GOOD}"]


@pytest.mark.parametrize("every", [1, 4])
def test_an_interrupt_keeps_what_was_verified(go, every):
    step, state, batches = training(bad_index=None, total=12, donate_argnums=0)

    def interrupting():
        for index, batch in enumerate(batches):
            if index == 6:
                os.kill(os.getpid(), signal.SIGINT)
            yield batch

    result = go(step, state, interrupting(), every=every)
    assert (result.interrupted, result.held, result.steps) == (True, False, 6)
    plain_step, plain, _ = training(bad_index=None, total=12)
    for batch in batches[:6]:
        plain = plain_step(plain, batch)[0]
    assert bits(result.state) == bits(plain)


@pytest.mark.parametrize("every", [1, 4])
def test_an_interrupt_inside_a_donating_step_loses_nothing(go, every):
    inner, state, batches = training(bad_index=None, total=12, donate_argnums=0)
    calls = itertools.count()

    def step(state, batch):
        outcome = inner(state, batch)
        if next(calls) == 6:  # the state it was given is gone by now, and the new one not yet handed over
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass
        return outcome

    result = go(step, state, batches, every=every)
    assert (result.interrupted, result.steps) == (True, 6)
    end = result.restart()
    assert (end.interrupted, end.next_step) == (False, 12)
    plain_step, plain, _ = training(bad_index=None, total=12)
    for batch in batches:
        plain = plain_step(plain, batch)[0]
    assert bits(end.state) == bits(plain)


# An interrupt between open() and its `with` leaves the file to the garbage collector, which says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("every", [1, 3])
def test_an_interrupt_at_any_moment_leaves_a_state_that_was_reached(go, every):
    inner, state, batches = training(bad_index=20, total=40, donate_argnums=0)
    plain_step, plain, _ = training()
    reached = [bits(plain)]
    for index, batch in enumerate(batches):
        if index != 20:
            plain = plain_step(plain, batch)[0]
            reached.append(bits(plain))
    go(inner, state, batches, every=every).restart()  # compiles everything
    started = time.perf_counter()
    go(inner, state, batches, every=every)
    duration = time.perf_counter() - started

    armed = False

    def interrupt(number, frame):
        if armed:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    stops = 0
    try:
        for attempt in range(25):
            result = None
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, duration * (attempt + 1) / 26)
                result = go(inner, state, batches, every=every)
                armed = False
            except KeyboardInterrupt:  # it fell before run or after it
                armed = False
            if result is not None:
                stops += result.interrupted
                assert bits(result.state) == reached[result.steps]
                while result.interrupted or result.held:
                    result = result.restart()
                assert (result.next_step, bits(result.state)) == (39, reached[39])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert stops


def test_an_exception_of_the_users_code_finds_the_hold_before_it(go, tmp_path):
    step, state, batches = training()

    def failing():
        yield from batches[: GOOD + 2]
        raise FileNotFoundError("the next shard")

    with pytest.raises(FileNotFoundError) as caught:
        go(step, state, failing(), every=100)
    assert f"step {GOOD} was held before this" in caught.value.__notes__[0]
    assert verify_bundle(tmp_path / f"incident-step-{GOOD}") == ()


def test_a_disk_that_takes_no_bundle_does_not_cost_the_state(go, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    step, state, batches = training()
    with pytest.warns(UserWarning, match=f"no incident-step-{GOOD}"):
        result = go(step, state, batches, bundle_dir=tmp_path / "file" / "below")
    assert (result.held, result.steps, result.bundle) == (True, GOOD, None)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (lambda s, c: s, "must return"),
        (lambda s, c: (s, {"loss": 1.0}), "counts from count_stages"),
        (lambda s, c: (s, c, [1.0]), "aux as a dict"),
        (lambda s, c: (s, replace(c, data=np.zeros((2, *c.data.shape), np.uint32))), "stacked counts"),
    ],
)
def test_a_step_of_another_form_is_refused(go, outcome, words):
    counts = count_stages(input=1.0, forward=1.0, loss=1.0, backward=1.0, optimizer=1.0)
    with pytest.raises(TypeError, match=f"step 0 .*{words}"):
        go(lambda s, b: outcome(s, counts), 0.0, [1.0])


def test_no_batches_is_no_step(go):
    result = go(lambda s, b: None, 5.0, [])
    assert (result.state, result.steps, result.held, result.report, result.history) == (5.0, 0, False, None, ())
    for wrong in ({"every": 0}, {"history": 0}):
        with pytest.raises(ValueError, match="below the minimum"):
            go(lambda s, b: None, 5.0, [], **wrong)
