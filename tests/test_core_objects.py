"""Canonical bytes of Python objects of every kind: what the json module makes of them, or a clean refusal."""

import collections
import dataclasses
import enum
import gc
import json
import subprocess
import sys
import typing

import pytest

import firstnan
from firstnan import ContractError, RuntimeStage, StageMessage, StageTelemetry, Vote

MESSAGE = StageMessage("0" * 32, "1" * 64, 3, 2**63 - 1, RuntimeStage.ABORTING, Vote.ABORT, "OUT_OF_MEMORY")
TELEMETRY = {
    "telemetry_id": "t", "tensor_set_id": "s", "stage": "loss", "stage_order": 2, "state": "OBSERVED",
    "checked_elements": 3, "finite_elements": 2, "nonfinite_elements": 1, "maximum_absolute_finite": 1.5,
    "run_id": "r", "step_id": 7, "model_version": "m", "dataset_version": "d", "batch_id": "b", "objective_version": "o",
    "optimizer_version": "p", "precision": "float16", "loss_scale_version": "l", "loss_scale": 1024,
    "evidence_source_id": "e", "owner": "team:objective",
}  # fmt: skip


def by_json(value, **options):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, **options)


def refusal(call, *arguments, **options):
    with pytest.raises(ContractError) as caught:
        call(*arguments, **options)
    return caught.value


class Text(str):
    def __str__(self):
        return "other"

    __repr__ = encode = lower = __str__


class Number(int):
    def __str__(self):
        return "17"

    __repr__ = __str__

    def __index__(self):
        return 17


class Real(float):
    def __repr__(self):
        return "17.0"

    def __float__(self):
        return 17.0


class Items(list):
    def __iter__(self):
        return iter([*super().__iter__(), "end"])


class Pairs(dict):
    def items(self):
        return [*super().items(), ("z", "more")]


Point = collections.namedtuple("Point", "x y")


class Word(str, enum.Enum):  # noqa: UP042 - StrEnum is another class
    ONE = "one"


class Count(enum.IntEnum):
    ONE = 1


class Flags(enum.Flag):
    RED = 1
    BLUE = 2


Mixed = enum.Enum("Mixed", {"PAIR": (1, "two"), "NESTED": {"a": [Word.ONE]}, "REAL": 1.5})


SUBCLASSES = [
    Text("é\u2028\x7f"), Number(5), Items([1, Items()]), Pairs(b=1, a=Pairs(c=[])), Point(1, Point(2, 3)), Count.ONE,
    collections.OrderedDict(b=1, a=2), collections.defaultdict(list, k=[1]), {Text("k"): Text("v")}, (True, False, None),
    [[], {}, (), "", 0, -(2**63), 2**63 - 1], {"\ue000": 1, "\U0001f600": 2, "\uffff": 3, "é": 4, "": 5, "a\0": 6, "a": 7},
]  # fmt: skip


@pytest.mark.parametrize("value", SUBCLASSES, ids=lambda value: type(value).__name__)
def test_subclasses_count_by_their_content(value):
    assert firstnan.canonical_record(value) == by_json(value, ensure_ascii=False).encode()
    assert firstnan.canonical_evidence(value) == by_json(value).encode()


def test_a_subclass_of_float_counts_by_its_content():
    assert firstnan.canonical_evidence([Real(0.1), Real(-0.0)]) == b"[0.1,-0.0]"
    assert refusal(firstnan.canonical_record, Real(1.0)).kind == "float_forbidden"
    assert refusal(firstnan.canonical_evidence, [Real("inf")]).kind == "non_finite"


def test_an_enum_is_its_value_in_the_record_profile():
    assert firstnan.canonical_record([Mixed.PAIR, Mixed.NESTED]) == b'[[1,"two"],{"a":["one"]}]'
    assert firstnan.canonical_record([Word.ONE, Count.ONE, Flags.RED | Flags.BLUE]) == b'["one",1,3]'
    assert firstnan.canonical_record([*RuntimeStage]) == by_json([stage.value for stage in RuntimeStage]).encode()
    error = refusal(firstnan.canonical_record, {"a": [Mixed.REAL]})
    assert (error.kind, error.pointer) == ("float_forbidden", "/a/0")


