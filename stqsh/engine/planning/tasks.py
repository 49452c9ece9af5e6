"""The tasks of a batch: cut the rows between two offsets into pieces that workers read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.planning.planner_state import PlannerState
from stqsh.sources.live.kafka_client import ClientSettings
from stqsh.sources.live.protocol import MessageRange
from stqsh.sources.replay_store.store import ReplayStore
from stqsh.spec.clock import Attachment, BatchClock, TermsPart
from stqsh.spec.offset import Offset
from stqsh.spec.region import Key
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs


@dataclass(frozen=True)
class BatchHead:
    """The input of slots before the records.

    Attributes:
        clock: the clock of the batch.
        commands: the log's rows `first < seq <= last` take effect.
        defined: slots get the tables and areas of the rows `first < seq <= last`; may be ahead of `commands`.
        lookups: the keys to look up, by stream.
        memory: the shedding order, if it is new.
        routed: the streams whose routing is new, by id.
        copies: the streams whose copy by key begins, and the first row of the store not yet in it.
        uncopied: the streams whose copy by key ends.
        sending: the streams whose slots send the last records of their objects to the dealer.
        seeded: the streams whose dealers begin, and the step after which slots sent their seeds, if these are
            in blobs, see `stqsh.engine.ingest.dealer_seeds`.
        undealt: on a cluster, the streams whose dealers end with the batch, because they are dropped.
        left: the routings in use after the batch, by stream with a routing retired in it.
        log: the batch's part of the log, see `stqsh.engine.planning.head_log`; None if it is empty.
        read_us: the time to read older queries for it, in µs.
        unread: the defined tables that could not be read, or were dropped before; they are empty.
    """

    clock: BatchClock
    commands: tuple[int, int]
    defined: tuple[int, int]
    lookups: dict[int, tuple[Key, ...]]
    memory: SheddingOrder | None = None
    routed: tuple[int, ...] = ()
    copies: dict[int, int] = field(default_factory=dict)
    uncopied: tuple[int, ...] = ()
    sending: tuple[int, ...] = ()
    seeded: dict[int, int] = field(default_factory=dict)
    undealt: tuple[int, ...] = ()
    left: dict[int, tuple[int, ...]] = field(default_factory=dict)
    log: Attachment | None = None
    read_us: int = 0
    unread: tuple[int, ...] = ()


@dataclass(frozen=True)
class StreamSlice:
    """Rows `start <= row < stop` of a stream's store, and the keys whose records go to every slot.

    `index` is the number of the slice among those of its stream.
    """

    stream_id: int
    start: int
    stop: int
    index: int
    focal: tuple[Key, ...]


@dataclass(frozen=True)
class LiveSlice:
    """Messages of a live stream, and the keys whose records go to every slot.

    `index` is the number of the slice among those of its stream, and `is_only` is whether there is no other.
    `ahead` is the folder with the pieces of its messages, "" if they were not read ahead. `spool` is the
    folder of the stream's spool in which these messages are published, "" if workers see the spool itself.
    """

    stream_id: int
    ranges: tuple[MessageRange, ...]
    index: int
    focal: tuple[Key, ...]
    ahead: str = ""
    is_only: bool = False
    spool: str = ""


@dataclass(frozen=True)
class LiveAccess:
    """The workers' access to live sources.

    Attributes:
        profile: the name or path of the session's profile.
        skips: whether to skip deleted messages.
        kafka: the settings of Kafka's clients for hosts that may lack the profile; None on one machine.
    """

    profile: str = ""
    skips: bool = False
    kafka: ClientSettings | None = None


@dataclass(frozen=True)
class SourceTask:
    """A part of a batch that one worker reads.

    Attributes:
        blobs: the session's files: replay stores, tables, spools.
        streams: their specs by id.
        head: the slots' input before the records; only in the first of the tasks that read for all slots.
        only: the one slot for which it reads; None if it reads for all.
        folds: whether its reader also folds the data, see `Offset.readers_fold`.
        live: messages of live streams.
        routes: by stream, the routings that dealt the kept events, as numbers of the log's rows, 0 for the
            initial one; the last one is in force. A stream without an entry has the initial one.
        dealt: by moving stream that has been repartitioned, all its routings in order: the number of each and
            the first row of the store that it deals.
        dealing: the streams whose records go to a dealer, see `stqsh.engine.ingest.dealer`.
        copied: the streams that have a copy by key, see `stqsh.core.keyed_copy`.
        terms: the terms that queries in force need, by stream whose records are sifted, see
            `stqsh.engine.ingest.record_sieve`.
    """

    blobs: Blobs
    slots: int
    streams: dict[int, StreamSpec]
    first_step: int
    last_step: int
    base_tick: int
    head: BatchHead | None
    slices: tuple[StreamSlice, ...]
    only: int | None = None
    folds: bool = False
    live: tuple[LiveSlice, ...] = ()
    access: LiveAccess = LiveAccess()
    routes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    dealt: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    dealing: tuple[int, ...] = ()
    copied: tuple[int, ...] = ()
    terms: dict[int, tuple[TermsPart, ...]] = field(default_factory=dict)

    @property
    def wanted(self) -> Iterable[int]:
        """The slots for which the task reads."""
        return range(self.slots) if self.only is None else (self.only,)

    def is_sifted(self, stream: int) -> bool:
        """Return whether records of a stream that a slot cannot use may be left out."""
        return stream in self.terms

    def is_whole(self, stream: int) -> bool:
        """Return whether the slot's records of a slice of a stream's store form one unpacked chunk."""
        return self.folds and not self.is_sifted(stream)


class BatchSpan(NamedTuple):
    """The two offsets at the beginning and the end of a batch.

    Attributes:
        first, last: the offsets.
        stores: the stores of streams whose slices must hold whole steps, by stream.
    """

    first: Offset
    last: Offset
    stores: Mapping[int, ReplayStore]

    def slice_end(self, stream: int, row: int) -> int:
        """Return the end of a slice of a stream: `row`, or the end of its step if slices hold whole steps.

        Rows of ticks before the batch's first step belong to that step.
        """
        if stream not in self.stores:
            return row
        store, first_tick = self.stores[stream], self.last.tick_of(self.first.step + 1)
        return store.rows_until(max(first_tick, store.tick_of_row(row - 1)))


def cut_into_tasks(
    blobs: Blobs,
    slots: int,
    head: BatchHead,
    span: BatchSpan,
    planner_state: PlannerState,
    tuning: EngineTuning = TUNING,
) -> list[SourceTask]:
    """Cut the rows between two offsets into slices, and spread them over tasks of similar size.

    Alternatively there is one task for each slot, which reads all rows for it: see `is_read_by_slot`.
    """
    first, last = span.first, span.last
    slices: list[list[StreamSlice]] = [[] for _ in range(last.slices)]
    sizes = [0] * last.slices
    for stream_id, stop in sorted(last.rows.items()):
        start, keys = first.rows.get(stream_id, 0), planner_state.focal_keys(stream_id)
        pieces = 1 if last.by_slot else max(1, min(last.slices, (stop - start) // tuning.slice_records))
        inner = [start + (stop - start) * piece // pieces for piece in range(1, pieces)]
        bounds = [start, *(span.slice_end(stream_id, row) for row in inner), stop]
        for piece, (low, high) in enumerate(pairwise(bounds)):
            if low < high:
                smallest = 0 if last.by_slot else sizes.index(min(sizes))
                slices[smallest].append(StreamSlice(stream_id, low, high, piece, keys))
                sizes[smallest] += high - low
    common = (blobs, slots, planner_state.streams, first.step + 1, last.step, last.base_tick or 0)
    whole = SourceTask(*common, head, tuple(slices[0]), dealt=last.dealt)
    if last.by_slot:
        return [replace(whole, only=slot, folds=last.readers_fold) for slot in range(slots)]
    return [whole, *(replace(whole, head=None, slices=tuple(some)) for some in slices[1:] if some)]


def with_live(
    tasks: list[SourceTask], slices: Sequence[Sequence[LiveSlice]], access: LiveAccess
) -> list[SourceTask]:
    """Add the slices of live streams to tasks, one group each; tasks that read for one slot get all."""
    if tasks[0].only is not None:
        together = tuple(piece for group in slices for piece in group)
        return [replace(task, live=together, access=access) for task in tasks]
    more = [replace(tasks[0], head=None, slices=()) for _ in slices[len(tasks) :]]
    groups = [*slices, *([] for _ in tasks[len(slices) :])]
    pairs = zip([*tasks, *more], groups, strict=True)
    return [replace(task, live=tuple(group), access=access) for task, group in pairs]


def is_read_by_slot(
    first: Offset, last: Offset, slots: int, tuning: EngineTuning = TUNING, *, is_decoded: bool = False
) -> bool:
    """Return whether to read a batch by one task per slot, because it is small or slots are few.

    This needs no shuffle, and readers can fold the data. Each of these tasks reads all rows, so there must be
    few records or slots, and even fewer records of live streams whose messages are not decoded yet. Decoded
    messages are cheaper to read again than to shuffle. For the rows of the log that it may apply see
    `PendingLog.is_light`.
    """
    before = first.taken
    new = {stream: taken - before.get(stream, 0) for stream, taken in last.taken.items()}
    messages = sum(new[stream] for stream in last.live)
    most = tuning.by_slot_decoded if is_decoded else tuning.by_slot_messages
    is_light = (
        slots <= tuning.by_slot_slots or sum(new.values()) - messages <= tuning.by_slot_records // slots
    )
    return is_light and messages <= most // slots
