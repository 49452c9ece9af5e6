"""A slot between state store and arena, without Spark: the store is the truth, the arena a cache of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.toy_engine import Adding, batch_chunks

from stqsh.core.chunks import Chunk
from stqsh.core.slot.state import SlotState
from stqsh.engine import persist, slotstate
from stqsh.engine.arena import Arena
from stqsh.engine.persist import Meta, SlotStore
from stqsh.engine.slotstate import Costs, SlotKeeper


class FakeValue:
    """Spark's ValueState, in memory."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, newValue: tuple[Any, ...]) -> None:
        self.value = newValue


class FakeList:
    """Spark's ListState, in memory."""

    def __init__(self) -> None:
        self.values: list[tuple[Any, ...]] = []

    def get(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.values)

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        self.values.append(newState)

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        self.values += newState

    def clear(self) -> None:
        self.values = []


class Slot:
    """One slot over its life: `batch` is a batch that Spark commits, `lost` one that it does not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = (FakeValue(), FakeList(), FakeList())
        self.number = 0

    def _advance(self, variables: tuple[Any, Any, Any]) -> tuple[list[Chunk], Costs]:
        arena = Arena((self.folder,), "evaluate-0")
        return SlotKeeper(Adding(), 0, SlotStore(*variables), arena).advance(batch_chunks(self.number, 1))

    def batch(self) -> tuple[list[Chunk], Costs]:
        self.number += 1
        return self._advance(self.variables)

    def lost(self) -> None:
        self.number += 1
        self._advance(copy.deepcopy(self.variables))
        self.number -= 1

    def other_process(self) -> None:
        slotstate._warm.clear()

    def lose_arena(self) -> None:
        for path in self.folder.glob("*.array"):
            path.unlink()

    def break_off(self) -> None:
        Arena((self.folder,), "evaluate-0").begin()

    @property
    def meta(self) -> Meta:
        return SlotStore(*self.variables).read_meta()


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    slotstate._warm.clear()
    return Slot(tmp_path)


def test_the_same_process_and_another_go_on_without_a_rebuild(slot: Slot) -> None:
    slot.batch()
    assert not slot.batch()[1].rebuilt
    slot.other_process()
    assert not slot.batch()[1].rebuilt


@pytest.mark.parametrize("mishap", ["lost", "break_off"])
def test_what_spark_did_not_commit_is_seen_and_rebuilt(slot: Slot, mishap: str) -> None:
    slot.batch()
    getattr(slot, mishap)()
    assert slot.batch()[1].rebuilt


def test_an_arena_whose_files_are_gone_is_rebuilt_by_another_process(slot: Slot) -> None:
    slot.batch()
    slot.lose_arena()
    slot.other_process()
    assert slot.batch()[1].rebuilt


def test_a_snapshot_takes_the_place_of_a_log_that_has_outgrown_it(
    slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persist, "LOG_BYTES", 3000)
    sizes = []
    for _ in range(30):
        slot.batch()
        sizes.append((slot.meta.log_bytes, len(slot.variables[1].values)))
    assert (0, 0) in sizes
    assert slot.meta.snapshot_bytes > 0
    assert len({entry for entry, _ in slot.variables[2].values}) == 1


def test_a_log_that_is_slow_to_apply_is_replaced_too() -> None:
    slow = Meta(version=9, log_bytes=10, replay_us=11_000_000, snapshot_us=1000)
    assert slow.wants_snapshot()
    assert not Meta(version=9, log_bytes=10, replay_us=11_000_000, snapshot_us=2_000_000).wants_snapshot()


@given(st.lists(st.sampled_from(["batch", "lost", "other_process", "lose_arena", "break_off"]), max_size=25))
def test_whatever_happens_the_state_is_that_of_the_committed_batches(
    tmp_path_factory: Any, story: list[str]
) -> None:
    slotstate._warm.clear()
    slot = Slot(tmp_path_factory.mktemp("arena"))
    alone = SlotState.fresh(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(persist, "LOG_BYTES", 1500)
        patch.setattr(persist, "PIECE_BYTES", 700)
        for what in [*story, "batch"]:
            if what != "batch":
                getattr(slot, what)()
                continue
            sent, _ = slot.batch()
            assert sent == Adding().apply(alone, batch_chunks(slot.number, 1))
