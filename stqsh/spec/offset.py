"""The offset of the engine's one query, which Spark keeps for the data source as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import convert, to_builtins

OffsetJson: TypeAlias = "dict[str, object]"
"""An offset as Spark keeps it."""


@dataclass(frozen=True)
class RunState:
    """A `RUN` under way: its sequence number in the control log and the last step it requests.

    Attributes:
        closes: whether that step is the one after the end of all streams.
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
    """How far a live stream is taken: what comes next in each part of its source, and how much was taken."""

    next: dict[str, int]
    taken: int = 0


@dataclass(frozen=True)
class Offset:
    """The state between two batches: together with the log and the stores, it determines the next batch.

    Attributes:
        seq: the last row of the control log that the slots have taken in.
        clock_seq: the last row that the clock has taken in (`RUN`, `PLAY`, ...).
        step: the last step taken.
        base_tick: the tick of step 1, None before it.
        rows: the next row of each stream's replay store.
        run_done: the last `RUN` that finished.
        asked: focal objects are looked up as far as this sequence number.
        behind: how many steps were due, and not taken, when the batch was decided.
        due_us: when its last step was due by the wall clock; None unless streams play at a pace.
        room: how many records it could have taken.
        defined: the slots know the tables and areas that the log defines up to this row; may be beyond `seq`.
        answered: the slots have been asked the snapshots up to this row; may be beyond `seq`.
        closing: the step after the end of all streams, in which queries with SYNC are refreshed; 0 before it.
        ends: the steps in which queries with SYNC end by their FOR, by the log's rows that register them.
        dealt: by moving stream that has been repartitioned, its routings in order: the log's row of each, 0
            for the initial one, and the first row of the store that it deals.
        dealers: the live moving streams that have been repartitioned, and the step after which the slots sent
            the last records of their objects to the stream's dealer, which deals the records of later steps.
        copied: the moving streams that slots have a copy of by key, see `stqsh.core.keyed_copy`.
        by_slot: whether the batch is read by a task for each slot.
        slices: the maximum number of slices of one stream in the batch; the cores that Spark had when the
            batch was decided, so that it is cut the same if it is repeated on others.
        live: how far each live stream is taken; the records between two positions belong to the last step.
        ended: whether all live streams have come to their ends.
        gap: the last stretch without records that PLAY passed over at once: the steps before and after it.
        boot: the start of the query in which it was made, see `stqsh.engine.operators.data_source`.
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
        """Whether no RUN is under way and no stream plays, so that only the log can bring more."""
        return self.run is None and not (self.play and self.play.streams)

    @property
    def dealing(self) -> tuple[int, ...]:
        """The streams whose dealers take part in the batch."""
        return tuple(stream for stream, since in sorted(self.dealers.items()) if since < self.step)

    @property
    def readers_fold(self) -> bool:
        """Whether the tasks that read the batch fold it, too, where the pipeline lets them."""
        return self.by_slot and not self.dealing

    @property
    def names(self) -> int:
        """The last row of the control log that it names."""
        return max(self.seq, self.clock_seq, self.asked, self.defined, self.answered)

    @property
    def taken(self) -> dict[int, int]:
        """How many records of each stream are taken."""
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
