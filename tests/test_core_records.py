"""Records at the border of the native core: from text, from objects, forced, copied; and the errors they end in."""

import copy
import dataclasses
import enum
import gc
import pickle

import pytest

import firstnan
from firstnan import ContractError, RuntimeStage, StageMessage, StageTelemetry, Vote, _core

MESSAGE = StageMessage("0" * 32, "1" * 64, 3, 2**63 - 1, RuntimeStage.ABORTING, Vote.ABORT, "OUT_OF_MEMORY")
TELEMETRY = {
    "telemetry_id": "t", "tensor_set_id": "s", "stage": "loss", "stage_order": 2, "state": "OBSERVED",
    "checked_elements": 3, "finite_elements": 2, "nonfinite_elements": 1, "maximum_absolute_finite": 1.5,
    "run_id": "r", "step_id": 7, "model_version": "m", "dataset_version": "d", "batch_id": "b", "objective_version": "o",
    "optimizer_version": "p", "precision": "float16", "loss_scale_version": "l", "loss_scale": 1024,
    "evidence_source_id": "e", "owner": "team:objective",
}  # fmt: skip



class Text(str):
    pass


class Number(int):
    pass


class Real(float):
    pass


class Word(str, enum.Enum):  # noqa: UP042 - StrEnum is another class
    LOSS = "loss"


def refusal(call, *arguments, **options):
    with pytest.raises(ContractError) as caught:
        call(*arguments, **options)
    return caught.value


def test_text_that_is_no_text_is_a_contract_error():
    for data in (None, 1, ["{}"], object(), "\ud800", b"\xff", memoryview(b"abcd").cast("i"), b"", "\ufeff{}"):
        refusal(firstnan.decode, "stage-message", data)
        refusal(firstnan.canonicalize, data, profile="record")
    for kind in ("stage_message", "", None, 3, "\ud800", b"stage-message"):
        assert refusal(firstnan.decode, kind, MESSAGE.to_bytes()).kind == "record_kind"
    for data in (MESSAGE.to_bytes().decode(), bytearray(MESSAGE.to_bytes()), memoryview(MESSAGE.to_bytes())):
        assert firstnan.decode("stage-message", data) == MESSAGE
        refusal(StageMessage.from_bytes, data)
    for data in (None, 7, b"", b"{}", b"[" * 100_000, b"9" * 100_000, MESSAGE.to_bytes() + b"\n", b"x" * 70_000):
        assert refusal(StageMessage.from_bytes, data).record == "stage-message"


def test_records_from_text_are_like_constructed_ones():
    decoded = StageMessage.from_bytes(MESSAGE.to_bytes())
    for one in (decoded, pickle.loads(pickle.dumps(decoded)), copy.deepcopy(decoded), dataclasses.replace(decoded)):
        assert one == MESSAGE
        assert hash(one) == hash(MESSAGE)
        assert one.stage is RuntimeStage.ABORTING
        assert one.to_bytes() == MESSAGE.to_bytes()
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.rank = 1
    gc.collect()
    assert decoded.error_code == "OUT_OF_MEMORY"


def test_text_and_integers_of_incident_records_are_exact_and_those_of_runtime_records_are_not():
    changes = [("run_id", Text("r")), ("step_id", Number(7)), ("step_id", True), ("loss_scale", Number(4)), ("stage", Word.LOSS)]
    for name, value in changes:
        error = refusal(StageTelemetry, **TELEMETRY | {name: value})
        assert (error.pointer, error.record, error.layer) == (f"/{name}", "stage-telemetry", "shape")
    assert StageTelemetry(**TELEMETRY | {"loss_scale": Real(4)}).loss_scale == 4
    assert StageTelemetry(**TELEMETRY | {"loss_scale": 10**300}).loss_scale == 10**300
    assert refusal(StageTelemetry, **TELEMETRY | {"loss_scale": 10**400}).pointer == "/loss_scale"
    assert dataclasses.replace(MESSAGE, run_id=Text("2" * 32), rank=Number(5)).to_bytes().count(b"2" * 32) == 1
    no_member = str.__new__(RuntimeStage, "aborting")
    for change in ({"rank": True}, {"rank": 3.0}, {"stage": "aborting"}, {"vote": "abort"}, {"stage": no_member}):
        assert refusal(dataclasses.replace, MESSAGE, **change).pointer == "/" + next(iter(change))


def test_a_subclass_of_a_runtime_record_has_its_bytes_and_one_of_an_incident_record_has_none():
    class Derived(StageMessage):
        note = "not a field"

    class Stricter(StageTelemetry):
        pass

    derived = Derived(**vars(MESSAGE))
    assert derived.to_bytes() == firstnan.encode(derived) == MESSAGE.to_bytes()
    object.__setattr__(derived, "rank", 4096)
    assert refusal(derived.to_bytes).pointer == "/rank"
    with pytest.raises(TypeError, match="takes a record"):
        firstnan.encode(Stricter(**TELEMETRY))


def test_encode_and_check_take_records_only():
    for value in (StageMessage, {"run_id": 1}, None):
        with pytest.raises(TypeError):
            firstnan.encode(value)
    with pytest.raises(TypeError):
        _core.check(0, MESSAGE)
    assert refusal(_core.check, 10**6, MESSAGE).kind == "record_kind"
    forced = dataclasses.replace(MESSAGE)
    object.__setattr__(forced, "rank", 4096)
    assert (refusal(forced.to_bytes).pointer, refusal(forced.to_bytes).bound) == ("/rank", "4095")
    object.__delattr__(forced, "rank")
    assert refusal(forced.to_bytes).kind == "required"


def test_errors_keep_what_they_carry():
    error = refusal(StageTelemetry, **TELEMETRY | {"owner": "no team"})
    for one in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (str(one), vars(one)) == (str(error), vars(error))
    coded = firstnan.RuntimeContractError("LOST_RANK", "rank 3 is silent")
    for one in (pickle.loads(pickle.dumps(coded)), copy.deepcopy(coded)):
        assert (one.code, str(one)) == ("LOST_RANK", "rank 3 is silent")
    for code in ("", "lower", "A" * 65, "A\n", "A-B", 7, None, "É"):
        assert refusal(firstnan.RuntimeContractError, code, "m").pointer == "/code"


def test_capture_takes_any_real_number_and_nothing_else():
    import numpy as np

    def captured(value):
        return StageTelemetry.capture(**TELEMETRY | {"maximum_absolute_finite": value}).maximum_absolute_finite

    assert [captured(value) for value in (np.float32(2), np.int64(2), np.array(2.0), np.float16(2), 2)] == [2.0] * 5
    for value, bound in ((10**400, "the largest finite binary64"), (-(10**400), "the least finite binary64")):
        for build in (StageTelemetry.capture, StageTelemetry):
            error = refusal(build, **TELEMETRY | {"loss_scale": value})
            assert (error.kind, error.bound) == ("maximum" if value > 0 else "minimum", bound)
    for value in (np.True_, np.array(True), np.complex128(2 + 3j), np.array("2.0"), np.void(b"2"), 1j, True, "2", b"2"):
        with pytest.raises(ContractError):
            captured(value)
