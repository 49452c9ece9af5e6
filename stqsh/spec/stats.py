"""Statistics of a batch: the reports of tasks and slots, and Deliver's summary. Times are in µs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class TaskTiming(Struct, frozen=True):
    """The content of a `timing` chunk: where the time of one task went.

    Attributes:
        at: the planner, the source, or an operator.
        slot: the operator's slot.
        us: the time of a task of the source, or of what the planner read for all of them.
        open_us: an operator's time to find its state.
        fold_us: an operator's time to fold the batch into its state.
        store_us: an operator's time to store its state.
        rebuilt: whether the state had to be rebuilt from its log.
        executor: the location of the executor that has the slot's arrays; "" on one machine.
    """

    at: Literal["plan", "source", "evaluate", "aggregate"] | str
    slot: int = 0
    us: int = 0
    open_us: int = 0
    fold_us: int = 0
    store_us: int = 0
    rebuilt: bool = False
    executor: str = ""


class SiftedRecords(Struct, frozen=True):
    """The content of a `sifted` chunk: how many records of a slice a slot got, and how many it did not.

    Attributes:
        stream: the stream's id.
        sent: records that the slot got.
        unsent: records that no query of the slot can have use for, and that it did not get.
        stale: duplicates among those.
        emptied: those among `sent` that no query has use for, which came without their columns.
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
        k: of the order in force.
        part: of the order in force.
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


class SlotStats(Struct, frozen=True):
    """The content of a `stats` chunk: the work of one slot in a batch.

    Attributes:
        objects: objects present, None in the report of Aggregate.
        unsent: records that it did not get, as no query of the slot could have use for them.
        failed_calls: how often functions of the user failed.
        failure: the reason of the first of these times.
        memory: of significant streams, by id.
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
    failed_calls: int = 0
    failure: str = ""


class TimeSplit(Struct, frozen=True):
    """Where a batch's time went; `transfer_us` is scheduling, shuffles, and moving chunks."""

    source_us: int = 0
    transfer_us: int = 0
    kernel_us: int = 0
    state_us: int = 0
    deliver_us: int = 0
    total_us: int = 0


class Warmup(Struct, frozen=True):
    """The queries over significant streams that are still warming up after a batch.

    Attributes:
        recent: (row of the log, step), ascending: queries whose last change is in the log after that row,
            and before the next one's, have warmed up with the step.
        all_until: no query has warmed up before this step.
    """

    recent: tuple[tuple[int, int], ...] = ()
    all_until: int = 0


class MemoryStats(Struct, frozen=True):
    """The memory of all significant streams on all slots, and the shedding order in force.

    Attributes:
        factor, k, part, cache, area: of the order, see `stqsh.spec.shedding.SheddingOrder`.
        objects: kept objects.
        shadow: dropped objects that still report.
        bytes: the size of the streams' arrays.
        approximate: queries with an accuracy below 1.
        least: the least accuracy.
        settling: the queries that warm up.
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
        """Whether objects are dropped, or dropped ones have not come back."""
        return self.k > 1 or self.shadow > 0


class LiveState(Struct, frozen=True):
    """How a live stream is after a batch.

    Attributes:
        lag: the messages that have not been taken, by part of the source, such as `topic/3`.
        message: what its user should know; "" if all is well.
        taken: of a spool of records, the place behind the last one that has been taken.
    """

    lag: dict[str, int] = {}
    message: str = ""
    taken: int = 0


PATIENCE_US = 30_000_000
"""A PLAY waits no longer than this for the next record, by the wall clock: it skips what is longer."""


class Playback(Struct, frozen=True):
    """How a PLAY at a pace stands after a batch. Times are event times.

    Attributes:
        pace: the seconds that pass in one of the wall clock; 1 while nothing plays.
        next_us: from the last step to the next record; None if there is none, or if it is not made yet.
        gap_us: how long the last stretch without records was that was passed over at once; 0 for none.
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
    """The content of a `taken` chunk: what a task has read of a live stream.

    Attributes:
        records: those that could be read.
        dead: those that could not.
        bytes: the size of the messages.
        letters: dead letters, lines of JSON; of very many only the first.
        latest_us: the latest time that a record names, in µs since the epoch; None without records.
    """

    records: int = 0
    dead: int = 0
    bytes: int = 0
    letters: str = ""
    latest_us: int | None = None


class BatchStats(Struct, frozen=True):
    """The statistics of a batch, as Deliver writes them with the progress.

    Attributes:
        records, updates, stale: of the batch.
        records_total, stale_total: of all batches since the engine started.
        records_per_s: since the batch before; None before the first batch.
        steps: the number of the batch's steps.
        backlog: records that are due and not taken.
        room: records that a batch of a backlog takes.
        lag_s: seconds since the last step was due, None without a pace.
        due_us: when that was, by the wall clock.
        running, playing: whether a RUN or a PLAY is under way.
        playback: how the PLAY stands; None at full speed, before the first step, and of live streams.
        rows: the next row of each stream, by id.
        memory: None while no stream keeps significant objects only.
        rebuilt: the number of slots whose state had to be rebuilt.
        live: how live streams are, by id.
        sifted: by stream, how many records slots got and did not get, if only those of use are sent.
        message_bytes: the mean size of the messages that the last batch with any has read.
        failed_calls: how often functions of the user have failed since the engine started.
        failure: the reason of the first of these times.
        result_bytes: the size of what the driver got from tasks.
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
