"""Carry the slots of a session between a cluster and a savepoint, which keeps them as one machine does.

On one machine the head of a slot is a file of the home. On a cluster it is a value of Spark's state store,
and the slot's other files may be in `session.storage`. A carried slot has a snapshot and no log, because logs
refer to stores and routings of the place where they were written.
"""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from stqsh.core.state.slot_state import SlotState, snapshot
from stqsh.engine.config import STATE_FORMATS, TUNING, EngineSettings
from stqsh.engine.ingest.record_replay import replay_records
from stqsh.engine.launch.audit import AuditError, describe_staged
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE
from stqsh.engine.spark.spark_internals import (
    Heads,
    begin_checkpoint,
    last_offset,
    read_offset,
    restart_checkpoint,
)
from stqsh.engine.state.attendance import Attendance
from stqsh.engine.state.file_store import HEAD, STATE, FileHead, FileStore, SlotHead
from stqsh.engine.state.slot_runner import Fold, load_state
from stqsh.errors import EngineError
from stqsh.spec.offset import Offset
from stqsh.spec.savepoint import StagedSession
from stqsh.storage.blobs import (
    Blobs,
    checkpoint_blobs,
    home_blobs,
    later_checkpoint,
    place_later_checkpoint,
)
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.slot_files import slot_name
from stqsh.storage.staging import SAVING, stage_held

_FOLDS: tuple[Fold, ...] = (EVALUATE, AGGREGATE)
SAVED_STATE = f"files/{STATE_FORMATS['files']}"
"""The form of the slots' state in a savepoint."""


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
        heads: returns the heads of all slots after the last complete batch.
    """

    def __init__(self, settings: EngineSettings, control: ControlDb, heads: Callable[[Blobs], Heads]) -> None:
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
        if offset.dealers:
            raise EngineError("a session on a cluster with repartitioned live streams cannot be saved yet")
        carry_from_heads(self._settings.blobs, self._heads(checkpoint), home_blobs(files), batch)
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


def attend(state: Path, slots: Iterable[int], batch: int) -> None:
    """Record that Aggregate's slots have taken part in a batch, for slots written as of that batch."""
    Attendance(state, AGGREGATE.name).enter(batch, slots, begins=True)


def write_state(store: FileStore, state: SlotState) -> None:
    """Write a state into an empty store, as a snapshot without a log."""
    meta = store.read_meta()
    size = store.replace(1, snapshot(state))
    store.write_meta(replace(meta, version=1, stamp=uuid.uuid4().hex, snapshot_bytes=size))


def place_slots(home: SessionHome, settings: EngineSettings, batch: int) -> None:
    """Give a session that was just restored the form in which an engine continues it.

    Args:
        home: the session's home, as one machine has it after a batch.
        settings: the settings of the engine; with them, workers find the session's files in a storage or the
            heads of slots are in Spark.
        batch: the last complete batch.

    Raises:
        EngineError: the session cannot continue on a cluster.
    """
    if settings.local and settings.blobs.at_home:
        return
    checkpoint, saved = home_blobs(home.checkpoint), home.path / f".{STATE}.saved"
    text = read_offset(checkpoint, batch)
    if Offset.from_json(json.loads(text)).dealers:
        raise EngineError(
            "a session with repartitioned live streams cannot be moved to a cluster or a storage yet",
            hint="restore it to one machine, without session.storage",
        )
    saved.mkdir(mode=0o700)
    home.state.rename(saved / STATE)
    heads: Heads = {fold.name: {} for fold in _FOLDS}
    for fold in _FOLDS:
        for slot in range(settings.slots):
            name = slot_name(fold.name, slot)
            head = saved / STATE / name / HEAD
            if not head.exists():  # Aggregate has not run on this slot
                continue
            files, stores = home_blobs(saved), home_blobs(home.path)
            state = _loaded(fold, slot, files, stores, FileHead(head), batch)
            if settings.local:
                write_state(FileStore.beside_head(stores, name, batch, -1), state)
                heads[fold.name][str(slot)] = ""
            else:
                written = HeldHead()
                write_state(FileStore(settings.blobs, name, written, batch, -1), state)
                heads[fold.name][str(slot)] = b64encode(written.content).decode()
    if settings.local:
        attend(home.state, map(int, heads[AGGREGATE.name]), batch)
    else:
        begin_checkpoint(later_checkpoint(settings.blobs, batch + 1), text, heads)
        place_later_checkpoint(home.path, settings.blobs, batch + 1)
        shutil.rmtree(home.checkpoint)
    shutil.rmtree(saved)


def _loaded(fold: Fold, slot: int, files: Blobs, stores: Blobs, head: SlotHead, batch: int) -> SlotState:
    """Return the state of a slot after a batch, from its files and the stores to which its log refers."""
    store = FileStore(files, slot_name(fold.name, slot), head, batch + 1, None)
    store.read_meta()
    return load_state(fold, slot, store, partial(replay_records, stores))
