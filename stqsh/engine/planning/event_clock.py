"""The clock: the effect of RUN, PLAY and PAUSE on an offset, and the step that is due.

RUN and PLAY rows of the control log determine how far the clock goes (`apply_clock_rows`), `PlaybackPace`
which step is due by the wall clock, and `batch_clock` the position of a batch, for the slots and Deliver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from stqsh.engine.planning.stream_inputs import SessionView, StreamInput, first_tick, last_tick, records_until
from stqsh.spec.clock import BatchClock
from stqsh.spec.log import (
    RunFor,
    RunSpec,
    RunSteps,
    RunStopped,
    RunToEnd,
    RunUntil,
    StreamPaused,
    StreamPlayed,
)
from stqsh.spec.offset import Offset, PlayState, RunState
from stqsh.spec.query import AskSpec
from stqsh.spec.stats import PATIENCE_US, Playback
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import LogRow

#: More steps than any replay has: up to the end of the data.
FAR = 1 << 60
#: The maximum difference between two clocks that is not counted as a clock change.
_DRIFT_US = 1_000_000


def apply_clock_rows(view: SessionView, offset: Offset, now_us: int = 0) -> Offset:
    """Apply the clock rows of the log that can take effect now, in order.

    `now_us` is the wall clock in µs, which drives live streams.
    """
    rows = view.log.clock_rows(offset)
    stopped = {row.entry.run for row in rows if isinstance(row.entry, RunStopped)}
    if offset.run and offset.run.seq in stopped:
        offset = finish_run(offset, offset.run)
    for row in rows:
        after = _apply_row(view, offset, row, stopped, now_us)
        if after is None:
            break
        offset = replace(after, clock_seq=row.seq)
    return offset


def _apply_row(
    view: SessionView, offset: Offset, row: LogRow, stopped: set[int], now_us: int
) -> Offset | None:
    """Apply one clock row; return None if it has to wait (for another RUN or an unprepared stream)."""
    match row.entry:
        case StreamPlayed():
            return start_playing(offset, row.seq, row.entry)
        case StreamPaused():
            return stop_playing(offset, row.entry)
        case RunToEnd() | RunUntil() | RunFor() | RunSteps():
            if offset.run is not None:
                return None
            if row.seq in stopped:
                return replace(offset, run_done=row.seq)
            return _start_run(view, offset, row.seq, row.entry, now_us)
    return offset


def _start_run(view: SessionView, offset: Offset, seq: int, asked: RunSpec, now_us: int) -> Offset | None:
    """Resolve a RUN to its last step, once every stream and table can be read."""
    if view.is_waiting():
        return None
    if view.is_live():
        return start_live_run(view, offset, seq, asked, now_us)
    inputs = view.inputs(offset)
    offset = start_clock(offset, inputs, view.streams())
    return replace(offset, run=_run_state(view, offset, inputs, seq, asked))


def start_live_run(view: SessionView, offset: Offset, seq: int, asked: RunSpec, now_us: int) -> Offset:
    """Resolve a RUN of live streams to its last step, counted from the tick of the wall clock."""
    offset = start_live_clock(view, offset, now_us)
    assert offset.tick_us is not None, "the clock runs"
    begun = max(offset.step, offset.step_of(now_us // offset.tick_us) - 1)
    until = requested_step(replace(offset, step=begun), asked)
    return replace(offset, run=RunState(seq, max(offset.step, until)), ended=False)


def start_live_clock(view: SessionView, offset: Offset, now_us: int) -> Offset:
    """Start the clock of a live session now, unless it has started."""
    if offset.base_tick is not None:
        return offset
    tick_us = next(spec.tick_us for spec in view.streams().values())
    return replace(offset, base_tick=now_us // tick_us, tick_us=tick_us)


def _run_state(
    view: SessionView, offset: Offset, inputs: list[StreamInput], seq: int, run: RunSpec
) -> RunState:
    """Return a RUN with its last step: the one requested, or the end of the data if all are finite.

    If it reaches the end and queries with SYNC continue beyond it, a further step refreshes them.
    """
    if offset.base_tick is None:
        return RunState(seq, offset.step)
    end, asked = last_step(offset, inputs), requested_step(offset, run)
    if end is None or (offset.step < end and asked < end):
        return RunState(seq, max(offset.step, asked))
    return _run_to_end(view, offset, inputs, seq, end)


def _run_to_end(view: SessionView, offset: Offset, inputs: list[StreamInput], seq: int, end: int) -> RunState:
    """Return a RUN whose last step is the end of the data, or the further step due there."""
    if offset.step >= end:
        return RunState(seq, offset.step + int(view.owes_a_step(inputs)))
    closes = is_refreshed_after(view, offset, seq, end)
    return RunState(seq, end + int(closes), closes)


def is_refreshed_after(view: SessionView, offset: Offset, seq: int, end: int) -> bool:
    """Return whether queries with SYNC, as of a row of the log, continue beyond the end of the data."""
    refreshed = view.log.ledger_at(seq).refreshed.values()
    return not all(query.is_over(offset, end + 1) for query in refreshed)


def closed_play(view: SessionView, offset: Offset, play: PlayState, taken: Offset) -> Offset:
    """Return the end of a PLAY's batch, plus the closing step if all streams reach their end.

    That step refreshes queries with SYNC, as when a RUN reaches the end.
    """
    inputs = view.inputs(offset)
    end = last_step(offset, inputs)
    is_last = end is not None and offset.step < end <= taken.step and not view.is_waiting()
    if not is_last or any(each.left and each.stream_id not in play.streams for each in inputs):
        return taken
    if not is_refreshed_after(view, offset, taken.seq, taken.step):
        return taken
    return replace(taken, step=taken.step + 1, closing=taken.step + 1)


def within_data(view: SessionView, offset: Offset, inputs: list[StreamInput], run: RunState) -> RunState:
    """Return a RUN limited to the data, which may have become finite since it began.

    This happens if an endless stream is dropped. Otherwise time would advance to the last requested step, at
    once, and a plain `RUN` has none.
    """
    end = None if run.closes or offset.base_tick is None else last_step(offset, inputs)
    if end is None or run.until <= max(end, offset.step + 1):
        return run
    return _run_to_end(view, offset, inputs, run.seq, end)


def start_clock(offset: Offset, inputs: list[StreamInput], streams: dict[int, StreamSpec]) -> Offset:
    """Start the clock at the earliest record, unless it has started or there is no record."""
    base = first_tick(inputs)
    if offset.base_tick is not None or base is None:
        return offset
    return replace(offset, base_tick=base, tick_us=next(spec.tick_us for spec in streams.values()))


def finish_run(offset: Offset, run: RunState) -> Offset:
    """End a RUN."""
    return replace(offset, run=None, run_done=run.seq)


def start_playing(offset: Offset, seq: int, play: StreamPlayed) -> Offset:
    """Start a stream at the pace of the latest PLAY."""
    streams = {*(offset.play.streams if offset.play else ()), play.id}
    pace = None if play.pace == "max" else float(play.pace or 1)
    return replace(offset, play=PlayState(seq, tuple(sorted(streams)), pace))


def stop_playing(offset: Offset, pause: StreamPaused) -> Offset:
    """Pause a stream."""
    if offset.play is None:
        return offset
    streams = tuple(stream for stream in offset.play.streams if stream != pause.id)
    return replace(offset, play=replace(offset.play, streams=streams))


def requested_step(offset: Offset, run: RunSpec) -> int:
    """Return the last step that a RUN requests, even beyond the data."""
    match run:
        case RunSteps(n):
            return offset.step + n
        case RunFor(us) if offset.tick_us is not None:
            return offset.step - (-us // offset.tick_us)
        case RunUntil(t_us) if offset.tick_us is not None:
            return offset.step_of(-(-t_us // offset.tick_us)) - 1
    return offset.step + FAR


@dataclass(frozen=True)
class _PlayOrigin:
    """The origin of a PLAY's step count: its row of the log, the last finished RUN, time in µs, and step."""

    seq: int
    run: int
    us: int
    step: int


