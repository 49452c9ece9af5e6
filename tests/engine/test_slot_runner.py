"""A slot between store and arena, without Spark: the store is the truth, the arena a cache of it."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.toy_engine import Adding, batch_chunks

from stqsh.checksums import DamagedFileError, with_seal, without_seal
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.state import slot_runner
from stqsh.engine.state.arena import Arena
from stqsh.engine.state.file_store import FileStore, SlotMeta, SlotStore, SparkHead, StaleBatchError
from stqsh.engine.state.slot_runner import SlotRunner, SlotTiming
from stqsh.spec.chunk import Chunk
from stqsh.storage.blobs import home_blobs
from stqsh.storage.slot_files import PublishedSlots, mapped_files


class FakeValue:
    """Spark's ValueState, in memory."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, newValue: tuple[Any, ...]) -> None:
        self.value = newValue


class ShortHead(SparkHead):
    """A head in which few logs wait."""

    waiting_bytes = 5_000


class InFiles:
    """A head kept in a file, where a batch that is not committed stays until it is repeated."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def store(self, number: int) -> SlotStore:
        return FileStore.beside_head(home_blobs(self.folder), "evaluate-0", number, number - 1)

    @contextmanager
    def dropped(self) -> Iterator[None]:
        yield

    def names(self, what: str) -> list[str]:
        """The names of its files of a kind, in order of versions."""
        found = [path.name for path in (self.folder / "state" / "evaluate-0").glob(f"{what}.*")]
        return sorted(found, key=lambda name: int(name.split(".")[1]))


class InSpark(InFiles):
    """A head kept by Spark, which drops what a batch wrote that it does not commit; the files stay."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.value = FakeValue()

    def store(self, number: int) -> SlotStore:
        head = ShortHead(self.value)
        return FileStore(home_blobs(self.folder), "evaluate-0", head, number, None)

    @contextmanager
    def dropped(self) -> Iterator[None]:
        before = self.value.value
        yield
        self.value.value = before


class Slot:
    """One slot over its life: `batch` is a batch that Spark commits, `lost` one that it does not."""

    def __init__(
        self, folder: Path, kept: type[InSpark] | type[InFiles], tuning: EngineTuning = TUNING
    ) -> None:
        self.folder, self.kept, self.tuning = folder, kept(folder), tuning
        self.number = -1

    def _advance(self) -> tuple[list[Chunk], SlotTiming]:
        return self.attempt(self.number)(batch_chunks(self.number + 1, 1))

    def attempt(self, number: int) -> Callable[[list[Chunk]], tuple[list[Chunk], SlotTiming]]:
        """An attempt at a batch that has been set up, and waits to be given the chunks."""
        arena = Arena((self.folder,), "evaluate-0")
        return SlotRunner(
            Adding(), 0, self.kept.store(number), arena, lambda logged: logged, self.tuning
        ).advance

    def batch(self) -> tuple[list[Chunk], SlotTiming]:
        self.number += 1
        return self._advance()

    def lost(self) -> None:
        self.number += 1
        with self.kept.dropped():
            self._advance()
        self.number -= 1

    def other_process(self) -> None:
        slot_runner._warm.clear()

    def lose_arena(self) -> None:
        for path in self.folder.glob("*.array"):
            path.unlink()

    def break_off(self) -> None:
        Arena((self.folder,), "evaluate-0").begin()

    @property
    def meta(self) -> SlotMeta:
        return self.kept.store(self.number + 1).read_meta()


@pytest.fixture(params=[InSpark, InFiles])
def slot(tmp_path: Path, request: pytest.FixtureRequest) -> Slot:
    slot_runner._warm.clear()
    return Slot(tmp_path, request.param)


def test_states_beyond_what_a_process_may_map_are_let_go_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot_runner._warm.clear()
    slots = [Slot(tmp_path / str(number), InFiles) for number in range(3)]
    for slot in slots:
        slot.batch()
    assert len(slot_runner._warm) == 3
    monkeypatch.setattr(slot_runner, "MOST_MAPPED", 0)
    before = mapped_files()
    for slot in slots * 2:
        assert not slot.batch()[1].rebuilt
        assert len(slot_runner._warm) == 1
    assert mapped_files() < before


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
    slot: Slot,
) -> None:
    slot.tuning = EngineTuning(snapshot_log_bytes=3000)
    sizes = []
    for _ in range(30):
        slot.batch()
        sizes.append(slot.meta.log_bytes)
    assert sizes.count(0) > 2
    assert slot.meta.snapshot_bytes > 0
    assert 1 <= len(slot.kept.names("snapshot")) <= 2
    assert len(slot.kept.names("log")) < 30


