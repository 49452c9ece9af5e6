"""A short round of `strikes.py`: Python workers and the driver are killed, the storage fails and is slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from strikes import Striking, run_round

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
NAMES = ("python", "errors", "slow")


@pytest.mark.parametrize("store", ["s3", "hdfs"])
def test_strikes_change_nothing_to_the_byte(
    folder: Path, unpacked: Path, store: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(store)
    done = run_round(folder, unpacked, store, Striking(seed=2, names=NAMES, hurry=5.0), steps=30)
    assert done.keys() == set(NAMES)
