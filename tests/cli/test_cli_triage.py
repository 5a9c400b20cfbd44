"""`firstnan triage`: the verdict, from two files or from a bundle."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import VECTORS, Command, Reference

from firstnan import IncidentReport, StageTelemetry, TrainingRunEvidence, encode, triage_training_incident
from firstnan.cli import main

CAUSE = "Where a symptom first shows is not why it arose: no cause is claimed.\n"


def finite_evidence(reference: Reference) -> TrainingRunEvidence:
    """Evidence of the same step with all five stages observed and finite."""
    stages = [
        StageTelemetry(
            **asdict(stage)
            | {"state": "OBSERVED", "checked_elements": 8, "finite_elements": 8, "nonfinite_elements": 0}
        )
        for stage in reference.evidence.stages
    ]
    return TrainingRunEvidence.capture(evidence_id="finite", contract=reference.contract, stages=stages)


def test_two_files_give_the_reference_verdict(command: Command, reference: Reference) -> None:
    done = command("triage", reference.contract_path, reference.evidence_path)
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert text.startswith("HOLD: run run-2026-08-25-001, step 1842, batch batch-1842\n")
    row = next(line for line in text.splitlines() if line.startswith("backward"))
    assert row.split() == ["backward", "OBSERVED", "4,096", "2", "4", "team:model"]
    assert "earliest stage  backward, owner team:model\n" in text
    assert "action          hold-and-inspect-gradient-path-and-loss-scaling\n" in text
    assert reference.contract_id in text
    assert reference.evidence_id in text
    assert text.endswith(f"\n{CAUSE}")


def test_hold_is_1_only_where_asked(command: Command, reference: Reference, tmp_path: Path) -> None:
    assert command("triage", "--exit-code", reference.contract_path, reference.evidence_path).returncode == 1
    evidence = tmp_path / "finite.json"
    evidence.write_bytes(encode(finite_evidence(reference)))
    done = command("triage", "--exit-code", reference.contract_path, str(evidence))
    assert done.returncode == 0
    text = done.stdout.decode()
    assert text.startswith("CONTINUE_BOUNDED_DIAGNOSTICS: ")
    assert "earliest stage  none\n" in text
    assert text.endswith(CAUSE)


def test_json_has_the_report_and_what_it_rests_on(command: Command, reference: Reference) -> None:
    document = json.loads(command("triage", "--json", reference.contract_path, reference.evidence_path).stdout)
    assert IncidentReport(**document["report"]) == triage_training_incident(reference.contract, reference.evidence)
    assert [StageTelemetry(**stage) for stage in document["stages"]] == list(reference.evidence.stages)
    assert document["statement"] + "\n" == CAUSE
    assert document["leaves"] is document["report_json_equals_verdict"] is None


def test_a_bundle_shows_its_leaves_the_bad_ones_first(command: Command, written_bundle: Path) -> None:
    done = command("triage", str(written_bundle))
    text = done.stdout.decode()
    assert done.returncode == 0
    leaves = text[text.index("the leaves of backward:") :].splitlines()
    assert leaves[3].split() == ["dense/kernel", "float16", "2,048", "1", "1", "0", "2"]
    assert leaves[4].split() == ["dense/bias", "float32", "2,048", "0", "0", "0", "4"]
    assert "report.json     equals the fresh verdict\n" in text
    assert "running the step again gave the same counts\n" in text
    document = json.loads(command("triage", str(written_bundle), "--json").stdout)
    assert document["report_json_equals_verdict"] is document["reproduced"] is True
    assert [leaf["path"] for leaf in document["leaves"]] == ["dense/kernel", "dense/bias"]


def test_a_report_that_says_something_else_is_1(
    command: Command, bundle: Path, reference: Reference, sealed: Callable[[Path, str, bytes], None]
) -> None:
    report = triage_training_incident(reference.contract, reference.evidence)
    other = replace(report, earliest_nonfinite_stage="loss", action="hold-and-inspect-objective-reduction")
    sealed(bundle, "report.json", encode(other))
    done = command("triage", str(bundle))
    assert done.returncode == 1
    assert b"report.json     DIFFERS FROM the fresh verdict" in done.stdout
    assert b"earliest stage  backward" in done.stdout
    assert json.loads(command("triage", "--json", str(bundle)).stdout)["report_json_equals_verdict"] is False


def test_a_changed_file_of_a_bundle_is_refused_by_name(command: Command, bundle: Path) -> None:
    (bundle / "counts.json").write_text("{}")
    for arguments in ([], ["--json"]):
        done = command("triage", str(bundle), *arguments)
        assert (done.returncode, done.stderr) == (1, b"")
        assert b"counts.json (changed)" in done.stdout


def test_a_bundle_of_a_refused_step_gives_the_words_of_the_refusal(
    command: Command, bundle: Path, sealed: Callable[[Path, str, bytes], None]
) -> None:
    incident = json.loads((bundle / "incident.json").read_bytes())
    sealed(bundle, "incident.json", json.dumps(incident | {"refusal": "stage loss was not counted"}).encode())
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    for name in ("evidence.json", "report.json"):
        (bundle / name).unlink()
        del manifest["files"][name]
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    for name in ("triage", "report"):
        done = command(name, str(bundle))
        assert done.returncode == 1
        assert b"stage loss was not counted" in done.stdout


def test_each_vector_ends_as_triage_itself_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases: list[dict[str, Any]] = [json.loads(line) for line in (VECTORS / "triage/triage.jsonl").read_text().splitlines()]
    contract, evidence = tmp_path / "contract.json", tmp_path / "evidence.json"
    refused = 0
    for case in cases:
        contract.write_text(case["contract"])
        evidence.write_text(case["evidence"])
        code = main(["triage", "--json", str(contract), str(evidence)])
        document = json.loads(capsys.readouterr().out)
        if case["accept"]:
            assert (code, document["report"]) == (0, case["report"]), case["case"]
        else:
            refused += 1
            assert code == 1, case["case"]
            assert document["refused"]["message"], case["case"]
            assert document["refused"]["file"] == str(evidence), case["case"]
    assert 0 < refused < len(cases)


def test_the_arguments_may_stand_in_any_order(command: Command, reference: Reference) -> None:
    done = command("triage", reference.contract_path, "--exit-code", reference.evidence_path)
    assert done.returncode == 1


def test_a_contract_alone_is_misuse(command: Command, reference: Reference) -> None:
    done = command("triage", reference.contract_path)
    assert done.returncode == 2
    assert b"a contract needs an evidence file beside it" in done.stderr


def test_a_folder_that_is_no_bundle_is_refused(command: Command, tmp_path: Path) -> None:
    for name in ("triage", "verify", "report"):
        done = command(name, str(tmp_path))
        assert done.returncode == 1
        assert b"manifest.json" in done.stdout


def test_a_bundle_may_be_moved(command: Command, written_bundle: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(written_bundle, tmp_path / "elsewhere" / "another name")
    assert command("triage", str(moved)).stdout == command("triage", str(written_bundle)).stdout
