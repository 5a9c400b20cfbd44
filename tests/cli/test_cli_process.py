"""The command as a process: its exit codes, and that no mistake of a user ends in a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Command, Reference

from firstnan.cli import main

FIRSTNAN = [sys.executable, "-m", "firstnan"]
WITHOUT_JAX = "import sys; sys.modules.update(jax=None, numpy=None); from firstnan.cli import main; sys.exit(main())"


def quiet(stderr: bytes) -> bool:
    return b"Traceback" not in stderr and b"Error:" not in stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["validate", "--help"], ["drill", "--help"]])
def test_help_and_version_exit_with_0(command: Command, arguments: list[str]) -> None:
    done = command(*arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


def test_every_help_says_what_the_exit_codes_mean(command: Command) -> None:
    for name in ("schema", "validate", "digest", "triage", "verify", "report", "locate", "scan", "drill"):
        text = command(name, "--help").stdout
        assert all(code in text for code in (b"0    done", b"1    something was refused", b"2    misuse")), name


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["validate"],
        ["validate", "no-such-kind"],
        ["validate", "stage-telemetry", "no/such/file.json"],
        ["validate", "stage-telemetry", "."],
        ["validate", "stage-telemetry", "--no-such-option"],
        ["digest", "no/such/file.json"],
        ["digest", "."],
        ["digest", "--profile", "no-such-profile"],
        ["digest", "--prefix", "training-incident-contract", "--profile", "record"],
        ["digest", "--canonical", "a", "b"],
        ["digest", "--canonical", "--json", "a"],
        ["triage", "no/such/folder"],
        ["triage", "/dev/null"],
        ["triage", ".", "no/such/file.json"],
        ["verify", "no/such/folder"],
        ["report", "no/such/folder"],
        ["report", "--json", "."],
        ["schema", "show"],
        ["schema", "show", "no-such-schema"],
        ["schema", "show", "../bundle"],
        ["schema", "list", "common"],
        ["drill"],
        ["drill", "/dev/null/below"],
        ["drill", "--timeout", "0", "x"],
        ["drill", "--timeout", "nan", "x"],
        ["drill", "--timeout", "soon", "x"],
    ],
    ids=" ".join,
)
def test_misuse_exits_with_2_and_words_on_standard_error(command: Command, arguments: list[str]) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stderr
    assert quiet(done.stderr)
    assert done.stdout in (b"", b"0 accepted, 0 refused\n")


def test_a_file_that_may_not_be_read_is_misuse(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    if os.access(path, os.R_OK):
        path = Path("/proc/self/mem")  # root reads anything but this
    done = command("digest", str(path))
    assert done.returncode == 2
    assert quiet(done.stderr)


def test_a_reader_that_goes_away_ends_it_with_141() -> None:
    process = subprocess.Popen([*FIRSTNAN, "schema", "bundle"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert (process.wait(60), process.stderr.read()) == (141, b"")


def test_output_that_cannot_be_written_exits_with_2() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*FIRSTNAN, "schema", "bundle"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 2
    assert b"No space left" in done.stderr
    assert quiet(done.stderr)


@pytest.mark.parametrize(("closed", "arguments"), [(">&-", "schema list"), ("<&-", "digest")])
def test_a_closed_stream_exits_with_2(closed: str, arguments: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m firstnan {arguments} {closed}'], stderr=subprocess.PIPE, timeout=60
    )
    assert done.returncode == 2
    assert b"is closed" in done.stderr
    assert quiet(done.stderr)


def test_a_closed_standard_error_leaves_standard_output_alone() -> None:
    script = f'"{sys.executable}" -m firstnan validate stage-telemetry --json no/such/file 2>&-'
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == 2
    assert json.loads(done.stdout)["unreadable"] == ["no/such/file"]


def test_main_prints_where_standard_output_takes_only_text(written_bundle: Path, command: Command) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main(["report", str(written_bundle)]) == 0
    assert shown.getvalue().encode() == command("report", str(written_bundle)).stdout


def test_an_interrupt_exits_with_130() -> None:
    process = subprocess.Popen(
        [*FIRSTNAN, "validate", "stage-telemetry", "--lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    # It refuses enough lines to fill its output buffer, so that what is read shows it is past its imports.
    process.stdin.write(b"x\n" * 1000)
    process.stdin.flush()
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == b"firstnan: interrupted\n"


@pytest.mark.parametrize("name", ["verify", "triage", "report"])
def test_a_bundle_is_read_where_jax_is_not_installed(name: str, written_bundle: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAX, name, str(written_bundle)], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_drill_says_that_it_needs_jax(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", WITHOUT_JAX, "drill", str(tmp_path / "drill")]
    done = subprocess.run(arguments, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, b"firstnan: the worker needs jax: install firstnan[jax]\n")
    assert not (tmp_path / "drill").exists()


def test_nothing_heavy_is_loaded_before_it_is_needed(reference: Reference) -> None:
    code = (
        "import sys; from firstnan.cli import main; main(['schema', 'list']);"
        f"main(['triage', {reference.contract_path!r}, {reference.evidence_path!r}]);"
        "print([m for m in ('jax', 'numpy', 'rich', 'xml.etree.ElementTree', 'firstnan.jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.stdout.splitlines()[-1] == b"[]"


def test_a_name_cannot_steer_the_terminal(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31m\u202ered\udcff.json"
    path.write_text("1")
    done = command("digest", str(path))
    assert done.returncode == 0
    assert b"\\x1b[31m\\u202ered\\udcff.json" in done.stdout
    assert b"\x1b" not in done.stdout


def test_a_terminal_gets_tables_drawn_by_rich(reference: Reference) -> None:
    leader, follower = os.openpty()
    process = subprocess.Popen(
        [*FIRSTNAN, "triage", reference.contract_path, reference.evidence_path],
        stdout=follower, env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(follower)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            shown += os.read(leader, 4096)
        except OSError:  # the terminal is gone with its last process
            break
    os.close(leader)
    assert process.wait(60) == 0
    assert "━".encode() in shown or "─".encode() in shown
    assert b"backward" in shown
