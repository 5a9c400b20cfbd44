"""firstnan's reader takes what the grammar of RFC 8259 derives, and nothing else, but for the bounds it documents."""

import collections

import pytest

import firstnan
from grammar import beyond, corpus

GRAMMAR = {"syntax", "encoding", "byte_order_mark"}
"""Kinds of refusal that say: this is no JSON text in UTF-8."""
BOUNDS = {
    "evidence": {
        "duplicate_name": beyond.name_twice,
        "non_finite": beyond.overflows,
        "integer_range": beyond.too_many_digits,
        "depth": lambda data: beyond.depth(data) > 256,
    },
    "record": {
        "duplicate_name": beyond.name_twice,
        "lone_surrogate": beyond.lone_surrogate,
        "float_forbidden": beyond.holds_float,
        "integer_range": beyond.beyond_64_bits,
        "depth": lambda data: beyond.depth(data) > 16,
    },
}
"""Kind → does a text of the grammar have it? docs/canonical.md states each."""
EVENT = b'{"event":"failed","monotonic_s":%b,"kind":"x","message":%b}'


def refusal(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except firstnan.ContractError as error:
        return error
    return None


def test_the_corpus_is_large_and_has_both_verdicts():
    verdicts = corpus.verdicts()
    assert len(verdicts) > 10_000
    assert 2_000 < sum(verdicts.values()) < len(verdicts) - 2_000
    for family, size in collections.Counter(corpus.texts().values()).items():
        assert size >= 8, family


@pytest.mark.parametrize("profile", ["evidence", "record"])
def test_canonicalize(profile):
    seen = collections.Counter()
    for data, right in corpus.verdicts().items():
        error = refusal(firstnan.canonicalize, data, profile=profile)
        kind = error and error.kind
        seen[kind] += 1
        if not right:
            assert error is not None, data
            assert error.layer == "wire", data
            if kind == "syntax":
                assert error.offset <= corpus.viable_bytes(data), data
            else:
                assert kind not in GRAMMAR or error.offset == (corpus.utf8_bytes(data) if kind == "encoding" else 0), data
        else:
            assert kind not in GRAMMAR, data
            holding = {bound for bound, found in BOUNDS[profile].items() if found(data)}
            assert (kind in holding) if holding else (kind is None), (data, kind, holding)
    assert set(seen) == {None, *GRAMMAR, *BOUNDS[profile]}
    assert seen[None] > 500


def test_text_and_bytes_are_one():
    for data in corpus.verdicts():
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        of_text, of_bytes = (refusal(firstnan.canonicalize, each, profile="evidence") for each in (text, data))
        assert (of_text and of_text.kind) == (of_bytes and of_bytes.kind), data


def test_truncated_at_every_byte():
    cut = 0
    for data in corpus.whole_texts():
        for prefix, right in corpus.cut_at_every_byte(data):
            error = refusal(firstnan.canonicalize, prefix, profile="evidence")
            if right:
                assert error is None or error.kind not in GRAMMAR, prefix
            else:
                assert error is not None, prefix
                assert error.kind in GRAMMAR | set(BOUNDS["evidence"]), prefix
                cut += 1
    assert cut > 500


@pytest.mark.parametrize("depth", [10_000, 1_000_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_far_beyond(depth, opening, closing):
    for data in (opening * depth, opening * depth + b"0" + closing * depth):
        assert refusal(firstnan.canonicalize, data, profile="evidence").kind == "depth"
        error = refusal(firstnan.decode, "worker-event", EVENT[:-1] % (b"1", b'""') + b',"z":' + data)
        assert error.kind == "depth"


def judged(slot, texts):
    """The refusals of records with each text put into a slot, with the grammar's verdict on the whole record."""
    for text in texts:
        data = slot(text)
        yield data, corpus.accepts(data), refusal(firstnan.decode, "worker-event", data)


def of(*productions):
    return [text for text, name in corpus.texts().items() if name in productions and len(text) < 60]


def test_decode_reads_strings_by_the_grammar():
    taken = 0
    for data, right, error in judged(lambda text: EVENT % (b"1", text), of("string", "char", "escapes", "HEXDIG", "UTF8-octets")):
        is_record = right and beyond.members(data)[1].keys() == {"event", "monotonic_s", "kind", "message"}
        if not right:
            assert error is not None, data
            assert error.layer == "wire" or error.kind in ("type", "unknown_name"), (data, error.kind)
        elif is_record and not beyond.name_twice(data) and isinstance(beyond.members(data)[1]["message"], str):
            assert (error and error.kind) == ("lone_surrogate" if beyond.lone_surrogate(data) else None), data
            taken += error is None
        else:
            assert error is not None, data
            assert error.kind not in GRAMMAR, data
    assert taken > 300


def test_decode_reads_numbers_by_the_grammar():
    taken = 0
    for data, right, error in judged(lambda text: EVENT % (text, b'""'), of("number", "numbers", "int", "frac", "exp")):
        if not right:
            assert error is not None, data
        else:
            assert error is None or error.kind not in GRAMMAR, data
            value = dict(beyond.members(data)[1])["monotonic_s"]
            fine = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1e12
            assert (error is None) == fine, data
            taken += fine
    assert taken > 200


def test_decode_reads_white_space_by_the_grammar():
    record = EVENT % (b"1", b'""')
    taken = 0
    for place in (0, 1, record.index(b":"), record.index(b":") + 1, record.index(b","), record.index(b",") + 1, len(record)):
        points = [*corpus.NO_SPACE, 0x20, 0x09, 0x0A, 0x0D]
        slot = [chr(point).encode() for point in points] + [b" \t\r\n", b"/**/"]
        for data, right, error in judged(lambda text, place=place: record[:place] + text + record[place:], slot):
            assert (error is None) == right, data
            assert right or error.layer == "wire", data
            taken += right
    assert taken == 7 * 5


def test_decode_skips_what_it_does_not_know_by_the_grammar():
    """A value of an unknown name is refused for the name; its names and numbers are not looked at, its syntax is."""
    skipped = 0
    base = EVENT % (b"1", b'""')
    texts = of("value", "JSON-text", "nesting", "escapes", "spaces")
    for data, right, error in judged(lambda text: base[:-1] + b',"z":' + text + b"}", texts):
        assert error is not None, data
        if right:
            assert error.kind not in GRAMMAR, data
            skipped += error.kind == "unknown_name"
        else:
            assert error.layer == "wire" or error.kind in ("unknown_name", "type"), (data, error.kind)
    assert skipped > 300
