"""Bulk triage against the triage of one step, and the fleet's view of what it finds."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fleets import bad, contract, enveloped, fleet, telemetry

import firstnan
from firstnan import ContractError, _core, triage_training_incident
from firstnan.ingest import Store, ingest, read
from firstnan.ingest.fleet import CONTRACTS, TELEMETRY, incidents, timeline, triage_tables, verdicts

# FIRSTNAN_FLEET_EVIDENCE=1000000 is the long run.
EVIDENCE = int(os.environ.get("FIRSTNAN_FLEET_EVIDENCE", "4000"))
RANKS = 4
STEPS_A_ROUND = 500
STAGES = list(firstnan.STAGES)
SCOPE = ("run_id", "step_id", "model_version", "dataset_version", "batch_id", "objective_version", "optimizer_version",
         "precision", "loss_scale_version", "loss_scale")  # fmt: skip


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def judged(lines, tmp_path):
    tables = read([str(write(tmp_path / "lines.jsonl", lines))]).tables
    order = [("run_id", "ascending"), ("step_id", "ascending")]
    empty = {kind: pa.table(_core.table_of_kind(kind)) for kind in (CONTRACTS, TELEMETRY)}
    contracts, sent = ((tables.get(kind) or empty[kind]).sort_by(order) for kind in (CONTRACTS, TELEMETRY))
    return triage_tables(contracts, sent).read_all().to_pylist()


def expected(lines: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The same in plain Python, evidence by evidence, from typed records."""
    contracts: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    sent: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for line in lines:
        if "envelope" in line:
            envelope = line["envelope"]
            try:
                record = firstnan.decode(TELEMETRY, json.dumps(line["record"]).encode())
            except ContractError:
                continue  # two faults at once; it is in the quarantine
            here = sent[record.run_id, record.step_id, envelope["attempt"], envelope["rank"]]
            if firstnan.encode(record) not in map(firstnan.encode, here):
                here.append(record)
        else:
            record = firstnan.decode(CONTRACTS, json.dumps(line).encode())
            contracts[record.run_id, record.step_id][record.content_id] = record
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    used = set()
    for (run, step, attempt, rank), records in sent.items():
        homeless = list(records)
        for content_id, promised in contracts[run, step].items():
            stages = [one for one in records if all(getattr(one, name) == getattr(promised, name) for name in SCOPE)]
            homeless = [one for one in homeless if one not in stages]
            if stages:
                used.add(content_id)
                out[run, step, attempt, rank, content_id] = one_evidence(promised, stages, step, attempt, rank)
        if homeless:
            out[run, step, attempt, rank, None] = {"status": "no_contract"}
    for (run, step), promises in contracts.items():
        out |= {(run, step, None, None, one): {"status": "no_telemetry"} for one in promises if one not in used}
    return out


def one_evidence(promised, stages, step, attempt, rank):
    names = [one.stage for one in stages]
    if any(number > 1 for number in Counter(names).values()):
        return {"status": "ambiguous"}
    if missing := [name for name in STAGES if name not in names]:
        return {"status": "incomplete", "missing_stages": missing}
    stages = tuple(sorted(stages, key=lambda one: STAGES.index(one.stage)))
    evidence_id = f"assembled:step-{step}:attempt-{attempt}:rank-{rank}"
    content_id = _core.evidence_content_id(promised.content_id, evidence_id, stages)
    try:
        evidence = firstnan.TrainingRunEvidence(evidence_id, content_id, promised.content_id, stages)
        report = triage_training_incident(promised, evidence)
    except ContractError as error:
        return {"status": "refused", "refusal": str(error)}
    return {"status": "verdict", "decision": report.decision, "earliest_nonfinite_stage": report.earliest_nonfinite_stage,
            "action": report.action, "evidence_content_id": report.evidence_content_id}  # fmt: skip


