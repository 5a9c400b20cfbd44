"""`firstnan verify`: a bundle against its manifest, from the disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command

from firstnan.cli import main


def found(bundle: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What differs, by file, as --json says it; the exit code must agree."""
    code = main(["verify", "--json", str(bundle)])
    document = json.loads(capsys.readouterr().out)
    assert code == (1 if document["differences"] else 0)
    assert document["verified"] is (code == 0)
    return {difference["file"]: difference["what"] for difference in document["differences"]}


def test_a_bundle_as_written_verifies(command: Command, written_bundle: Path) -> None:
    done = command("verify", str(written_bundle))
    digest = hashlib.sha256((written_bundle / "manifest.json").read_bytes()).hexdigest()
    files = len(list(written_bundle.iterdir())) - 1
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        f"verified: {files} files are as the manifest lists them\nSHA-256 of the manifest: {digest}\n"
    )


def test_every_byte_of_every_file_counts(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = sorted(path.name for path in bundle.iterdir() if path.name != "manifest.json")
    assert len(names) >= 9
    for name in names:
        whole = (bundle / name).read_bytes()
        (bundle / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert found(bundle, capsys) == {name: "changed"}
        (bundle / name).write_bytes(whole + b"\n")
        assert found(bundle, capsys) == {name: "changed"}
        (bundle / name).unlink()
        assert found(bundle, capsys) == {name: "missing"}
        (bundle / name).write_bytes(whole)
    assert found(bundle, capsys) == {}


def test_what_is_not_listed_is_named(command: Command, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / "more.json").write_text("{}")
    assert found(bundle, capsys) == {"more.json": "extra"}
    done = command("verify", str(bundle))
    assert done.returncode == 1
    assert done.stdout.startswith(b"more.json: there, but not listed in the manifest\n")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other", "files": {}}', "\x00", '{"files": {"../x": {}}}'])
def test_a_manifest_that_is_none_is_refused(bundle: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / "manifest.json").write_text(text)
    assert found(bundle, capsys) == {"manifest.json": "unreadable"}
    (bundle / "manifest.json").unlink()
    assert found(bundle, capsys) == {"manifest.json": "missing"}


def test_records_that_disagree_are_found_behind_a_new_manifest(
    bundle: Path, sealed: Callable[[Path, str, bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    counts = json.loads((bundle / "counts.json").read_bytes())
    counts["leaves"][0]["checked"] += 1
    sealed(bundle, "counts.json", json.dumps(counts).encode())
    assert found(bundle, capsys) == {"counts.json": "disagrees"}


def test_a_link_out_of_the_bundle_does_not_count_as_its_file(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = bundle.parent / "elsewhere.json"
    (bundle / "counts.json").rename(elsewhere)
    (bundle / "counts.json").symlink_to(elsewhere)
    assert found(bundle, capsys) == {"counts.json": "changed"}


def test_one_difference_is_one(command: Command, bundle: Path) -> None:
    (bundle / "more\x1b[2J.json").write_text("{}")
    done = command("verify", str(bundle))
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout == b"more\\x1b[2J.json: there, but not listed in the manifest\n1 difference\n"
    (bundle / "other").mkdir()
    assert command("verify", str(bundle)).stdout.endswith(b"\n2 differences\n")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        (
            "incident.json",
            b'{"step_id":7,"batch_index":7,"every":1,"state_step_id":7,"reproduced":true,"refusal":null,"process":0,"processes":1,"held_by":[]}',
            "disagrees",
        ),
        ("structure.json", b"{}", "unreadable"),
        ("structure.json", b"[1]", "unreadable"),
        ("environment.json", b"{}", "unreadable"),
        ("history.json", b"[1]", "unreadable"),
        ("state.safetensors", b"\x02\0\0\0\0\0\0\0{}", "disagrees"),
        ("state.safetensors", b"", "unreadable"),
    ],
)
def test_a_forged_part_is_found_behind_a_new_manifest(
    bundle: Path,
    sealed: Callable[[Path, str, bytes], None],
    capsys: pytest.CaptureFixture[str],
    name: str,
    data: bytes,
    what: str,
) -> None:
    sealed(bundle, name, data)
    blamed = "structure.json" if what == "disagrees" and name == "state.safetensors" else name
    assert found(bundle, capsys) == {blamed: what}
    assert main(["verify", str(bundle)]) == 1
    assert capsys.readouterr().out.endswith("\n1 difference\n")
