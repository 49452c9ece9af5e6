"""Range queries: rectangles that stand still, or move with a focal object (SOLE sections 3 to 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.kernels.index.static_rects import QueryLifetimes
from stqsh.core.matching.dwell import DwellTable
from stqsh.core.matching.event_matching import follow
from stqsh.core.matching.moving_index import ObjectCellStore
from stqsh.core.matching.paused_answers import PausedAnswers
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import AnswerMembers, QueryContext, context_of
from stqsh.core.matching.region_scaling import scale, will_scale
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.matching.update_emitter import UpdateEmitter
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates, arrivals
from stqsh.core.queries.query_polygons import leave_areas, place_in_areas
from stqsh.core.queries.query_table import ACTIVE, PAUSED, QueryTable, columns_of, set_focals
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.slot_state import SlotState

Array = npt.NDArray[Any]
Had = tuple[Array, Array]
"""What queries had before a step: their positions and objects, (n,) each."""


class RangeKind:
    """The kind "range": an answer is the present objects inside a rectangle that satisfy a condition."""

    def step(self, batch: StreamBatch, report: BatchOutput) -> None:
        """See `stqsh.core.contract.query_kind.QueryKind`."""
        if batch.timing.last >= batch.timing.first:
            RangeBatch(batch, report).run()

    def count(self, state: SlotState, stream: int) -> int:
        """How many range queries a stream has."""
        return len(QueryTable(state, f"s{stream}/range"))


RANGE = RangeKind()


class RangeBatch:
    """One batch of a stream's range queries: commands, then events, then queries whose time has passed."""

    def __init__(self, batch: StreamBatch, report: BatchOutput) -> None:
        self.batch, self.report, self.first = batch, report, batch.timing.first
        self.prefix = f"s{batch.spec['id']}/range"
        self.queries = QueryTable(batch.state, self.prefix)
        self.sent = PausedAnswers(batch.state, self.prefix)
        self.dwell = DwellTable(batch.state, self.prefix)
        self.changes: list[QueryUpdates] = []
        self.still = StaticRegionIndex(batch, self.prefix)
        self.conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects)
        memory = batch.commands.memory
        self._area = memory_of(batch.state, batch.spec["id"]).area if memory is None else memory["area"]

    def run(self) -> None:
        """Report the whole batch."""
        changed = self._retire() + self._pause()
        scaled, before = self._scale()
        resumed, frozen = self._resume()
        new = self._register()
        begun = np.concatenate([scaled, resumed, new])
        if changed or len(begun) or len(self.batch.commands.registered):
            self.still.fill(self._context())
        since = np.full(len(self.queries), self.first - 1)
        since[begun] = self.first
        if len(self.queries):
            context = self._context()
            told = follow(context, self.still, QueryLifetimes(since, self.queries["until"]))
            self._tell(context, QueryUpdates(*told))
            self._begin(context, begun, _both(before, frozen))
            if self.changes or len(self.dwell):
                UpdateEmitter(context, self.report).tell(self.dwell.ripe(context, self.changes))
            self._end(context, since)
        else:
            ObjectCellStore(self.batch, self.prefix).release()

    def _tell(self, context: QueryContext, told: QueryUpdates) -> None:
        """Report changes of answers, but those of queries that dwell: they have to last first."""
        if (self.queries["dwell"] > 0).any():
            dwells = self.queries["dwell"][told.query] > 0
            self.changes.append(told.where(dwells))
            told = told.where(~dwells)
        UpdateEmitter(context, self.report).tell(told)

    def _members(self, context: QueryContext, positions: Array, step: int) -> AnswerMembers:
        """What queries have told after a step and not taken back; what still waits is forgotten."""
        return self.dwell.told(context, context.members(positions, step), positions, step)

    def _context(self) -> QueryContext:
        return context_of(self.batch, self.queries, self.conditions, self.prefix)

    def _retire(self) -> int:
        """Dropped queries take their members back; how many there were."""
        commands, ids = self.batch.commands, self.queries["id"]
        at = self.queries.positions(ids if commands.stream_dropped else commands.dropped)
        if len(at):
            self._farewell(self._context(), at, self.first, DROPPED)
            self._remove(at)
        return len(at)

    def _pause(self) -> int:
        """Freeze what queries that are paused now have sent; how many there are."""
        at = self.queries.positions(self.batch.commands.paused)
        at = at[self.queries["mode"][at] == ACTIVE]
        if len(at):
            members = self._members(self._context(), at, self.first - 1)
            self.sent.add(self.queries["id"][members.query], members.obj)
            self.queries["mode"][at] = PAUSED
        return len(at)

    def _scale(self) -> tuple[Array, Had]:
        """Scale regions as the command "memory" says; which active queries' changed, and what they had."""
        nothing = np.empty(0, np.int64), np.empty(0, np.int32)
        if self.batch.commands.memory is None:
            return nothing[0], nothing
        queries, area = self.queries, self._area
        at = will_scale(queries, area, np.flatnonzero(queries["until"] > self.first))
        active = at[queries["mode"][at] == ACTIVE]
        members = self._context().members(active, self.first - 1)
        scale(queries, area, at)
        return active, (members.query.astype(np.int64), members.obj)

    def _resume(self) -> tuple[Array, Had]:
        """The positions of queries that go on, and what they had sent; one that ends at once stays paused."""
        at = self.queries.resume(self.batch.commands.resumed, self.first)
        ids, objects = self.sent.pop_queries(self.queries["id"][at])
        return at, (np.searchsorted(self.queries["id"], ids), objects)

    def _register(self) -> Array:
        """Add new queries; the positions of those that are not paused at once."""
        new = self.batch.commands.registered
        if not len(new):
            return np.empty(0, np.int64)
        columns = columns_of(new, self.batch.commands.still, self.batch.timing)
        set_focals(columns, new, self.batch.focal.table)
        place_in_areas(self.batch.state, columns, new)
        at = self.queries.append(columns)
        self.conditions.add(at, self.still.take(new))
        scale(self.queries, self._area, at)
        begun: Array = at[self.queries["mode"][at] == ACTIVE]
        return begun

    def _begin(self, context: QueryContext, positions: Array, frozen: Had) -> None:
        """First answers, and for queries that go on or are scaled the difference to what they had."""
        at = positions[self.queries["until"][positions] > self.first]
        if not len(at):
            return
        members = context.members(at, self.first)
        if not len(frozen[0]):  # comparing with nothing sorts millions of first members
            self._tell(context, arrivals(self.first, members.query, members.version))
            return
        count = len(self.batch.objects.table)
        have, want = frozen[0] * count + frozen[1], members.query.astype(np.int64) * count + members.obj
        new, gone = ~np.isin(want, have), ~np.isin(have, want)
        self._tell(context, arrivals(self.first, members.query[new], members.version[new]))
        query, obj = frozen[0][gone], frozen[1][gone].astype(np.int32)
        steps, objects = np.full(len(obj), self.first), self.batch.objects
        versions = objects.versions_after(obj, steps)
        why, show = objects.reasons(versions, obj, steps)
        self._tell(context, QueryUpdates(steps, query, np.full(len(obj), -1), why, show))

    def _end(self, context: QueryContext, since: Array) -> None:
        """Queries whose FOR has passed take their members back, each at its own step."""
        until = self.queries["until"]
        over = np.flatnonzero(until <= self.batch.timing.last)
        for step in np.unique(until[over]).tolist():
            at = over[until[over] == step]
            begun = at[(since[at] < step) | (self.queries["mode"][at] == PAUSED)]
            self._farewell(context, begun, step, ENDED)
            ids = self.queries["id"][at].tolist()
            self.report.notices += [{"event": "ended", "query": id_, "step": step} for id_ in ids]
        if len(over):
            self._remove(over)
            self.still.fill(self._context())

    def _remove(self, positions: Array) -> None:
        """Forget queries, and the polygons that were theirs alone."""
        leave_areas(self.batch.state, self.queries["area"][positions])
        self.queries.remove(positions)

    def _farewell(self, context: QueryContext, positions: Array, step: int, why: int) -> None:
        """A minus, with the record before the step, for whatever queries have told and not taken back."""
        teller = UpdateEmitter(context, self.report)
        paused = self.queries["mode"][positions] == PAUSED
        members = self._members(context, positions[~paused], step - 1)
        teller.end(step, members.query, why, members.version)
        ids, objects = self.sent.pop_queries(self.queries["id"][positions[paused]])
        versions = self.batch.objects.shown(objects, step - 1)
        teller.end(step, np.searchsorted(self.queries["id"], ids), why, versions)


def _both(some: Had, more: Had) -> Had:
    return np.concatenate([some[0], more[0]]), np.concatenate([some[1], more[1]])
