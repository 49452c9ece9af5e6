"""What tests of the shell in a terminal share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.terminal import environment


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell with a home of its own, whose session "mine" is stopped afterwards."""
    with environment(tmp_path / "home") as values:
        yield values
