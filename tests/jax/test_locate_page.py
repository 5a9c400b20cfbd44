"""docs/finding-nans.md, from the first block to the last: what it shows is what the commands print."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/finding-nans.md"


def test_every_block_of_the_page(tmp_path):
    blocks = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [name or language for language, name, _ in blocks] == [
        *("broken.py", "console", "train.py", "console", "console", "look.py", "console", "repaired.py", "console"),
        *("padded.py", "console", "sharded.py", "console"),
    ]
    for language, name, text in blocks:
        if language == "python":
            (tmp_path / name).write_text(text)
            continue
        command, _, shown = text.removeprefix("$ ").partition("\n")
        program, *arguments = shlex.split(command)
        python = [sys.executable, "-m", "firstnan"] if program == "firstnan" else [sys.executable]
        done = subprocess.run([*python, *arguments], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=True)
        agrees = doctest.OutputChecker().check_output(shown, done.stdout, doctest.ELLIPSIS)
        assert agrees, f"{command}\n{done.stdout}"


def test_the_attributes_that_the_page_names_exist():
    from firstnan.jax import Birth, Located

    rows = PAGE.read_text(encoding="utf-8").split("## How to read it")[1].split("What is not reported as")[0]
    for row in rows.splitlines():
        for name in re.findall(r"`(\w+)`", row.partition("|")[2].partition("|")[0]):
            assert hasattr(Birth, name) or hasattr(Located, name), name
