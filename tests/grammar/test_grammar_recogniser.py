"""The recogniser is right itself: texts whose verdict RFC 8259 and RFC 3629 state, and prefixes against whole texts."""

import pytest

from grammar import corpus
from grammar.abnf import Parser, Range, Repetition
from grammar.recogniser import Recogniser, accepts, json_text

RIGHT = [
    *("0", "-0", "1e5", "1E+05", "1.0e-7", "true", "null", '""', "[]", "{}", " \t\r\n[ ]\n", '"\\u0000"', '"\\ud800"', '"\x7f"'),
    *('{"a":1,"a":2}', "[1,[2,{}]]", '"\u2028\U0010ffff"', '"\\/\\"\\\\\\b\\f\\n\\r\\t"', '"\\uAbCd"', "1" * 500),
]
WRONG = [
    *("", " ", "00", "01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "1_0", "NaN", "-Infinity", "True", "nul", "tru"),
    *("[1,]", "[,1]", "[", "]", "{,}", '{"a"}', '{"a":}', '{"a":1,}', "{1:2}", "{a:1}", "'a'", '"', '"\n"', '"\x1f"', '"\\x41"'),
    *('"\\u12"', '"\\u12g4"', '"\\"', "\ufeff1", "1 2", "[1}", "\v1", "1\u00a0", "//\n1", '"\\U0041"', "\u0661", "1\x00"),
]


@pytest.mark.parametrize("text", RIGHT)
def test_right_texts(text):
    assert accepts(text.encode())


@pytest.mark.parametrize("text", WRONG)
def test_wrong_texts(text):
    assert not accepts(text.encode())


@pytest.mark.parametrize("data", [b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\x80"', b'"\xe2\x82"', b"\xff0"])
def test_wrong_octets(data):
    assert not accepts(data)


def test_a_prefix_is_judged_as_a_text_of_its_own():
    points = [ord(character) for character in corpus.DOCUMENT]
    verdicts = json_text().prefixes(points)
    assert len(verdicts) == len(points) + 1
    assert verdicts == [json_text().accepts(points[:size]) for size in range(len(points) + 1)]


def test_every_octet_sequence_that_python_decodes_and_no_other():
    right = {text for text, verdict in corpus.verdicts().items() if verdict}
    for text in corpus.texts():
        try:
            text.decode()
        except UnicodeDecodeError:
            assert text not in right


def test_abnf():
    rules = Parser('a = 1*b [ %x41-43 ] ; comment\nb = "x" / 2( %x30.31 )').rules()
    assert list(rules) == ["a", "b"]
    assert rules["a"].parts[1] == Repetition(Range(0x41, 0x43), 0, 1)
    with pytest.raises(ValueError, match="no ABNF"):
        Parser("a = ?")


def test_the_grammars_are_those_of_the_standards():
    assert len(Recogniser("rfc8259.abnf").rules) > 32
    assert json_text().start == "JSON-text"
