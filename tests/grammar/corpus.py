"""Several thousand texts around the edges of RFC 8259, with the grammar's verdict on each."""

import itertools
from functools import cache

from .recogniser import accepts, json_text, utf8
from .variants import of_file

CONTEXTS = [("", ""), ("[", "]"), ('{"a":', "}"), ("[0,", "]"), ('["', '"]'), ("{", ":0}"), ("[0", "]"),
            ("[", "0]"), ('"\\', '"')]
"""What may stand around a text of a production: nothing, an element, a member, the inside of a string, a name, …"""
UNITS = ["0000", "007f", "00e9", "d7ff", "d800", "D83D", "dbff", "dc00", "dE00", "dfff", "e000", "ffff", "d8", "g800"]
NO_SPACE = [0x00, 0x08, 0x0B, 0x0C, 0x1C, 0x1F, 0x7F, 0x85, 0xA0, 0x1680, 0x180E, 0x2003, 0x2028, 0x2029, 0x3000, 0xFEFF]
"""White space, or nearly, to somebody; RFC 8259 knows four characters."""
SLOTS = ["{}0", "0{}", "[{}]", "[0{},0]", "[0,{}0]", "{{{}}}", "-{}1", "1{}e5", "tr{}ue",
         '{{{}"a":0}}', '{{"a"{}:0}}', '{{"a":{}0}}']
LARGE = ["1e308", "-1e309", "1e99999999999999999999", "5e-324", "1e-400", "0e999", "9" * 400 + ".0", "1" * 4300, "1" * 4301]
NUMBER_LETTERS = "-+019.eE"
DOCUMENT = (
    ' {"a" : [ 0, -0.5e+10,1E-2,\t12345678901234567890, true,false,null ],\r\n'
    '"\\u00e9\\"\\\\\\/\\b\\f\\n\\r\\t\\ud83d\\uDE00é😀～": {"": {}, "b": [[], [[{"c": ""}]]]} } '
)


def productions():
    """Texts of each production by itself and where others may stand, as (production, text)."""
    for name, texts in of_file("rfc8259.abnf").items():
        whole = ["".join(map(chr, points)) for points in texts if not any(0xD800 <= point <= 0xDFFF for point in points)]
        for before, after in CONTEXTS if len(whole) < 200 else CONTEXTS[:1]:
            for text in whole:
                yield name, (before + text + after).encode()


def octets():
    for name, texts in of_file("rfc3629.abnf", 0xFF).items():
        for text in texts:
            yield name, b'"' + bytes(text) + b'"'
            yield name, bytes(text) + b"0"


def numbers():
    """Every text of up to four of the letters of a number, and lengths that tempt a parser."""
    for size in range(1, 5):
        for letters in itertools.product(NUMBER_LETTERS, repeat=size):
            yield "".join(letters).encode()
    for text in ("9007199254740993", "9223372036854775808", "-9223372036854775809", *LARGE):
        yield from (text.encode(), f"[{text}]".encode(), f"0{text}".encode(), f"{text}.".encode())


def escapes():
    for point in range(0x100):
        yield f'"\\{chr(point)}"'.encode()
        yield f'"{chr(point)}"'.encode()
    for first, second in itertools.product(UNITS, repeat=2):
        yield f'"\\u{first}\\u{second}"'.encode()
        yield f'{{"\\u{first}x\\u{second}":0}}'.encode()
    yield from (f'"\\u{unit}\\{letter}"'.encode() for unit in UNITS for letter in 'nuU"')


def spaces():
    for slot in SLOTS:
        for point in [*NO_SPACE, 0x20, 0x09, 0x0A, 0x0D]:
            yield slot.format(chr(point)).encode()
        yield slot.format(" \t\r\n").encode()
        yield slot.format("/**/").encode()


def marks():
    """A byte order mark where it may tempt, in three encodings."""
    for mark in (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb", b"\xbb\xbf"):
        yield from (mark, mark + b"0", b"0" + mark, b" " + mark + b"0", b'"' + mark + b'"', mark * 2 + b"[]")
    yield from ('"a"'.encode(encoding) for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"))


def nesting():
    for depth in (1, 2, 15, 16, 17, 18, 127, 128, 255, 256, 257, 258):
        for opening, inner, closing in (("[", "", "]"), ("[", "0", "]"), ('{"a":', "0", "}"), ('[{"":', "{}", "}]")):
            text = opening * depth + inner + closing * depth
            yield from (each.encode() for each in (text, text[:-1], text + closing, text[1:], text.replace("]", "}", 1)))


@cache
def texts():
    """Each text once → what it is of."""
    out = {}
    for name, text in itertools.chain(productions(), octets()):
        out.setdefault(text, name)
    for family in (numbers, escapes, spaces, marks, nesting):
        for text in family():
            out.setdefault(text, family.__name__)
    return out


@cache
def verdicts():
    """Each text → is it a JSON text in UTF-8?"""
    return {text: accepts(text) for text in texts()}


def whole_texts():
    """Texts that are right, to be cut: the longest of each production, and one that has everything."""
    longest = {}
    for text, right in verdicts().items():
        if right and len(text) > len(longest.get(texts()[text], b"")) and len(text) < 300:
            longest[texts()[text]] = text
    return [DOCUMENT.encode(), *longest.values()]


def cut_at_every_byte(data):
    """(prefix, is it a JSON text?) of each length, by one walk over the whole text."""
    ends = json_text().prefixes([ord(character) for character in data.decode()])
    right, place = {}, 0
    for character, end in zip([*data.decode(), ""], ends, strict=True):
        right[place] = end
        place += len(character.encode())
    return [(data[:size], right.get(size, False)) for size in range(len(data) + 1)]


def utf8_bytes(data):
    """How many bytes at the start of a text are UTF-8 characters, whole ones."""
    prefixes = utf8().prefixes(data)
    return max(size for size, whole in enumerate(prefixes) if whole)


def viable_bytes(data):
    """How many bytes at the start of a text in UTF-8 some JSON text has too."""
    text = data.decode()
    return len(text[: len(json_text().prefixes([ord(character) for character in text])) - 1].encode())
