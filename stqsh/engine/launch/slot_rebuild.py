"""Rebuild slots from the beginning, if their files are damaged, or for another number of slots.

Slots are a fold over the log of commands and the records of the replay stores. If both exist from the first
step, this module repeats the fold, batch by batch according to the session's turns (`stqsh.storage.turns`),
and discards its output, which is already delivered. The resulting state does not depend on the number of
slots.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from stqsh.checksums import DamagedFileError
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.config import EngineSettings
from stqsh.engine.delivery.deliver import collect_found
from stqsh.engine.ingest.task_reader import chunks as read_chunks
from stqsh.engine.ingest.task_reader import seed_chunks
from stqsh.engine.launch.slot_transfer import SAVED_STATE, attend, place_slots, write_state
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE, address_partials, split_chunks
from stqsh.engine.planning.batch_size import BatchLimit
from stqsh.engine.planning.planner import Planner
from stqsh.engine.planning.stream_inputs import StreamInput, last_tick_that_fits
from stqsh.engine.planning.tasks import SourceTask
from stqsh.engine.spark.spark_internals import last_commit, read_offset
from stqsh.engine.state.attendance import Attendance
from stqsh.engine.state.file_store import STATE, FileStore, check_slot
from stqsh.engine.state.slot_runner import Fold
from stqsh.errors import EngineError
from stqsh.profile import Profile
from stqsh.program import program
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.sources.replay_store.store import open_store
from stqsh.spec.chunk import Chunk
from stqsh.spec.log import LogKind, RecordsFound
from stqsh.spec.offset import Offset
from stqsh.spec.savepoint import StagedSession
from stqsh.storage.blobs import checkpoint_blobs, home_blobs
from stqsh.storage.catalogue import dropped_streams, live_streams
from stqsh.storage.control_log import ControlDb, entries_after, session_uuid, set_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import LogRow
from stqsh.storage.savepoint import KnownSavepoint, last_savepoint
from stqsh.storage.slot_files import slot_name
from stqsh.storage.turns import Turn, goes_on, note_rebuilt, read_turns
from stqsh.units import counted

log = logging.getLogger("stqsh.engine")

_FOUND: LogKind = "found"
_RECORDS, _BYTES = 400_000, 64 << 20
"""The maximum number of records and bytes of a batch of the fold."""


class NotRebuiltError(EngineError):
    """The slots cannot be rebuilt; the message is the reason, as a clause."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The session's position: its last complete batch, and the offset at its end."""

    batch: int
    offset: Offset


def check_rebuildable(home: SessionHome, control: ControlDb, until: Committed) -> None:
    """Check that the slots' state after a batch can be rebuilt from the session's data.

    Raises:
        NotRebuiltError: it cannot; the message is the reason.
    """
    if until.offset.live or until.offset.dealers:
        raise NotRebuiltError("records of live streams cannot be read again")
    for stream in live_streams(control):
        if stream.id > until.offset.seq:
            continue
        if stream.spec.is_significant:
            raise NotRebuiltError(f"what {stream.name} retains depends on the batches that there were")
        # Slots let events go at the ends of batches, and a rebuild has other batches. It would
        # keep events that are archived already, or lose some that are not.
        if stream.spec.archive is not None:
            raise NotRebuiltError(
                f"which events the archive of {stream.name} has depends on the batches that there were"
            )
        manifest = read_manifest(home.stream(stream.id))
        if manifest is not None and manifest.gone_rows:
            raise NotRebuiltError(f"the first records of {stream.name} are no longer kept")
    for _ in _spans(home, control, until):
        pass