class DueStep(NamedTuple):
    """The step that is due.

    Attributes:
        step: None without a pace.
        gap: the steps before and after a stretch without records that is skipped at once.
    """

    step: int | None
    gap: tuple[int, int] | None = None


class ClockJumps:
    """Detects changes of the wall clock between two checks.

    `steady` returns µs of a monotonic clock. Without it, only a clock set back is detected.
    """

    def __init__(self, steady: Callable[[], int] | None = None) -> None:
        self._steady = steady
        self._seen: tuple[int, int] | None = None

    def look(self, now_us: int) -> int:
        """Return by how many µs the wall clock, now at `now_us`, was set forward; negative: back."""
        steady_us = self._steady() if self._steady else 0
        before_us, steady_before_us = self._seen or (now_us, steady_us)
        self._seen = now_us, steady_us
        jump = now_us - before_us - (steady_us - steady_before_us)
        if self._steady is None:
            return min(0, jump)
        return jump if abs(jump) > _DRIFT_US else 0


class SessionClock:
    """The lead of a live session's clock over the wall clock; see `live_inputs`."""

    def __init__(self, steady: Callable[[], int] | None = None) -> None:
        self._jumps = ClockJumps(steady)
        self._ahead_us: int | None = None

    def ahead_us(self, offset: Offset, now_us: int) -> int:
        """Return by how many µs the session's clock is ahead of the wall clock, now at `now_us`."""
        jump_us = self._jumps.look(now_us)
        if self._ahead_us is None:
            assert offset.tick_us is not None, "the clock runs"
            self._ahead_us = max(0, offset.tick_of(offset.step) * offset.tick_us - now_us)
        else:
            self._ahead_us = max(0, self._ahead_us - jump_us)
        return self._ahead_us


