"""What a type checker sees of the public surface."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """
import firstnan
from typing import assert_type

contract = firstnan.decode("training-incident-contract", b"")
evidence = firstnan.decode("training-run-evidence", bytearray())
assert_type(contract, firstnan.TrainingIncidentContract)
assert_type(contract.content_id, str)
assert_type(evidence.stages[0].checked_elements, int)
report = firstnan.triage_training_incident(contract, evidence)
assert_type(firstnan.encode(report), bytes)
assert_type(firstnan.StageMessage.from_bytes(b"").vote, firstnan.Vote | None)
assert_type(firstnan.canonicalize("1", profile="record"), bytes)
assert_type(firstnan.advance_stage(firstnan.RuntimeStage.CREATED, firstnan.RuntimeStage.LOADED), firstnan.RuntimeStage)
"""
MISTAKES = """
import firstnan

firstnan.canonicalize("1", profile="yaml")
firstnan.triage_training_incident(1, 2)
firstnan.StageTelemetry(telemetry_id=1)
firstnan.decode("stage-telemetry", 5)
"""


def check(tmp_path, program):
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "program.py")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_public_surface_is_typed(tmp_path):
    result = check(tmp_path, PROGRAM)
    assert result.returncode == 0, result.stdout


def test_mistakes_are_found(tmp_path):
    result = check(tmp_path, MISTAKES)
    errors = {line.split(":")[1] for line in result.stdout.splitlines() if ": error:" in line}
    assert errors == {"4", "5", "6", "7"}, result.stdout
