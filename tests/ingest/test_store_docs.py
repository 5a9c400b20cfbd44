"""Every command and every block of code of docs/store.md runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from telemetry_lines import lines

from firstnan.ingest import manifest

PAGE = (Path(__file__).parents[2] / "docs/store.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_commands_and_code_run(tmp_path: Path) -> None:
    (tmp_path / "telemetry.jsonl").write_bytes(lines(0, 100))
    commands = [text.removeprefix("$ ") for block in blocks("console") for text in block.splitlines()]
    assert len(commands) == 4
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "firstnan"
        subprocess.run([sys.executable, "-m", "firstnan", *arguments], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    (code,) = blocks("python")
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "99" in said


def test_tables_of_the_manifest_are_those_of_the_page() -> None:
    of_the_page = re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)
    assert of_the_page == re.findall(r"CREATE TABLE (\w+)", manifest.TABLES)

