"""What the next batch holds: a function of the control log, the replay stores, the offset and the clock.

The planner is what stands behind the data source `stqsh` (architecture sections 1 and 4) and knows nothing
of Spark. `latest` decides how far the next batch goes; `plan` says, for a pair of offsets, what its tasks
are to read. The second depends on nothing but the offsets, the log and the stores, so a batch that is
repeated after a crash is the same batch.

Steps are ticks of one event-time clock that all replayed streams share (language.md section 1). Commands
wait in the log until a step is taken, and take effect before its records. A moving query needs its focal
object on every slot: the first time that a key becomes focal, a batch without steps looks its last record
up, Deliver appends what was found to the control log, and the record goes to all slots with the query.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stqsh.engine.admission import STEADY, Room, Sample, at_first, records_after
from stqsh.engine.backlog import Backlog, question
from stqsh.engine.feeds import Feed, Feeds, Tables, cut, first_tick
from stqsh.engine.offset import Offset, Play, Run
from stqsh.engine.standing import clock_content, last_step
from stqsh.engine.tasks import Head, Task, cut_into_tasks, is_small
from stqsh.session.control import ControlDb
from stqsh.session.delivery import read_progress, stream_statuses
from stqsh.session.records import LogRow, Spec
from stqsh.session.room import is_full

#: What a batch takes at the most unless the profile says otherwise; a single tick is never cut.
MAX_RECORDS = 2_000_000
MAX_BYTES = 256 << 20
#: More steps than any replay has: as far as the data go.
FAR = 1 << 40


class Planner:
    """Decide batches for one session home; `slots`, their number, is fixed for the session's life.

    max_records, max_bytes: what a batch takes at the most (bytes as the replay stores have them).
    """

    def __init__(
        self, home: Path, slots: int, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES
    ) -> None:
        self.home, self.slots = home, slots
        self._most = Room(max_records, max_bytes)
        self._control = ControlDb(home)
        self._log = Backlog(self._control)
        self._feeds, self._tables = Feeds(home), Tables(home)
        self._pace_origin: tuple[int, int, int] | None = None  # seq of the PLAY, wall clock µs, step

    def initial(self) -> dict[str, Any]:
        """Give the offset before anything has happened."""
        return Offset().to_json()

    def latest(self, start: dict[str, Any], now_us: int) -> dict[str, Any]:
        """Decide how far the batch after `start` goes; `start` itself when there is nothing to do.

        `now_us` is the wall clock in µs, which only paces streams that play.
        """
        offset = Offset.from_json(start)
        self._read(offset)
        obeyed = self._obey_clock(offset)
        end = self._next(obeyed, now_us) or obeyed
        if end == offset:
            return start
        return replace(end, by_slot=is_small(offset, end, self.slots)).to_json()

    def plan(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        """Cut the batch between two offsets into tasks that workers read independently."""
        first, last = Offset.from_json(start), Offset.from_json(end)
        self._read(first)
        lookups = self._log.lookups(last.asked) if last.asked > first.asked else {}
        clock = clock_content(first, last, self._feeds.of(self._log.streams(), last))
        clock["asks"] = [question(row) for row in self._log.asks(first.answered, last.answered)]
        defined = max(first.defined, first.seq), max(last.defined, last.seq)
        ledger = self._log.ledger_at(last.seq)
        head = Head(clock, (first.seq, last.seq), defined, lookups, ledger.memory)
        return cut_into_tasks(self.home, self.slots, head, (first, last), ledger)

    def _read(self, offset: Offset) -> None:
        """Read the log around an offset, as far as it can be taken in now."""
        self._log.read(offset)
        self._log.hold(self._is_settled)

    def _is_settled(self, table: int) -> bool:
        """Say whether a table is ready, or cannot be read at all, so that nothing waits for it."""
        return self._tables.ready(table) or table in self._failed()

    def _failed(self) -> set[int]:
        """Give the ids of the streams and tables that cannot be read."""
        return {id_ for id_, status in stream_statuses(self._control).items() if status.state == "failed"}

    # The clock: RUN, PLAY and PAUSE.

    def _obey_clock(self, offset: Offset) -> Offset:
        """Take clock rows from the log, in order, as far as they can take effect now."""
        rows = self._log.clock_rows(offset)
        stopped = {row.spec["run"] for row in rows if row.kind == "stop_run"}
        if offset.run and offset.run.seq in stopped:
            offset = finished(offset, offset.run)
        for row in rows:
            obeyed = self._obey(offset, row, stopped)
            if obeyed is None:
                break
            offset = replace(obeyed, clock_seq=row.seq)
        return offset

    def _obey(self, offset: Offset, row: LogRow, stopped: set[int]) -> Offset | None:
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
        return self._start_run(offset, row)

    def _start_run(self, offset: Offset, row: LogRow) -> Offset | None:
        """Turn a RUN into the last step that it asks for, once every stream and table is there to be read."""
        streams = self._log.streams()
        if self._log.held or self._feeds.waiting(streams, self._failed()):
            return None
        feeds = self._feeds.of(streams, offset)
        offset = started(offset, feeds, streams)
        return replace(offset, run=Run(row.seq, self._run_until(offset, feeds, row.spec)))

    def _run_until(self, offset: Offset, feeds: list[Feed], run: Spec) -> int:
        """Give the last step of a RUN: what it asks for, or the end of the data where all are finite."""
        if offset.base_tick is None:
            return offset.step
        end = last_step(offset, feeds)
        if end is not None and offset.step >= end:
            return offset.step + int(self._owes_a_step(feeds))
        asked = steps_asked(offset, run)
        return max(offset.step, asked if end is None else min(asked, end))

    def _owes_a_step(self, feeds: list[Feed]) -> bool:
        """Say whether, at the end of the data, commands or records from before the clock wait for a step."""
        return self._log.has_commands() or any(feed.left for feed in feeds)

    # The next batch.

    def _next(self, offset: Offset, now_us: int) -> Offset | None:
        """Decide the batch after `offset`, whose clock rows are obeyed; None: there is nothing to do."""
        needed = self._log.lookup_needed(offset.rows)
        if needed > offset.asked:
            return replace(offset, asked=needed)
        if needed and not self._log.has_found(needed):
            return None
        if ask := self._log.last_ask(offset):
            return replace(offset, answered=ask, defined=max(offset.defined, self._log.undefined(offset)))
        if self._log.awaits_place(offset):
            return None
        if offset.run:
            taken = self._next_of_run(offset, offset.run)
        else:
            taken = self._next_of_play(offset, offset.play, now_us) if offset.play else None
        if taken is None and (undefined := self._log.undefined(offset)):
            return replace(offset, defined=undefined)
        return taken

    def _next_of_run(self, offset: Offset, run: Run) -> Offset | None:
        if run.until <= offset.step:
            return finished(offset, run)
        taken = self._take(offset, self._feeds.of(self._log.streams(), offset), run.until)
        return finished(taken, run) if taken and taken.step >= run.until else taken

    def _next_of_play(self, offset: Offset, play: Play, now_us: int) -> Offset | None:
        streams = self._log.streams()
        feeds = [feed for feed in self._feeds.of(streams, offset) if feed.stream_id in play.streams]
        offset = started(offset, feeds, streams)
        if offset.base_tick is None:
            return None
        end = last_step(offset, feeds)
        if end is not None and offset.step >= end:
            target = offset.step + int(self._owes_a_step(feeds))
        else:
            target = min(self._paced(offset, play, feeds, now_us), offset.step + FAR if end is None else end)
        taken = self._take(offset, feeds, target) if target > offset.step else None
        if taken is None:
            return None
        # As fast as may be, without an end: what is due has no bound.
        behind = taken.behind if end is not None or play.pace is not None else 0
        return replace(taken, behind=behind, due_us=self._due_us(taken, play))

    def _paced(self, offset: Offset, play: Play, feeds: list[Feed], now_us: int) -> int:
        """Give the step that streams at this pace have reached, counted from when this process saw them.

        Where no stream is under way, time leaps to the first record of those that begin.
        """
        if play.pace is None or offset.tick_us is None:
            return offset.step + FAR
        begins = next_beginning(offset, feeds)
        if self._pace_origin is None or self._pace_origin[0] != play.seq or begins > offset.step + 1:
            self._pace_origin = (play.seq, now_us, max(offset.step, begins - 1))
        _, origin_us, origin_step = self._pace_origin
        return origin_step + 1 + int((now_us - origin_us) * play.pace // offset.tick_us)

    def _due_us(self, taken: Offset, play: Play) -> int | None:
        """Give when the last step of a batch was due by the wall clock; None without a pace."""
        if play.pace is None or self._pace_origin is None or taken.tick_us is None:
            return None
        _, origin_us, origin_step = self._pace_origin
        return origin_us + int((taken.step - origin_step - 1) * taken.tick_us / play.pace)

    def _take(self, offset: Offset, feeds: list[Feed], until: int) -> Offset | None:
        """Take the steps after `offset` to `until`, or as many as make a batch.

        None: there is none yet, or no room on the disk.
        """
        if is_full(self.home):
            return None
        room = self._room()
        last = cut(feeds, offset.tick_of(offset.step + 1), offset.tick_of(until), self._room_now(room))
        step = offset.step_of(last)
        if step <= offset.step:
            return None
        rows = {feed.stream_id: feed.store.rows_until(last) for feed in feeds}
        seq = self._log.pending[-1].seq if self._log.pending else offset.seq
        return replace(
            offset,
            step=step,
            seq=seq,
            rows={**offset.rows, **rows},
            behind=until - step,
            due_us=None,
            room=room.records,
        )

    def _room(self) -> Room:
        """Give the room of a batch of a backlog."""
        if self._is_steady():
            return replace(self._most, records=min(self._most.records, STEADY))
        records = records_after(Sample.of(read_progress(self._control).stats))
        return replace(self._most, records=min(self._most.records, records))

    def _room_now(self, room: Room) -> Room:
        """Give the room of the next batch, which is smaller where it brings commands."""
        return at_first(room) if self._log.has_commands() and not self._is_steady() else room

    def _is_steady(self) -> bool:
        """Say whether results depend on where batches are cut."""
        return any(spec.get("retain") == "significant" for spec in self._log.streams().values())


def started(offset: Offset, feeds: list[Feed], streams: dict[int, Spec]) -> Offset:
    """Start the clock at the earliest record, if it has not been started and there is a record."""
    base = first_tick(feeds)
    if offset.base_tick is not None or base is None:
        return offset
    return replace(offset, base_tick=base, tick_us=next(spec["tick_us"] for spec in streams.values()))


def finished(offset: Offset, run: Run) -> Offset:
    """End a RUN."""
    return replace(offset, run=None, run_done=run.seq)


def playing(offset: Offset, row: LogRow) -> Offset:
    """Let a stream run on by itself, at the pace of the latest PLAY."""
    streams = {*(offset.play.streams if offset.play else ()), row.spec["id"]}
    pace = None if row.spec["pace"] == "max" else float(row.spec["pace"] or 1)
    return replace(offset, play=Play(row.seq, tuple(sorted(streams)), pace))


def paused(offset: Offset, row: LogRow) -> Offset:
    """Let a stream stand still."""
    if offset.play is None:
        return offset
    streams = tuple(stream for stream in offset.play.streams if stream != row.spec["id"])
    return replace(offset, play=replace(offset.play, streams=streams))


def next_beginning(offset: Offset, feeds: list[Feed]) -> int:
    """Give the step of the first record that any stream will ever bring; 0 while one is under way."""
    if any(feed.row and (feed.left or not feed.store.complete) for feed in feeds):
        return 0
    tick = first_tick(feed for feed in feeds if not feed.row)
    return 0 if tick is None else offset.step_of(tick)


def steps_asked(offset: Offset, run: Spec) -> int:
    """Give the last step that a RUN asks for, whether or not the data reach so far."""
    if run["mode"] == "end" or offset.tick_us is None:
        return offset.step + FAR
    if run["mode"] == "steps":
        return offset.step + int(run["n"])
    if run["mode"] == "for":
        return offset.step - (-int(run["us"]) // offset.tick_us)
    return offset.step_of(-(-int(run["t_us"]) // offset.tick_us)) - 1
