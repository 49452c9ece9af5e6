"""What tests of the shell in a terminal share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.terminal import STQSH


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell with a home of its own, whose session "mine" is stopped afterwards."""
    values = {**os.environ, "STQSH_HOME": str(tmp_path / "home"), "TERM": "xterm-256color"}
    values.pop("NO_COLOR", None)
    yield values
    subprocess.run([*STQSH, "stop", "mine"], env=values, capture_output=True, check=False)
