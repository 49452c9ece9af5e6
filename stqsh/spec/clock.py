"""The `clock` chunk: the steps of a batch, and the engine's progress after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from stqsh.spec.indexes import IndexChoice
from stqsh.spec.query import AskSpec
from stqsh.spec.stats import LiveState, Playback
from stqsh.spec.stream import StreamSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ClockTimes(Struct, frozen=True):
    """The steps of a batch and their event time: the part of the clock that readers of the update log need.

    Attributes:
        first_step: the first step.
        last_step: the last step; less than `first_step` if there are no steps.
        base_tick: the tick of step 1, None before it.
        tick_us: the length of a tick.
    """

    first_step: int
    last_step: int
    base_tick: int | None
    tick_us: int | None

    @property
    def steps(self) -> int:
        """The number of the batch's steps."""
        return self.last_step - self.first_step + 1

    def at_us(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the event times of steps in µs since the epoch, int64 (n,)."""
        assert self.base_tick is not None and self.tick_us is not None, "there are steps, so the clock runs"
        return (steps + (self.base_tick - 1)) * self.tick_us


class Attachment(Struct, frozen=True):
    """Data that a task needs besides records: inside the task if small, else in a blob named by the task.

    Attributes:
        content: the content, if it is inside the task.
        name: the name of the blob, "" if there is none.
        size, checksum: the blob's seal.
    """

    content: bytes = b""
    name: str = ""
    size: int = 0
    checksum: int = 0


class TermsPart(Struct, frozen=True):
    """The terms that some queries of a stream need, for processes that sift records for slots.

    Attributes:
        after, up_to: it covers the rows `after < seq <= up_to` of the control log.
        content: the terms, see `stqsh.engine.ingest.textual_summary`.
    """

    after: int
    up_to: int
    content: Attachment


class DealOrder(ClockTimes, frozen=True):
    """The order to the dealer of a stream for a batch.

    Attributes:
        route: the routing in force, as the number of its row in the control log.
        begins_copy: whether the stream's copy by key begins.
        is_copied: whether the stream has a copy by key.
        terms: the terms that queries in force need, if records are sifted; the logs of older versions do not
            contain it.
        spec: the stream; the logs of older versions do not contain it.
    """

    route: int
    begins_copy: bool = False
    is_copied: bool = False
    terms: tuple[TermsPart, ...] | None = None
    spec: StreamSpec | None = None

    @staticmethod
    def at(
        times: ClockTimes,
        route: int,
        *,
        begins_copy: bool,
        is_copied: bool,
        terms: tuple[TermsPart, ...] | None = None,
        spec: StreamSpec | None = None,
    ) -> DealOrder:
        """Return the order of a batch."""
        clock = (times.first_step, times.last_step, times.base_tick, times.tick_us)
        return DealOrder(*clock, route, begins_copy, is_copied, terms, spec)


class BatchClock(ClockTimes, frozen=True):
    """The content of a batch's `clock` chunk, for the slots and for Deliver.

    Attributes:
        seq: the last row of the control log that is applied.
        asked: the row of the log up to which focal objects are looked up now, 0 for none.
        run_done: the last finished RUN.
        ended: whether all streams are at their end.
        running: whether a RUN is in progress.
        playing: whether a PLAY is in progress.
        playback: see `BatchStats`.
        rows: the next row of each stream.
        backlog: the number of records that were due and not taken.
        due_us: when the last step was due by the wall clock, None without a pace.
        room: the maximum number of records that the batch could have taken.
        asks: snapshot questions.
        closing: the step after the end of all streams, 0 if it is not in the batch.
        live: the state of live streams, by id.
        indexes: the indexes that the session chooses.
    """

    seq: int = 0
    asked: int = 0
    run_done: int = 0
    ended: bool = False
    running: bool = False
    playing: bool = False
    playback: Playback | None = None
    rows: dict[int, int] = {}
    backlog: int = 0
    due_us: int | None = None
    room: int = 0
    asks: tuple[AskSpec, ...] = ()
    closing: int = 0
    live: dict[int, LiveState] = {}
    indexes: IndexChoice = IndexChoice()
