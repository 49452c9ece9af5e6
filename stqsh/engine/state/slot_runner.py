"""Advance one slot by one batch: load its state, fold the batch into it, and store it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from stqsh.core.state.slot_state import SlotState, restore, snapshot
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.state.arena import Arena, StaleFileError
from stqsh.engine.state.file_store import SlotMeta, SlotStore
from stqsh.spec.chunk import Chunk, ChunkKind
from stqsh.spec.command import drops_stream
from stqsh.storage.slot_files import MOST_MAPPED, mapped_files

ReplayRecords = Callable[[list[Chunk]], list[Chunk]]


class Fold(Protocol):
    """An operator's work on a slot's state: a fold over batches of chunks."""

    @property
    def name(self) -> str:
        """The operator's name, as in file names."""

    def accepts(self, chunk: Chunk) -> bool:
        """Return whether a chunk concerns the state; the others bypass the operator."""

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        """Fold the chunks of one batch, in order, into the state; return the chunks to send."""


@dataclass(frozen=True, slots=True)
class SlotTiming:
    """The times of one slot's batch, in µs.

    Attributes:
        rebuilt: whether the arena could not be used.
        rows: what the log refers to after this batch or before it, see `first_rows`.
    """

    open_us: int
    fold_us: int
    store_us: int
    rebuilt: bool
    rows: dict[int, int]


@dataclass(slots=True)
class _Warm:
    """A state that this process had at the end of an earlier batch."""

    stamp: str
    state: SlotState
    arena: Arena


#: By arena. Valid only while its stamp is current: another process may have continued the state.
_warm: dict[tuple[str, str], _Warm] = {}


def _forget_some() -> None:
    """Release the state of a dropped stream, because the memory of its deleted files is freed only then.

    Each batch of a slot checks one state, the one that has not been checked or used for longest. States are
    also released while this process has more files mapped than the system may allow.
    """
    while len(_warm) > 1 and mapped_files() > MOST_MAPPED:
        _warm.pop(next(iter(_warm)))
    key = next(iter(_warm))
    warm = _warm.pop(key)
    if warm.arena.lock.exists():
        _warm[key] = warm


def load_state(
    fold: Fold, slot: int, store: SlotStore, replay: ReplayRecords, arena: Arena | None = None
) -> SlotState:
    """Return the state of a slot from its snapshot and the logged batches, without sending anything.

    Args:
        fold: the operator's work.
        slot: the slot.
        store: its files, whose position has been read.
        replay: returns a logged batch with its full content.
        arena: where the arrays are; None for this process's memory.
    """
    pieces = store.read_snapshot()
    state = restore(pieces, arena) if pieces else SlotState.fresh(slot, arena)
    for chunks in store.read_log():
        fold.apply(state, replay(chunks))
    return state


class SlotRunner:
    """Keeps the state of one slot of one operator in its store, cached in the arena.

    `replay` returns a logged batch with its full content, because the log may hold references.
    """

    def __init__(
        self,
        fold: Fold,
        slot: int,
        store: SlotStore,
        arena: Arena,
        replay: ReplayRecords,
        tuning: EngineTuning = TUNING,
    ) -> None:
        self._fold, self._slot, self._store, self._arena = fold, slot, store, arena
        self._replay, self._tuning = replay, tuning
        self._key = (str(arena.folders[0]), arena.name)

    def advance(
        self, chunks: list[Chunk], logged: list[Chunk] | None = None
    ) -> tuple[list[Chunk], SlotTiming]:
        """Fold a batch into the state, and save it: first in the store, then in the arena.

        The store's new state becomes valid only when Spark commits the batch. The arena may be ahead of it
        until then; its stamp shows that.

        Args:
            chunks: the batch.
            logged: the batch in the form for the log; by default unchanged.
        """
        with self._arena.held() as has_readers:
            begun = time.perf_counter_ns()
            meta = self._store.read_meta()
            state, rebuilt = self._open(meta)
            if has_readers:
                self._arena.part(state.buffers)
            self._arena.begin()
            opened = time.perf_counter_ns()
            sent = self._fold.apply(state, chunks)
            folded = time.perf_counter_ns()
            meta = self._keep(meta, logged or chunks, state, (folded - opened) // 1000)
            state.trim_unused(self._arena.trim)
            self._arena.commit(meta.stamp, state.header, state.buffers)
            _warm.pop(self._key, None)
            _warm[self._key] = _Warm(meta.stamp, state, self._arena)  # move it to the end
            _forget_some()
            stored = time.perf_counter_ns()
        costs = SlotTiming(
            (opened - begun) // 1000,
            (folded - opened) // 1000,
            (stored - folded) // 1000,
            rebuilt,
            self._store.logged_rows(),
        )
        return sent, costs

    def _open(self, meta: SlotMeta) -> tuple[SlotState, bool]:
        """Return the state that `meta` names, and whether it had to be rebuilt."""
        head = self._arena.read_head() if meta.stamp else None
        if head is None or head.stamp != meta.stamp:
            return self._rebuild(), bool(meta.stamp)
        warm = _warm.get(self._key)
        if warm is not None:
            self._arena = warm.arena  # it has most of the files mapped already
            if warm.stamp == meta.stamp:
                return warm.state, False
        try:
            buffers = self._arena.load(head)
        except StaleFileError:
            return self._rebuild(), True
        return SlotState(head.header, buffers, self._arena), False

    def _rebuild(self) -> SlotState:
        """Rebuild the state from the snapshot and the logged batches, without sending anything."""
        _warm.pop(self._key, None)
        self._arena.clear()
        return load_state(self._fold, self._slot, self._store, self._replay, self._arena)

    def _keep(self, meta: SlotMeta, chunks: list[Chunk], state: SlotState, fold_us: int) -> SlotMeta:
        """Write the batch to the store, as part of the log or as a new snapshot.

        After the drop of a stream write a snapshot, so that no log refers to its records and routings.
        """
        version = meta.version + 1
        after = replace(
            meta,
            version=version,
            stamp=uuid.uuid4().hex,
            replay_us=meta.replay_us + fold_us,
            log_bytes=meta.log_bytes + sum(len(chunk.payload) for chunk in chunks),
        )
        if any(map(_drops_stream, chunks)) or after.wants_snapshot(self._tuning):
            begun = time.perf_counter_ns()
            size = self._store.replace(version, snapshot(state))
            took_us = (time.perf_counter_ns() - begun) // 1000
            after = replace(after, log_bytes=0, replay_us=0, snapshot_bytes=size, snapshot_us=took_us)
        else:
            size = self._store.append(version, chunks)
            after = replace(after, log_bytes=meta.log_bytes + size)
        self._store.write_meta(after)
        return after


def _drops_stream(chunk: Chunk) -> bool:
    """Return whether a chunk ends a stream, or the stream's dealer."""
    is_drop = chunk.kind == ChunkKind.COMMANDS and drops_stream(chunk.payload)
    return is_drop or chunk.kind == ChunkKind.DEAL_END
