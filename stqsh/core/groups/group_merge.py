"""Add up the slots' differences of groups, and return the changes of the answers.

A query that begins again starts from nothing: its stored groups are retracted in the step in which it begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.distinct_numbers import DistinctNumbers, sorted_distinct
from stqsh.core.aggregates.states import same_totals
from stqsh.core.groups.group_changes import (
    EndedGroups,
    changes,
    distinct_changes,
    removals,
    show_versions,
)
from stqsh.core.groups.group_store import GroupStore, GroupTotals, GroupValues
from stqsh.core.groups.group_versions import (
    Differences,
    GroupVersions,
    PairIndex,
    StoredGroups,
    versions_of,
    with_values,
)
from stqsh.core.groups.marks import BEGIN, DROP, END, REGISTER, GroupMarks, read_marks
from stqsh.core.groups.passing_time import PassingTime
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.merge import MergedUpdates, MergeInput


def merge_groups(batch: MergeInput) -> MergedUpdates:
    """Merge a batch of the differences and marks of aggregate queries."""
    return _GroupMerge(batch).run()


class _GroupMerge:
    """One batch of one kind's aggregate queries over a stream."""

    def __init__(self, batch: MergeInput) -> None:
        self._batch = batch
        self._store = GroupStore(batch.state, batch.spec.id, f"s{batch.spec.id}/{batch.kind}")
        self._marks, specs = read_marks(batch.marks)
        self._store.register(self._marks.those(REGISTER), specs)
        self._time = PassingTime(self._store, self._marks, specs)
        self._totals, self._values = self._store.totals(), self._store.values()
        self._held = np.full(len(self._totals.query), -1)  # stored groups: number, or -1
        self._moved = np.empty(0, np.int32)  # the group of each difference

    def run(self) -> MergedUpdates:
        """Return the updates, and store the groups."""
        moves = group_differences(self._batch, self._store, self._marks, self._totals, self._values)
        begun = self._store.queries.begun.copy()
        groups = self._touched(moves)
        self._held = groups.find(self._totals.query, self._totals.key)
        if len(self._time.awake):
            moves = self._with_turns(groups, moves)
        moves = self._at_all_steps(groups, moves)
        versions, values = self._versions(groups, moves)
        instants = self._time.instants(versions)
        shown, rows = show_versions(self._store, versions, self._there(versions, begun), instants)
        gone = self._removed(versions)
        distinct = np.isin(versions.query, self._distinct(versions.queries))
        own = shown
        if distinct.any():
            own = shown._replace(answered=shown.answered & ~distinct[versions.group])
        parts = [changes(versions, own, is_event=self._batch.spec.is_event)]
        if len(gone.group):
            parts.append(removals(versions, own, gone))
        if distinct.any():
            parts.append(distinct_changes(versions, shown, rows, distinct, gone))
        columns = zip(*(part[:5] for part in parts), strict=True)
        updates = QueryUpdates(*map(np.concatenate, columns)) if len(parts) > 1 else parts[0]
        self._begin()
        self._time.note()
        self._keep(groups, versions, values)
        return MergedUpdates(updates, rows)

    def _versions(self, groups: PairIndex, moves: Differences) -> tuple[GroupVersions, GroupValues]:
        """Return the versions of groups in the batch, and the occurrences of values after it."""
        known = len(self._moved)
        more = groups.find(moves.totals.query[known:], moves.totals.key[known:]).astype(np.int32)
        which = np.concatenate([self._moved, more]) if len(more) else self._moved
        stored = StoredGroups(self._totals, self._held)
        versions = versions_of(groups, stored, moves, which, self._first_step(moves))
        return with_values(versions, groups, self._values, moves, self._store)

    def _with_turns(self, groups: PairIndex, moves: Differences) -> Differences:
        """Add an empty difference wherever NOW alone may change a row."""
        versions, _ = self._versions(groups, moves)
        turns, steps = self._time.turns(versions)
        totals = extended(moves.totals, [turns])
        return moves._replace(totals=totals, steps=np.concatenate([moves.steps, steps]))

    def _first_step(self, moves: Differences) -> int:
        """Return the first step with a difference or a mark."""
        parts = [part for part in (moves.steps, moves.value_steps, self._marks.step) if len(part)]
        return min((int(part.min()) for part in parts), default=1)

    def _limited(self, ids: Array) -> Array:
        """Return the queries with a LIMIT among ids, which may repeat; ascending."""
        limited = self._store.those(lambda spec: spec.limit is not None)
        return limited[np.isin(limited, ids)] if len(limited) else limited

    def _distinct(self, ids: Array) -> Array:
        """Return the queries whose equal rows count once among ids, which may repeat; ascending."""
        distinct = self._store.those(lambda spec: spec.distinct)
        return distinct[np.isin(distinct, ids)] if len(distinct) else distinct

    def _touched(self, moves: Differences) -> PairIndex:
        """Return the groups to process.

        They change, or their queries end, depend on time, have a LIMIT or count equal rows once.
        """
        ids = [self._marks.query[np.isin(self._marks.mark, (DROP, END))]]
        changing = moves.totals.query
        ids += [self._limited(changing), self._distinct(changing), self._time.awake]
        whole = np.concatenate(ids)
        stored = np.isin(self._totals.query, whole)
        alone = sorted_distinct(whole)
        alone = alone[self._store.have_one_row(alone)]
        query = np.concatenate([moves.totals.query, self._totals.query[stored], alone])
        empty = np.full(len(alone), self._store.keys.empty_key, np.int32)
        groups = PairIndex(query, np.concatenate([moves.totals.key, self._totals.key[stored], empty]))
        self._moved = groups.given[: len(moves.totals.query)]
        return groups

    def _at_all_steps(self, groups: PairIndex, moves: Differences) -> Differences:
        """Add an empty difference for each group of a changing query with a LIMIT, at each of its steps.

        A change of one group can move any other group into or out of the LIMIT.
        """
        limited = self._limited(moves.totals.query)
        if not len(limited):
            return moves
        query, key, steps = [], [], []
        for id_ in limited.tolist():
            mine = np.flatnonzero(groups.query == id_)
            own = sorted_distinct(moves.steps[moves.totals.query == id_])
            query.append(np.full(len(mine) * len(own), id_))
            key.append(np.repeat(groups.key[mine], len(own)))
            steps.append(np.tile(own, len(mine)))
        more = GroupTotals(np.concatenate(query), np.concatenate(key), {})
        totals = extended(moves.totals, [more])
        return moves._replace(totals=totals, steps=np.concatenate([moves.steps, *steps]))

    def _there(self, versions: GroupVersions, begun: Array) -> Array:
        """Return which versions exist as groups: those with members, and the only row without GROUP BY."""
        at = self._store.positions(versions.queries)
        alone = self._store.have_one_row(versions.queries)
        there: Array = versions.totals["n"] > 0
        if alone.any():
            before, after = alone & begun[at], alone
            is_first, owner = versions.is_first, versions.owner[versions.group]
            there |= np.where(is_first, before[owner], after[owner])
        return there

    def _removed(self, versions: GroupVersions) -> EndedGroups:
        """Return the groups whose queries end, with steps and reasons."""
        group, step, why = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int8)]
        for mark, reason in ((DROP, DROPPED), (END, ENDED)):
            some = self._marks.those(mark)
            if not len(some.query):
                continue
            query = versions.query
            place = np.minimum(np.searchsorted(some.query, query), len(some.query) - 1)
            mine = np.flatnonzero(np.isin(query, some.query))
            group.append(mine)
            step.append(some.step[place[mine]])
            why.append(np.full(len(mine), reason, np.int8))
        return EndedGroups(np.concatenate(group), np.concatenate(step), np.concatenate(why))

    def _begin(self) -> None:
        queries = self._store.queries
        queries.begun[np.isin(queries.id, self._marks.those(BEGIN).query)] = True

    def _keep(self, groups: PairIndex, versions: GroupVersions, values: GroupValues) -> None:
        """Store the groups that have members, without those of queries that are gone."""
        gone = self._marks.query[np.isin(self._marks.mark, (DROP, END))]
        final = versions.start[1:] - 1
        after = GroupTotals(versions.query, versions.key, {n: c[final] for n, c in versions.totals.items()})
        after = after.where((after.totals["n"] > 0) & ~np.isin(after.query, gone))
        others = self._totals.where(self._held < 0)
        rest = self._values.where(groups.find(self._values.query, self._values.key) < 0)
        values = values.where(~np.isin(values.query, gone))
        self._store.keep([others, after], [rest, values], gone)


