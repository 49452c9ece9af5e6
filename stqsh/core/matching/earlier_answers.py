"""Earlier answers of queries that begin again in a batch, and the differences to their new answers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.updates import UpdateArrays
from stqsh.core.matching.crossings import without_crossings
from stqsh.core.matching.paused_rows import PausedRows
from stqsh.core.matching.query_context import NO_MEMBERS, AnswerMembers, QueryContext
from stqsh.core.matching.row_changes import RowChanges, StayingMembers
from stqsh.core.output.batch_output import QueryUpdates, arrivals


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
