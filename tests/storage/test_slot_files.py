"""Reading the slots' published state: all at one step, never half written, and never in a writer's way."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from stqsh.core.state.slot_state import SlotState
from stqsh.engine.state.arena import Arena
from stqsh.errors import NotPublishedError
from stqsh.storage import slot_files, slot_locks
from stqsh.storage.slot_files import PublishedSlots, mapped_files, slot_name


class Slots:
    """Writes the states of slots as an engine does."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        self.arenas = [Arena((folder,), slot_name("evaluate", slot)) for slot in range(count)]
        self.states = [SlotState.fresh(slot, arena) for slot, arena in enumerate(self.arenas)]
        for state in self.states:
            state.create("x", np.int64, 3)

    def step(self, slot: int, step: int, *, finish: bool = True) -> None:
        state, arena = self.states[slot], self.arenas[slot]
        with arena.held() as has_readers:
            if has_readers:
                arena.part(state.buffers)
            arena.begin()
            state.array("x")[:] = step
            state.header["clock"] = {"step": step}
            if finish:
                arena.commit(f"{slot}/{step}", state.header, state.buffers)


def xs(states: list[SlotState]) -> list[int]:
    return [int(state.array("x")[0]) for state in states]


def read(reader: PublishedSlots, least: int = 0, patience_s: float = 0.0) -> list[int]:
    return reader.read(xs, least, lambda: patience_s)


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    slots = Slots(tmp_path)
    for slot in range(2):
        slots.step(slot, 1)
    return slots


def test_what_was_published_last_is_read_again_and_again(tmp_path, slots):
    reader = PublishedSlots((tmp_path,), 2)
    assert read(reader) == [1, 1]
    for slot in range(2):
        slots.step(slot, 2)
    assert read(reader) == [2, 2]


@pytest.mark.parametrize("change", ["grow within their files", "come into new files"])
def test_arrays_that_changed_are_read_whole(tmp_path, slots, change):
    reader = PublishedSlots((tmp_path,), 2)
    read(reader)
    for slot in range(2):
        state = slots.states[slot]
        state.resize("x", 10_000) if "grow" in change else state.create("x", np.int64, 10_000)
        slots.step(slot, 2)
    assert (
        reader.read(lambda states: [len(state.array("x")) for state in states], 0, lambda: 0.0)
        == [10_000] * 2
    )


def test_slots_at_different_steps_are_waited_for(tmp_path, slots):
    reader = PublishedSlots((tmp_path,), 2)
    slots.step(0, 2)
    with pytest.raises(NotPublishedError, match="different steps"):
        read(reader)
    later = threading.Timer(0.1, slots.step, (1, 2))
    later.start()
    assert read(reader, patience_s=5.0) == [2, 2]
    later.join()


def test_a_state_from_before_the_step_wanted_is_none(tmp_path, slots):
    with pytest.raises(NotPublishedError):
        read(PublishedSlots((tmp_path,), 2), least=2)


def test_a_slot_that_is_half_written_is_not_read(tmp_path, slots):
    slots.step(1, 2, finish=False)
    with pytest.raises(NotPublishedError, match="no head"):
        read(PublishedSlots((tmp_path,), 2))


@pytest.mark.parametrize("changed", ["FORMAT", "boot_id"])
def test_another_format_and_another_boot_are_not_trusted(tmp_path, slots, monkeypatch, changed):
    monkeypatch.setattr(slot_files, changed, 99 if changed == "FORMAT" else lambda: "another")
    with pytest.raises(NotPublishedError, match="trusted"):
        read(PublishedSlots((tmp_path,), 2))


def test_a_session_that_never_had_an_engine_has_nothing(tmp_path):
    with pytest.raises(NotPublishedError):
        read(PublishedSlots((tmp_path / "nowhere",), 2))


def test_a_batch_under_way_is_waited_for(tmp_path, slots):
    reader = PublishedSlots((tmp_path,), 2)
    with slots.arenas[0].held(), pytest.raises(NotPublishedError, match="another process"):
        read(reader)


def test_what_a_reader_writes_by_mistake_stays_its_own(tmp_path, slots):
    def spoil(states: list[SlotState]) -> None:
        states[0].array("x")[:] = 77

    PublishedSlots((tmp_path,), 2).read(spoil, 0, lambda: 0.0)
    assert read(PublishedSlots((tmp_path,), 2)) == [1, 1]


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_only_arrays_that_are_asked_for_are_mapped_and_no_descriptor_is_kept(tmp_path):
    slots, columns = Slots(tmp_path), 300
    for slot, state in enumerate(slots.states):
        for number in range(columns):
            state.create(f"c{number}", np.int64, 3)[:] = number
        slots.step(slot, 1)
    reader, mapped, before = PublishedSlots((tmp_path,), 2), mapped_files(), open_files()
    assert read(reader) == [1, 1]
    assert mapped_files() == mapped + 2
    assert reader.read(lambda states: int(states[0].array("c299")[0]), 0, lambda: 0.0) == 299
    assert mapped_files() == mapped + 3
    assert open_files() == before
    del reader
    assert mapped_files() == mapped


