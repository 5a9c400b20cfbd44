"""Memory is bounded by a block a thread, whatever the file's size: measured as the peak of a process."""

import zipfile

import numpy as np
import pytest
from scan_files import entry, peak_growth, safetensors_bytes

MIB = 1 << 20
FILE_BYTES = 512 * MIB


def write_ones(file):
    """Ones and a NaN, written in blocks, so that this process needs no more memory either."""
    part = np.ones(16 * MIB // 4, np.float32)
    for number in range(FILE_BYTES // part.nbytes):
        part[0] = np.nan if number == 20 else 1
        file.write(part.tobytes())


@pytest.mark.parametrize("kind", ["safetensors", "npy", "npz", "deflated.npz"])
def test_half_a_gibibyte_takes_less_than_16_mib(tmp_path, kind):
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
                write_ones(file)
        else:
            with path.open("wb") as file:
                if kind == "npy":
                    head.write_array_header_1_0(file, shape)
                else:
                    file.write(safetensors_bytes({"w": entry(0, FILE_BYTES)}))
                write_ones(file)
    small, large = (tmp_path / f"{name}.{kind}" for name in ("small", "large"))
    grown, checked, nan = peak_growth(small, large)
    assert (checked, nan) == (FILE_BYTES // 4, 1)
    assert grown < 16 * MIB


def test_more_would_be_seen(tmp_path):
    np.save(tmp_path / "w.npy", np.zeros(1))
    assert peak_growth(tmp_path / "w.npy", tmp_path / "w.npy", held=32 * MIB)[0] > 31 * MIB
