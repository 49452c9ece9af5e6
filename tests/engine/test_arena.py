"""The arena: what a process left there is found again, and never trusted where it may be half written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from stqsh.core.state.slot_state import SlotState
from stqsh.engine.state import arena as module
from stqsh.engine.state.arena import Arena, StaleFileError
from stqsh.storage import slot_files, slot_locks


def test_arrays_are_found_again_and_changed_in_place(tmp_path: Path) -> None:
    arena = Arena((tmp_path,), "evaluate-0")
    x = arena.allocate("x", np.dtype(np.float64), 3)
    x[:] = [1, 2, 3]
    arena.commit("one", {"n": 3}, {"x": x, "copied": np.arange(4, dtype=np.int32)})

    other = Arena((tmp_path,), "evaluate-0")
    head = other.read_head()
    assert head is not None
    assert (head.stamp, head.header) == ("one", {"n": 3})
    arrays = other.load(head)
    assert arrays["copied"].tolist() == [0, 1, 2, 3]
    other.begin()
    arrays["x"][1] = 20
    other.commit("two", {}, arrays)
    assert x.tolist() == [1, 20, 3]


def test_a_change_that_was_not_finished_leaves_nothing_to_trust(tmp_path: Path) -> None:
    arena = Arena((tmp_path,), "evaluate-0")
    arena.commit("one", {}, {"x": np.zeros(2)})
    arena.begin()
    assert Arena((tmp_path,), "evaluate-0").read_head() is None


def test_another_boot_leaves_nothing_to_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Arena((tmp_path,), "evaluate-0").commit("one", {}, {})
    monkeypatch.setattr(slot_files, "boot_id", lambda: "another")
    assert Arena((tmp_path,), "evaluate-0").read_head() is None


def test_growth_replaces_the_file_and_dead_files_go(tmp_path: Path) -> None:
    arena = Arena((tmp_path,), "evaluate-0")
    neighbour = Arena((tmp_path,), "evaluate-1")
    neighbour.commit("n", {}, {"x": np.zeros(1)})
    arena.commit("one", {}, {"x": np.zeros(2), "dropped": np.zeros(2)})
    grown = arena.allocate("x", np.dtype(np.int64), 500)
    arena.commit("two", {}, {"x": grown})
    assert len(list(tmp_path.glob("evaluate-0.*.array"))) == 1
    assert len(list(tmp_path.glob("evaluate-1.*.array"))) == 1


@pytest.mark.parametrize(
    "array", [np.zeros(0), np.zeros(5, np.int8), np.array(["a", "bc"]), np.array([True])]
)
def test_arrays_of_any_length_and_type_survive(tmp_path: Path, array: np.ndarray) -> None:
    Arena((tmp_path,), "a-0").commit("s", {}, {"x": array})
    other = Arena((tmp_path,), "a-0")
    head = other.read_head()
    assert head is not None
    found = other.load(head)["x"]
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


def test_a_full_folder_gives_way_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module._reserve

    def full(path: Path, flags: int, size: int) -> None:
        if path.parent.name == "full":
            raise OSError(28, "No space left on device")
        real(path, flags, size)

    monkeypatch.setattr(module, "_reserve", full)
    arena = Arena((tmp_path / "full", tmp_path / "roomy"), "a-0")
    arena.commit("s", {}, {"x": np.ones(3)})
    assert list((tmp_path / "roomy").glob("*.array"))
    with pytest.raises(MemoryError):
        Arena((tmp_path / "full",), "a-1").allocate("x", np.dtype(np.int8), 1)


def test_a_lock_dies_with_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_locks, "PATIENCE_S", 0.05)
    child = os.fork()
    if child == 0:
        with Arena((tmp_path,), "a-0").held():
            os._exit(9)
    os.waitpid(child, 0)
    with (
        Arena((tmp_path,), "a-0").held(),
        pytest.raises(module.ArenaBusyError),
        Arena((tmp_path,), "a-0").held(),
    ):
        pass


def test_an_array_that_has_become_short_gives_its_memory_back(tmp_path: Path) -> None:
    arena = Arena((tmp_path,), "evaluate-0")
    state = SlotState.fresh(0, arena)
    for name, length in (("a/long", 100_000), ("a/small", 2000)):
        state.create(name, np.int64, length)[:] = np.arange(length)
        state.resize(name, 100)
    state.trim_unused(arena.trim)
    arena.commit("1", state.header, state.buffers)
    head = arena.read_head()
    assert head is not None
    sizes = {name: (tmp_path / head.arrays[name].file).stat().st_size for name in head.arrays}
    assert sizes == {"a/long": 800, "a/small": 16_000}
    again = SlotState(head.header, Arena((tmp_path,), "evaluate-0").load(head), arena)
    assert again.array("a/long").tolist() == list(range(100))
    assert again.resize("a/long", 150).tolist() == [*range(100), *[0] * 50]


def test_an_array_that_stays_shorter_gives_its_memory_back_in_time(tmp_path: Path) -> None:
    arena = Arena((tmp_path,), "evaluate-0")
    state = SlotState.fresh(0, arena)
    state.create("a/steady", np.int64, 90_000)
    state.create("a/shorter", np.int64, 90_000)
    sizes = []
    for _ in range(20):
        for name in ("a/steady", "a/shorter"):
            state.resize(name, 50_000)
        state.resize("a/steady", 90_000)
        state.resize("a/steady", 50_000)
        state.trim_unused(arena.trim)
        sizes.append([len(state.buffers[name]) for name in ("a/steady", "a/shorter")])
    assert sizes[0] == [90_000, 90_000]
    assert sizes[-1] == [90_000, 50_000]


def test_an_array_grows_within_its_file(tmp_path: Path) -> None:
    arena = Arena((tmp_path,), "evaluate-0")
    state = SlotState.fresh(0, arena)
    state.create("a", np.int64, 20)[:] = np.arange(20)
    files = list(tmp_path.glob("*.array"))
    state.resize("a", 10)
    assert state.resize("a", 100_000).tolist() == [*range(10), *[0] * 99_990]
    state.array("a")[-1] = 7
    arena.commit("1", state.header, state.buffers)
    assert list(tmp_path.glob("*.array")) == files
    head = arena.read_head()
    assert head is not None
    assert SlotState(head.header, arena.load(head)).array("a")[[9, 10, -1]].tolist() == [9, 0, 7]


def test_an_array_that_cannot_grow_within_its_folder_moves_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module._reserve

    def small(path: Path, flags: int, size: int) -> None:
        if path.parent.name == "small" and size > 1000:
            raise OSError(28, "No space left on device")
        real(path, flags, size)

    monkeypatch.setattr(module, "_reserve", small)
    arena = Arena((tmp_path / "small", tmp_path / "roomy"), "a-0")
    state = SlotState.fresh(0, arena)
    state.create("a", np.int64, 100)[:] = np.arange(100)
    assert state.resize("a", 300).tolist() == [*range(100), *[0] * 200]
    assert list((tmp_path / "roomy").glob("*.array"))


def test_room_that_was_never_used_is_left_to_grow_into(tmp_path: Path) -> None:
    arena = Arena((tmp_path,), "evaluate-0")
    state = SlotState.fresh(0, arena)
    state.create("a", np.int64, 50_000)
    state.resize("a", 50_001)
    state.trim_unused(arena.trim)
    assert len(state.buffers["a"]) == 56_250


def test_arrays_leave_room_for_the_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = tmp_path / "shared", tmp_path / "roomy"
    arena = Arena(folders, "a-0")
    small = arena.allocate("x", np.dtype(np.int8), 1000)
    arena.commit("one", {}, {"x": small})
    monkeypatch.setattr(module, "free_bytes", lambda _: (16 << 20) + 500)
    arena.begin()
    arena.commit("two", {}, {"x": arena.grow("x", small, 1400)})
    assert list(folders[0].glob("*.array"))
    arena.commit("three", {}, {"x": arena.grow("x", small, 2000), "y": np.zeros(80)})
    assert not list(folders[0].glob("*.array"))
    assert len(list(folders[1].glob("*.array"))) == 2
    head = arena.read_head()
    assert head is not None
    assert head.stamp == "three"


def test_a_head_that_cannot_be_written_costs_a_rebuild_and_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = Arena((tmp_path,), "a-0")
    arena.commit("one", {}, {"x": np.zeros(2)})
    arena.begin()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(module, "write_head", fail)
        arena.commit("two", {}, {"x": np.zeros(3)})
    assert arena.read_head() is None
    arena.commit("three", {}, {"x": np.zeros(3)})
    assert arena.read_head() is not None


def test_what_is_mapped_already_stays_so(tmp_path: Path) -> None:
    mine, other = Arena((tmp_path,), "evaluate-0"), Arena((tmp_path,), "evaluate-0")
    state = SlotState.fresh(0, mine)
    for name in ("kept", "grown"):
        state.create(name, np.int64, 100)[:] = 1
    mine.commit("one", state.header, state.buffers)
    head = mine.read_head()
    theirs = SlotState(head.header, other.load(head), other)
    theirs.array("kept")[:] = 2
    theirs.resize("grown", 9_000)[100:] = 3
    other.commit("two", theirs.header, theirs.buffers)
    head = mine.read_head()
    found = mine.load(head)
    assert np.shares_memory(found["kept"], state.buffers["kept"])
    assert not np.shares_memory(found["grown"], state.buffers["grown"])
    assert found["kept"].tolist() == [2] * 100
    assert found["grown"].tolist() == [1] * 100 + [3] * 8_900
    for path in tmp_path.glob("*.array"):
        path.unlink()
    with pytest.raises(StaleFileError):
        mine.load(head)
