"""Live streams in the planner: their sources, the wall clock, and the messages of the next batch.

A step is a tick of the wall clock. A batch covers the ticks since the previous batch. Its messages are those
available in the sources when it is decided, so they belong to its last tick, and its offset defines them.
While no messages arrive, time advances in batches at least IDLE_US apart.

Steps never go back. If the wall clock is set back, or was ahead when the session last ran, the session's
clock continues at its pace, ahead of the wall clock, until the wall clock is set forward again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from stqsh.engine.config import EngineTuning
from stqsh.engine.planning.ahead import BatchesAhead
from stqsh.engine.planning.batch_size import BatchLimit
from stqsh.engine.planning.event_clock import SessionClock, finish_run, start_live_clock
from stqsh.engine.planning.planner_state import PlannerState
from stqsh.engine.planning.stream_inputs import SessionView
from stqsh.engine.planning.tasks import LiveAccess, LiveSlice
from stqsh.sources.live.kafka_client import settings_for_hosts
from stqsh.sources.live.protocol import (
    LiveSource,
    Position,
    SourceState,
    gone,
    ranges,
    split,
    truncated,
    with_new_parts,
)
from stqsh.sources.live.record_spool import PART
from stqsh.sources.live.registry import open_source, trim
from stqsh.spec.clock import BatchClock
from stqsh.spec.offset import LivePosition, Offset
from stqsh.spec.stats import LiveState
from stqsh.storage.control_log import get_meta, keeps_heads_in_spark
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.session_settings import session_settings

IDLE_US = 1_000_000
#: The assumed size of a message before one has been read.
_UNKNOWN_BYTES = 4096.0


class LiveInputs:
    """The sources of a session's live streams, opened when streams are created.

    Args:
        home: the session's directory.
        view: the session's log, streams and tables.
        steady: returns µs of a monotonic clock.

    Attributes:
        ahead: the messages read ahead.
        truncation: finds parts of sources that end before the streams' positions.
    """

    def __init__(self, home: Path, view: SessionView, steady: Callable[[], int] | None = None) -> None:
        self._home, self._view = SessionHome(home), view
        self._clock = SessionClock(steady)
        self._open: dict[int, LiveSource] = {}
        self.ahead, self.truncation = BatchesAhead(), TruncationWatch()

    @property
    def access(self) -> LiveAccess:
        """The workers' access to the sources."""
        control, profile = self._view.control, self._profile
        skips = session_settings(control).text("sources.gone") == "skip"
        return LiveAccess(
            profile, skips, settings_for_hosts(profile) if keeps_heads_in_spark(control) else None
        )

    @property
    def _profile(self) -> str:
        return get_meta(self._view.control, "profile") or ""

    def _sources(self) -> dict[int, LiveSource]:
        """Return the sources of the existing streams, by id, in order."""
        streams = {stream: spec for stream, spec in self._view.streams().items() if spec.is_live}
        for stream in self._open.keys() - streams.keys():
            self._open.pop(stream).close()
            self.truncation.forget(stream)
        for stream, spec in streams.items():
            if stream not in self._open:
                self._open[stream] = open_source(spec, self._home.stream(stream), self._profile)
        self.ahead.keep(streams, self._profile)
        return {stream: self._open[stream] for stream in sorted(streams)}

    def settle(self, offset: Offset) -> Offset | None:
        """Return the offset with the start positions of new streams and partitions; None if nothing is new.

        With `sources.gone` = skip, positions also skip deleted messages.
        """
        live = dict(offset.live)
        sources = self._sources()
        for stream, source in sources.items():
            known = live.get(stream)
            begin = source.begin() if known is None else None
            if known is None and begin:
                live[stream] = LivePosition(begin)
            elif known is not None:
                state = source.state()
                found = with_new_parts(known.next, state)
                if gone(found, state) and self.access.skips:
                    found = {part: max(at, state.first.get(part, at)) for part, at in found.items()}
                live[stream] = known if found == known.next else replace(known, next=found)
        live = {stream: position for stream, position in live.items() if stream in sources}
        return None if live == offset.live else replace(offset, live=live)

    def next(self, offset: Offset, now_us: int, room: BatchLimit) -> Offset | None:
        """Return the offset after the next batch; None while there is no work."""
        taking = self._taking(offset)
        if offset.run is None and not taking:
            return None
        begins = offset.base_tick is None
        offset = start_live_clock(self._view, offset, now_us)
        ahead_us = self._clock.ahead_us(offset, now_us)
        now_us += ahead_us
        assert offset.tick_us is not None, "the clock runs"
        if offset.run and offset.step >= offset.run.until:
            return finish_run(offset, offset.run)
        states = {stream: self._open[stream].state() for stream in taking}
        live = self._advanced(offset, states, room)
        ended = bool(states) and not self._is_opening(offset)
        ended = ended and all(_is_at_end(live.get(each), state) for each, state in states.items())
        due = offset.step_of(now_us // offset.tick_us)
        step = due if offset.run is None else min(due, offset.run.until)
        if step <= offset.step:
            return None
        has_news = begins or live != offset.live or self._view.log.has_commands()
        rests = step != (offset.run and offset.run.until) and not (ended and not offset.ended)
        if not has_news and rests and (step - offset.step) * offset.tick_us < IDLE_US:
            return None
        taken = replace(
            offset,
            step=step,
            live=live,
            behind=due - step,
            due_us=offset.tick_of(step) * offset.tick_us - ahead_us,
            room=room.records,
            ended=ended,
        )
        is_done = offset.run is not None and (ended or step >= offset.run.until)
        return finish_run(taken, offset.run) if is_done and offset.run else taken

    def _taking(self, offset: Offset) -> list[int]:
        """Return the streams that advance: all of them in a RUN, else those that play."""
        if offset.run:
            return list(self._open)
        return [stream for stream in self._open if offset.play and stream in offset.play.streams]

    def _is_opening(self, offset: Offset) -> bool:
        """Return whether a stream that plays is not open yet."""
        playing = offset.play.streams if offset.play else ()
        return any(stream in self._view.streams() and stream not in self._open for stream in playing)

    def _advanced(
        self, offset: Offset, states: dict[int, SourceState], room: BatchLimit
    ) -> dict[int, LivePosition]:
        """Return the positions after a batch. A stream whose next messages are missing does not advance."""
        size = read_progress(self._view.control).stats.message_bytes or _UNKNOWN_BYTES
        each = max(1, min(room.records, int(room.bytes / size)) // max(1, len(states)))
        live = dict(offset.live)
        for stream, state in states.items():
            known = live.get(stream)
            if known is None:
                continue
            if not (gone(known.next, state) or self.truncation.find(stream, known.next, state)):
                spec = self._view.streams()[stream]
                after = self.ahead.after(spec, known, state, each)
                taken = sum(after[part] - known.next[part] for part in after)
                live[stream] = LivePosition(after, known.taken + taken) if taken else known
        return live

    def committed(self, end: Offset) -> None:
        """Release the data kept for the batches up to an offset, which are committed."""
        for stream, position in end.live.items():
            trim(self._home.stream(stream), position.next)
        self.ahead.trim(end.live)

    def slices(
        self, first: Offset, last: Offset, planner_state: PlannerState, tuning: EngineTuning
    ) -> list[list[LiveSlice]]:
        """Return the messages between two offsets as groups of slices, one for each task."""
        groups: list[list[LiveSlice]] = [[] for _ in range(last.slices)]
        for stream, position in sorted(last.live.items()):
            before = first.live.get(stream)
            wanted = ranges({} if before is None else before.next, position.next)
            count = position.taken - (0 if before is None else before.taken)
            if not count:
                continue
            ahead = self.ahead.folder_of(stream, first, last)
            pieces = 1 if last.by_slot or ahead else max(1, min(last.slices, count // tuning.slice_messages))
            focal = planner_state.focal_keys(stream)
            parts = [tuple(some) for some in split(wanted, pieces)]
            for index, some in enumerate(parts):
                groups[index].append(LiveSlice(stream, some, index, focal, ahead, len(parts) == 1))
        return [group for group in groups if group]

    def describe(self, clock: BatchClock, last: Offset) -> BatchClock:
        """Return the clock with the state of live streams: lag, and messages for the user."""
        live = {}
        for stream, position in last.live.items():
            if stream in self._open:
                state = self._open[stream].state()
                live[stream] = _described(state, position, self.truncation.find(stream, position.next, state))
        unknown = {stream: LiveState({}, s.state().message) for stream, s in self._open.items()}
        backlog = sum(sum(state.lag.values()) for state in live.values())
        return msgspec.structs.replace(clock, live={**unknown, **live}, backlog=backlog)


class TruncationWatch:
    """Finds the parts of sources that end before the streams' positions.

    Attributes:
        patience_s: how long this must last before it counts. It is normal for a moment, because messages read
            ahead may be newer than the queried ends.
    """

    def __init__(self) -> None:
        self.patience_s = 2.0
        self._since: dict[int, tuple[Position, float]] = {}

    def find(self, stream: int, at: Position, state: SourceState) -> list[str]:
        """Return such parts of a stream at a position; none while its source does not respond."""
        found = [] if state.message else truncated(at, state)
        if not found:
            self.forget(stream)
            return []
        known, since = self._since.get(stream, ({}, 0.0))
        if known != at:
            since = time.monotonic()
            self._since[stream] = at, since
        return found if time.monotonic() - since >= self.patience_s else []

    def forget(self, stream: int) -> None:
        """Forget a stream that was dropped or advances again."""
        self._since.pop(stream, None)


def _is_at_end(position: LivePosition | None, state: SourceState) -> bool:
    return (
        state.ended and position is not None and all(position.next[p] >= at for p, at in state.ends.items())
    )


def why_waiting(state: SourceState, position: Position, cut: list[str]) -> str:
    """Return why a stream waits at a position although its source answers; "" if it does not.

    `cut` are the parts that end before the position.
    """
    if lost := gone(position, state):
        part, start, stop = lost[0]
        return (
            f"the stream waits: {start} to {stop - 1} of {part} are gone (retention);"
            " SET sources.gone = skip; continues without them, or DROP the stream and create it again"
        )
    if cut:
        return (
            f"the stream waits: {cut[0]} was truncated, or created again: it ends at {state.ends[cut[0]]},"
            f" and the stream is at {position[cut[0]]}; DROP the stream and create it again"
        )
    return ""


def _described(state: SourceState, position: LivePosition, cut: list[str]) -> LiveState:
    lag = {part: max(0, state.ends.get(part, next_) - next_) for part, next_ in position.next.items()}
    message = why_waiting(state, position.next, cut) or state.message
    return LiveState(lag, message, position.next.get(PART, 0))