@pytest.mark.parametrize("most", [0, 1])
def test_beyond_what_a_process_may_map_arrays_are_copied(tmp_path, slots, monkeypatch, most):
    monkeypatch.setattr(slot_files, "MOST_MAPPED", mapped_files() + most)
    reader, mapped = PublishedSlots((tmp_path,), 2), mapped_files()
    for step in (1, 2, 3):
        for slot in range(2):
            slots.step(slot, step)
        assert read(reader) == [step, step]
        assert mapped_files() == mapped + most


FEW = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import numpy as np
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.state.arena import Arena
from stqsh.storage.slot_files import PublishedSlots

folder, columns = Path(sys.argv[1]), 200
arenas = [Arena((folder,), f"evaluate-{slot}") for slot in range(4)]
for slot, arena in enumerate(arenas):
    state = SlotState.fresh(slot, arena)
    with arena.held():
        arena.begin()
        for number in range(columns):
            state.create(f"c{number}", np.int64, 3)[:] = number
        state.header["clock"] = {"step": 1}
        arena.commit("1", state.header, state.buffers)

def total(states):
    return sum(int(state.array(f"c{number}")[0]) for state in states for number in range(columns))

print(PublishedSlots((folder,), 4).read(total, 0, lambda: 0.0))
"""


def test_writers_and_readers_of_many_columns_need_few_open_files(tmp_path):
    command = [sys.executable, "-c", FEW, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{4 * sum(range(200))}\n", "")


def test_readers_without_end_do_not_keep_a_writer_out(tmp_path, slots):
    stop = threading.Event()

    def read_on() -> None:
        reader = PublishedSlots((tmp_path,), 2)
        while not stop.is_set():
            reader.read(lambda _: time.sleep(0.002), 0, lambda: 5.0)

    readers = [threading.Thread(target=read_on) for _ in range(3)]
    for thread in readers:
        thread.start()
    try:
        begun = time.monotonic()
        for step in range(2, 7):
            for slot in range(2):
                slots.step(slot, step)
        assert time.monotonic() - begun < 60
    finally:
        stop.set()
        for thread in readers:
            thread.join()


def test_arrays_that_were_cut_short_are_read_on(tmp_path):
    slots = Slots(tmp_path)
    for state in slots.states:
        state.resize("x", 100_000)
    reader = PublishedSlots((tmp_path,), 2)
    for step, length in ((1, 100_000), (2, 50), (3, 70_000)):
        for slot, (state, arena) in enumerate(zip(slots.states, slots.arenas, strict=True)):
            state.resize("x", length)
            state.trim_unused(arena.trim)
            slots.step(slot, step)
        found = reader.read(lambda states: [int(state.array("x").sum()) for state in states], 0, lambda: 0.0)
        assert found == [step * length] * 2


READER = """
import os, signal, sys
from pathlib import Path
from stqsh.storage.slot_files import PublishedSlots

def use(states):
    before = [int(state.array("x").sum()) for state in states]
    print(*before, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    print(*(int(state.array("x").sum()) for state in states), flush=True)

slots = PublishedSlots((Path(sys.argv[1]),), 2)
slots.read(use, 0, lambda: 0.0)
slots.read(lambda states: print(*(int(state.array("x").sum()) for state in states)), 0, lambda: 5.0)
"""


def test_a_reader_that_stands_still_holds_nobody_up_and_reads_what_it_had(tmp_path, monkeypatch):
    monkeypatch.setattr(slot_locks, "READERS_S", 2.0)
    slots = Slots(tmp_path)
    for slot, state in enumerate(slots.states):
        state.resize("x", 100_000)
        slots.step(slot, 1)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as reader:
        try:
            assert reader.stdout.readline() == "100000 100000\n"
            begun = time.monotonic()
            for step in range(2, 6):
                for slot in range(2):
                    slots.step(slot, step)
            # Each slot waits once, not at each of its steps, which would take eight times as long.
            assert time.monotonic() - begun < 6 * slot_locks.READERS_S
            assert read(PublishedSlots((tmp_path,), 2)) == [5, 5], "other readers come and go"
            files = list(tmp_path.glob("*.array"))
            assert len(files) == 2, "what the reader has is not kept for anybody else"
        finally:
            reader.send_signal(signal.SIGCONT)
        assert reader.stdout.read() == "100000 100000\n500000 500000\n"


def test_a_reader_that_comes_back_with_a_lock_of_old_looks_again(tmp_path, slots):
    reader = PublishedSlots((tmp_path,), 2)
    with slot_locks.reading(tmp_path, "evaluate-0", 0.0) as is_held:
        assert is_held()
        slots.step(0, 2)
        assert not is_held()
    slots.step(1, 2)
    assert read(reader) == [2, 2]