def test_an_enum_counts_itself_and_its_value_which_lies_one_deeper():
    def nested(value, levels):
        for _ in range(levels):
            value = [value]
        return value

    for member in (Vote.ABORT, Word.ONE, Count.ONE):
        firstnan.canonical_record([member] * 2047)
        assert refusal(firstnan.canonical_record, [member] * 2048).kind == "items"
        firstnan.canonical_record(nested(member, 15))
        assert refusal(firstnan.canonical_record, nested(member, 16)).kind == "depth"
    firstnan.canonical_record(nested("leaf", 16))
    assert refusal(firstnan.canonical_record, nested("leaf", 17)).kind == "depth"
    firstnan.canonical_record([0] * 4095)
    assert refusal(firstnan.canonical_record, [0] * 4096).bound == "4096"
    firstnan.canonical_evidence(nested(1.5, 256))
    assert refusal(firstnan.canonical_evidence, nested(1.5, 257)).kind == "depth"


def test_an_enum_may_say_itself_what_its_value_is():
    class Loud(enum.Enum):
        A = "a"

        @property
        def value(self):
            return "loud"

    assert firstnan.canonical_record(Loud.A) == b'"loud"'
    assert refusal(firstnan.canonical_evidence, float("nan")).kind == "non_finite"
    with pytest.raises(TypeError):
        firstnan.canonical_evidence(Loud.A)


def test_dataclasses_are_their_fields():
    @dataclasses.dataclass
    class Inner:
        b: object
        a: object = None
        ignored: typing.ClassVar[int] = 1

    @dataclasses.dataclass(slots=True, frozen=True)
    class Outer:
        inner: Inner
        message: StageMessage

    class Derived(StageMessage):
        pass

    written = firstnan.canonical_record(Outer(Inner([Vote.ABORT], (1,)), MESSAGE))
    assert written == b'{"inner":{"a":[1],"b":["abort"]},"message":' + MESSAGE.to_bytes() + b"}"
    assert firstnan.canonical_record(Derived(**vars(MESSAGE))) == MESSAGE.to_bytes()
    lacking = Inner(1)
    del lacking.b
    error = refusal(firstnan.canonical_record, lacking)
    assert (error.kind, error.pointer) == ("required", "/b")
    assert refusal(firstnan.canonical_record, Inner).kind == "unsupported"
    for value in (Inner(1), Derived(**vars(MESSAGE)), MESSAGE):
        with pytest.raises(TypeError):
            firstnan.canonical_evidence(value)


def test_evidence_takes_its_own_records_as_the_object_of_their_fields():
    telemetry = StageTelemetry(**TELEMETRY)
    assert firstnan.canonical_evidence([telemetry, TELEMETRY]) == by_json([TELEMETRY, TELEMETRY]).encode()
    object.__setattr__(telemetry, "batch_id", ["forced", 2.5])
    object.__setattr__(telemetry, "note", "not a field")
    assert firstnan.canonical_evidence(telemetry) == by_json(TELEMETRY | {"batch_id": ["forced", 2.5]}).encode()


@pytest.mark.parametrize("canonical", [firstnan.canonical_record, firstnan.canonical_evidence])
def test_cycles_are_refused_and_shared_containers_are_not(canonical):
    shared = [{"a": 1}]
    assert canonical([shared, shared, {"k": shared}]) == b'[[{"a":1}],[{"a":1}],{"k":[{"a":1}]}]'
    lists, dicts = ([], Items()), ({}, Pairs())
    for each in lists:
        each.append({"in": each})
    for each in dicts:
        each["out"] = (each,)
    for each in (*lists, *dicts):
        assert refusal(canonical, each).kind == "cycle"
        each.clear()


