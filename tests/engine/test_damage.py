"""Every file of a stopped slot, damaged in turn: the slot goes on as if nothing were, or says what is bad."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.toy_engine import Adding, batch_chunks

from stqsh.checksums import DamagedFileError
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.state import slot_runner
from stqsh.engine.state.arena import Arena
from stqsh.engine.state.file_store import FileStore
from stqsh.engine.state.slot_runner import SlotRunner
from stqsh.spec.chunk import Chunk
from stqsh.storage.blobs import home_blobs
from stqsh.storage.slot_files import (
    FileMark,
    NotPublishedError,
    PublishedSlots,
    read_head,
    write_head,
)

BATCHES = 9
NOISE = np.random.default_rng(7)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(NOISE.bytes(path.stat().st_size))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[int(NOISE.integers(len(content)))] ^= 0x10
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


DAMAGES: list[Callable[[Path], None]] = [truncate, overwrite, flip, empty, lengthen, Path.unlink]
#: Files of earlier batches that nothing needs any more.
OUTLIVED = {f"state/evaluate-0/log.{version}" for version in range(1, 6)}


class Stopped:
    """A slot with a snapshot, logs and an arena, whose process has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.alone = folder, SlotState.fresh(0)
        for batch in range(BATCHES):
            self.advance(batch, EngineTuning(snapshot_log_bytes=-1) if batch == 4 else TUNING)
            self.expected(batch)

    def advance(self, batch: int, tuning: EngineTuning = TUNING) -> list[Chunk]:
        slot_runner._warm.clear()
        store = FileStore.beside_head(home_blobs(self.folder), "evaluate-0", batch, batch - 1)
        arena = Arena((self.folder / "arena", self.folder / "arena-on-disk"), "evaluate-0")
        return SlotRunner(Adding(), 0, store, arena, list, tuning).advance(batch_chunks(batch + 1, 1))[0]

    def expected(self, batch: int) -> list[Chunk]:
        return Adding().apply(self.alone, batch_chunks(batch + 1, 1))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    return Stopped(tmp_path_factory.mktemp("stopped"))


@pytest.fixture(scope="module")
def right(stopped: Stopped) -> list[Chunk]:
    return stopped.expected(BATCHES)


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)


def copied(stopped: Stopped, folder: Path) -> Stopped:
    """The slot in another folder, with an arena that is as good as the first."""
    shutil.copytree(stopped.folder, folder)
    head = read_head(stopped.folder / "arena", "evaluate-0")
    assert head is not None
    arrays = {
        name: array._replace(mark=FileMark.of((folder / "arena" / array.file).stat()))
        for name, array in head.arrays.items()
    }
    write_head(folder / "arena", "evaluate-0", replace(head, arrays=arrays))
    time.sleep(0.01)  # the least time between two changes of a file that some systems can tell apart
    copy = Stopped.__new__(Stopped)
    copy.folder = folder
    return copy


def test_a_copy_goes_on_from_its_arena(stopped: Stopped, right: list[Chunk], tmp_path: Path) -> None:
    copy = copied(stopped, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "state" / "evaluate-0" / "snapshot.5", ignore_errors=True)
    assert published(copy) == published(stopped)
    assert copy.advance(BATCHES) == right


@pytest.mark.parametrize("arena", ["kept", "lost"])
def test_a_damaged_file_is_made_good_or_told(
    stopped: Stopped, right: list[Chunk], tmp_path: Path, arena: str
) -> None:
    names = [path.relative_to(stopped.folder) for path in files(stopped.folder)]
    told = set()
    for name in names:
        for number, damage in enumerate(DAMAGES):
            slot = copied(stopped, tmp_path / f"{name.name}-{number}")
            path = slot.folder / name
            damage(path)
            if name.parts[0] == "arena":
                with pytest.raises(NotPublishedError):
                    published(slot)
            if arena == "lost":
                shutil.rmtree(slot.folder / "arena")
            try:
                assert slot.advance(BATCHES) == right, name
            except DamagedFileError as error:
                told.add(str(name))
                assert error.message.startswith(f"the session's file {name} ")
                assert error.hint
    store = {version_of(name) for name in names if name.parts[0] == "state"}
    assert {Path(name).name for name in store} > {"head", "snapshot.5", "log.6"}
    assert {version_of(Path(name)) for name in told} == (
        {"state/evaluate-0/head"} if arena == "kept" else store - OUTLIVED
    )


def version_of(name: Path) -> str:
    """The name of a slot's file, without the part that tells attempts apart."""
    return str(name.with_name(".".join(name.name.split(".")[:2])))


def published(slot: Stopped) -> list[int]:
    """The totals that a client reads in the arena."""
    slots = PublishedSlots((slot.folder / "arena",), 1)
    return slots.read(lambda states: states[0].array("totals").tolist(), -1, lambda: 0.0)
