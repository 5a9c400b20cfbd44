"""Every block of code of docs/fleet.md and docs/scale.md runs, and shows what the pages say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from telemetry_lines import lines

ROOT = Path(__file__).resolve().parents[2]


def blocks(page, language):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_page_of_a_fleet(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    first, second = blocks("fleet.md", "python")
    subprocess.run([sys.executable, "-c", first], cwd=tmp_path, check=True)
    (commands,) = blocks("fleet.md", "console")
    shown = {}
    for command in commands.splitlines():
        program, *words = shlex.split(command.removeprefix("$ "))
        assert program == "firstnan"
        done = subprocess.run([sys.executable, "-m", program, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        shown[words[0]] = done.stdout
    (text,) = blocks("fleet.md", "text")
    assert shown["incidents"].startswith(text)
    assert "1 rank: 1" in shown["timeline"]
    subprocess.run([sys.executable, "-c", second], cwd=tmp_path, check=True)


def test_the_page_of_many_machines(tmp_path):
    (tmp_path / "telemetry").mkdir()
    for number in range(2):
        (tmp_path / f"telemetry/{number}.jsonl").write_bytes(lines(100 * number, 100))
    (code,) = blocks("scale.md", "python")
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