def test_a_log_that_is_slow_to_apply_is_replaced_too() -> None:
    slow = SlotMeta(version=9, log_bytes=10, replay_us=11_000_000, snapshot_us=1000)
    assert slow.wants_snapshot()
    assert not SlotMeta(version=9, log_bytes=10, replay_us=11_000_000, snapshot_us=2_000_000).wants_snapshot()


@pytest.mark.parametrize("kept", [InSpark, InFiles])
@given(
    story=st.lists(
        st.sampled_from(["batch", "lost", "other_process", "lose_arena", "break_off"]), max_size=25
    )
)
def test_whatever_happens_the_state_is_that_of_the_committed_batches(
    tmp_path_factory: Any, kept: type[InSpark] | type[InFiles], story: list[str]
) -> None:
    slot_runner._warm.clear()
    tuning = EngineTuning(snapshot_log_bytes=1500)
    slot = Slot(tmp_path_factory.mktemp("arena"), kept, tuning)
    alone = SlotState.fresh(0)
    for what in [*story, "batch"]:
        if what != "batch":
            getattr(slot, what)()
            continue
        sent, _ = slot.batch()
        assert sent == Adding().apply(alone, batch_chunks(slot.number + 1, 1))


def test_a_late_attempt_changes_nothing(tmp_path: Path) -> None:
    slot = Slot(tmp_path, InFiles)
    for _ in range(7):
        slot.batch()
    late = slot.attempt(7)
    slot.batch()
    slot.batch()
    alone = SlotState.fresh(0)
    with pytest.raises(StaleBatchError, match=r"batch 7 of slot evaluate-0 is too late: .* stored batch 8"):
        late(batch_chunks(8, 1))
    for number in range(9):
        Adding().apply(alone, batch_chunks(number + 1, 1))
    assert slot.batch()[0] == Adding().apply(alone, batch_chunks(10, 1)), "batches 7 and 8 are still there"


def test_the_memory_of_a_dropped_stream_is_let_go_by_the_next_batch_of_another(tmp_path: Path) -> None:
    slot_runner._warm.clear()
    dropped, other = Slot(tmp_path / "dropped", InFiles), Slot(tmp_path / "other", InFiles)
    dropped.batch()
    other.batch()
    assert len(slot_runner._warm) == 2
    for file in dropped.folder.glob("evaluate-0[-.]*"):
        file.unlink()
    other.batch()
    assert [folder for folder, _ in slot_runner._warm] == [str(other.folder)]


def test_a_repeated_batch_finds_the_one_before(tmp_path: Path) -> None:
    slot = Slot(tmp_path, InFiles)
    slot.batch()
    first = slot.batch()
    slot.number -= 1
    assert slot.batch()[0] == first[0]


@pytest.mark.parametrize("batch", [0, 3, 9])
def test_a_slot_never_starts_empty_or_at_another_batch(tmp_path: Path, batch: int) -> None:
    slot = Slot(tmp_path, InFiles)
    for _ in range(7):
        slot.batch()
    slot.number = batch - 1
    with pytest.raises((StaleBatchError, DamagedFileError)) as raised:
        slot.batch()
    assert raised.value.hint
    slot.number = 6
    assert not slot.batch()[1].rebuilt, "nothing has changed"


@pytest.mark.parametrize("lost", ["head", "log.2", "snapshot.4"])
def test_files_that_are_gone_are_told(tmp_path: Path, lost: str) -> None:
    slot = Slot(tmp_path, InFiles)
    for number in range(6):
        slot.tuning = EngineTuning(snapshot_log_bytes=-1) if lost.startswith("s") and number == 3 else TUNING
        slot.batch()
    [file] = (tmp_path / "state" / "evaluate-0").glob(f"{lost}*")
    file.unlink()
    slot.other_process()
    slot.lose_arena()
    with pytest.raises(DamagedFileError, match=f"file state/evaluate-0/{lost}[0-9a-f.]* is gone"):
        slot.batch()


def test_a_state_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    slot = Slot(tmp_path, InFiles)
    slot.batch()
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(DamagedFileError, match="head is gone"):
        slot.batch()


