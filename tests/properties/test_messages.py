"""Messages on the wire: exactly the canonical bytes of a valid message, and nothing else."""

import json

from hypothesis import given
from hypothesis import strategies as st

import firstnan
from properties import json_text, records
from properties.outcome import REFUSED, of_package, of_reference
from reference.decode import stage_message_from_bytes

MESSAGES = records.of_kind("stage-message")


def agree(payload):
    ours = of_package(firstnan.StageMessage.from_bytes, payload)
    theirs = of_reference(stage_message_from_bytes, payload)
    assert (ours == REFUSED) == (theirs == REFUSED)
    if ours != REFUSED:
        assert type(ours) is firstnan.StageMessage
        assert ours.to_bytes() == payload == theirs.to_bytes()
    return ours


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def test_canonical_bytes_of_records():
    seen = set()

    @given(MESSAGES)
    def each(value):
        seen.add(agree(canonical(value)) == REFUSED)

    each()
    assert seen == {True, False}


@given(MESSAGES, st.sampled_from([{"indent": 1}, {"separators": (", ", ":")}, {"separators": (",", ":")}, {}]), st.booleans())
def test_another_text_of_the_same_value_is_refused(value, layout, in_order):
    message = of_package(firstnan.decode, "stage-message", json.dumps(value))
    if message == REFUSED:
        return
    text = json.dumps(value, sort_keys=in_order, **layout).encode()
    if text != message.to_bytes():
        assert firstnan.decode("stage-message", text) == message
        assert agree(text) == REFUSED
    for payload in (text.decode(), bytearray(message.to_bytes()), memoryview(message.to_bytes()), None):
        assert of_package(firstnan.StageMessage.from_bytes, payload) == REFUSED


@given(MESSAGES, st.data())
def test_mutated_bytes(value, data):
    payload = canonical(value)
    for _ in range(data.draw(st.integers(1, 2))):
        start = data.draw(st.integers(0, len(payload)))
        end = min(len(payload), start + data.draw(st.integers(0, 3)))
        part = data.draw(st.one_of(st.sampled_from(json_text.PARTS), st.binary(max_size=2), st.just(payload[start:end] * 2)))
        payload = payload[:start] + part + payload[end:]
    agree(payload)


@given(records.mutated(MESSAGES))
def test_mutated_records(text):
    agree(text.encode(errors="surrogatepass"))
