"""docs/counting.md: every block of code runs, and the table of types is the table of the core."""

import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import firstnan

PAGE = (Path(__file__).parents[2] / "docs/counting.md").read_text(encoding="utf-8")


def test_every_block_in_order():
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == ["python"] * 3
    subprocess.run([sys.executable, "-c", "\n".join(code for _, code in blocks)], check=True)


def test_every_type_of_the_table_is_counted():
    names = re.findall(r"`(\w+)`", PAGE.split("## Types")[1].split("Every pattern")[0])
    core = (Path(__file__).parents[2] / "rust/firstnan-core/src/finite/format.rs").read_text(encoding="utf-8")
    assert sorted(names) == sorted(set(re.findall(r'"((?:float|bfloat|complex|bcomplex|int|uint|bool)\w*)"', core)))
    for name in names:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        assert firstnan.count_finite(np.zeros(3, np.uint8).repeat(dtype.itemsize).view(dtype)).checked == 3


def test_the_fields_of_the_table_exist():
    rows = PAGE.split("## What the fields mean")[1].split("Subnormals")[0]
    names = {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.partition("|")[2].partition("|")[0])}
    assert names | {"finite", "nonfinite"} == {name for name in dir(firstnan.FiniteCounts) if not name.startswith("_")}
