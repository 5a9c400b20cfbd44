"""Any order of ingesting, growing, compacting, retrying and asking, against a model that is a few sets."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from stored import all_files, digests, listed_files, tables
from telemetry_lines import line

from firstnan.ingest import Store, compact, ingest, retry, sweep

# A few records, so that they repeat; what only passes as another kind; junk; blanks.
MESSAGE = (
    b'{"kind": "stage-message"}',
    b"not json",
    b"",
    b"  ",
)
PARTS = st.one_of(st.integers(0, 9).map(lambda number: line(number).rstrip()), st.sampled_from(MESSAGE))


def record_of(part: bytes) -> str | None:
    """What tells a record from others, whatever white space is around it; None where the line is no record."""
    try:
        found: str | None = json.loads(part).get("telemetry_id")
    except ValueError:
        return None
    return found


class StoreMachine(RuleBasedStateMachine):
    """The model: each line of each file that was ever taken in, by its text."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="firstnan-machine-"))
        self.store = self.folder / "store"
        self.seen: dict[str, bytes] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(shard_bytes=st.sampled_from([1, 700, 5000, 1 << 20]))
    def make(self, shard_bytes: int) -> None:
        Store.create(self.store, shard_bytes=shard_bytes).close()

    @rule(target=names, name=st.sampled_from("abcd"), parts=st.lists(PARTS, max_size=8), ended=st.booleans())
    def write(self, name: str, parts: list[bytes], ended: bool) -> object:
        path = self.folder / name
        if path.exists():
            return multiple()
        path.write_bytes(b"\n".join(parts) + (b"\n" if ended and parts else b""))
        return name

    @rule(name=names, more=st.lists(PARTS, min_size=1, max_size=5), cut=st.integers(0, 20))
    def grow(self, name: str, more: list[bytes], cut: int) -> None:
        added = b"\n".join(more) + b"\n"
        with open(self.folder / name, "ab") as file:
            file.write(added[: len(added) - cut])

    @rule(name=names)
    def take(self, name: str) -> None:
        text = (self.folder / name).read_bytes()
        summary = ingest(self.folder / name, store=self.store)
        assert summary.reconcile
        assert not summary.failed
        assert summary.bytes == len(text)
        assert summary.lines == len(text.splitlines()) == text.count(b"\n") + (text[-1:] not in (b"", b"\n"))
        if self.seen.get(name) == text:
            assert summary.known == summary.lines
        self.seen[name] = text

    @rule()
    def compact(self) -> None:
        with Store.open(self.store) as store:
            before = store.counts()
            done = compact(store, leftover_age_s=0)
            after = store.counts()
        assert before.records - after.records == done.duplicates
        assert all_files(self.store) == set(listed_files(self.store))

    @rule(kind=st.sampled_from([None, "stage-telemetry", "stage-message"]))
    def retry(self, kind: str | None) -> None:
        with Store.open(self.store) as store:
            assert retry(store, kind=kind).passed == 0  # nothing here is of another kind

    @rule()
    def sweep(self) -> None:
        with Store.open(self.store) as store:
            sweep(store, leftover_age_s=0)
        assert all_files(self.store) == set(listed_files(self.store))

    @rule()
    def ask(self) -> None:
        with Store.open(self.store) as store, store.snapshot() as snapshot, snapshot.connect() as connection:
            answer = connection.sql("SELECT count(*), count(DISTINCT record_sha256) FROM stage_telemetry").fetchall()
            assert answer == [(snapshot.rows("stage-telemetry"), len(set(digests(self.store))))]

    @invariant()
    def rows_are_those_of_the_texts(self) -> None:
        if not self.store.exists():
            return
        found = tables(self.store)
        here = {row["telemetry_id"] for row in found["stage-telemetry"].to_pylist()} if "stage-telemetry" in found else set()
        raws = Counter(found["quarantine"].column("raw").to_pylist()) if "quarantine" in found else Counter()
        parts = [part for text in self.seen.values() for part in text.split(b"\n") if part.strip()]
        assert here == {record_of(part) for part in parts} - {None}
        assert set(raws) == {part for part in parts if record_of(part) is None}


def test_a_record_with_white_space_around_it_is_the_same_record() -> None:
    """A blank line without an end grows into a record, and a record without an end gets white space behind it."""
    machine = StoreMachine()
    machine.make(shard_bytes=1)
    record = line(0).rstrip()
    for name, parts, more in (("a", [b"  "], [record]), ("b", [record], [b"  "]), ("c", [record, b""], [b""])):
        machine.write(name=name, parts=parts, ended=False)
        for _ in range(2):
            machine.take(name=name)
            machine.rows_are_those_of_the_texts()
            machine.grow(name=name, more=more, cut=0)
        machine.retry(kind=None)
        machine.compact()
        machine.ask()
    machine.teardown()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(settings.get_profile("ci"), max_examples=12, stateful_step_count=12, phases=[Phase.generate])
# Without shrinking, which would take minutes for files on a disk; the steps that fail are printed as they are.
