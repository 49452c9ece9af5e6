"""Carry the slots of a session between a cluster and a savepoint, which keeps them as one machine does.

On one machine the head of a slot is a file of the home. On a cluster it is a value of Spark's state store,
and the slot's other files may be in `session.storage`. A carried slot has a snapshot and no log, because logs
refer to stores and routings of the place where they were written.

On one machine each dealer has slots of its own, on a cluster one operator has the arrays of all dealers. The
names of arrays begin with their stream, so the states of a slot are merged, or cut into those of each stream.
"""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from stqsh.core.state.slot_state import SlotState, restore, snapshot
from stqsh.engine.config import STATE_FORMATS, TUNING, EngineSettings
from stqsh.engine.ingest.dealer import Dealer, Dealers
from stqsh.engine.ingest.dealer_seeds import put_seeds, read_seeds
from stqsh.engine.ingest.record_replay import replay_records
from stqsh.engine.launch.audit import AuditError, describe_staged
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE
from stqsh.engine.planning.shared_files import SharedFiles
from stqsh.engine.spark.spark_internals import (
    Heads,
    begin_checkpoint,
    first_batch,
    last_offset,
    read_offset,
    restart_checkpoint,
)
from stqsh.engine.state.attendance import Attendance
from stqsh.engine.state.file_store import HEAD, STATE, FileHead, FileStore, SlotHead
from stqsh.engine.state.slot_runner import Fold, load_state
from stqsh.spec.chunk import Chunk, in_order
from stqsh.spec.offset import Offset
from stqsh.spec.savepoint import StagedSession
from stqsh.storage.blobs import (
    Blobs,
    checkpoint_blobs,
    home_blobs,
    later_checkpoint,
    place_later_checkpoint,
)
from stqsh.storage.catalogue import live_streams, live_tables, stream_by_id
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.slot_files import slot_name
from stqsh.storage.staging import SAVING, stage_held
from stqsh.storage.stream_routes import PublishedRoutes

_FOLDS: tuple[Fold, ...] = (EVALUATE, AGGREGATE)
SAVED_STATE = f"files/{STATE_FORMATS['files']}"
"""The form of the slots' state in a savepoint."""


class ReadHeads(Protocol):
    """Reads the heads of the operators of a cluster."""

    def __call__(self, checkpoint: Blobs, slots: int, *, with_dealers: bool) -> Heads:
        """Return the heads of all slots after the last complete batch."""


class HeldHead:
    """A head in memory; see `stqsh.engine.state.file_store.SlotHead`."""

    waiting_bytes = 0

    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    def read(self) -> bytes | None:
        """Return the head; None if there is none."""
        return self.content or None

    def write(self, content: bytes) -> None:
        """Replace the head."""
        self.content = content


class ClusterSaves:
    """A thread of a cluster's engine that stages savepoints while the planner holds back batches.

    The planner's process cannot do it, because the slots' heads are read with Spark.

    Args:
        settings: the settings of the engine.
        control: the session's control log.
        heads: returns the heads of all slots after the last complete batch, see `stored_heads`.
    """

    def __init__(self, settings: EngineSettings, control: ControlDb, heads: ReadHeads) -> None:
        self._settings, self._control, self._heads = settings, control, heads
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="saves", daemon=True).start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()

    def _run(self) -> None:
        home = SessionHome(self._settings.home)
        while not self._stopped.wait(TUNING.idle_answer_s):
            if (home.path / SAVING).exists():
                stage_held(home, self._control, self._describe)

    def _describe(self, files: Path) -> StagedSession:
        """Give the staged files of a session the form that they have on one machine."""
        checkpoint, batch = checkpoint_blobs(self._settings.home), read_progress(self._control).batch
        offset = _whole_offset(checkpoint, batch)
        settings, target = self._settings, home_blobs(files)
        has_dealers = bool(offset.dealers and first_batch(checkpoint))
        heads = self._heads(checkpoint, settings.slots, with_dealers=has_dealers)
        carry_from_heads(settings.blobs, heads, target, batch)
        dealers = dealers_of(self._control, offset, settings.blobs, settings.slots)
        carry_dealers(dealers, offset, heads, target, batch)
        restart_checkpoint(checkpoint, batch, home_blobs(files / "checkpoint"))
        _whole_offset(checkpoint, batch)
        return msgspec.structs.replace(describe_staged(self._control, files), state=SAVED_STATE)


