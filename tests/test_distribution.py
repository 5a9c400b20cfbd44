"""The wheel built from the sdist carries the schemas, and passes the vectors outside the source tree."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_wheel_of_the_sdist_passes_the_vectors(tmp_path):
    def maturin(folder, *arguments):
        # Shared with `cargo test`, so that the dependencies are built once.
        build = {"CARGO_TARGET_DIR": str(ROOT / "target")}
        subprocess.run([sys.executable, "-m", "maturin", *arguments], cwd=folder, check=True, env={**os.environ, **build})

    maturin(ROOT, "sdist", "--out", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    maturin(source, "build", "--profile", "dev", "--quiet", "--out", str(tmp_path / "wheels"))
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    assert "-abi3-" in wheel.name
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    zipfile.ZipFile(wheel).extractall(site)
    for path in [*ROOT.glob("schemas/v1/*.json"), ROOT / "schemas/bundle.json", ROOT / "schemas/meta/record.json"]:
        assert (site / "firstnan" / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    assert (site / "firstnan/py.typed").is_file()
    assert (site / "firstnan/_core.pyi").is_file()

    (elsewhere / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "tests/test_vectors.py", elsewhere / "tests/test_vectors.py")
    shutil.copytree(ROOT / "schemas/vectors", elsewhere / "schemas/vectors")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_vectors.py"]
    subprocess.run(command, cwd=elsewhere, env=environment, check=True)
    where = subprocess.run([sys.executable, "-c", "import firstnan, json; print(json.dumps(firstnan.__file__))"],
                           cwd=elsewhere, env=environment, check=True, capture_output=True, text=True)
    assert Path(json.loads(where.stdout)).is_relative_to(site)