_IDENTITY = ("query", "step", "key")


def group_differences(
    batch: MergeInput, store: GroupStore, marks: GroupMarks, before: GroupTotals, values_before: GroupValues
) -> Differences:
    """Return the differences of a batch.

    Args:
        batch: The differences and marks of the slots.
        store: The queries and their groups.
        marks: The marks of the batch.
        before, values_before: The groups and the occurrences of values before the batch.
    """
    totals, steps = _read_totals(store, [one for one in batch.partials if "value" not in one.schema.names])
    values, value_steps = _read_values(store, [one for one in batch.partials if "value" in one.schema.names])
    begins = marks.those(BEGIN)
    old, old_steps = _began(before.query, begins)
    old_values, old_value_steps = _began(values_before.query, begins)
    is_alone = store.have_one_row(begins.query)
    alone = GroupMarks(*(column[is_alone] for column in begins))
    restart = before.where(old)
    all_totals = extended(
        totals,
        [
            GroupTotals(restart.query, restart.key, {}),
            GroupTotals(alone.query, np.full(len(alone.query), store.keys.empty_key, np.int32), {}),
            GroupTotals(values.query, values.key, {}),
        ],
    )
    negative = values_before.where(old_values)
    negative.count = -negative.count
    all_steps = np.concatenate([steps, old_steps, alone.step, value_steps])
    all_value_steps = np.concatenate([value_steps, old_value_steps])
    together = _joined([values, negative])
    count = len(totals.query)
    return Differences(all_totals, all_steps, together, all_value_steps, count, np.flatnonzero(old))