def test_a_dataclass_or_an_enum_that_holds_itself_is_a_cycle():
    @dataclasses.dataclass
    class Node:
        next: object = None

    node = Node()
    node.next = [node]
    knot = enum.Enum("Knot", {"TIED": []}).TIED
    knot.value.append(knot)
    for value in (node, knot):
        assert refusal(firstnan.canonical_record, value).kind == "cycle"


def test_lone_surrogates_escape_as_themselves_in_the_evidence_profile_only():
    for value in ("\ud800", ["a\udfffb"], {"\ud800k": 1}, {"k": ["\ude00\ud83d"]}, Text("\udcff")):
        assert refusal(firstnan.canonical_record, value).kind == "lone_surrogate"
        assert firstnan.canonical_evidence(value) == by_json(value).encode()
    many = dict.fromkeys(("\ud800", "\ue000", "\U00010000", "\udfff", "z"), 1)
    assert firstnan.canonical_evidence(many) == by_json(many).encode()


def test_names_that_come_out_as_one_text_are_refused():
    class Odd(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            return self is other

    assert refusal(firstnan.canonical_evidence, {"\U0001f600": 1, "\ud83d\ude00": 2}).kind == "duplicate_name"
    for canonical in (firstnan.canonical_record, firstnan.canonical_evidence):
        assert refusal(canonical, {Odd("a"): 1, Odd("a"): 2}).kind == "duplicate_name"


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), {1}, range(3), iter([1]), (i for i in "a"), object(), 1j, type, len])
def test_other_types_are_refused(value):
    for place in (value, [value], {"k": value}):
        assert refusal(firstnan.canonical_record, place).kind == "unsupported"
        with pytest.raises(TypeError):
            firstnan.canonical_evidence(place)


@pytest.mark.parametrize("name", [1, None, True, 1.5, b"k", (1,)])
def test_names_are_strings(name):
    assert refusal(firstnan.canonical_record, {"k": {name: 1}}).kind == "unsupported"
    with pytest.raises(TypeError):
        firstnan.canonical_evidence({"k": {name: 1}})


def test_integers_have_bounds():
    for value in (2**63, -(2**63) - 1, 10**100_000, Number(2**64)):
        assert refusal(firstnan.canonical_record, [value]).kind == "integer_range"
    large = {"k": [2**63, -(10**4299), Number(2**64)]}
    assert firstnan.canonical_evidence(large) == by_json({"k": [2**63, -(10**4299), 2**64]}).encode()
    assert refusal(firstnan.canonical_evidence, 10**4300).kind == "integer_range"


@pytest.mark.parametrize("limit", [0, 640, 4300])
def test_the_bound_on_digits_is_the_contracts_own(limit):
    """Whatever `sys.set_int_max_str_digits` says, and without time spent on what is refused."""
    digits = "-" + "9" * 4300
    value, smaller = int(digits), -(10**700)
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        assert firstnan.canonical_evidence([value, smaller]) == f"[{digits},-1{'0' * 700}]".encode()
        for larger in (value - 1, 1 << 30_000_000):
            error = refusal(firstnan.canonical_evidence, larger)
            assert (error.kind, error.bound) == ("integer_range", "4300 digits")
    finally:
        sys.set_int_max_str_digits(before)


def test_a_class_that_breaks_a_protocol_is_refused_by_name():
    class NoIterator(list):
        def __iter__(self):
            return 5

    class NoItems(dict):
        def items(self):
            return 5

    class ItemsNotCallable(dict):
        items = 5

    class OddPairs(dict):
        def items(self):
            return [5]

    class NoFields:
        __dataclass_fields__ = 5

    class OddFields:
        __dataclass_fields__ = {"a": 5}  # noqa: RUF012

    for odd in (NoIterator, NoItems, ItemsNotCallable, OddPairs, NoFields, OddFields):
        error = refusal(firstnan.canonical_record, {"k": [odd()]})
        assert (error.kind, error.pointer) == ("unsupported", "/k/0"), odd
        with pytest.raises(TypeError, match="/k/0"):
            firstnan.canonical_evidence({"k": [odd()]})


