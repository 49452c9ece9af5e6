"""The batches in which slots took part: what each one's state must come after."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.checksums import DamagedFileError
from stqsh.engine.state.attendance import Attendance, forget_unplanned
from stqsh.engine.state.file_store import FileStore, SlotMeta, StaleBatchError
from stqsh.storage.blobs import home_blobs


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


def take_part(state: Path, batch: int, *slots: int) -> dict[int, int]:
    """Store a batch of some slots; return after how many batches each found itself before it."""
    before = Attendance(state, "aggregate").enter(batch, slots)
    found = {}
    for slot in slots:
        store = FileStore.beside_head(home_blobs(state.parent), f"aggregate-{slot}", batch, before[slot])
        found[slot] = store.read_meta().version
        store.append(found[slot] + 1, [])
        store.write_meta(SlotMeta(version=found[slot] + 1))
    return found


@pytest.mark.parametrize("has_other", [False, True])
def test_a_batch_that_was_lost_with_its_plan_is_forgotten_though_its_slots_are_not_in_the_next(
    tmp_path: Path, has_other: bool
) -> None:
    take_part(tmp_path / "state", 0, 0, 1)
    take_part(tmp_path / "state", 1, 1)
    assert take_part(tmp_path / "state", 2, 0, 1, 2) == {
        0: 1,
        1: 2,
        2: 0,
    }  # and the power goes: its offset is lost
    for _ in range(2):
        forget_unplanned(tmp_path / "state", 1)
    if has_other:
        assert take_part(tmp_path / "state", 2, 1) == {1: 2}
    assert take_part(tmp_path / "state", 3, 0, 2) == {0: 1, 2: 0}
    assert take_part(tmp_path / "state", 4, 0, 1) == {0: 2, 1: 2 + has_other}


def test_a_slot_without_a_state_of_a_planned_batch_does_not_begin_anew(tmp_path: Path) -> None:
    for batch in range(4):
        take_part(tmp_path / "state", batch, 0)
    with pytest.raises(DamagedFileError, match="aggregate-0/head names no state up to batch 1"):
        forget_unplanned(tmp_path / "state", 1)


def test_batches_with_a_plan_are_not_forgotten(tmp_path: Path) -> None:
    take_part(tmp_path / "state", 0, 0)
    take_part(tmp_path / "state", 3, 0)
    forget_unplanned(tmp_path / "state", 3)
    assert take_part(tmp_path / "state", 3, 0) == {0: 1}, "it is repeated"
    assert take_part(tmp_path / "state", 4, 0) == {0: 2}
