"""Earlier answers of queries that begin again in a batch, and the differences to their new answers.

A query begins again if it resumes, is rescaled or is altered. The rows that a paused query with `changes`
has sent are stored, because the objects may have other records when it resumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.updates import UpdateArrays
from stqsh.core.kernels.events.versions import tally
from stqsh.core.matching.crossings import without_crossings
from stqsh.core.matching.query_context import NO_MEMBERS, AnswerMembers, QueryContext
from stqsh.core.matching.row_changes import RowChanges, StayingMembers
from stqsh.core.output.batch_output import (
    BatchOutput,
    QueryUpdates,
    UpdateOrigin,
    arrivals,
    shown_rows,
    update_chunks,
)
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.output.renewed_rows import CHANGED
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.chunk import ChunkOrder, Phase

_ORDER = ChunkOrder(Phase.EVALUATED, number=1 << 32)
"""The order of chunks with earlier rows, after all chunks that show records of the slot."""


class SentMembers(NamedTuple):
    """Members of answers as they were sent, (n,) each.

    Attributes:
        query: The id of the query, int64.
        obj: int32.
        distance: The distance from the centre, NaN for none, float64.
        row: The number of its row.
        key: The selected values, as `stqsh.core.matching.row_changes.RowChanges.keys` returns them.
    """

    query: Array
    obj: Array
    distance: Array
    row: Array
    key: pa.BinaryArray

    def where(self, which: Array) -> SentMembers:
        """Return the chosen rows, given by positions."""
        chosen: Any = pa.array(which)
        query, obj, distance, row, key = self
        return SentMembers(query[which], obj[which], distance[which], row[which], key.take(chosen))


class SentRowTable(StateTable):
    """Members of paused queries, in the order of their records."""

    query = ArraySpec(np.int64)
    obj = ArraySpec(np.int32, "objects")
    distance = ArraySpec(np.float64)


class SentRows:
    """The rows that paused queries of one kind have sent."""

    def __init__(self, batch: StreamBatch, prefix: str) -> None:
        self._batch, self._prefix, self._order = batch, f"{prefix}/told", _ORDER
        self._table = SentRowTable(batch.state, f"{self._prefix}/members")
        self._records = CandidateRecords(batch.state, f"{self._prefix}/records", batch.spec)

    @staticmethod
    def are_there(batch: StreamBatch, prefix: str) -> bool:
        """Return whether any rows are stored; without rows the state has no arrays for them."""
        return f"{prefix}/told/members/query" in batch.state

    def store(self, members: SentMembers) -> None:
        """Store members, whose rows are versions of the slot's records."""
        rows = shown_rows(self._batch.objects, members.row)
        self._table.append(query=members.query, obj=members.obj, distance=members.distance)
        self._records.take([*rows.columns, members.key.view(pa.string())])
        self._records.keep(np.arange(len(self._records), dtype=np.int32))

    def pop_queries(self, ids: Array) -> SentMembers:
        """Remove the members of queries and return them; `send_changes` can still show their rows."""
        mine = np.isin(self._table.query, ids)
        row = np.flatnonzero(mine)
        query, obj, distance = self._table.pop(mine)
        if len(self._table):
            self._records.keep(np.flatnonzero(~mine).astype(np.int32))
        else:
            self._batch.state.release(f"{self._prefix}/")
        return SentMembers(query, obj, distance, row, self._records.looked_up(row.astype(np.int32)))

    def send_changes(self, members: SentMembers, output: BatchOutput) -> None:
        """Retract old rows in the batch's first step; the caller sends the new ones."""
        count, timing = len(members.query), self._batch.timing
        if not count:
            return
        step, op = np.full(count, timing.first), np.full(count, -1, np.int8)
        why = np.full(count, CHANGED, np.int8)
        updates = QueryUpdates(step, members.query, op, why, members.row, members.distance)
        rows = len(self._records)
        origin = UpdateOrigin(self._batch.state.slot, self._batch.spec.id, timing, rows, self._records.show)
        chunks = update_chunks(origin, updates, self._order)
        self._order = self._order._replace(number=self._order.number + len(chunks))
        output.chunks += chunks
        ids, position = np.unique(members.query, return_inverse=True)
        output.grown.append((ids, tally(position, op, len(ids))))


