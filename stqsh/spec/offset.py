"""The offset of the engine's query, which Spark stores for the data source as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import convert, to_builtins

OffsetJson: TypeAlias = "dict[str, object]"
"""An offset in Spark's form."""


@dataclass(frozen=True)
class RunState:
    """A `RUN` in progress: its sequence number in the control log and the last step that it requests.

    Attributes:
        closes: whether that step is the closing step, after the end of all streams.
    """

    seq: int
    until: int
    closes: bool = False


@dataclass(frozen=True)
class PlayState:
    """The streams that play; the latest `PLAY`'s number and pace (None: full speed)."""

    seq: int
    streams: tuple[int, ...]
    pace: float | None


@dataclass(frozen=True)
class LivePosition:
    """The position of a live stream: the next message in each part of its source, and the number taken."""

    next: dict[str, int]
    taken: int = 0


@dataclass(frozen=True)
class Offset:
    """The state between two batches: together with the log and the stores, it determines the next batch.

    Attributes:
        seq: the last row of the control log that the slots have applied.
        clock_seq: the last row that the clock has applied (`RUN`, `PLAY`, ...).
        step: the last step taken.
        base_tick: the tick of step 1, None before it.
        rows: the next row of each stream's replay store.
        run_done: the last `RUN` that finished.
        asked: focal objects are looked up up to this sequence number.
        behind: the number of steps that were due and not taken when the batch was decided.
        due_us: when its last step was due by the wall clock; None unless streams play at a pace.
        room: the number of records that it could have taken.
        defined: the slots have the tables and areas that the log defines up to this row; may be beyond `seq`.
        answered: the snapshots up to this row were sent to the slots; may be beyond `seq`.
        closing: the step after the end of all streams, in which queries with SYNC are refreshed; 0 before it.
        ends: the steps in which queries with SYNC end by FOR, by the rows of the log that register them.
        dealt: by moving stream that has been repartitioned, its routings in order: the log's row of each, 0
            for the initial one, and the first row of the store that it deals.
        dealers: the live moving streams that have been repartitioned, with the step after which the slots
            sent the last records of their objects to the stream's dealer, which deals the records of later
            steps.
        copied: the moving streams with a copy by key on the slots, see `stqsh.core.keyed_copy`.
        by_slot: whether the batch is read by a task for each slot.
        slices: the maximum number of slices of one stream in the batch: Spark's cores when the batch was
            decided, so that it is cut the same way if it is repeated with another number of cores.
        live: the position of each live stream; the records between two positions belong to the last step.
        ended: whether all live streams have reached their ends.
        gap: the last stretch without records that PLAY skipped at once: the steps before and after it.
        boot: identifies the start of the query that made the offset, see
            `stqsh.engine.operators.data_source`.
    """

    seq: int = 0
    clock_seq: int = 0
    step: int = 0
    base_tick: int | None = None
    tick_us: int | None = None
    rows: dict[int, int] = field(default_factory=dict)
    run: RunState | None = None
    run_done: int = 0
    play: PlayState | None = None
    asked: int = 0
    behind: int = 0
    due_us: int | None = None
    room: int = 0
    defined: int = 0
    answered: int = 0
    closing: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    dealt: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    dealers: dict[int, int] = field(default_factory=dict)
    copied: tuple[int, ...] = ()
    by_slot: bool = False
    slices: int = 2
    boot: str = ""
    live: dict[int, LivePosition] = field(default_factory=dict)
    ended: bool = False
    gap: tuple[int, int] = (0, 0)

    def to_json(self) -> OffsetJson:
        """Return the offset as JSON values; object keys are strings."""
        json: OffsetJson = to_builtins(self, str_keys=True)
        return json

    @staticmethod
    def from_json(value: OffsetJson) -> Offset:
        """Read an offset back from the form of `to_json`."""
        return convert(value, Offset, str_keys=True)

    @property
    def is_idle(self) -> bool:
        """Whether no RUN is in progress and no stream plays, so that only the log can cause more batches."""
        return self.run is None and not (self.play and self.play.streams)

    @property
    def dealing(self) -> tuple[int, ...]:
        """The streams whose dealers take part in the batch."""
        return tuple(stream for stream, since in sorted(self.dealers.items()) if since < self.step)

    @property
    def readers_fold(self) -> bool:
        """Whether the tasks that read the batch also fold it, if the pipeline allows it."""
        return self.by_slot and not self.dealing

    @property
    def names(self) -> int:
        """The last row of the control log to which the offset refers."""
        return max(self.seq, self.clock_seq, self.asked, self.defined, self.answered)

    @property
    def taken(self) -> dict[int, int]:
        """The number of records taken of each stream."""
        return {**self.rows, **{stream: position.taken for stream, position in self.live.items()}}

    def tick_of(self, step: int) -> int:
        """Return the tick of a step; the clock must have started."""
        if self.base_tick is None:
            raise ValueError("the clock has not started: there is no tick yet")
        return self.base_tick + step - 1

    def step_of(self, tick: int) -> int:
        """Return the step of a tick; the clock must have started."""
        if self.base_tick is None:
            raise ValueError("the clock has not started: there is no step yet")
        return tick - self.base_tick + 1
