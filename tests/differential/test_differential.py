"""The package's validator against jsonschema-rs with a CEL engine, on thousands of records; `make differential` for a million."""

import copy
import json
import re

import pytest

from differential.answers import ours
from differential.cases import Cases
from differential.run import BUNDLE, Harness, run

SEED, COUNT = 20261203, 8_000
BUNDLE_AS_IT_IS = json.loads(BUNDLE.read_text(encoding="utf-8"))


def lines_of(*arguments):
    lines = []
    agreed = run(*arguments, say=lambda line, **_: lines.append(line))
    return agreed, lines


def test_thousands_of_records():
    agreed, lines = lines_of(SEED, COUNT, 1)
    assert agreed, "\n".join(lines)
    assert lines[0] == f"seed {SEED}, {COUNT:,} records"


def test_a_run_that_saw_too_little_says_so():
    agreed, lines = lines_of(SEED, 40, 1)
    assert not agreed
    assert "too rare to say anything: stage-telemetry observed-checks-something: 0" in lines


def test_a_seed_gives_the_same_records_again():
    one, other = Cases(BUNDLE_AS_IT_IS), Cases(BUNDLE_AS_IT_IS)
    first = [one.data(one.case(7, index)) for index in range(400)]
    assert first == [other.data(other.case(7, index)) for index in range(400)]
    assert len(set(first)) > 300
    assert first != [one.data(one.case(8, index)) for index in range(400)]


def test_what_is_accepted_is_accepted_unmutated():
    cases = Cases(BUNDLE_AS_IT_IS)
    for kind, values in cases.accepted.items():
        assert values
        for value in values:
            assert ours(kind, json.dumps(value).encode()).layer == "valid"


def widened(bundle):
    bundle["$defs"]["common"]["$defs"]["step"]["maximum"] += 1


def opened(bundle):
    bundle["$defs"]["stage-message"]["additionalProperties"] = True


def longer(bundle):
    bundle["$defs"]["common"]["$defs"]["identifier"]["maxLength"] += 1


def one_off(bundle):
    (rule,) = bundle["x-firstnan-kinds"]["envelope"]["rules"]
    rule["rule"] = "int(self.rank) <= int(self.world_size)"


def without_a_rule(bundle):
    del bundle["x-firstnan-kinds"]["training-run-evidence"]["rules"][2]


def without_an_integer(bundle):
    integers = bundle["x-firstnan-kinds"]["rank-inventory"]["integers"]
    integers.remove({"path": "", "member": "/local_rank"})


@pytest.mark.parametrize("change", [widened, opened, longer, one_off, without_a_rule, without_an_integer])
def test_a_planted_difference_is_found_and_shrunk(change):
    bundle = copy.deepcopy(BUNDLE_AS_IT_IS)
    change(bundle)
    harness = Harness(bundle)
    for start in range(0, 60_000, 2_000):
        _, wrong = harness.counted(3, range(start, start + 2_000))
        if wrong:
            break
    case = harness.cases.case(3, wrong[0])
    small = harness.shrunk(case)
    assert harness.look(small)[0] is not None
    assert all(harness.look(smaller)[0] is None for smaller in small.smaller())
    shown = harness.described(3, wrong[0])
    assert re.match(rf"--seed 3 --index {wrong[0]}: {case.kind}: ", shown)
    assert repr(harness.cases.data(small)) in shown


def test_answers_are_compared_by_place_and_by_rule():
    harness = Harness(BUNDLE_AS_IT_IS)
    telemetry = copy.deepcopy(harness.cases.accepted["stage-telemetry"][0])
    telemetry["owner"] = 5
    theirs = harness.generic.answer("stage-telemetry", json.dumps(telemetry).encode())
    assert theirs.pointers == {("/owner", False)}
    del telemetry["owner"]
    theirs = harness.generic.answer("stage-telemetry", json.dumps(telemetry).encode())
    assert theirs.pointers == {("", False), ("/owner", False)}
    telemetry |= {"owner": "team:a", "checked_elements": 0, "finite_elements": 0}
    theirs = harness.generic.answer("stage-telemetry", json.dumps(telemetry).encode())
    assert theirs.rules == {("", "observed-checks-something")}
