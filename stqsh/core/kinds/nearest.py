"""kNN queries: the k nearest objects of a place, or of a focal object (SOLE, SSTD's CKQ, CheetahGIS VI-A)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.matching.keyword_queries import forget_keywords, keywords_of, note_texts, take_keywords
from stqsh.core.matching.moving_index import ObjectCellStore
from stqsh.core.matching.paused_answers import PausedAnswers
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.nearest.candidate_changes import CandidateChanges, fallen, farewell, together
from stqsh.core.nearest.circle_tracking import CircleTracker
from stqsh.core.nearest.members import MemberTable
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput, first_k
from stqsh.core.output.partials import DROP, END, PAUSE, REGISTER, CandidateOffers, Partials
from stqsh.core.queries.query_table import ACTIVE, PAUSED, QueryTable, columns_of, set_focals
from stqsh.core.state.slot_state import SlotState

Array = npt.NDArray[Any]


class NearestKind:
    """The kind "nearest": the first k present objects that satisfy a condition, by (distance, key).

    Each slot keeps the k nearest of its own objects, and tells Aggregate what becomes of them.
    """

    def step(self, batch: StreamBatch, report: BatchOutput) -> None:
        """See `stqsh.core.contract.query_kind.QueryKind`."""
        if batch.timing.last >= batch.timing.first:
            NearestBatch(batch, report).run()

    def count(self, state: SlotState, stream: int) -> int:
        """How many kNN queries a stream has."""
        return len(QueryTable(state, f"s{stream}/nearest"))

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """See `stqsh.core.contract.query_kind.MergingKind`."""
        return first_k(batch)


NEAREST = NearestKind()


class NearestBatch:
    """One batch of a stream's kNN queries: commands, then events, then queries whose time has passed."""

    def __init__(self, batch: StreamBatch, report: BatchOutput) -> None:
        self.batch, self.report, self.first = batch, report, batch.timing.first
        self.prefix = f"s{batch.spec['id']}/nearest"
        self.queries = QueryTable(batch.state, self.prefix)
        self.sent = PausedAnswers(batch.state, self.prefix)
        self.roster = MemberTable(batch.state, self.prefix)
        self.conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects)
        self.partials = Partials(batch, "nearest")

    def run(self) -> None:
        """Report the whole batch."""
        self._retire()
        self._pause()
        resumed, frozen = self._resume()
        new = self._register()
        if len(self.queries):
            index = keywords_of(self.batch, self.prefix)
            if index is not None:
                note_texts(self.batch, index)
            begin = np.full(len(self.queries), -1, np.int64)
            begin[np.concatenate([resumed, new])] = self.first
            self._follow(begin, frozen)
            self._end()
        else:
            ObjectCellStore(self.batch, self.prefix).release()
            forget_keywords(self.batch, self.prefix)
        self.report.chunks += self.partials.chunks()

    def _context(self) -> QueryContext:
        return context_of(self.batch, self.queries, self.conditions, self.prefix, staying=True)

    def _mark(self, positions: Array, step: int, mark: int) -> None:
        queries = self.queries
        self.partials.mark(
            queries["id"][positions], step, mark, queries["k"][positions], queries["far"][positions] > 0
        )

    def _offer(self, offered: CandidateChanges) -> None:
        ids = self.queries["id"][offered.query]
        self.partials.offer(
            CandidateOffers(offered.step, ids, offered.op, offered.why, offered.show, offered.distance)
        )

    def _forget(self, positions: Array) -> None:
        self.queries.remove(positions)
        self.roster.remove(positions)

    def _retire(self) -> None:
        """Let dropped queries go; Aggregate has what was sent, except what changed while they paused."""
        commands, ids = self.batch.commands, self.queries["id"]
        at = self.queries.positions(ids if commands.stream_dropped else commands.dropped)
        if len(at):
            self._farewell(at, self.first, DROPPED)
            self._mark(at, self.first, DROP)
            self._forget(at)

    def _farewell(self, positions: Array, step: int, why: int) -> None:
        paused = positions[self.queries["mode"][positions] == PAUSED]
        ids, objects = self.sent.pop_queries(self.queries["id"][paused])
        if len(ids):
            at = np.searchsorted(self.queries["id"], ids)
            self._offer(farewell(self._context(), at, objects, step, why))

    def _pause(self) -> None:
        """Remember what queries that are paused now have offered."""
        at = self.queries.positions(self.batch.commands.paused)
        at = at[self.queries["mode"][at] == ACTIVE]
        if len(at):
            follower = CircleTracker(self._context(), self.roster, np.full(len(self.queries), -1))
            position, objects = follower.offered_before(at)
            self.sent.add(self.queries["id"][position], objects)
            self.queries["mode"][at] = PAUSED
            self.roster.replace(at, np.zeros(len(at) + 1, np.int64), np.empty(0, np.int32))
            self._mark(at, self.first, PAUSE)

    def _resume(self) -> tuple[Array, tuple[Array, Array]]:
        """Which queries go on (one that ends at once stays paused), and what they had offered."""
        at = self.queries.resume(self.batch.commands.resumed, self.first)
        self.queries["radius"][at] = 0
        ids, objects = self.sent.pop_queries(self.queries["id"][at])
        return at, (np.searchsorted(self.queries["id"], ids), objects)

    def _register(self) -> Array:
        """Add new queries; the positions of those that are not paused at once."""
        new = self.batch.commands.registered
        if not len(new):
            return np.empty(0, np.int64)
        columns = columns_of(new, self.batch.commands.still, self.batch.timing)
        columns["radius"] = np.zeros(len(new))
        set_focals(columns, new, self.batch.focal.table)
        at = self.queries.append(columns)
        self.roster.append_empty(len(at))
        self.conditions.add(at, new)
        take_keywords(self.batch, self.prefix, new)
        self._mark(at, self.first, REGISTER)
        begun: Array = at[(self.queries["mode"][at] == ACTIVE) & (self.queries["until"][at] > self.first)]
        return begun

    def _follow(self, begin: Array, frozen: tuple[Array, Array]) -> None:
        """Follow the batch's events, and say what became of what queries that go on had offered."""
        context, queries = self._context(), self.queries
        living = np.flatnonzero((queries["mode"] == ACTIVE) & (queries["until"] > self.first))
        offered = CircleTracker(context, self.roster, begin).follow(living)
        for some in offered:
            self._offer(some)
            queries["told"][:] += np.bincount(some.query, minlength=len(queries))
        query, objects = frozen
        if len(query):
            size, now = len(self.batch.objects.table), together(offered)
            begun = now.step == self.first
            still = np.isin(query * size + objects, now.query[begun] * size + now.obj[begun])
            self._offer(fallen(context, query[~still], objects[~still], self.first))

    def _end(self) -> None:
        """Let queries go whose FOR has passed, each at its own step."""
        until = self.queries["until"]
        over = np.flatnonzero(until <= self.batch.timing.last)
        for step in np.unique(until[over]).tolist():
            at = over[until[over] == step]
            self._farewell(at, step, ENDED)
            self._mark(at, step, END)
            ids = self.queries["id"][at].tolist()
            self.report.notices += [{"event": "ended", "query": id_, "step": step} for id_ in ids]
        if len(over):
            self._forget(over)
