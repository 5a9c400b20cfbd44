"""docs/scanning.md, from the first block to the last: what it shows is what the commands print."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from scan_files import command, entry, safetensors_bytes

PAGE = (Path(__file__).parents[2] / "docs/scanning.md").read_text(encoding="utf-8")


def test_every_block_of_the_page(tmp_path):
    blocks = re.findall(r"^```(\w+) (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [name for _, name, _ in blocks] == ["save.py", "0", "1", "1", "look.py", "0"]
    assert PAGE.count("```") == 2 * len(blocks)
    for language, name, text in blocks:
        if language == "python":
            (tmp_path / name).write_text(text)
            continue
        line, _, shown = text.removeprefix("$ ").partition("\n")
        program, *arguments = shlex.split(line)
        start = [sys.executable, "-m", "firstnan"] if program == "firstnan" else [sys.executable]
        done = subprocess.run([*start, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (int(name), shown, ""), line


def test_the_keys_of_the_page_are_those_of_the_document(tmp_path):
    save_file({"w": np.array([np.nan], np.float32)}, tmp_path / "step_1.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(safetensors_bytes({"w": entry(0, 4)}))
    words = set(re.findall(r"`([a-z_]+)`", PAGE.split("## The JSON document")[1]))
    for arguments in (["--json", "step_1.safetensors"], ["--json", "cut.safetensors"], ["--json", "--first-bad", "."]):
        document = json.loads(command("scan", *arguments, cwd=tmp_path).stdout)
        keys = set(document)
        for name in ("tensors", "not_counted", "looked"):
            keys |= {key for part in document.get(name, []) for key in part}
        assert keys <= words, keys - words
