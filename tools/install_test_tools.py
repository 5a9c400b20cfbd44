"""Installs what the tests and the demo need into the running environment, as pyproject.toml bounds it.

`install_test_tools.py EXTRA --target FOLDER` puts into a folder what another extra needs besides.

Reads the extras instead of installing the package, since the package itself is built by maturin afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path


def requirements(project: dict[str, object], extra: str) -> list[str]:
    """The requirements of an extra, with the extras of the project itself unfolded."""
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    out: list[str] = []
    for requirement in extras[extra]:
        if requirement.startswith("firstnan["):
            for inner in requirement.removeprefix("firstnan[").removesuffix("]").split(","):
                out += requirements(project, inner)
        else:
            out.append(requirement)
    return out


def main(arguments: list[str]) -> int:
    root = Path(__file__).resolve().parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *requirements(project, "test")]
    options = ["--quiet", "--disable-pip-version-check"]
    if arguments:
        extra, *more = arguments
        wanted = [requirement for requirement in requirements(project, extra) if requirement not in wanted]
        options += more
    return subprocess.call([sys.executable, "-m", "pip", "install", *options, *wanted])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
