"""Memory is bounded by a block a thread, whatever the file's size: measured as the peak of a process."""

import subprocess
import sys

import numpy as np
import pytest
from scan_files import entry, safetensors_bytes

MIB = 1 << 20
FILE_BYTES = 512 * MIB
CODE = """
import resource, sys, firstnan
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
firstnan.scan(sys.argv[1], threads=2)  # loads what a scan needs
before = peak()
scanned = firstnan.scan(sys.argv[2], threads=2)
print(peak() - before, scanned.checked, scanned.nan)
"""


def block(file, save):
    """Writes the values in blocks, so that this process needs no more memory either."""
    part = np.ones(16 * MIB // 4, np.float32)
    for number in range(FILE_BYTES // part.nbytes):
        part[0] = np.nan if number == 20 else 1
        save(file, part.tobytes())


@pytest.mark.parametrize("kind", ["safetensors", "npy", "npz", "deflated.npz"])
def test_half_a_gibibyte_takes_less_than_16_mib(tmp_path, kind):
    import zipfile

    head = np.lib.format
    shape = {"descr": "<f4", "fortran_order": False, "shape": (FILE_BYTES // 4,)}
    for name, large in (("small", False), ("large", True)):
        path = tmp_path / f"{name}.{kind}"
        if not large:
            if kind == "safetensors":
                path.write_bytes(safetensors_bytes({"w": entry(0, 4)}, bytes(4)))
            elif kind == "npy":
                np.save(path, np.zeros(1))
            else:
                np.savez_compressed(path, w=np.zeros(1))
        elif "npz" in kind:
            method = zipfile.ZIP_DEFLATED if kind.startswith("deflated") else zipfile.ZIP_STORED
            with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive, archive.open("w.npy", "w") as file:
                head.write_array_header_1_0(file, shape)
                block(file, type(file).write)
        else:
            with path.open("wb") as file:
                if kind == "npy":
                    head.write_array_header_1_0(file, shape)
                else:
                    file.write(safetensors_bytes({"w": entry(0, FILE_BYTES)}))
                block(file, type(file).write)
    arguments = [sys.executable, "-c", CODE, tmp_path / f"small.{kind}", tmp_path / f"large.{kind}"]
    told = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    grown, checked, nan = map(int, told)
    assert (checked, nan) == (FILE_BYTES // 4, 1)
    assert grown < 16 * MIB
