"""Queries whose rows change with time, because their select list, HAVING or ORDER BY reads NOW."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from stqsh.arrays import Array
from stqsh.core.aggregates.answers import group_values, plain
from stqsh.core.aggregates.states import States
from stqsh.core.conditions.evaluation import compute
from stqsh.core.groups.group_changes import states_of
from stqsh.core.groups.group_store import GroupStore, GroupTotals
from stqsh.core.groups.group_versions import GroupVersions
from stqsh.core.groups.marks import DROP, END, WAKE, GroupClock, GroupMarks
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import Expr, changes_always, compared_with_now


class PassingTime:
    """The value of NOW for the rows of a batch, and the steps at which only NOW changes them.

    Args:
        store: The queries.
        marks: The marks of the batch.
        texts: The texts that the marks refer to.
    """

    def __init__(self, store: GroupStore, marks: GroupMarks, texts: list[str]) -> None:
        self._store, self._ends = store, marks
        awake = marks.those(WAKE)
        self.awake = awake.query
        """The queries whose rows may change in the batch, by id, ascending."""
        self._clock: GroupClock | None = None
        if len(self.awake):
            self._clock = msgspec.json.decode(texts[int(awake.spec[0])], type=GroupClock)

    def instants(self, versions: GroupVersions) -> Array:
        """Return the value of NOW for versions, µs, int64 (versions,); 0 if it is not needed.

        For the state before the batch it is the instant as of which the rows were last shown.
        """
        position = self._store.positions(versions.queries)
        if self._clock is None:
            seen = self._store.queries.seen[position]
            return versions.by_query(seen) if seen.any() else np.zeros(len(versions.group), np.int64)
        position = versions.by_query(position)
        instants: Array = self._store.queries.seen[position]
        mine = ~versions.is_first & versions.by_query(np.isin(versions.queries, self.awake))
        instants[mine] = self._instants(self._every()[position[mine]], versions.step[mine], self._clock)
        return instants

    def turns(self, versions: GroupVersions) -> tuple[GroupTotals, Array]:
        """Return the groups and steps at which NOW alone may change rows, without a difference.

        `versions` are those that result from the differences.
        """
        query, key, steps = [versions.query[:0]], [versions.key[:0]], [np.empty(0, np.int64)]
        if self._clock is not None:
            for at, step in self._turns(versions, self._clock):
                query.append(versions.query[versions.group[at]])
                key.append(versions.key[versions.group[at]])
                steps.append(step)
        return GroupTotals(np.concatenate(query), np.concatenate(key), {}), np.concatenate(steps)

    def note(self) -> None:
        """Store the instants as of which the rows after the batch were computed."""
        if self._clock is None:
            return
        queries, clock = self._store.queries, self._clock
        mine = np.flatnonzero(np.isin(queries.id, self.awake))
        last = np.full(len(mine), clock.last)
        instants = self._instants(self._every()[mine], last, clock)
        begun = clock.timing.at(clock.first)
        refreshed = (instants >= begun) | (self._every()[mine] < 0)
        queries.seen[mine[refreshed]] = instants[refreshed]

    def _every(self) -> Array:
        """Return the durations between refreshes of all queries, µs; -1 for those that follow every step."""
        forms = self._store.queries.form
        each = np.full(int(forms.max(initial=-1)) + 1, -1, np.int64)
        for form in np.flatnonzero(np.bincount(forms)).tolist():
            each[form] = self._store.sync_us(form)
        every: Array = each[forms]
        return every

    @staticmethod
    def _instants(every: Array, steps: Array, clock: GroupClock) -> Array:
        """Return the instant as of which each query is evaluated: its step, or its last refresh by then."""
        timing = clock.timing
        own = np.where(every < 0, 1, every)
        last = (timing.at(steps + 1) - 1) // own * own
        instants: Array = np.where((every < 0) | (steps == clock.closing), timing.at(steps), last)
        return instants

    def _turns(self, versions: GroupVersions, clock: GroupClock) -> Iterator[tuple[Array, Array]]:
        """Yield the versions during which a value of NOW changes, and the steps of the changes."""
        position = self._store.positions(versions.queries)
        has_row = versions.by_query(self._store.have_one_row(versions.queries)) | (versions.totals["n"] > 0)
        awake = versions.by_query(np.isin(versions.queries, self.awake)) & has_row
        forms = versions.by_query(self._store.queries.form[position])
        every, until = versions.by_query(self._every()[position]), self._until(versions, clock)
        for form in np.flatnonzero(np.bincount(forms[awake])).tolist():
            at, spec = np.flatnonzero(awake & (forms == form)), self._store.spec(form)
            if any(map(changes_always, spec.over_groups)):
                steps = _looks(int(every[at[0]]), clock)
                begin = np.searchsorted(steps, versions.step[at], side="right")
                lengths = np.maximum(np.searchsorted(steps, until[at]) - begin, 0)
                number = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths - begin, lengths)
                yield np.repeat(at, lengths), steps[number]
                continue
            for value, shift in _compared(spec, states_of(self._store, spec, versions, at)):
                known = np.flatnonzero(value.is_valid().to_numpy(zero_copy_only=False))
                moment = value.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)[known] - shift
                # A comparison changes when NOW reaches the value, or 1 µs later, depending on the operator.
                for late in (0, 1):
                    step = _first_step(moment + late, every[at[known]], clock)
                    within = (step > versions.step[at[known]]) & (step < until[at[known]])
                    yield at[known[within]], step[within]

    def _until(self, versions: GroupVersions, clock: GroupClock) -> Array:
        """Return the step at which the next version replaces each version, or at which its query ends."""
        until = np.full(len(versions.group), clock.last + 1)
        until[:-1] = np.where(versions.is_first[1:], clock.last + 1, versions.step[1:])
        marks = self._ends
        for mark in (DROP, END):
            some = marks.those(mark)
            for query, step in zip(some.query.tolist(), some.step.tolist(), strict=True):
                mine = versions.by_query(versions.queries == query)
                until[mine] = np.minimum(until[mine], step)
        return until


def _first_step(instants: Array, every: Array, clock: GroupClock) -> Array:
    """Return the first step of the batch in which queries are evaluated as of an instant or later."""
    timing = clock.timing
    own = np.where(every < 0, clock.tick, every)
    multiple = -(-np.maximum(instants, timing.at(clock.first)) // own) * own
    steps: Array = multiple // clock.tick - clock.base + 1
    if clock.closing:  # the closing step refreshes even between multiples
        heeds_end = instants <= timing.at(clock.closing)
        steps[heeds_end] = np.minimum(steps[heeds_end], clock.closing)
    return steps


def _looks(every: int, clock: GroupClock) -> Array:
    """Return the steps of the batch in which queries of one form are evaluated, ascending; int64 (n,)."""
    begins = clock.timing.at(np.arange(clock.first, clock.last + 1))
    steps = np.unique(_first_step(begins, np.full(len(begins), every), clock))
    return steps[steps <= clock.last]


def _compared(spec: AggregateSpec, states: States) -> Iterator[tuple[Any, int]]:
    """Yield the values that are compared with NOW, µs, and the durations added to NOW."""
    found: dict[tuple[Expr, int], None] = {}
    for expr in spec.over_groups:
        found |= dict.fromkeys(compared_with_now(expr))
    table = group_values(spec, states)
    columns = {name: plain(table[name]) for name in table.column_names}
    for value, shift in found:
        yield compute(value, columns, 0), shift