def test_a_log_of_another_time_does_not_fit(tmp_path: Path) -> None:
    slot = Slot(tmp_path, InFiles)
    for _ in range(4):
        slot.batch()
    second, third = (tmp_path / "state" / "evaluate-0" / name for name in slot.kept.names("log")[1:3])
    second.write_bytes(third.read_bytes())
    slot.other_process()
    slot.lose_arena()
    with pytest.raises(DamagedFileError, match=r"log\.2\.\w+ does not belong to the files beside it"):
        slot.batch()


def test_the_files_of_an_earlier_version_are_gone_on_with(tmp_path: Path) -> None:
    """Their names end after the version, and the head has neither the snapshot's id nor logs that wait."""
    slot, folder, alone = Slot(tmp_path, InFiles), tmp_path / "state" / "evaluate-0", SlotState.fresh(0)
    for number in range(6):
        slot.tuning = EngineTuning(snapshot_log_bytes=-1) if number == 3 else TUNING
        slot.batch()
        Adding().apply(alone, batch_chunks(number + 1, 1))
    for name in (*slot.kept.names("log"), *slot.kept.names("snapshot")):
        (folder / name).rename(folder / name.rpartition(".")[0])
    states = msgspec.json.decode(without_seal((folder / "head").read_bytes(), "head"))
    (folder / "head").write_bytes(with_seal(msgspec.json.encode([state[:6] for state in states])))
    for number in range(6, 10):
        slot.other_process()
        slot.lose_arena()
        slot.tuning = EngineTuning(snapshot_log_bytes=-1) if number == 8 else TUNING
        sent, timing = slot.batch()
        assert timing.rebuilt
        assert sent == Adding().apply(alone, batch_chunks(number + 1, 1))
    assert len(slot.kept.names("log")) == len(slot.kept.names("snapshot")) == 1, "the older ones go"


def test_small_logs_wait_in_a_head_of_sparks_until_they_are_worth_a_file(tmp_path: Path) -> None:
    slot, alone = Slot(tmp_path, InSpark), SlotState.fresh(0)
    for number in range(20):
        sent, _ = slot.batch()
        assert sent == Adding().apply(alone, batch_chunks(number + 1, 1))
        assert (
            slot.kept.value.value is not None and len(slot.kept.value.value[0]) < 2 * ShortHead.waiting_bytes
        )
    assert 1 < len(slot.kept.names("log")) < 10
    slot.other_process()
    slot.lose_arena()
    sent, timing = slot.batch()
    assert timing.rebuilt and sent == Adding().apply(alone, batch_chunks(21, 1))


def test_a_late_attempt_on_a_cluster_changes_nothing_that_a_head_names(tmp_path: Path) -> None:
    """It goes on from an older head; what it writes is garbage, and goes with the next snapshot."""
    slot, alone = Slot(tmp_path, InSpark, EngineTuning(snapshot_log_bytes=3000)), SlotState.fresh(0)
    for number in range(40):
        before = copy.deepcopy(slot.kept.value)
        sent, _ = slot.batch()
        assert sent == Adding().apply(alone, batch_chunks(number + 1, 1))
        late, late.value.value = InSpark(tmp_path), before.value
        other = SlotRunner(Adding(), 0, late.store(number), Arena((tmp_path / "other",), "evaluate-0"), list)
        slot.other_process()
        other.advance(batch_chunks(number + 2, 1))  # other content under the same version
        slot.other_process()
        slot.lose_arena()
    assert len(slot.kept.names("snapshot")) <= 4


def test_a_reader_that_does_not_let_go_keeps_what_it_has(tmp_path: Path) -> None:
    slot = Slot(tmp_path, InFiles)
    for _ in range(14):  # from here on, the array has room for what comes
        slot.batch()

    def use(states: list[SlotState]) -> None:
        before = states[0].array("totals").copy()
        file = [*tmp_path.glob("*.array")]
        assert not slot.batch()[1].rebuilt
        assert states[0].array("totals").tolist() == before.tolist()
        assert [*tmp_path.glob("*.array")] != file, "the slot goes on with copies"
        assert not slot.batch()[1].rebuilt
        assert states[0].array("totals").tolist() == before.tolist()

    PublishedSlots((tmp_path,), 1).read(use, -1, lambda: 0.0)
    alone = SlotState.fresh(0)
    for number in range(16):
        Adding().apply(alone, batch_chunks(number + 1, 1))
    assert slot.batch()[0] == Adding().apply(alone, batch_chunks(17, 1))
