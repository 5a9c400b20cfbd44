"""Arbitrary input to the commands: an exit code and words, never a traceback, whatever the bytes are."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Reference
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan import _core
from firstnan.cli import main

JSON_FILES = [
    f"{name}.json" for name in ("contract", "evidence", "report", "counts", "history", "incident", "environment")
]


class Done(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


def called(*arguments: str) -> Done:
    """`main` with its output caught as bytes; what it raises, the test raises."""
    out, err = TextIOWrapper(BytesIO(), "utf-8"), TextIOWrapper(BytesIO(), "utf-8", errors="backslashreplace")
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*arguments])
    out.flush()
    err.flush()
    return Done(code, out.buffer.getvalue(), err.buffer.getvalue())  # type: ignore[attr-defined]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([10**400, -1, 1 << 63, 0.5]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
json_bytes = json_values.map(lambda value: json.dumps(value).encode())
files = st.binary(max_size=400) | json_bytes | st.sampled_from([b"[" * 100_000, b"9" * 100_000, b"\xef\xbb\xbf{}", b"1e999"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arbitrary")


@settings(deadline=None, max_examples=150)
@given(data=files, kind=st.sampled_from(sorted(_core.kinds())), by_line=st.booleans(), as_json=st.booleans())
def test_validate(folder: Path, data: bytes, kind: str, by_line: bool, as_json: bool) -> None:
    (folder / "data").write_bytes(data)
    flags = ["--lines"] * by_line + ["--json"] * as_json
    done = called("validate", kind, str(folder / "data"), *flags)
    assert done.code in (0, 1)
    assert done.stderr == b""
    if as_json:
        document = json.loads(done.stdout)
        assert (done.code == 1) is (document["refused"] > 0) is bool(document["refusals"])


@settings(deadline=None, max_examples=150)
@given(data=files, profile=st.sampled_from(["evidence", "record"]), canonical=st.booleans())
def test_digest(folder: Path, data: bytes, profile: str, canonical: bool) -> None:
    (folder / "data").write_bytes(data)
    done = called("digest", "--profile", profile, str(folder / "data"), *["--canonical"] * canonical)
    assert done.code in (0, 1)
    assert bool(done.stderr) is (done.code == 1)
    if done.code == 0 and canonical:
        (folder / "data").write_bytes(done.stdout)
        assert called("digest", "--profile", profile, "--canonical", str(folder / "data")).stdout == done.stdout
    elif done.code == 0:
        assert len(done.stdout.split()[0]) == 64


@settings(deadline=None, max_examples=100)
@given(contract=files, evidence=files)
def test_triage_of_files(folder: Path, reference: Reference, contract: bytes, evidence: bytes) -> None:
    (folder / "contract").write_bytes(contract)
    (folder / "evidence").write_bytes(evidence)
    for pair in [
        (folder / "contract", folder / "evidence"),
        (reference.contract_path, folder / "evidence"),
        (folder / "contract", reference.evidence_path),
    ]:
        done = called("triage", *map(str, pair), "--json")
        assert (done.code, done.stderr) == (1, b"")
        assert json.loads(done.stdout)["refused"]["message"]


@settings(deadline=None, max_examples=100)
@given(words=st.lists(st.text(max_size=10) | st.sampled_from(["validate", "digest", "triage", "schema", "-", "--json"])))
def test_any_words(words: list[str]) -> None:
    # drill and -o write files under names that are not the test's to choose.
    if "drill" in words or any(word.startswith("-") and "o" in word for word in words):
        return
    assert called(*words).code in (0, 1, 2)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to each value within a JSON value."""
    yield at
    if isinstance(value, (dict, list)):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(member, (*at, key))


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = replaced(value[at[0]], at[1:], new)
    return copy


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_a_bundle_whose_files_hold_anything(written_bundle: Path, folder: Path, data: st.DataObject) -> None:
    """One value of one file replaced, and the manifest made to fit, so that what is inside gets read."""
    name = data.draw(st.sampled_from(JSON_FILES))
    document = json.loads((written_bundle / name).read_bytes())
    at = data.draw(st.sampled_from(list(places(document))))
    text = json.dumps(replaced(document, at, data.draw(json_values))).encode()
    bundle = folder / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    shutil.copytree(written_bundle, bundle)
    (bundle / name).write_bytes(text)
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    manifest["files"][name] = {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    for command in ("triage", "verify", "report"):
        done = called(command, str(bundle))
        assert done.code in (0, 1), done.stderr
        assert done.stdout
        assert done.stderr == b""
        if command == "report" and done.code == 0:
            assert done.stdout.startswith(b"<!doctype html>")
