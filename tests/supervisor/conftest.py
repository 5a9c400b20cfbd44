"""The uninterrupted run that the supervisor's tests compare with."""

from __future__ import annotations

import pytest
from observed import LIMIT_S, Run

from firstnan.supervisor import default_config, launch


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The default run of 8 steps, with nothing injected."""
    root = tmp_path_factory.mktemp("whole")
    return Run(root, launch(root, default_config(), LIMIT_S))
