"""`firstnan validate`: what is accepted, what is refused, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import VECTORS, Command, Reference

from firstnan.cli import main
from firstnan.cli.inputs import MAX_INPUT_BYTES

VECTOR_FILES = sorted((VECTORS / "records").glob("*.jsonl"))


@pytest.fixture
def telemetry(reference: Reference) -> dict[str, Any]:
    return json.loads(Path(reference.evidence_path).read_text())["stages"][0]


def test_an_accepted_file_exits_with_0(command: Command, reference: Reference) -> None:
    done = command("validate", "training-incident-contract", reference.contract_path)
    assert done.returncode == 0
    assert done.stdout.decode() == f"{reference.contract_path}: accepted\n1 accepted, 0 refused\n"


def test_standard_input_is_read_where_no_file_is_named(command: Command, telemetry: dict[str, Any]) -> None:
    for arguments in ([], ["-"]):
        done = command("validate", "stage-telemetry", *arguments, stdin=json.dumps(telemetry).encode())
        assert (done.returncode, done.stdout) == (0, b"-: accepted\n1 accepted, 0 refused\n")


def test_a_refusal_names_file_line_layer_pointer_kind_and_bound(
    command: Command, telemetry: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "telemetry.jsonl"
    bad = telemetry | {"owner": "somebody-secret"}
    path.write_text("\n".join([json.dumps(telemetry), "", json.dumps(bad), '{"a"', json.dumps(telemetry)]))
    done = command("validate", "stage-telemetry", str(path), "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["kind"], document["accepted"], document["refused"]) == ("stage-telemetry", 2, 2)
    owner, syntax = document["refusals"]
    assert (owner["file"], owner["line"], owner["layer"], owner["pointer"]) == (str(path), 3, "shape", "/owner")
    assert owner["kind"]
    assert owner["bound"]
    assert (syntax["line"], syntax["layer"], syntax["kind"]) == (4, "wire", "syntax")
    text = command("validate", "stage-telemetry", str(path)).stdout.decode()
    assert f"{path}:3: refused (shape, {owner['kind']}): {owner['message']}\n" in text
    assert text.endswith("2 accepted, 2 refused\n")
    assert "secret" not in text + done.stdout.decode()


def test_a_broken_rule_is_of_the_layer_rule(command: Command, telemetry: dict[str, Any]) -> None:
    bad = json.dumps(telemetry | {"finite_elements": 1}).encode()
    refusal = json.loads(command("validate", "stage-telemetry", "--json", stdin=bad).stdout)["refusals"][0]
    assert (refusal["layer"], refusal["bound"]) == ("rule", "observed-counts-reconcile")


def test_lines_are_read_from_any_file_where_asked(command: Command, telemetry: dict[str, Any]) -> None:
    lines = (json.dumps(telemetry) + "\r\n").encode() * 3
    assert command("validate", "stage-telemetry", stdin=lines).returncode == 1
    done = command("validate", "--lines", "stage-telemetry", stdin=lines)
    assert (done.returncode, done.stdout) == (0, b"3 accepted, 0 refused\n")


def test_an_unreadable_file_does_not_keep_the_others_from_being_read(
    command: Command, reference: Reference, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.json")
    done = command("validate", "training-incident-contract", missing, reference.contract_path, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "kind": "training-incident-contract", "refusals": [], "accepted": 1, "refused": 0, "unreadable": [missing]
    }
    assert done.stderr.decode() == f"firstnan: {missing}: No such file or directory\n"


def test_an_unknown_kind_is_answered_with_the_list(command: Command) -> None:
    done = command("validate", "telemetry", "x.json")
    assert done.returncode == 2
    assert b"stage-telemetry, topology-plan" in done.stderr


@pytest.mark.parametrize("path", VECTOR_FILES, ids=lambda path: path.stem)
def test_the_vectors_are_judged_line_by_line_as_they_say(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    cases = [case for case in cases if case["text"] and not set("\r\n") & set(case["text"])]
    lines = tmp_path / "cases.ndjson"
    lines.write_bytes(b"".join(case["text"].encode("utf-8", "surrogatepass") + b"\n" for case in cases))
    assert main(["validate", path.stem, "--json", str(lines)]) == 1
    document = json.loads(capsys.readouterr().out)
    refused = {refusal["line"] for refusal in document["refusals"]}
    assert refused == {number for number, case in enumerate(cases, 1) if not case["accept"]}
    assert document["accepted"] == len(cases) - len(refused)


def test_a_line_above_the_bound_is_refused_and_the_next_is_read(command: Command, telemetry: dict[str, Any]) -> None:
    text = json.dumps(telemetry).encode()
    lines = [text.ljust(MAX_INPUT_BYTES), text.ljust(MAX_INPUT_BYTES + 1), text.ljust(MAX_INPUT_BYTES * 3 // 2), text]
    done = command("validate", "stage-telemetry", "--lines", "--json", stdin=b"\n".join(lines))
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["accepted"] == 2
    assert [(refusal["line"], refusal["kind"], refusal["bound"]) for refusal in document["refusals"]] == [
        (line, "size", f"{MAX_INPUT_BYTES} bytes") for line in (2, 3)
    ]


def test_endless_input_is_refused_at_the_bound(command: Command) -> None:
    done = command("validate", "stage-telemetry", "/dev/zero")
    assert done.returncode == 1
    assert b"[size: 67108864 bytes]" in done.stdout
