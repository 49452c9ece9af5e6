"""The batches in which slots took part: what each one's state must come after."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.checksums import DamagedFileError
from stqsh.engine.state.attendance import Attendance
from stqsh.engine.state.slot_store import StaleBatchError


def test_each_slot_follows_the_batch_in_which_it_took_part_last(tmp_path: Path) -> None:
    assert Attendance(tmp_path / "state", "aggregate").enter(0, []) == {}
    attendance = Attendance(tmp_path / "state", "aggregate")
    assert attendance.enter(3, [0, 1]) == {0: -1, 1: -1}
    assert attendance.enter(4, [1]) == {1: 3}
    assert attendance.enter(9, [0, 1]) == {0: 3, 1: 4}
    assert attendance.enter(9, [0, 1]) == {0: 3, 1: 4}, "the batch is repeated"
    assert attendance.enter(10, [0, 2]) == {0: 9, 2: -1}


def test_an_earlier_batch_and_a_lost_file_are_errors(tmp_path: Path) -> None:
    attendance = Attendance(tmp_path / "state", "aggregate")
    attendance.enter(0, [1])
    attendance.enter(8, [1])
    with pytest.raises(StaleBatchError, match=r"batch 7 of slot aggregate-1 .* stored batch 8"):
        attendance.enter(7, [1])
    (tmp_path / "state" / "aggregate.batches").unlink()
    with pytest.raises(DamagedFileError, match=r"state/aggregate\.batches is gone"):
        attendance.enter(9, [1])
