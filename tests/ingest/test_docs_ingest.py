"""Every block of code of docs/ingest.md runs, in order, in one process."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_blocks_of_code(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/ingest.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "stage-telemetry 2\n"