def test_the_verdicts_are_those_of_triage_one_by_one(tmp_path):
    seen: Counter[str] = Counter()
    for seed in range(max(1, EVIDENCE // (STEPS_A_ROUND * RANKS))):
        lines = fleet(seed, STEPS_A_ROUND, RANKS)
        rows = judged(lines, tmp_path)
        wanted = expected(lines)
        got = {(r["run_id"], r["step_id"], r["attempt"], r["rank"], r["contract_content_id"]): r for r in rows}
        assert len(got) == len(rows), "a piece of evidence was judged twice"
        assert got.keys() == wanted.keys()
        for key, row in wanted.items():
            assert {name: got[key][name] for name in row} == row, f"seed {seed}, {key}"
        seen.update(row["status"] for row in rows)
        seen.update(row["earliest_nonfinite_stage"] or "finite" for row in rows if row["status"] == "verdict")
    # None of these can be vacuous.
    words = {"verdict", "refused", "incomplete", "ambiguous", "no_contract", "no_telemetry", "finite", *STAGES}
    assert words <= seen.keys(), seen


def test_what_came_is_shown_where_no_verdict_can_be(tmp_path):
    promised = contract("run-a", 5)
    lines = [promised, enveloped(telemetry(promised, 3, **bad(9)), 2, 4), enveloped(telemetry(promised, 4, **bad(1)), 2, 4)]
    (row,) = judged(lines, tmp_path)
    assert (row["status"], row["missing_stages"]) == ("incomplete", STAGES[:3])
    assert (row["first_nonfinite_stage"], row["nonfinite_elements"], row["decision"]) == ("backward", 9, None)


def test_bare_records_have_no_rank(tmp_path):
    promised = contract("run-a", 5)
    (row,) = judged([promised, *(telemetry(promised, order) for order in range(5))], tmp_path)
    assert (row["status"], row["rank"], row["evidence_id"]) == ("verdict", None, "assembled:step-5")


def test_rows_out_of_order_are_refused(tmp_path):
    lines = [contract("run-b", 1), contract("run-a", 1)]
    tables = read([str(write(tmp_path / "lines.jsonl", lines))]).tables
    with pytest.raises(ValueError, match="not ordered by run_id and step_id"):
        triage_tables(tables[CONTRACTS], pa.table(_core.table_of_kind(TELEMETRY))).read_all()


def test_a_table_of_another_form_is_refused_by_name(tmp_path):
    table = pa.table(_core.table_of_kind(CONTRACTS))
    with pytest.raises(ValueError, match="no column telemetry_id"):
        triage_tables(table, table)


RUN = "run-2026"


def fleet_with_an_incident(world=4):
    """Step 7: ranks 2 and 3 in the loss, all from backward on. Step 5: rank 1 sent nothing. Step 9: only a contract."""
    lines = []
    for step in range(10):
        promised = contract(RUN, step)
        lines.append(promised)
        for rank in range(world):
            if step == 9 or (step, rank) == (5, 1):
                continue
            for order in range(5):
                shows = step == 7 and order >= (2 if rank >= 2 else 3)
                lines.append(enveloped(telemetry(promised, order, **(bad(3) if shows else {})), rank, world))
    return lines


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "store"
    ingest([str(write(tmp_path / "fleet.jsonl", fleet_with_an_incident()))], store=str(folder))
    return folder


def test_an_incident_names_step_stage_rank_and_who_had_it_before_the_reduction(store):
    with Store.open(store) as opened, opened.snapshot() as snapshot:
        (row,) = incidents(snapshot).to_pylist()
        assert incidents(snapshot, run="another").num_rows == 0
    assert row == {
        "run_id": RUN, "attempt": 0, "step_id": 7, "stage": "loss", "rank": 2, "nonfinite_elements": 6,
        "ranks_before_reduction": [2, 3], "ranks_at_backward": [0, 1], "ranks_at_optimizer": [], "ranks_finite": [],
        "ranks_missing": [], "world_size": 4, "verdicts": 4, "without_verdict": 0,
    }  # fmt: skip


def test_incidents_are_the_first_of_all_verdicts(tmp_path):
    # `incidents` judges the steps alone that telemetry says are the first; here every step is judged.
    found = 0
    for seed in range(6):
        folder = tmp_path / f"store-{seed}"
        ingest([str(write(tmp_path / "lines.jsonl", fleet(seed, 20, RANKS)))], store=str(folder))
        with Store.open(folder) as opened, opened.snapshot() as snapshot:
            rows, every = incidents(snapshot).to_pylist(), verdicts(snapshot).read_all().to_pylist()
        wanted = {}
        for row in every:
            if row["first_nonfinite_stage"]:
                place = (row["step_id"], STAGES.index(row["first_nonfinite_stage"]), row["rank"])
                run = (row["run_id"], row["attempt"])
                wanted[run] = min(place, wanted.get(run, place))
        assert {(r["run_id"], r["attempt"]): (r["step_id"], STAGES.index(r["stage"]), r["rank"]) for r in rows} == wanted
        for row in rows:
            step = [one for one in every if all(one[name] == row[name] for name in ("run_id", "attempt", "step_id"))]
            assert row["verdicts"] == sum(one["status"] == "verdict" for one in step)
            assert row["verdicts"] + row["without_verdict"] == len(step)
        found += len(rows)
    assert found > 20


def test_a_record_that_cannot_be_used_is_not_the_first(tmp_path):
    folder = tmp_path / "store"
    lines = fleet_with_an_incident()
    later = contract(RUN, 20)
    lines += [later, *(enveloped(telemetry(later, order, **(bad(5) if order == 4 else {})), 1, 4) for order in range(5))]
    ingest([str(write(tmp_path / "fleet.jsonl", lines))], store=str(folder))
    with sqlite3.connect(folder / "manifest.sqlite") as manifest:
        ((file,),) = manifest.execute("SELECT file FROM segments WHERE kind = ?", (TELEMETRY,))
        table = pq.read_table(folder / file)
        # As if by another version, whose rules were others: the counts of step 7 are no sum.
        finite = pc.if_else(pc.equal(table["step_id"], 7), 1, table["finite_elements"])
        pq.write_table(table.set_column(table.schema.names.index("finite_elements"), "finite_elements", finite), folder / file)
        manifest.execute("UPDATE segments SET bytes = ? WHERE file = ?", ((folder / file).stat().st_size, file))
    manifest.close()
    with Store.open(folder) as opened, opened.snapshot() as snapshot:
        (row,) = incidents(snapshot).to_pylist()
    assert (row["step_id"], row["stage"], row["rank"]) == (20, "optimizer", 1)


def test_a_timeline_folds_neighbours_that_look_the_same(store):
    with Store.open(store) as opened, opened.snapshot() as snapshot:
        rows = timeline(snapshot, RUN).to_pylist()
    shown = ("attempt", "first_step", "last_step", "stage", "ranks", "ranks_missing")
    spans = [tuple(row[name] for name in shown) for row in rows]
    assert spans == [
        (None, 9, 9, None, [], []),
        (0, 0, 4, None, [], []),
        (0, 5, 5, None, [], [1]),
        (0, 6, 6, None, [], []),
        (0, 7, 7, "loss", [2, 3], []),
        (0, 8, 8, None, [], []),
    ]
    assert rows[0]["without_verdict"] == ["no_telemetry"]


def test_verdicts_of_a_store_are_read_in_batches(store):
    with Store.open(store) as opened, opened.snapshot() as snapshot:
        assert Counter(verdicts(snapshot).read_all()["status"].to_pylist()) == {"verdict": 35, "no_telemetry": 1}


def command(*words):
    done = subprocess.run([sys.executable, "-m", "firstnan", *map(str, words)], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


def test_the_commands_show_write_and_say_what_is_not_there(store, tmp_path):
    shown = command("incidents", store, "--exit-code")
    assert (shown.returncode, "first in loss of step 7, rank 2" in shown.stdout) == (1, True)
    assert "no cause is claimed" in shown.stdout
    assert command("incidents", store, "--run", "another", "--exit-code").returncode == 0
    assert json.loads(command("incidents", store, "--json").stdout)[0]["ranks_before_reduction"] == [2, 3]
    assert "2 ranks: 2-3" in command("timeline", store, RUN).stdout
    file = tmp_path / "timeline.parquet"
    assert command("timeline", store, RUN, "--parquet", file).returncode == 0
    assert pq.read_table(file).num_rows == 6
    assert command("timeline", store, "another").returncode == 1
    assert command("incidents", tmp_path / "nothing").returncode == 2


def test_an_empty_store_has_no_incident(tmp_path):
    Store.create(tmp_path / "store").close()
    done = command("incidents", tmp_path / "store")
    assert (done.returncode, "non-finite value: 0" in done.stdout) == (0, True)
