"""A short round of `strikes.py`: a Python worker is killed, the storage fails and is slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from strikes import Striking, run_round

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
NAMES = ("python", "errors", "slow")


def test_strikes_change_nothing_to_the_byte(folder: Path, unpacked: Path, s3: None) -> None:
    done = run_round(folder, unpacked, "s3", Striking(seed=2, names=NAMES, hurry=5.0), steps=20)
    assert done.keys() == set(NAMES)