def _whole_offset(checkpoint: Blobs, batch: int) -> Offset:
    """Return the offset after the last complete batch; raise `AuditError` if another batch has begun."""
    if batch < 0 or last_offset(checkpoint) != batch:
        raise AuditError(f"batch {last_offset(checkpoint)} is not complete")
    return Offset.from_json(json.loads(read_offset(checkpoint, batch)))


def carry_from_heads(source: Blobs, heads: Heads, target: Blobs, batch: int) -> None:
    """Write the slots of a cluster into a folder, as one machine keeps them after a batch."""
    assert target.folder is not None, "a staged session is a folder"
    for fold in _FOLDS:
        for slot, head in heads[fold.name].items():
            name = slot_name(fold.name, int(slot))
            state = _loaded(fold, int(slot), source, source, HeldHead(b64decode(head)), batch)
            write_state(FileStore.beside_head(target, name, batch, -1), state)
    attend(target.folder / STATE, map(int, heads[AGGREGATE.name]), batch)


def carry_dealers(dealers: Sequence[Dealer], offset: Offset, heads: Heads, target: Blobs, batch: int) -> None:
    """Write the slots of a cluster's dealers into a folder, as one machine keeps them after a batch.

    Args:
        dealers: the dealers of the offset.
        offset: the offset after the batch.
        heads: the heads of slots, with those of dealers if the query has dealers.
        target: the folder.
        batch: the batch.
    """
    assert target.folder is not None, "a staged session is a folder"
    dealt: dict[int, SlotState] = {}
    for dealer in dealers[:1]:
        fold = Dealers(dealer.blobs, dealer.slots)
        for number, head in heads.get(fold.name, {}).items():
            held = HeldHead(b64decode(head))
            dealt[int(number)] = _loaded(fold, int(number), dealer.blobs, dealer.blobs, held, batch)
    for dealer in dealers:
        stream = dealer.spec.id
        states = {slot: _of_stream(state, stream) for slot, state in dealt.items()}
        if stream not in offset.dealing:
            _seed(dealer, states, read_seeds(dealer.blobs, stream, offset.dealers[stream]))
        for slot, state in states.items():
            write_state(FileStore.beside_head(target, slot_name(dealer.name, slot), batch, -1), state)
        attend(target.folder / STATE, states, batch, dealer.name)


def _of_stream(state: SlotState, stream: int) -> SlotState:
    """Return a copy of the part of a state that belongs to a stream."""
    part = restore(snapshot(state))
    for other in {name.partition("/")[0] for name in part.names()} - {f"s{stream}"}:
        part.release(f"{other}/")
    return part


def _seed(dealer: Dealer, states: dict[int, SlotState], seeds: list[Chunk]) -> None:
    """Give the slots of a dealer, which has not dealt any records yet, the seeds for them."""
    for slot in sorted({chunk.slot for chunk in seeds}):
        state = states.setdefault(slot, SlotState.fresh(slot))
        dealer.apply(state, in_order([chunk for chunk in seeds if chunk.slot == slot]))


def _merged(slot: int, parts: Iterable[SlotState | None]) -> SlotState:
    """Return the state with the arrays and declarations of several streams' states of a slot."""
    merged = SlotState.fresh(slot)
    for part in parts:
        if part is None:
            continue
        for name in part.names():
            merged.replace(name, part.array(name))
        for entry, declared in part.header.items():
            if entry not in ("slot", "lengths"):
                merged.entry(entry).update(declared)
    return merged


def dealers_of(control: ControlDb, offset: Offset, blobs: Blobs, slots: int) -> list[Dealer]:
    """Return the dealers that an offset has."""
    return [Dealer(stream_by_id(control, stream).spec, blobs, slots) for stream in sorted(offset.dealers)]