def _read_totals(store: GroupStore, received: list[pa.RecordBatch]) -> tuple[GroupTotals, Array]:
    """Return the totals that slots sent, and their steps; a total is 0 where a slot has not sent it.

    Totals that equal `n` in all batches share its array.
    """
    ends = np.cumsum([0, *(batch.num_rows for batch in received)]).tolist()
    query, step, key = (np.empty(ends[-1], kind) for kind in (np.int64, np.int64, np.int32))
    shared = set.intersection(*(set(same_totals(batch)) for batch in received)) if received else set[str]()
    totals: dict[str, Array] = {}
    for batch, begin, end in zip(received, ends[:-1], ends[1:], strict=True):
        query[begin:end], step[begin:end] = batch["query"].to_numpy(), batch["step"].to_numpy()
        key[begin:end] = store.keys.numbers(batch["key"])
        columns: dict[str, Any] = {name: batch[name] for name in batch.schema.names if name not in _IDENTITY}
        columns |= dict.fromkeys(set(same_totals(batch)) - shared, columns["n"])
        for name, column in columns.items():
            if name not in totals:
                totals[name] = np.zeros(ends[-1], np.int64)
            totals[name][begin:end] = column.fill_null(0).to_numpy(zero_copy_only=False)
    return GroupTotals(query, key, totals | dict.fromkeys(shared, totals.get("n", query))), step


def _numbered(store: GroupStore, batch: pa.RecordBatch) -> pa.Table:
    """Return what a slot sent, with numbers in place of keys."""
    numbers: Any = pa.array(store.keys.numbers(batch["key"]))
    return pa.Table.from_batches([batch.set_column(batch.schema.get_field_index("key"), "key", numbers)])


def _read_values(store: GroupStore, received: list[pa.RecordBatch]) -> tuple[GroupValues, Array]:
    if not received:
        whole, small = np.empty(0, np.int64), np.empty(0, np.int32)
        return GroupValues(whole, small, small, small, whole), whole
    table = pa.concat_tables([_numbered(store, batch) for batch in received])
    query, step, measure, count = (
        table.column(name).to_numpy() for name in ("query", "step", "measure", "n")
    )
    key, value = table["key"].to_numpy(), store.keys.numbers(table["value"])
    return GroupValues(query, key, measure, value, count), step


def _began(query: Array, begins: GroupMarks) -> tuple[Array, Array]:
    """Return which rows belong to queries that begin again, bool (n,), and at which steps those begin."""
    if not len(begins.query):
        return np.zeros(len(query), np.bool_), np.empty(0, np.int64)
    at = DistinctNumbers(begins.query).find(query)  # the queries of marks are distinct, and ascend
    mine = at >= 0
    return mine, begins.step[at[mine]]


def extended(first: GroupTotals, more: list[GroupTotals]) -> GroupTotals:
    """Append rows without totals; the columns of totals are not copied and become shorter than the rest."""
    parts = [first, *more]
    query, key = (np.concatenate([getattr(part, name) for part in parts]) for name in ("query", "key"))
    return GroupTotals(query, key, first.totals)


def _joined(parts: list[GroupValues]) -> GroupValues:
    names = ("query", "key", "measure", "value", "count")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return GroupValues(*columns.values())