class PausedRows:
    """The rows of queries that pause or resume in a batch, for queries that send changes.

    The state of a kind without such queries has no arrays for them.
    """

    def __init__(self, batch: StreamBatch, prefix: str, changes: RowChanges, output: BatchOutput) -> None:
        self._batch, self._prefix, self._changes, self._output = batch, prefix, changes, output
        self._resumed: tuple[SentRows, SentMembers] | None = None

    def store(self, context: QueryContext, members: AnswerMembers, step: int) -> None:
        """Store what pausing queries have sent by a step."""
        wanted = np.flatnonzero(self._changes.wanted[members.query])
        if len(wanted):
            sent = self._as_sent(context, members.where(wanted), step)
            SentRows(self._batch, self._prefix).store(sent)

    def forget(self, ids: Array) -> None:
        """Remove what queries had sent before they paused."""
        self._pop(ids)

    def resume(self, ids: Array) -> None:
        """Load what queries had sent before they paused."""
        self._resumed = self._pop(ids)

    @property
    def resumed_ids(self) -> Array:
        """The id of the query of each member that resuming queries had sent; int64 (n,)."""
        return np.empty(0, np.int64) if self._resumed is None else self._resumed[1].query

    def resumed(self, context: QueryContext) -> AnswerMembers:
        """Return what resuming queries had sent, with the versions after the first step."""
        if self._resumed is None:
            return NO_MEMBERS
        objects, sent = self._batch.objects, self._resumed[1]
        versions = objects.versions_after(sent.obj, np.full(len(sent.obj), self._batch.timing.first))
        query = np.searchsorted(context.queries.id, sent.query).astype(np.int32)
        return AnswerMembers(query, sent.obj, versions)

    def changes(self, context: QueryContext, members: AnswerMembers) -> QueryUpdates:
        """Retract the rows of resumed queries that differ now; return the new rows."""
        first = self._batch.timing.first
        if self._resumed is None:
            return arrivals(first, *(np.empty(0, np.int32) for _ in range(2)))
        rows, sent = self._resumed
        count, query = len(self._batch.objects.table), np.searchsorted(context.queries.id, sent.query)
        had, has = query * count + sent.obj, members.query.astype(np.int64) * count + members.obj
        _, before, after = np.intersect1d(had, has, assume_unique=True, return_indices=True)
        sent, now = sent.where(before), members.where(after)
        differs = pc.not_equal(sent.key, self._as_sent(context, now, first).key)
        changed = np.flatnonzero(differs.to_numpy(zero_copy_only=False))
        rows.send_changes(sent.where(changed), self._output)
        return arrivals(first, now.query[changed], now.version[changed])

    def _as_sent(self, context: QueryContext, members: AnswerMembers, step: int) -> SentMembers:
        """Return members of queries that send changes as they are after a step."""
        query, obj, version = members
        far = context.distances(query, version, step)
        keys = self._changes.keys(query, version, far)
        assert keys is not None, "these queries send changes"
        shown = np.where(context.queries.shows_distance[query] > 0, far, np.nan)
        return SentMembers(context.queries.id[query], obj, shown, version.astype(np.int64), keys)

    def _pop(self, ids: Array) -> tuple[SentRows, SentMembers] | None:
        if not SentRows.are_there(self._batch, self._prefix):
            return None
        rows = SentRows(self._batch, self._prefix)
        return rows, rows.pop_queries(ids)


class EarlierAnswers:
    """The sent members of queries that resume, are rescaled or are altered.

    Args:
        changes: Computes what queries select.
        paused: The rows of queries that resume.
    """

    def __init__(self, changes: RowChanges, paused: PausedRows) -> None:
        self._changes, self._paused = changes, paused
        self._members: list[tuple[Array, Array]] = [(np.empty(0, np.int64), np.empty(0, np.int32))]
        self._elsewhere = NO_MEMBERS

    def add(self, query: Array, objects: Array) -> None:
        """Add members of queries, given by position."""
        self._members.append((query, objects))

    def add_elsewhere(self, members: AnswerMembers) -> None:
        """Add members that other slots have sent, if their objects cross to this slot in the first step."""
        pairs = zip(self._elsewhere, members, strict=True)
        self._elsewhere = AnswerMembers(*(np.concatenate(pair) for pair in pairs))

    def updates(
        self, context: QueryContext, members: AnswerMembers, follows: Array
    ) -> Iterator[QueryUpdates]:
        """Yield the first answers of queries, or the difference if a query had sent an answer before.

        Args:
            context: The context of the batch.
            members: The answers after the first step.
            follows: Which queries send changes of the rows of their members at once, bool (queries,).
        """
        objects, first, queries = context.batch.objects, context.batch.timing.first, context.queries
        had_query, had_obj = (np.concatenate(column) for column in zip(*self._members, strict=True))
        if not len(had_query) and not len(self._elsewhere.query):
            # Without earlier members, a comparison would sort millions of first members for nothing.
            yield arrivals(first, members.query, members.version)
            return
        count = len(objects.table)
        had, has = had_query * count + had_obj, members.query.astype(np.int64) * count + members.obj
        crossed = self._elsewhere.query.astype(np.int64) * count + self._elsewhere.obj
        crosses = np.isin(has, crossed)
        new, gone = ~(np.isin(has, had) | crosses), ~np.isin(had, has)
        yield arrivals(first, members.query[new], members.version[new])
        following = follows[members.query]
        yield self._paused.changes(context, members.where(np.flatnonzero(following)))
        is_compared = np.isin(queries.id[members.query], self._paused.resumed_ids)
        at = np.flatnonzero(~new & following & ~is_compared)
        query, obj, version = members.where(at)
        steps = np.full(len(obj), first)
        before = objects.versions_after(obj, steps - 1)
        if crosses.any():
            order = np.argsort(crossed)
            place = np.searchsorted(crossed[order], has[at[crosses[at]]])
            before[crosses[at]] = self._elsewhere.version[order[place]]
        yield self._changes.updates(context, StayingMembers(steps, query, before, version))
        query, obj = had_query[gone], had_obj[gone].astype(np.int32)
        steps = np.full(len(obj), first)
        why, show = objects.reasons(objects.versions_after(obj, steps), obj, steps)
        gone_by = UpdateArrays(steps, query, np.full(len(obj), -1, np.int8), why, show)
        left, _ = without_crossings(context, gone_by, follows)
        yield QueryUpdates(*left)
