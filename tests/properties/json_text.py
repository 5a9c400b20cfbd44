"""JSON text in every spelling, and text that is almost JSON."""

import json

from hypothesis import strategies as st

SPACE = st.text(" \t\n\r", max_size=2)
TOKENS = [
    *("0", "-0", "-0.0", "00", "01", "+1", "1.", ".5", "1e5", "1E+05", "1e-7", "1e16", "1e400", "-1e400", "1e-400", "2.5e-324"),
    *("0.1", "0x1", "1_0", "\u0661", "9007199254740993.0", "123456789012345678", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775809", "true", "false", "null", "True", "nul", "NaN", "Infinity", "-Infinity", "{}", "[]", ""),
    *("1" * 4300, "1" * 4301, "-" + "2" * 4300, "1" * 5000 + ".5", "0." + "0" * 400 + "1"),
]
PARTS = [
    *(b"\xef\xbb\xbf", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8", b"\xff"),
    *(b"\x00", b"\x1f", b"\x7f", b"\x0b", b"\xc2\xa0", b" ", b'"', b"\\", b"\\u", b"\\ud83d", b"\\uDE00", b"\\ud800", b"\\u0000"),
    *(b"\\/", b"\\x41", b"\\'", b",", b":", b"[", b"]", b"{", b"}", b"e", b".", b"-", b"0", b"/", b"//", b"#"),
    *(b'"":0,', b'"a":1', b"null"),
]


@st.composite
def characters(draw):
    """One character of a string, plain or escaped, in any case of hexadecimal."""
    character = draw(st.one_of(st.characters(codec="utf-8"), st.sampled_from('\x00\x1f"\\/\x7f\u20ac\ud800\udc00\U0001f600')))
    escaped = json.dumps(character)[1:-1]
    spelling = draw(st.integers(0, 3))
    if spelling == 0 and escaped.startswith("\\u"):
        return escaped.upper().replace("\\U", "\\u")
    if spelling == 1 and character < "\U00010000":
        return f"\\u{ord(character):04x}"
    if spelling == 2 and character == "/":
        return "\\/"
    return escaped if character < " " or character in '"\\' or "\ud800" <= character <= "\udfff" else character


strings = st.lists(characters(), max_size=6).map(lambda parts: f'"{"".join(parts)}"')
numbers = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?\Z"),
)
scalars = st.one_of(strings, numbers, st.sampled_from(["true", "false", "null"]), st.sampled_from(TOKENS))


def joined(brackets):
    return lambda parts: brackets[0] + ",".join(parts) + brackets[1]


def containers(inner):
    spaced = st.tuples(SPACE, inner, SPACE).map("".join)
    names = st.one_of(strings, st.sampled_from(['"a"', '"\\u0061"', '"b"', '"\ue000"', '"\U00010000"']))
    members = st.tuples(SPACE, names, SPACE, st.just(":"), spaced).map("".join)
    return st.one_of(st.lists(spaced, max_size=4).map(joined("[]")), st.lists(members, max_size=4).map(joined("{}")))


texts = st.recursive(scalars, containers, max_leaves=10)


@st.composite
def nested(draw):
    """A value some containers deep, near the bounds of both profiles or far beyond them."""
    depth = draw(st.one_of(st.integers(12, 19), st.integers(250, 260), st.sampled_from([1000, 50_000])))
    opening, closing = draw(st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"":', "}]")]))
    depth //= opening.count("[") + opening.count("{")
    return opening * depth + draw(st.sampled_from(["0", "[]", "{}", '""', ""])) + closing * depth


@st.composite
def mutated(draw):
    """Bytes of a text with a few parts of it inserted, deleted, replaced or doubled."""
    data = draw(texts).encode(errors="surrogatepass")
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 3)))
        part = draw(st.one_of(st.sampled_from(PARTS), st.binary(max_size=2), st.just(data[start:end] * 2)))
        data = data[:start] + part + data[end:]
    return data
