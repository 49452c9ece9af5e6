"""The clock: what RUN, PLAY and PAUSE make of an offset."""

from __future__ import annotations

from dataclasses import replace

from stqsh.engine.planning.batch_clock import last_step
from stqsh.engine.planning.offset import Offset, PlayState, RunState
from stqsh.engine.planning.session_view import SessionView
from stqsh.engine.planning.stream_inputs import StreamInput, first_tick
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import LogRow, Spec

#: More steps than any replay has: as far as the data go.
FAR = 1 << 40


def obeyed(view: SessionView, offset: Offset) -> Offset:
    """Take clock rows from the log, in order, as far as they can take effect now."""
    rows = view.log.clock_rows(offset)
    stopped = {row.spec["run"] for row in rows if row.kind == "stop_run"}
    if offset.run and offset.run.seq in stopped:
        offset = finished(offset, offset.run)
    for row in rows:
        after = _obey(view, offset, row, stopped)
        if after is None:
            break
        offset = replace(after, clock_seq=row.seq)
    return offset


def _obey(view: SessionView, offset: Offset, row: LogRow, stopped: set[int]) -> Offset | None:
    """Apply one clock row; None when it has to wait (for another RUN, for a stream to be read)."""
    if row.kind == "play":
        return playing(offset, row)
    if row.kind == "pause":
        return paused(offset, row)
    if row.kind == "stop_run":
        return offset
    if offset.run is not None:
        return None
    if row.seq in stopped:
        return replace(offset, run_done=row.seq)
    return _start_run(view, offset, row)


def _start_run(view: SessionView, offset: Offset, row: LogRow) -> Offset | None:
    """Turn a RUN into the last step that it asks for, once every stream and table is there to be read."""
    if view.is_waiting():
        return None
    feeds = view.feeds(offset)
    offset = started(offset, feeds, view.streams())
    return replace(offset, run=RunState(row.seq, _run_until(view, offset, feeds, row.spec)))


def _run_until(view: SessionView, offset: Offset, feeds: list[StreamInput], run: Spec) -> int:
    """Give the last step of a RUN: what it asks for, or the end of the data where all are finite."""
    if offset.base_tick is None:
        return offset.step
    end = last_step(offset, feeds)
    if end is not None and offset.step >= end:
        return offset.step + int(view.owes_a_step(feeds))
    asked = steps_asked(offset, run)
    return max(offset.step, asked if end is None else min(asked, end))


def started(offset: Offset, feeds: list[StreamInput], streams: dict[int, StreamSpec]) -> Offset:
    """Start the clock at the earliest record, if it has not been started and there is a record."""
    base = first_tick(feeds)
    if offset.base_tick is not None or base is None:
        return offset
    return replace(offset, base_tick=base, tick_us=next(spec.tick_us for spec in streams.values()))


def finished(offset: Offset, run: RunState) -> Offset:
    """End a RUN."""
    return replace(offset, run=None, run_done=run.seq)


def playing(offset: Offset, row: LogRow) -> Offset:
    """Let a stream run on by itself, at the pace of the latest PLAY."""
    streams = {*(offset.play.streams if offset.play else ()), row.spec["id"]}
    pace = None if row.spec["pace"] == "max" else float(row.spec["pace"] or 1)
    return replace(offset, play=PlayState(row.seq, tuple(sorted(streams)), pace))


def paused(offset: Offset, row: LogRow) -> Offset:
    """Let a stream stand still."""
    if offset.play is None:
        return offset
    streams = tuple(stream for stream in offset.play.streams if stream != row.spec["id"])
    return replace(offset, play=replace(offset.play, streams=streams))


def steps_asked(offset: Offset, run: Spec) -> int:
    """Give the last step that a RUN asks for, whether or not the data reach so far."""
    if run["mode"] == "end" or offset.tick_us is None:
        return offset.step + FAR
    if run["mode"] == "steps":
        return offset.step + int(run["n"])
    if run["mode"] == "for":
        return offset.step - (-int(run["us"]) // offset.tick_us)
    return offset.step_of(-(-int(run["t_us"]) // offset.tick_us)) - 1
