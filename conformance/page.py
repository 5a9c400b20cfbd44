"""Runs a section of docs/other-languages.md as its reader would, in an empty folder, and compares what it prints.

A code block under a line `NAME`: is that file; a `sh` block is run; a `text` block is what the one before it prints.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/other-languages.md"
BLOCK = re.compile(r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Maven resets colours even where there is no terminal


class PageFailed(Exception):
    """A block that did not do what the page says."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    file: str | None


def sections(page: str) -> dict[str, list[Block]]:
    """The blocks of each section, by its heading in lower case; those before the first heading by the empty name."""
    title, *parts = re.split(r"^## (.*)\n", page, flags=re.MULTILINE)
    texts = {"": title, **dict(zip(parts[::2], parts[1::2], strict=True))}
    found = {}
    for name, text in texts.items():
        blocks = [Block(match["language"], match["text"], match["file"]) for match in BLOCK.finditer(text)]
        if len(re.findall(r"^```", text, flags=re.MULTILINE)) != 2 * len(blocks):
            raise PageFailed(f"{name}: a block without a language or an end")
        found[name.lower()] = blocks
    return found


def run(section: str, folder: Path, environment: dict[str, str]) -> int:
    """Runs a section's blocks in an empty folder, and says how many commands there were."""
    blocks = sections(PAGE.read_text(encoding="utf-8"))[section]
    printed, commands = "", 0
    for block in blocks:
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            printed = shell(section, block.text, folder, environment)
            commands += len(block.text.splitlines())
        elif block.language == "text":
            if printed != block.text:
                raise PageFailed(f"{section}: the page says\n{block.text}and its commands print\n{printed}")
        else:
            raise PageFailed(f"{section}: a block of {block.language} that is no file and no command")
    return commands


def shell(section: str, script: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=folder, env={**os.environ, "FIRSTNAN": str(ROOT), **environment}, capture_output=True, text=True, check=False,
    )
    if done.returncode != 0:
        raise PageFailed(f"{section}: ended with {done.returncode}:\n{script}{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return COLOUR.sub("", done.stdout)
