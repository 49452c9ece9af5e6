"""Statistics of a batch: the reports of tasks and slots, and Deliver's summary. Times are in µs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class TaskTiming(Struct, frozen=True):
    """The content of a `timing` chunk: the split of one task's time.

    Attributes:
        at: the planner, the source, or an operator.
        slot: the operator's slot.
        us: the time of a source task, or of the planner's reading for all of them.
        open_us: an operator's time to load its state.
        fold_us: an operator's time to fold the batch into its state.
        store_us: an operator's time to store its state.
        rebuilt: whether the state had to be rebuilt from its log.
        executor: the location of the executor with the slot's arrays; "" on one machine.
        rows: on a cluster, what the slot's log refers to after this batch or before it: the first row of each
            stream, by id, and 0 for each routing, by its number.
    """

    at: Literal["plan", "source", "evaluate", "aggregate"] | str
    slot: int = 0
    us: int = 0
    open_us: int = 0
    fold_us: int = 0
    store_us: int = 0
    rebuilt: bool = False
    executor: str = ""
    rows: dict[int, int] = {}


class SiftedRecords(Struct, frozen=True):
    """The content of a `sifted` chunk: the numbers of a slice's records sent and not sent to a slot.

    Attributes:
        stream: the stream's id.
        sent: records sent to the slot.
        unsent: records not sent, because no query of the slot can use them.
        stale: duplicates among the unsent.
        emptied: records among `sent` that no query can use, sent with empty columns.
    """

    slot: int
    stream: int
    sent: int
    unsent: int
    stale: int = 0
    emptied: int = 0


class StreamMemory(Struct, frozen=True):
    """The memory of a significant stream on one slot.

    Attributes:
        objects: kept objects.
        focal: focal objects among them.
        shadow: dropped objects that still report.
        locked: queries that cannot lose another object.
        approximate: queries with an accuracy below 1.
        histogram: [S[1], ..., S[63], S[64] and more], kept objects that are not locked, by their reference
            counts (SOLE section 6.4).
        dropped: the histogram of the objects in `shadow`.
        least: the least accuracy.
        k: the order in force's `k`.
        part: the order in force's `part`.
        bytes: the size of the stream's arrays.
    """

    objects: int = 0
    focal: int = 0
    shadow: int = 0
    locked: int = 0
    approximate: int = 0
    histogram: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    least: float = 1.0
    k: int = 1
    part: float = 1.0
    bytes: int = 0


class KeptEvents(Struct, frozen=True):
    """What a stream that keeps a number of bytes has kept on all slots together after a batch.

    Attributes:
        bytes: what the events that are kept count.
        floor_us: older events are gone because of their bytes, µs; None while none are.
    """

    bytes: int
    floor_us: int | None = None


class SlotStats(Struct, frozen=True):
    """The content of a `stats` chunk: the work of one slot in a batch.

    Attributes:
        objects: objects present, None in the report of Aggregate.
        unsent: records not sent to it, because no query of the slot could use them.
        failed_calls: the number of failed calls of user functions.
        failure: the reason of the first failure.
        memory: the memory of significant streams, by id.
        kept: what streams that keep a number of bytes have kept, by id; the same on all slots.
    """

    slot: int
    objects: int | None = None
    records: int = 0
    stale: int = 0
    updates: int = 0
    decode_us: int = 0
    kernel_us: int = 0
    state_us: int = 0
    queries: int = 0
    bytes: int = 0
    total_us: int = 0
    unsent: int = 0
    memory: dict[int, StreamMemory] = {}
    kept: dict[int, KeptEvents] = {}
    failed_calls: int = 0
    failure: str = ""


class TimeSplit(Struct, frozen=True):
    """The split of a batch's time; `transfer_us` is scheduling, shuffles, and moving chunks."""

    source_us: int = 0
    transfer_us: int = 0
    kernel_us: int = 0
    state_us: int = 0
    deliver_us: int = 0
    total_us: int = 0


class Warmup(Struct, frozen=True):
    """The queries over significant streams that are still warming up after a batch.

    Attributes:
        recent: (row of the log, step), ascending: queries whose last change is in the log after that row, and
            up to the next entry's, are warm at the step.
        all_until: no query is warm before this step.
    """

    recent: tuple[tuple[int, int], ...] = ()
    all_until: int = 0