def attend(state: Path, slots: Iterable[int], batch: int, operator: str = AGGREGATE.name) -> None:
    """Record that an operator's slots have taken part in a batch, for slots written as of that batch."""
    Attendance(state, operator).enter(batch, slots, begins=True)


def write_state(store: FileStore, state: SlotState) -> None:
    """Write a state into an empty store, as a snapshot without a log."""
    meta = store.read_meta()
    size = store.replace(1, snapshot(state))
    store.write_meta(replace(meta, version=1, stamp=uuid.uuid4().hex, snapshot_bytes=size))


def place_slots(home: SessionHome, control: ControlDb, settings: EngineSettings, batch: int) -> None:
    """Give a session that was just restored the form in which an engine continues it.

    Args:
        home: the session's home, as one machine has it after a batch.
        control: its control log.
        settings: the settings of the engine; with them, workers find the session's files in a storage or the
            heads of slots are in Spark.
        batch: the last complete batch.
    """
    if settings.local and settings.blobs.at_home:
        return
    checkpoint, saved = home_blobs(home.checkpoint), home.path / f".{STATE}.saved"
    text = read_offset(checkpoint, batch)
    offset = Offset.from_json(json.loads(text))
    saved.mkdir(mode=0o700)
    home.state.rename(saved / STATE)
    files, stores = home_blobs(saved), home_blobs(home.path)
    if offset.dealers:  # the logs of their slots refer to tables
        PublishedRoutes(control, stores).publish(offset.names)
    dealers = dealers_of(control, offset, stores, settings.slots)
    slots = range(settings.slots)

    def state_of(fold: Fold, slot: int) -> SlotState | None:
        """Return the saved state of a slot; None if the operator has not run on it."""
        head = saved / STATE / slot_name(fold.name, slot) / HEAD
        return _loaded(fold, slot, files, stores, FileHead(head), batch) if head.exists() else None

    def states_of(fold: Fold) -> Iterator[SlotState]:
        """Yield the states of an operator's slots, one at a time."""
        return (state for slot in slots if (state := state_of(fold, slot)) is not None)

    blobs = settings.blobs
    if not blobs.at_home:
        replayed = [stream.id for stream in live_streams(control) if not stream.spec.is_live]
        SharedFiles(home, blobs).publish_read([table.id for table in live_tables(control)], replayed)
    if settings.local:
        for fold in (*_FOLDS, *dealers):
            written = []
            for state in states_of(fold):
                name = slot_name(fold.name, state.slot)
                write_state(FileStore.beside_head(stores, name, batch, -1), state)
                written.append(state.slot)
            if fold is not EVALUATE:
                attend(home.state, written, batch, fold.name)
    else:
        heads: Heads = {
            fold.name: _written(settings.blobs, fold.name, states_of(fold), batch) for fold in _FOLDS
        }
        if dealers:
            merged = (_merged(slot, [state_of(dealer, slot) for dealer in dealers]) for slot in slots)
            heads[Dealers.name] = _written(blobs, Dealers.name, merged, batch)
        for stream in offset.dealers.keys() - set(offset.dealing):
            put_seeds(blobs, stream, offset.dealers[stream], [])  # its dealer has them
        begin_checkpoint(later_checkpoint(settings.blobs, batch + 1), text, heads)
        place_later_checkpoint(home.path, settings.blobs, batch + 1)
        shutil.rmtree(home.checkpoint)
    shutil.rmtree(saved)


def _written(blobs: Blobs, operator: str, states: Iterable[SlotState], batch: int) -> dict[str, str]:
    """Write the states of an operator's slots without their heads; return the heads by slot."""
    heads = {}
    for state in states:
        head = HeldHead()
        write_state(FileStore(blobs, slot_name(operator, state.slot), head, batch, -1), state)
        heads[str(state.slot)] = b64encode(head.content).decode()
    return heads


def _loaded(fold: Fold, slot: int, files: Blobs, stores: Blobs, head: SlotHead, batch: int) -> SlotState:
    """Return the state of a slot after a batch, from its files and the stores to which its log refers."""
    store = FileStore(files, slot_name(fold.name, slot), head, batch + 1, None)
    store.read_meta()
    return load_state(fold, slot, store, partial(replay_records, stores))