class PlaybackPace:
    """Counts steps by the wall clock since this process first read a PLAY.

    After a change of the wall clock, and after a RUN, the count continues from there: streams neither pause
    until the clock has caught up, nor jump. If no record is due for long, the count continues at the next
    record.
    """

    def __init__(self, steady: Callable[[], int] | None = None) -> None:
        self._origin: _PlayOrigin | None = None
        self._jumps = ClockJumps(steady)

    def step(self, offset: Offset, play: PlayState, inputs: list[StreamInput], now_us: int) -> DueStep:
        """Return the step that is due.

        If no stream has started, time skips to the first record of the streams that play.
        """
        if play.pace is None or offset.tick_us is None:
            return DueStep(None)
        origin, jump_us = self._origin, self._jumps.look(now_us)
        if origin is None or (origin.seq, origin.run) != (play.seq, offset.run_done):
            origin = _PlayOrigin(play.seq, offset.run_done, now_us, offset.step)
        else:
            origin = replace(origin, us=origin.us + jump_us)
        due = origin.step + 1 + int((now_us - origin.us) * play.pace // offset.tick_us)
        coming, gap = next_record(offset, inputs), None
        if coming is not None and coming > due:
            wait_us = (coming - due) * offset.tick_us / play.pace
            is_long = wait_us > PATIENCE_US
            if is_long or not any(each.row for each in inputs if each.left):
                gap = (offset.step, coming) if is_long and offset.step else None
                origin, due = replace(origin, us=now_us, step=coming - 1), coming
        self._origin = origin
        return DueStep(due, gap)

    def due_us(self, taken: Offset, play: PlayState) -> int | None:
        """Return when the last step of a batch was due by the wall clock; None without a pace."""
        if play.pace is None or self._origin is None or taken.tick_us is None:
            return None
        return self._origin.us + int((taken.step - self._origin.step - 1) * taken.tick_us / play.pace)


def next_record(offset: Offset, inputs: list[StreamInput]) -> int | None:
    """Return the step of the next record; None if there is none or it is not generated yet."""
    if any(not each.left and not each.store.complete for each in inputs):
        return None
    ticks = [each.store.tick_of_row(each.row) for each in inputs if each.left]
    return offset.step_of(min(ticks)) if ticks else None


def batch_clock(
    first: Offset, last: Offset, inputs: list[StreamInput], asks: tuple[AskSpec, ...]
) -> BatchClock:
    """Return the `clock` chunk's content of the batch between two offsets."""
    end = last_step(last, inputs) if last.base_tick is not None else None
    is_at_end = end is not None and last.step >= end and not any(each.left for each in inputs)
    playing = bool(last.play and last.play.streams)
    # A live stream whose source has not responded yet plays, but has neither position nor end.
    is_live = bool(last.live) or (playing and not inputs)
    return BatchClock(
        first_step=first.step + 1,
        last_step=last.step,
        base_tick=last.base_tick,
        tick_us=last.tick_us,
        seq=last.seq,
        asked=last.asked if last.asked > first.asked else 0,
        run_done=last.run_done,
        ended=last.ended if is_live else is_at_end,
        running=last.run is not None,
        playing=playing,
        playback=_playback(last, inputs),
        rows=last.rows,
        backlog=records_behind(last, inputs),
        due_us=last.due_us,
        room=last.room,
        asks=asks,
        closing=last.closing if last.closing > first.step else 0,
    )


def _playback(last: Offset, inputs: list[StreamInput]) -> Playback | None:
    """Return the state of a PLAY at a pace after a batch; while nothing plays, of a PLAY at pace 1."""
    pace = last.play.pace if last.play and last.play.streams else 1.0
    if pace is None or last.tick_us is None or not inputs:
        return None
    taking = [each for each in inputs if is_playing(last, each.stream_id)] or inputs
    coming, (before, after) = next_record(last, taking), last.gap
    next_us = None if coming is None else max(0, coming - last.step) * last.tick_us
    return Playback(pace, next_us, (after - before) * last.tick_us, after)


def records_behind(offset: Offset, inputs: list[StreamInput]) -> int:
    """Count the records that exist for steps that were due and not taken."""
    if not offset.behind or offset.base_tick is None:
        return 0
    taking = inputs if offset.run else [each for each in inputs if is_playing(offset, each.stream_id)]
    return records_until(taking, offset.tick_of(offset.step + offset.behind))


def is_playing(offset: Offset, stream: int) -> bool:
    """Return whether a stream plays."""
    return offset.play is not None and stream in offset.play.streams


def last_step(offset: Offset, inputs: list[StreamInput]) -> int | None:
    """Return the step at which finite streams end, None if one has no end; the clock must have started.

    Streams without records end at the clock's position.
    """
    if not all(each.store.complete for each in inputs):
        return None
    end = last_tick(inputs)
    return offset.step if end is None else max(offset.step_of(end), 0)
