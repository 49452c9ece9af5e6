"""Decide the next batch's content: a function of the control log, replay stores, offset and clock.

The planner is behind the data source `stqsh` (architecture sections 1 and 4) and does not depend on Spark.
`latest` decides how far the next batch goes; `plan` returns the tasks of the batch between two offsets.
`plan` depends only on the offsets, the log and the stores, so a batch that is repeated after a crash is
identical.

Steps are ticks of one event-time clock that all replayed streams share (language.md). Commands
wait in the log until a step is taken, and take effect before its records. A moving query needs its focal
object on every slot: the first time that a key becomes focal, a batch without steps looks up its last record,
Deliver appends the result to the control log, and the record goes to all slots with the query.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.planning.batch_size import STEADY, BatchLimit, BatchSizes, limit_first
from stqsh.engine.planning.event_clock import (
    FAR,
    PlaybackPace,
    apply_clock_rows,
    batch_clock,
    closed_play,
    finish_run,
    last_step,
    start_clock,
    within_data,
)
from stqsh.engine.planning.head_log import DEFINING, TAKEN, pack_head_log, read_rows, stream_of, with_steps
from stqsh.engine.planning.live_inputs import LiveInputs
from stqsh.engine.planning.pending_log import awaits_place, last_snapshot, question, snapshots
from stqsh.engine.planning.planner_state import PlannerState, last_step_of
from stqsh.engine.planning.routes import FirstRouting, moved_queries, routes_in_use, routes_left, rows_dealt
from stqsh.engine.planning.shared_files import SharedFiles
from stqsh.engine.planning.stream_inputs import SessionView, StreamInput, last_tick_that_fits
from stqsh.engine.planning.tasks import (
    BatchHead,
    BatchSpan,
    SourceTask,
    cut_into_tasks,
    is_read_by_slot,
    with_live,
)
from stqsh.profile import Profile
from stqsh.sources.live.decoding import without_collections
from stqsh.spec.clock import BatchClock, TermsPart
from stqsh.spec.indexes import IndexChoice
from stqsh.spec.offset import Offset, PlayState, RunState
from stqsh.storage.attachments import AttachmentWriter
from stqsh.storage.blobs import Blobs, home_blobs
from stqsh.storage.catalogue import area_boxes
from stqsh.storage.control_mirror import mirror_of
from stqsh.storage.disk_space import is_full
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.queries.living_queries import LivingQueries, MovedQueries, living_queries
from stqsh.storage.session_settings import index_choice, session_settings
from stqsh.storage.shedding_orders import look_after, memory_settings
from stqsh.storage.stream_routes import PublishedRoutes

if TYPE_CHECKING:
    from stqsh.engine.ingest.textual_summary import SummaryWriter

#: Default maximum of records in a batch; a single tick is never cut.
MAX_RECORDS = 2_000_000
MAX_BYTES = 256 << 20


class Planner:
    """Decides batches for one session home.

    Args:
        home: the session's directory.
        slots: the number of slots, fixed for the session's life.
        max_records: the maximum number of records in a batch.
        max_bytes: the maximum size of a batch, in bytes of the replay stores.
        tuning: the tunables of the engine.
        steady: returns µs of a monotonic clock, to detect changes of the wall clock.

    Attributes:
        live: the session's live streams.
        folds: whether the pipeline lets source tasks fold the data that they read. If Spark's operators fold
            instead, as on a cluster, tasks read for all slots, even if an offset has `by_slot`.
    """

    folds = True

    def __init__(
        self,
        home: Path,
        slots: int,
        max_records: int = MAX_RECORDS,
        max_bytes: int = MAX_BYTES,
        tuning: EngineTuning = TUNING,
        *,
        steady: Callable[[], int] | None = None,
    ) -> None:
        self.home, self.slots, self._tuning = home, slots, tuning
        self._most = BatchLimit(max_records, max_bytes)
        self._view, self._pace = SessionView.of(home), PlaybackPace(steady)
        self.live = LiveInputs(home, self._view, steady)
        self._first_routing = FirstRouting(self._view)
        self.share(home_blobs(home))
        self._summaries: dict[int, SummaryWriter] = {}
        self._area_boxes = lru_cache(maxsize=256)(partial(area_boxes, self._view.control))
        self.sizes = BatchSizes()
        self._profile: Profile | None = None

    def share(self, blobs: Blobs) -> None:
        """Share files with workers in these blobs from now on instead of in the home."""
        self.blobs = blobs
        self._shared = SharedFiles(SessionHome(self.home), blobs)
        self._attachments = AttachmentWriter(blobs)
        self._routes = PublishedRoutes(self._view.control, blobs)
        self._mirror = mirror_of(SessionHome(self.home), self._view.control, blobs)

    def close(self) -> None:
        """Close the session's control log."""
        self._view.control.close()

    def latest(self, start: Offset, now_us: int) -> Offset:
        """Decide how far the batch after `start` goes; return `start` itself if there is no work.

        `now_us` is the wall clock in µs, which paces streams that play and drives live ones.
        """
        self._view.read(start)
        ready = apply_clock_rows(self._view, start, now_us)
        if self._first_routing.choose(ready, self._tuning.chosen_records):
            self._view.read(start)
        end = self._next(ready, now_us) or ready
        if end == start:
            return start
        if end.names > start.names:
            # After a power failure, no number in an offset may be assigned to another statement.
            self._view.control.force()
            if self._mirror is not None:
                self._mirror.publish()
        end = replace(end, by_slot=self._is_by_slot(start, end), slices=self._tuning.slices)
        if end.live != start.live and not self.blobs.at_home:
            planner_state = self._view.log.ledger_at(end.seq)
            live = self.live.slices(start, end, planner_state, self._tuning)
            self._shared.publish_spools(planner_state.streams, chain.from_iterable(live))
        return end

    def plan(self, first: Offset, last: Offset) -> list[SourceTask]:
        """Cut the batch between two offsets into tasks that workers read independently."""
        log = self._view.log
        self._view.read(first)
        last = replace(last, by_slot=last.by_slot and self.folds)
        lookups = log.lookups().keys(last.asked) if last.asked > first.asked else {}
        asks = tuple(question(*row) for row in snapshots(log.pending, first.answered, last.answered))
        clock = batch_clock(first, last, self._view.inputs(last), asks)
        clock = structs.replace(clock, indexes=self._indexes())
        if self._view.is_live():
            clock = self.live.describe(clock, last)
        defined = max(first.defined, first.seq), max(last.defined, last.seq)
        planner_state = log.ledger_at(last.seq)
        routes = routes_in_use(self._view.control, planner_state, first, last)
        routed = tuple(stream for stream, rows in routes.items() if rows[-1] > first.seq)
        copies = {stream: first.rows.get(stream, 0) for stream in last.copied if stream not in first.copied}
        uncopied = tuple(stream for stream in first.copied if stream not in last.copied)
        sending = tuple(stream for stream in last.dealers if stream not in first.dealers)
        head = BatchHead(
            clock,
            (first.seq, last.seq),
            defined,
            lookups,
            planner_state.memory,
            routed,
            copies,
            uncopied,
            sending,
        )
        left = routes_left(self._view.control, planner_state, routes, first, last)
        if not self.folds:
            begin = [stream for stream in last.dealing if stream not in first.dealing]
            undealt = tuple(stream for stream in first.dealing if stream not in last.dealing)
            head = replace(head, seeded={stream: last.dealers[stream] for stream in begin}, undealt=undealt)
        head = replace(head, left=left, unread=self._view.unread(defined))
        crossed = {each.stream_id: each.store for each in self._view.inputs(last)} if last.dealt else {}
        span = BatchSpan(first, last, {stream: crossed[stream] for stream in last.dealt})
        tasks = cut_into_tasks(self.blobs, self.slots, head, span, planner_state, self._tuning)
        self._routes.publish(last.names)
        terms = self._terms(planner_state, first, last)
        dealing, copied = last.dealing, last.copied
        tasks = [replace(task, routes=routes, dealing=dealing, copied=copied, terms=terms) for task in tasks]
        self._shared.keep_previous({*copies, *last.dealt}, planner_state.streams)
        head = self._with_log(head, tasks[0])
        tasks = [task if task.head is None else replace(task, head=head) for task in tasks]
        live = self.live.slices(first, last, planner_state, self._tuning)
        tasks = with_live(tasks, live, self.live.access) if live else tasks
        tables = self._view.tables(defined)
        return self._shared.publish(tasks, [table for table in tables if table not in head.unread])

    def _indexes(self) -> IndexChoice:
        """Return the indexes that the session chooses now; its profile is read once."""
        if self._profile is None:
            self._profile = session_settings(self._view.control)
        return index_choice(session_settings(self._view.control, self._profile))

    def committed(self, end: Offset) -> None:
        """Release the data kept for the batches up to an offset, which are committed."""
        self.live.committed(end)
        self._shared.trim(end.live)
        self._attachments.keep([one for writer in self._summaries.values() for one in writer.attachments])

    def _terms(
        self, planner_state: PlannerState, first: Offset, last: Offset
    ) -> dict[int, tuple[TermsPart, ...]]:
        """Return the terms that queries in force need, by stream whose records are sifted."""
        sifted = {stream: spec for stream, spec in planner_state.streams.items() if spec.is_sifted}
        for stream in self._summaries.keys() - sifted.keys():
            del self._summaries[stream]
        for stream in sifted.keys() - self._summaries.keys():
            from stqsh.engine.ingest.textual_summary import SummaryWriter  # numba: only when needed

            self._summaries[stream] = SummaryWriter(self._view.control, sifted[stream], self._attachments)
        return {
            stream: writer.follow(last.seq, last.tick_us, first.step + 1)
            for stream, writer in self._summaries.items()
        }

    def _with_log(self, head: BatchHead, task: SourceTask) -> BatchHead:
        """Return a batch's head with its part of the log, which is usually empty.

        Args:
            head: the head.
            task: the task with the head and the routings.
        """
        control, first, last = self._view.control, *head.commands
        defined = read_rows(control, head.defined, DEFINING)
        taken = with_steps(control, read_rows(control, head.commands, TAKEN), head.clock.first_step)
        before, after, begun = {}, {}, time.perf_counter_ns()
        learning = [stream for stream in head.routed if not _are_everywhere(task, stream, first)]
        copied = {*task.copied, *head.uncopied}
        changed = {stream_of(row) for row in taken} if copied else set()
        for stream in {*head.copies, *(copied & changed)}:
            before[stream] = self._living(stream, first, head.clock)
        for stream in learning:
            if stream not in before:
                routes = [route for route in task.routes[stream] if route > first]
                moved = moved_queries(control, stream, routes)
                before[stream] = self._living(stream, first, head.clock, moved)
        for stream in head.left:
            after[stream] = self._living(stream, last, head.clock)
        read_us = (time.perf_counter_ns() - begun) // 1000 if before or after else 0
        content = pack_head_log(defined, taken, before, after, self._area_boxes)
        return replace(head, log=self._attachments.put(content), read_us=read_us) if content else head

    def _living(
        self, stream: int, up_to: int, clock: BatchClock, moved: MovedQueries | None = None
    ) -> LivingQueries:
        with without_collections():
            return living_queries(
                self._view.control, stream, up_to, clock.tick_us, clock.first_step, moved=moved
            )

    def _is_by_slot(self, first: Offset, last: Offset) -> bool:
        """Return whether to read a batch by one task per slot."""
        is_decoded, tuning = self.live.ahead.covers(first, last), self._tuning
        if not self.folds or not is_read_by_slot(first, last, self.slots, tuning, is_decoded=is_decoded):
            return False
        return self._view.log.is_light(first, last, with_routes=self.slots <= tuning.by_slot_routed)

    def _next(self, offset: Offset, now_us: int) -> Offset | None:
        """Decide the batch after `offset`, whose clock rows are applied; return None if there is no work."""
        log = self._view.log
        lookups = log.lookups()
        needed = lookups.needed(offset.taken)
        if needed > offset.asked:
            return replace(offset, asked=needed)
        if needed and not lookups.has_found(needed):
            return None
        if ask := last_snapshot(log.pending, offset):
            return replace(offset, answered=ask, defined=max(offset.defined, log.undefined(offset)))
        if awaits_place(log.pending, offset):
            return None
        if self._view.is_live():
            taken = self._next_live(offset, now_us)
        elif offset.run:
            taken = self._next_of_run(offset, offset.run)
        else:
            taken = self._next_of_play(offset, offset.play, now_us) if offset.play else None
        if taken is None and (undefined := log.undefined(offset)):
            return replace(offset, defined=undefined)
        return taken

    def _next_live(self, offset: Offset, now_us: int) -> Offset | None:
        if is_full(self.home):
            return None
        if (settled := self.live.settle(offset)) is not None:
            return settled
        log = self._view.log
        if undealt := log.undealt(offset):
            return replace(offset, dealers=offset.dealers | undealt)
        taken = self.live.next(offset, now_us, self._room_now(self._room()))
        if taken is None or taken.step == offset.step:
            return taken
        seq = log.pending[-1].seq if log.pending else offset.seq
        planner_state = log.ledger_at(seq)
        return replace(taken, seq=seq, dealers=_dealers(planner_state, offset), copied=planner_state.copied)

    def _next_of_run(self, offset: Offset, run: RunState) -> Offset | None:
        inputs = self._view.inputs(offset)
        run = within_data(self._view, offset, inputs, run)
        if run.until <= offset.step:
            return finish_run(offset, run)
        taken = self._take_steps(offset, inputs, run.until)
        if taken is None or taken.step < run.until:
            return taken
        return finish_run(replace(taken, closing=run.until) if run.closes else taken, run)

    def _next_of_play(self, offset: Offset, play: PlayState, now_us: int) -> Offset | None:
        inputs = [each for each in self._view.inputs(offset) if each.stream_id in play.streams]
        offset = start_clock(offset, inputs, self._view.streams())
        if offset.base_tick is None:
            return None
        end = last_step(offset, inputs)
        gap = None
        if end is not None and offset.step >= end:
            target = offset.step + int(self._view.owes_a_step(inputs))
        else:
            due, gap = self._pace.step(offset, play, inputs, now_us)
            far = offset.step + FAR
            target = min(far if due is None else due, far if end is None else end)
        taken = self._take_steps(offset, inputs, target) if target > offset.step else None
        if taken is None or taken.step == offset.step:
            return taken
        # At full speed and without an end, any number of records is due.
        behind = taken.behind if end is not None or play.pace is not None else 0
        taken = closed_play(self._view, offset, play, taken)
        return replace(taken, behind=behind, due_us=self._pace.due_us(taken, play), gap=gap or offset.gap)

    def _take_steps(self, offset: Offset, inputs: list[StreamInput], until: int) -> Offset | None:
        """Take the steps after `offset` up to `until`, or as many as fit a batch.

        A batch without steps precedes them if slots have to send a new dealer its initial records.

        Returns:
            None if no step is available yet, or the disk has no room.
        """
        if is_full(self.home):
            return None
        if undealt := self._view.log.undealt(offset):
            return replace(offset, dealers=offset.dealers | undealt)
        log, room = self._view.log, self._room()
        planner_state = log.ledger_at(log.pending[-1].seq) if log.pending else log.planner_state
        if any(stream.is_significant for stream in planner_state.streams.values()):
            until = min(until, self._next_look(offset.step, until))
        last = last_tick_that_fits(
            inputs, offset.tick_of(offset.step + 1), offset.tick_of(until), self._room_now(room)
        )
        step = offset.step_of(last)
        if step <= offset.step:
            return None
        rows = {each.stream_id: each.store.rows_until(last) for each in inputs}
        return replace(
            offset,
            step=step,
            seq=log.pending[-1].seq if log.pending else offset.seq,
            rows={**offset.rows, **rows},
            behind=until - step,
            due_us=None,
            room=room.records,
            ends=self._ends(offset),
            dealt=rows_dealt(planner_state, offset),
            dealers=_dealers(planner_state, offset),
            copied=planner_state.copied,
        )

    def _next_look(self, step: int, until: int) -> int:
        """Return the next step after which the load may cause a shedding order, else `until`.

        A batch ends there, so that orders depend on the steps and not on their division into batches.
        """
        sheds = memory_settings(session_settings(self._view.control)).sheds
        return look_after(step, self._tuning.shedding_steps) if sheds else until

    def _ends(self, offset: Offset) -> dict[int, int]:
        """Return the steps in which queries with SYNC end by FOR, including queries new in the next step."""
        log = self._view.log
        new = (
            {
                query.row: last_step_of(offset, query.for_us)
                for query in log.ledger_at(log.pending[-1].seq).refreshed.values()
                if query.for_us is not None and query.row > offset.seq
            }
            if log.pending
            else {}
        )
        return {row: end for row, end in (offset.ends | new).items() if end > offset.step}

    def _room(self) -> BatchLimit:
        """Return the room of a batch of a backlog."""
        if self._view.is_steady():
            return replace(self._most, records=min(self._most.records, STEADY))
        self.sizes.follow(read_progress(self._view.control))
        return replace(self._most, records=min(self._most.records, self.sizes.room))

    def _room_now(self, room: BatchLimit) -> BatchLimit:
        """Return the room of the next batch, which is smaller if it has commands."""
        return limit_first(room) if self._view.log.has_commands() and not self._view.is_steady() else room


def _are_everywhere(task: SourceTask, stream: int, up_to: int) -> bool:
    """Return whether all slots know all queries under the routings up to a row of the log."""
    from stqsh.engine.ingest.stream_routing import StreamRouting  # only when needed

    return StreamRouting(task).are_everywhere(stream, up_to)


def _dealers(planner_state: PlannerState, offset: Offset) -> dict[int, int]:
    """Return the dealers of an offset whose streams still exist."""
    return {stream: since for stream, since in offset.dealers.items() if stream in planner_state.streams}
