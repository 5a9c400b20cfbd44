"""Records keep what Python promises of a frozen dataclass: fields, asdict, replace, equality, hashing, copies, pickles."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, asdict, astuple, fields, is_dataclass, replace
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import firstnan
from properties import generic, records
from properties.outcome import REFUSED, of_package, of_package_typed
from properties.records import ANY, pick

EACH_KIND = pytest.mark.parametrize("kind", generic.KINDS)
FEW = settings(max_examples=settings.default.max_examples // 5)


@st.composite
def accepted(draw, kind):
    """A record of a kind that `decode` takes, and its value; a seed where the drawn one is refused."""
    value = draw(records.of_kind(kind))
    record = of_package(firstnan.decode, kind, json.dumps(value))
    if record == REFUSED:
        value = json.loads(pick(seeds(kind), draw(ANY)))
        record = firstnan.decode(kind, json.dumps(value))
    return record, value


seeds = cache(records.seeds)


def schema_of(kind, value):
    schema = generic.SCHEMAS[kind]
    return schema["$defs"][value["event"]] if "oneOf" in schema else schema


@EACH_KIND
def test_a_record_is_a_frozen_dataclass(kind):
    @FEW
    @given(accepted(kind), ANY)
    def each(pair, which):
        record, value = pair
        order = schema_of(kind, value)["x-firstnan-order"]
        assert is_dataclass(record)
        assert [field.name for field in fields(record)] == order == list(asdict(record))
        assert json.loads(json.dumps(astuple(record))) == [plain(value[name]) for name in order]
        name = pick(order, which)
        with pytest.raises(FrozenInstanceError):
            setattr(record, name, getattr(record, name))
        with pytest.raises(FrozenInstanceError):
            delattr(record, name)

    each()


def plain(value):
    """As `astuple` gives it: a record within a record is the list of its values, in the order of its class."""
    if isinstance(value, dict):
        return [plain(value[name]) for name in order_of(value)]
    return [plain(each) for each in value] if isinstance(value, list) else value


ORDERS = [schema["x-firstnan-order"] for whole in generic.SCHEMAS.values()
          for schema in [whole, *whole.get("$defs", {}).values()] if "x-firstnan-order" in schema]  # fmt: skip


def order_of(value):
    return next(order for order in ORDERS if sorted(order) == sorted(value))


@EACH_KIND
def test_copies_are_equal(kind):
    @FEW
    @given(accepted(kind))
    def each(pair):
        record, value = pair
        again = firstnan.decode(kind, json.dumps(value))
        pickles = [pickle.loads(pickle.dumps(record, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
        for other in [again, copy.copy(record), copy.deepcopy(record), replace(record), *pickles]:
            assert type(other) is type(record)
            assert other == record
            assert hash(other) == hash(record)
            assert repr(other) == repr(record)
            assert firstnan.encode(other) == firstnan.encode(record)

    each()


@EACH_KIND
def test_equality_is_of_the_class_and_of_each_field(kind):
    @FEW
    @given(accepted(kind), accepted(kind), ANY)
    def each(pair, other, which):
        (record, value), (second, second_value) = pair, other
        assert (record == second) == (value == second_value)
        assert record != tuple(value.values())
        assert record != value
        if type(record) is not type(second):
            return
        name = pick(fields(record), which).name
        changed = of_package(replace, record, **{name: getattr(second, name)})
        if changed != REFUSED:
            assert (changed == record) == (getattr(second, name) == getattr(record, name))
            assert type(record)(**vars(changed)) == changed

    each()


@EACH_KIND
def test_replace_checks_again(kind):
    @FEW
    @given(accepted(kind), ANY, st.sampled_from([value for value in records.STRANGE if not isinstance(value, records.Raw)]))
    def each(pair, which, strange):
        record, value = pair
        name = pick(sorted(value), which)
        assume(not isinstance(getattr(firstnan, type(getattr(record, name)).__name__, None), type))  # an enum's text is no member
        ours = of_package_typed(replace, record, **{name: strange})
        text = of_package(firstnan.decode, kind, json.dumps(value | {name: strange}))
        assert ours == text or (isinstance(strange, list) and ours == REFUSED)

    each()


@given(accepted("logical-placement"))
def test_the_local_shape_is_the_part_of_the_rank(pair):
    placement, value = pair
    shape = list(value["global_shape"])
    if value["kind"] != "replicated":
        shape[value["shard_dim"]] //= value["world_size"]
    assert placement.local_shape == tuple(shape)


@given(accepted("training-incident-contract"), st.sampled_from([*firstnan.STAGES, "", "Input", "commit"]))
def test_the_owner_of_a_stage(pair, stage):
    contract, value = pair
    owners = {"input": "data", "forward": "model", "loss": "objective", "backward": "model", "optimizer": "optimizer"}
    if stage in owners:
        assert contract.expected_owner(stage) == value[f"{owners[stage]}_owner"]
    else:
        with pytest.raises(KeyError):
            contract.expected_owner(stage)


@given(accepted("stage-telemetry"), st.sampled_from([int, float]), ANY)
def test_captured_telemetry_has_one_identity(pair, of, which):
    record, value = pair
    value = vars(record) | {"loss_scale": of(64), "maximum_absolute_finite": of(value["checked_elements"] and 2)}
    captured = firstnan.StageTelemetry.capture(**value)
    assert captured == firstnan.StageTelemetry(**value)
    assert type(captured.loss_scale) is type(captured.maximum_absolute_finite) is float
    assert b'"loss_scale":64.0' in firstnan.encode(captured)
    del value[pick(sorted(value), which)]
    with pytest.raises(KeyError):
        firstnan.StageTelemetry.capture(**value)