class MemoryStats(Struct, frozen=True):
    """The memory of all significant streams on all slots, and the shedding order in force.

    Attributes:
        factor, k, part, cache, area: the order's values, see `stqsh.spec.shedding.SheddingOrder`.
        objects: kept objects.
        shadow: dropped objects that still report.
        bytes: the size of the streams' arrays.
        approximate: queries with an accuracy below 1.
        least: the least accuracy.
        settling: the queries that are warming up.
    """

    factor: float = 1.0
    k: int = 1
    part: float = 1.0
    cache: float = 1.0
    area: float = 1.0
    objects: int = 0
    shadow: int = 0
    bytes: int = 0
    approximate: int = 0
    least: float = 1.0
    settling: Warmup = Warmup()

    @property
    def reach(self) -> float:
        """The share of the cache distance that is in use."""
        return self.factor * self.cache

    @property
    def drops_objects(self) -> bool:
        """Whether objects are being dropped, or dropped ones have not returned."""
        return self.k > 1 or self.shadow > 0


class LiveState(Struct, frozen=True):
    """The state of a live stream after a batch.

    Attributes:
        lag: the messages that have not been taken, by part of the source, such as `topic/3`.
        message: a message for the user; "" if there is no problem.
        taken: for a spool of records, the position after the last record taken.
    """

    lag: dict[str, int] = {}
    message: str = ""
    taken: int = 0


PATIENCE_US = 30_000_000
"""The maximum time by the wall clock that a PLAY waits for the next record; it skips longer gaps."""


class Playback(Struct, frozen=True):
    """The state of a PLAY at a pace after a batch. Times are event times.

    Attributes:
        pace: event seconds per second of the wall clock; 1 while nothing plays.
        next_us: the time from the last step to the next record; None if there is none or it is not generated
            yet.
        gap_us: the length of the last skipped stretch without records; 0 for none.
        gap_end: the step after it.
    """

    pace: float
    next_us: int | None = None
    gap_us: int = 0
    gap_end: int = 0

    def is_skipped(self, pace: float) -> bool:
        """Return whether a PLAY at a pace skips the time to the next record."""
        return (self.next_us or 0) / pace > PATIENCE_US


class TakenMessages(Struct, frozen=True):
    """The content of a `taken` chunk: the messages of a live stream that a task has read.

    Attributes:
        records: the number of readable records.
        dead: the number of unreadable records.
        bytes: the size of the messages.
        letters: dead letters as lines of JSON; only the first ones if there are very many.
        latest_us: the latest time in a record, in µs since the epoch; None without records.
    """

    records: int = 0
    dead: int = 0
    bytes: int = 0
    letters: str = ""
    latest_us: int | None = None


class BatchStats(Struct, frozen=True):
    """The statistics of a batch, as Deliver writes them with the progress.

    Attributes:
        records, updates, stale: the batch's counts.
        records_total, stale_total: the counts of all batches since the engine started.
        records_per_s: the rate since the previous batch; None before the first batch.
        steps: the number of the batch's steps.
        backlog: records that are due and not taken.
        room: records that a batch of a backlog takes.
        lag_s: seconds since the last step was due, None without a pace.
        due_us: when the last step was due, by the wall clock.
        running, playing: whether a RUN or a PLAY is in progress.
        playback: the state of the PLAY; None at full speed, before the first step, and for live streams.
        rows: the next row of each stream, by id.
        memory: None while no stream keeps only significant objects.
        rebuilt: the number of slots whose state had to be rebuilt.
        live: the state of live streams, by id.
        sifted: by stream, the numbers of records sent and not sent to slots, if only useful ones are sent.
        message_bytes: the mean size of the messages read by the last batch with any.
        failed_calls: the number of failed calls of user functions since the engine started.
        failure: the reason of the first failure.
        result_bytes: the size of the results that the driver got from tasks.
    """

    records: int = 0
    records_total: int = 0
    records_per_s: int | float | None = None
    updates: int = 0
    stale: int = 0
    stale_total: int = 0
    steps: int = 0
    backlog: int = 0
    room: int = 0
    lag_s: float | None = None
    due_us: int | None = None
    running: bool = False
    playing: bool = False
    playback: Playback | None = None
    rows: dict[int, int] = {}
    slots: tuple[SlotStats, ...] = ()
    memory: MemoryStats | None = None
    rebuilt: int = 0
    time: TimeSplit | None = None
    live: dict[int, LiveState] = {}
    sifted: dict[int, tuple[int, int]] = {}
    message_bytes: float = 0.0
    failed_calls: int = 0
    failure: str = ""
    result_bytes: int = 0