def rebuild_slots(
    home: SessionHome,
    control: ControlDb,
    slots: int,
    until: Committed,
    tell: Callable[[int], None] = lambda _: None,
) -> None:
    """Rebuild the state of all slots after a batch, and write it.

    Args:
        home: the session's home, with complete stores.
        control: its control log.
        slots: the number of slots from now on.
        until: the last complete batch.
        tell: called with the progress of the fold, in per cent.

    Raises:
        NotRebuiltError: the session lacks the data for it; nothing has changed.
    """
    check_rebuildable(home, control, until)
    planner = Planner(home.path, slots)
    fold = _SessionFold(slots)
    found = _FoundAgain(control)
    for first, last in _spans(home, control, until):
        tasks = planner.plan(first, last)
        looked_up = fold.take(chain.from_iterable(map(read_chunks, tasks)), found.seeds(tasks[0]))
        found.keep(last, looked_up, is_asked=last.asked > first.asked)
        planner.committed(last)
        tell(100 * last.step // max(1, until.offset.step))
    fold.write(home.state, until.batch)


class _SessionFold:
    """The states of Evaluate's and Aggregate's slots."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._states: dict[str, list[SlotState]] = {
            fold.name: [SlotState.fresh(slot) for slot in range(slots)] for fold in (EVALUATE, AGGREGATE)
        }

    def take(self, chunks: Iterator[Chunk], seeds: Iterator[Chunk]) -> list[Chunk]:
        """Fold the chunks of one batch; return the results of the slots' look-ups."""
        sent = self._folded(EVALUATE, [*chunks, *seeds])
        self._folded(AGGREGATE, [chunk for chunk in sent if AGGREGATE.accepts(chunk)])
        return [chunk for chunk in sent if chunk.kind == "found"]

    def _folded(self, fold: Fold, chunks: list[Chunk]) -> list[Chunk]:
        by_slot: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            by_slot.setdefault(chunk.slot, []).append(chunk)
        sent: list[Chunk] = []
        for slot in sorted(by_slot):
            taken, passing = split_chunks(fold, by_slot[slot])
            made = fold.apply(self._states[fold.name][slot], taken) if taken else []
            sent += [*passing, *address_partials(made, self._slots)]
        return sent

    def write(self, state: Path, batch: int) -> None:
        """Write all states as of a batch, and replace existing ones."""
        again = state.with_name(f".{state.name}.again")
        shutil.rmtree(again, ignore_errors=True)
        fresh = again / STATE
        fresh.mkdir(mode=0o700, parents=True)
        for name, states in self._states.items():
            for slot, slot_state in enumerate(states):
                store = FileStore.beside_head(home_blobs(again), slot_name(name, slot), batch, -1)
                write_state(store, slot_state)
        attend(fresh, range(self._slots), batch)
        shutil.rmtree(state, ignore_errors=True)
        fresh.rename(state)
        shutil.rmtree(again, ignore_errors=True)


class _FoundAgain:
    """The records of focal objects, which the log deletes some time after slots have applied them."""

    def __init__(self, control: ControlDb) -> None:
        rows = entries_after(control, 0, (_FOUND,))
        self._logged = {entry.up_to for _, entry in rows if isinstance(entry, RecordsFound)}
        self._waiting: list[LogRow] = []

    def keep(self, last: Offset, chunks: list[Chunk], *, is_asked: bool) -> None:
        """Keep the records that slots have looked up, unless the log has them."""
        if not is_asked or last.asked in self._logged:
            return
        for found in collect_found(chunks, last.asked):
            entry = RecordsFound(found.stream_id, found.up_to)
            self._waiting.append(LogRow(found.up_to, 0, entry, "", found.payload))

    def seeds(self, task: SourceTask) -> Iterator[Chunk]:
        """Return the chunks with the looked-up records for the queries that a batch applies."""
        assert task.head is not None, "the first task has the head"
        _, up_to = task.head.commands
        mine = [row for row in self._waiting if row.seq <= up_to]
        self._waiting = [row for row in self._waiting if row.seq > up_to]
        return seed_chunks(task, mine)


def _spans(home: SessionHome, control: ControlDb, until: Committed) -> Iterator[tuple[Offset, Offset]]:
    """Yield the offsets before and after each batch of the fold."""
    dropped = {
        stream.id
        for stream in dropped_streams(control)
        if stream.dropped_seq is not None and stream.dropped_seq <= until.offset.seq
    }

    def kept(offset: Offset) -> Offset:
        """Return an offset without dropped streams, which leave no trace, and without snapshots."""
        return replace(
            offset,
            rows={stream: row for stream, row in offset.rows.items() if stream not in dropped},
            dealt={stream: dealt for stream, dealt in offset.dealt.items() if stream not in dropped},
            copied=tuple(stream for stream in offset.copied if stream not in dropped),
            answered=until.offset.answered,
            by_slot=False,
            slices=1,
        )

    at = kept(Offset())
    turns = read_turns(control, until.batch)
    for turn in (*turns, Turn(until.offset, until.offset)):
        first, last = kept(turn.first), kept(turn.last)
        if not _follows(control, at, first):
            raise NotRebuiltError("an older version has not recorded which batches there were")
        yield from _steps(home, replace(at, seq=first.seq), first)
        if last != first:
            yield first, last
        at = last


def _follows(control: ControlDb, at: Offset, first: Offset) -> bool:
    """Return whether streams only advanced between two offsets; commands between them are deleted."""
    if not goes_on(replace(at, seq=0), replace(first, seq=0)):
        return False
    between = "SELECT 1 FROM log WHERE seq > ? AND seq <= ? LIMIT 1"
    return first.seq == at.seq or not control.query(between, at.seq, first.seq)


def _steps(home: SessionHome, at: Offset, end: Offset) -> Iterator[tuple[Offset, Offset]]:
    """Yield the batches in which streams advance from one offset to another."""
    moved = [stream for stream, row in end.rows.items() if row != at.rows.get(stream, 0)]
    stores = {stream: open_store(home.stream(stream)) for stream in sorted(moved)}
    while at.step < end.step:
        inputs = [StreamInput(stream, store, at.rows.get(stream, 0)) for stream, store in stores.items()]
        first_tick, last_tick = end.tick_of(at.step + 1), end.tick_of(end.step)
        tick = last_tick_that_fits(inputs, first_tick, last_tick, BatchLimit(_RECORDS, _BYTES))
        rows = {stream: store.rows_until(tick) for stream, store in stores.items()}
        after = end if tick >= last_tick else replace(end, step=end.step_of(tick), rows={**at.rows, **rows})
        yield at, after
        at = after


def mend_slots(
    home: SessionHome,
    control: ControlDb,
    settings: EngineSettings,
    tell: Callable[[int], None],
    *,
    content: bool = False,
) -> None:
    """Rebuild all slots if any of their files are damaged or missing.

    Args:
        home: the session's home, with complete stores.
        control: its control log.
        settings: the settings of the engine.
        tell: called with the progress, in per cent.
        content: whether to verify the content of the files, not only their existence.

    Raises:
        DamagedFileError: files are damaged, and the slots cannot be rebuilt.
    """
    checkpoint = checkpoint_blobs(home.path)
    batch = last_commit(checkpoint)
    damage = find_damage(home.state, settings.slots, batch, content=content) if batch >= 0 else None
    if damage is None:
        return
    log.warning("%s; the slots are rebuilt from the first step", damage.message)
    try:
        offset = Offset.from_json(json.loads(read_offset(checkpoint, batch)))
        rebuild_slots(home, control, settings.slots, Committed(batch, offset), tell)
    except NotRebuiltError as problem:
        raise lost_slots(damage, problem, last_savepoint(control)) from problem
    note_rebuilt(control, damage.message)
    log.warning("the slots are rebuilt, as they were after batch %d", batch)


def find_damage(state: Path, slots: int, batch: int, *, content: bool) -> DamagedFileError | None:
    """Return the damage of the slots' files after a batch, None if there is none.

    Args:
        state: the folder in which slots keep their state.
        slots: the number of slots.
        batch: the last complete batch.
        content: whether to verify the content of all files, not only the heads.
    """
    try:
        stood = {slot_name(EVALUATE.name, slot): batch for slot in range(slots)}
        for operator in sorted({AGGREGATE.name, *(path.stem for path in state.glob("*.batches"))}):
            last = Attendance(state, operator).last(batch)
            stood |= {slot_name(operator, slot): mine for slot, mine in last.items()}
        for name, mine in stood.items():
            check_slot(home_blobs(state.parent), name, batch + 1, mine, content=content)
    except DamagedFileError as damage:
        return damage
    return None


def lost_slots(
    damage: DamagedFileError, problem: NotRebuiltError, saved: KnownSavepoint | None
) -> DamagedFileError:
    """Return the error for a damaged file of a slot that cannot be rebuilt, with a remedy."""
    found = damage.message.removeprefix(f"the session's file {damage.file} ")
    hint = "put the session's folder back from a backup; or DUMP what the session defines, for a new one"
    if saved is not None:
        restores = f"{program()} restore NAME FROM '{saved.uri}'"
        hint = f"{restores} makes a session as of step {saved.step:,}; or {hint}"
    return DamagedFileError(damage.file, f"{found}, and the slots cannot be rebuilt: {problem.message}", hint)


def adapt_slots(
    home: SessionHome, control: ControlDb, staged: StagedSession, profile: Profile, slots: int | None
) -> None:
    """Give a session just restored the number of slots, and the form, with which an engine continues it.

    Args:
        home: the session's home.
        control: its control log.
        staged: the description of the savepoint.
        profile: the settings with which the engine will continue.
        slots: the number of slots; None for the saved number.

    Raises:
        EngineError: the slots cannot be rebuilt, or not be moved.
        StorageError: the storage that the profile names fails.
    """
    settings = EngineSettings.from_profile(home.path, profile)
    wanted = staged.slots if slots is None else slots
    if (wanted, SAVED_STATE) != (staged.slots, staged.state):
        _rebuild_restored(home, control, staged, wanted)
    set_meta(control, "slots", str(wanted))
    set_meta(control, "state", settings.state)
    set_meta(control, "storage", settings.storage)
    placed = settings.for_session(session_uuid(control)).with_slots(wanted)
    place_slots(home, control, placed, staged.batch)


def _rebuild_restored(home: SessionHome, control: ControlDb, staged: StagedSession, wanted: int) -> None:
    offset = Offset.from_json(json.loads(read_offset(checkpoint_blobs(home.path), staged.batch)))
    try:
        rebuild_slots(home, control, wanted, Committed(staged.batch, offset))
    except NotRebuiltError as problem:
        if wanted != staged.slots:
            was = counted(staged.slots, "slot")
            raise EngineError(
                f"the session cannot be restored to {counted(wanted, 'slot')}: {problem.message}",
                hint=f"without --slots it has {was}, as it had",
            ) from problem
        raise EngineError(
            f"the session's slots have another form than this version's: {problem.message}",
            hint="restore it with the version that it had",
        ) from problem
