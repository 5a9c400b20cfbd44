"""Random edits of the schemas: a record that the real validators tell apart is one that tools/compat.py has spoken of.

The validators (jsonschema and a CEL engine) share no code with tools/compat.py. A record that only the new schemas take
means that old readers break, one that only the old ones take that old writers do.
"""

import copy
import functools
import sys
from collections import Counter

import pytest
from compat_changes import ROOT
from compat_edits import closure, edits, records
from compat_validators import Validators
from hypothesis import event, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(ROOT / "tools"))
from schema_difference import CALLERS, READERS, WRITERS, Comparison, compare
from schema_shape import Schemas

KINDS = ("stage-telemetry", "logical-placement", "worker-event", "stage-message", "incident-report", "training-run-evidence")
EDITS = functools.cache(edits)


def judged(kind, chosen):
    """Whom compat.py says some edits break, and whom a record proves to be broken."""
    before = closure(kind)
    after = copy.deepcopy(before)
    for edit in chosen:
        edit.apply(after)
    said = {whom for each in compare(Schemas(before), Schemas(after)) if each.kind == kind for whom in each.breaks}
    old, new, proved = Validators(before), Validators(after), set()
    for record in records(before, after, kind, chosen):
        verdicts = old.is_valid(kind, record), new.is_valid(kind, record)
        broken = {(False, True): READERS, (True, False): WRITERS}.get(verdicts)
        assert broken is None or broken in said, (kind, [edit.name for edit in chosen], record)
        proved.add(broken)
    return said - {CALLERS}, proved - {None}


def apart(one, other):
    """Neither edit stands in what the other changes."""
    shorter = min(len(one.at), len(other.at))
    return one.file != other.file or one.at[:shorter] != other.at[:shorter]


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_contradicts_compat(kind):
    seen, proved_of = Counter(), Counter()

    @settings(max_examples=max(15, settings.default.max_examples // 10))
    @given(st.data())
    def each(data):
        first, second = (data.draw(st.sampled_from(EDITS(kind))) for _ in range(2))
        chosen = [first, second] if apart(first, second) and data.draw(st.booleans()) else [first]
        said, proved = judged(kind, chosen)
        event(f"compat says {sorted(said)}, records prove {sorted(proved)}")
        seen[frozenset(said)] += 1
        proved_of[frozenset(said)] += bool(proved)

    each()
    told = sum(count for said, count in seen.items() if said)
    # Else the edits change nothing, or no record is near enough to tell.
    assert told >= sum(seen.values()) / 2, seen
    assert sum(proved_of.values()) >= told / 3, (seen, proved_of)


@pytest.mark.parametrize("part", ["pairs", "moved", "values", "members", "rules", "others"])
def test_a_comparison_without_one_of_its_parts_is_found_out(part, monkeypatch):
    monkeypatch.setattr(Comparison, part, lambda *_: iter(()))
    with pytest.raises(AssertionError, match="stage-message"):
        all(judged("stage-message", [edit]) for edit in EDITS("stage-message"))