@pytest.mark.parametrize("profile", ["", "Record", "\ud800", "record\0", 5, None, b"record"])
def test_a_profile_is_one_of_two_names(profile):
    error = refusal(lambda value: firstnan.canonicalize(value, profile=profile), b"1")
    assert (error.kind, error.pointer, error.bound) == ("enum", "/profile", "record, evidence")


def test_a_container_that_changes_while_it_is_read_gives_a_snapshot():
    for canonical in (firstnan.canonical_record, firstnan.canonical_evidence):
        target = {f"k{i}": i for i in range(20)} | {"list": [1, 2, 3]}

        class Meddler(list):
            def __iter__(self, target=target):
                target["list"].clear()
                target.clear()
                target.update({f"new{i}": [i] for i in range(100)})
                gc.collect()
                return iter(["done"])

        expected = {f"k{i}": i for i in range(20)} | {"a": ["done"], "list": []}
        target["a"] = Meddler()
        assert canonical(target) == by_json(expected).encode()
        row = [Meddler(), "kept"]
        row[0].__class__.__iter__ = lambda self, row=row: (row.clear(), iter([]))[1]
        assert canonical(row) == b'[[],"kept"]'


def test_an_error_of_the_users_own_code_comes_through():
    class Failing(list):
        def __iter__(self):
            raise ZeroDivisionError

    for canonical in (firstnan.canonical_record, firstnan.canonical_evidence):
        with pytest.raises(ZeroDivisionError):
            canonical({"k": Failing()})


def test_what_never_ends_ends_at_the_bound():
    class Endless(list):
        def __iter__(self):
            while True:
                yield 0

    class EndlessPairs(dict):
        def items(self):
            number = 0
            while True:
                yield f"k{(number := number + 1)}", 0

    class Growing(list):
        def __iter__(self):
            return iter([Growing()])

    assert refusal(firstnan.canonical_record, [Endless()]).kind == "items"
    assert refusal(firstnan.canonical_record, EndlessPairs()).kind == "items"
    for canonical in (firstnan.canonical_record, firstnan.canonical_evidence):
        assert refusal(canonical, Growing()).kind in ("depth", "cycle")


def test_pairs_that_are_no_pairs_are_refused():
    class Wrong(dict):
        def items(self):
            return [("a", 1, 2)]

    assert refusal(firstnan.canonical_record, Wrong()).kind == "unsupported"
    with pytest.raises(TypeError):
        firstnan.canonical_evidence(Wrong())


def test_max_bytes_bounds_the_output_and_each_string():
    assert firstnan.canonical_record("ab", max_bytes=4) == b'"ab"'
    assert refusal(firstnan.canonical_record, "ab", max_bytes=3).kind == "size"
    assert refusal(firstnan.canonical_record, {"é" * 40_000: 1}).kind == "size"
    for bound in (0, -1, 65537, 2**64, -(2**64), True, 1.0, "1", None, Number(5)):
        assert refusal(firstnan.canonical_record, 0, max_bytes=bound).pointer == "/max_bytes"


HUGE_STRING = """
import firstnan
def peak():
    # Not ru_maxrss: a process starts with that of the one that forked it. VmHWM begins with exec.
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
text = "\\u00e9" * 2**30
used = peak()
for value in (text, [text], {text: 1}, {"k": text}):
    try:
        firstnan.canonical_record(value)
    except firstnan.ContractError as error:
        assert error.kind == "size", error.kind
    else:
        raise SystemExit("accepted")
grown = peak() - used
assert grown < 64 * 1024, grown
"""


def test_a_string_of_a_gib_costs_nothing():
    result = subprocess.run([sys.executable, "-c", HUGE_STRING], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
