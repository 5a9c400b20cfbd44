"""`firstnan digest`: identities of files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from conftest import VECTORS, Command, Reference

from firstnan import canonical_evidence, contract_digest
from firstnan.cli import main

VALUE = {"b": [1, 2.5, True, None], "a": "é"}


def test_one_line_a_file_like_sha256sum(command: Command, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one.json", "two.json")]
    Path(paths[0]).write_text(json.dumps(VALUE))
    Path(paths[1]).write_text(json.dumps(VALUE, indent=3, ensure_ascii=False, sort_keys=True))
    done = command("digest", *paths)
    digest = hashlib.sha256(canonical_evidence(VALUE)).hexdigest()
    assert done.returncode == 0
    assert done.stdout.decode() == "".join(f"{digest}  {path}\n" for path in paths)


def test_the_record_profile(command: Command) -> None:
    done = command("digest", "--profile", "record", stdin=b'{"z": 1, "a": [true, null]}')
    assert done.stdout.decode() == f"{contract_digest({'z': 1, 'a': [True, None]})}  -\n"


def test_a_prefix_makes_the_content_id_of_a_contract(command: Command, reference: Reference) -> None:
    done = command("digest", "--prefix", "training-incident-contract", "--json", reference.contract_path)
    assert json.loads(done.stdout) == {
        "profile": "evidence",
        "digests": [{"file": reference.contract_path, "content_id": reference.contract_id}],
        "refusals": [],
        "unreadable": [],
    }


def test_canonical_writes_the_bytes_themselves(command: Command) -> None:
    done = command("digest", "--canonical", stdin=json.dumps(VALUE, indent=4).encode())
    assert (done.returncode, done.stdout) == (0, canonical_evidence(VALUE))


def test_what_has_no_canonical_form_exits_with_1(command: Command, reference: Reference, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(b'{"password": "hunter2", "password": 1}')
    done = command("digest", str(path), reference.contract_path)
    assert done.returncode == 1
    assert done.stdout.decode().endswith(f"  {reference.contract_path}\n")
    assert f"{path}: refused (wire, duplicate_name)".encode() in done.stderr
    assert b"hunter2" not in done.stderr
    document = json.loads(command("digest", "--json", str(path)).stdout)
    assert [refusal["kind"] for refusal in document["refusals"]] == ["duplicate_name"]
    assert command("digest", "--canonical", str(path)).stdout == b""


def test_a_missing_file_outweighs_a_refusal(command: Command, tmp_path: Path) -> None:
    done = command("digest", str(tmp_path / "missing"), "-", "--json", stdin=b"NaN")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (len(document["refusals"]), document["unreadable"]) == (1, [str(tmp_path / "missing")])


@pytest.mark.parametrize("profile", ["evidence", "record"])
def test_the_vectors_of_both_profiles(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [json.loads(line) for line in (VECTORS / f"canonical/{profile}-profile.jsonl").read_text().splitlines()]
    cases = [case for case in cases[::7] if "max_bytes" not in case]
    paths = [tmp_path / f"{number}.json" for number in range(len(cases))]
    for path, case in zip(paths, cases, strict=True):
        path.write_bytes(case["text"].encode("utf-8", "surrogatepass"))
    code = main(["digest", "--json", "--profile", profile, *map(str, paths)])
    document = json.loads(capsys.readouterr().out)
    told = {entry["file"]: entry["sha256"] for entry in document["digests"]}
    expected = {
        str(path): hashlib.sha256(case["canonical"].encode()).hexdigest()
        for path, case in zip(paths, cases, strict=True)
        if case["accept"]
    }
    assert told == expected
    assert expected
    assert code == (1 if document["refusals"] else 0)
    assert len(document["refusals"]) + len(told) == len(cases)
