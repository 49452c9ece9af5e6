"""The states of groups after each step of a batch, from those before it and the slots' differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.distinct_numbers import DistinctNumbers
from stqsh.core.aggregates.states import VALUES
from stqsh.core.groups.group_store import GroupStore, GroupTotals, GroupValues
from stqsh.core.kernels.groups.distinct import find_pairs, number_pairs
from stqsh.core.kernels.groups.running_values import (
    ALL,
    FIRST,
    LAST,
    TOP,
    HeldGroups,
    ValueCells,
    ValueChanges,
    VersionTable,
    running_totals,
    running_values,
    version_table,
)
from stqsh.core.kernels.jit import frozen
from stqsh.spec.aggregate import AggregateSpec

_SPARE, _EACH = 1 << 12, 8
"""A dense table is used up to this size: a fixed number of entries, plus some per group and difference."""

_RADIX = 1 << 16
"""Numbers below this are radix-sorted as uint16, in a tenth of the time."""


class Differences(NamedTuple):
    """The differences of groups from the previous step, unordered.

    Attributes:
        totals, steps: Totals, and their steps. Columns of totals may be shorter; missing values are 0.
        values, value_steps: Occurrences, and their steps.
        first_again: The position of the first difference with which a stored group restarts from nothing.
        again: The stored groups that restart, int64 (m,), one per difference from `first_again` on; their
            stored totals do not count from that step on.
    """

    totals: GroupTotals
    steps: Array
    values: GroupValues
    value_steps: Array
    first_again: int
    again: Array


class GroupVersions(NamedTuple):
    """The states of some groups, by group and step; the first version of each is its state before the batch.

    Attributes:
        queries: The ids of the queries, ascending.
        owner: The position among them of each group's query, int64 (groups,).
        key: The number of the key of each group, int32.
        start: The first version of each group, int64 (groups + 1,).
        group: The group of each version, int64 (versions,).
        step: The step of each version, int64; the state before the batch has the step before its first.
        totals: The totals by name, int64 (versions,) each.
        values: A table of `VALUES`: the single values that measures need, by version.
    """

    queries: Array
    owner: Array
    key: Array
    start: Array
    group: Array
    step: Array
    totals: dict[str, Array]
    values: pa.Table

    @property
    def query(self) -> Array:
        """The id of each group's query."""
        query: Array = self.queries[self.owner]
        return query

    def by_query(self, values: Array) -> Array:
        """Spread an array with one value for each of `queries` to versions."""
        spread: Array = values[self.owner][self.group]
        return spread

    @property
    def is_first(self) -> Array:
        """Whether a version is the state before the batch."""
        first = np.zeros(len(self.group), np.bool_)
        first[self.start[:-1]] = True
        return first


class PairIndex:
    """Numbers groups, given by query and key, in the order of queries, then keys.

    Attributes:
        queries: The ids of the queries, ascending, int64.
        owner: The position among them of each group's query, int64 (groups,).
        key: The key of each group, int32.
        given: The number of each given group, int32 (n,).
    """

    def __init__(self, query: Array, key: Array) -> None:
        self._queries, self._keys = DistinctNumbers(query), DistinctNumbers(key)
        self.queries: Array = self._queries.values
        self._codes: DistinctNumbers | None = None
        firsts, seconds = self._queries.table, self._keys.table
        count, size = len(self._keys), len(self._queries) * len(self._keys)
        if firsts and seconds and size <= _SPARE + _EACH * len(query):
            pairs = number_pairs(*_typed(query, key), firsts, seconds, size, count)
            self.owner, place, self._places, self.given = pairs
        else:
            codes = self._pair_codes(query, key)
            self._codes = DistinctNumbers(codes)
            self.owner, place = np.divmod(self._codes.values, max(count, 1))
            self.given = self._codes.find(codes).astype(np.int32)
        self.key: Array = self._keys.values[place].astype(np.int32)

    def __len__(self) -> int:
        return len(self.owner)

    def find(self, query: Array, key: Array) -> Array:
        """Return the number of each group, -1 for unknown ones."""
        if self._codes is not None:
            return self._codes.find(self._pair_codes(query, key))
        firsts, seconds = self._queries.table, self._keys.table
        assert firsts and seconds, "pairs in a table are made of numbers in tables"
        return find_pairs(*_typed(query, key), firsts, seconds, len(self._keys), frozen(self._places))

    @property
    def query(self) -> Array:
        """The id of each group's query."""
        query: Array = self.queries[self.owner]
        return query

    def _pair_codes(self, query: Array, key: Array) -> Array:
        """Return each pair as one number, -1 for unknown ones."""
        first, second = self._queries.find(query), self._keys.find(key)
        codes: Array = np.where((first < 0) | (second < 0), -1, first * len(self._keys) + second)
        return codes


def _typed(query: Array, key: Array) -> tuple[Array, Array]:
    """Convert queries and keys to the types for which the kernels are compiled."""
    return frozen(np.ascontiguousarray(query, np.int64)), frozen(np.ascontiguousarray(key, np.int32))


class StoredGroups(NamedTuple):
    """The states before a batch, and the number of each group among the wanted groups, -1 for others."""

    totals: GroupTotals
    number: Array


def versions_of(
    groups: PairIndex, before: StoredGroups, moves: Differences, which: Array, first: int
) -> GroupVersions:
    """Return the states of groups before a batch and after each step that changes them.

    Args:
        groups: The wanted groups, which include all groups of the differences.
        before: The stored states.
        moves: The differences.
        which: The group of each difference, int32 (n,).
        first: The first step of the batch.
    """
    steps = DistinctNumbers(moves.steps)
    own = steps.find(moves.steps) if len(steps) > 1 else np.zeros(1, np.int64)
    table = _numbered(len(groups), which, own, np.append(first - 1, steps.values))
    start, at = table.start, table.at
    row, until = (np.full(len(groups), -1, np.int32) for _ in range(2))
    wanted = before.number >= 0
    row[before.number[wanted]] = np.arange(np.count_nonzero(wanted), dtype=np.int32)
    until[before.number[moves.again]] = at[moves.first_again : moves.first_again + len(moves.again)]
    known, nothing = before.totals.where(wanted).totals, np.empty(0, np.int64)
    held = HeldGroups(row, until)
    totals, moved = dict[str, Array](), moves.totals.totals
    for name in sorted({"n", *known, *moved}, key=lambda name: (name != "n", name)):
        own, change = known.get(name, nothing), moved.get(name, nothing)
        if name != "n" and change is moved.get("n") and np.array_equal(own, known["n"]):
            totals[name] = totals["n"]  # no argument has ever been NULL
        else:
            totals[name] = running_totals(frozen(start), held, frozen(own), frozen(at), frozen(change))
    empty = VALUES.empty_table()
    known_groups = (groups.queries, groups.owner, groups.key)
    return GroupVersions(*known_groups, start, table.group, table.step, totals, empty)


def _numbered(groups: int, which: Array, places: Array, steps: Array) -> VersionTable:
    """Return the versions of groups like `version_table`, but without its dense table if that is sparse."""
    span = len(steps)
    if groups * span <= _SPARE + _EACH * (groups + len(which)):
        return version_table(frozen(which), frozen(places), frozen(steps), groups)
    every, changed = np.arange(groups) * span, which.astype(np.int64) * span + places + 1
    distinct = DistinctNumbers(np.concatenate([every, changed]))
    start = np.append(distinct.find(every), len(distinct))
    group, place = np.divmod(distinct.values, span)
    return VersionTable(start, group, steps[place], distinct.find(changed).astype(np.int32))


def with_values(
    versions: GroupVersions,
    groups: PairIndex,
    before: GroupValues,
    moves: Differences,
    store: GroupStore,
) -> tuple[GroupVersions, GroupValues]:
    """Add the single values that measures need to versions; also return the occurrences after the batch."""
    mine = groups.find(before.query, before.key)
    before, own = before.where(mine >= 0), mine[mine >= 0]
    their = groups.find(moves.values.query, moves.values.key)
    parts = (before, moves.values)
    group = np.concatenate([own, their])
    measure, value = (np.concatenate([getattr(p, name) for p in parts]) for name in ("measure", "value"))
    if not len(group):
        return versions, before
    texts, rank = _ranked(store, value)
    measures = int(measure.max()) + 1
    codes = (group * measures + measure) * len(texts) + rank
    distinct = DistinctNumbers(codes)
    place = distinct.find(codes)
    rest, cell_rank = np.divmod(distinct.values, len(texts))
    cell_group, cell_measure = np.divmod(rest, measures)
    count = np.zeros(len(distinct), np.int64)
    count[place[: len(own)]] = before.count
    query, begin = versions.query[cell_group], np.searchsorted(cell_group, np.arange(len(groups) + 1))
    wanted, most = _wanted(store, query, cell_measure)
    table = ValueCells(begin, cell_measure.astype(np.int16), wanted, most, count)
    span = int(versions.step.max()) + 2
    known = versions.group * span + versions.step
    at = np.searchsorted(known, their * span + moves.value_steps)
    order = np.argsort(at.astype(np.uint16) if len(known) < _RADIX else at, kind="stable")
    changes = ValueChanges(at[order], place[len(own) :][order], moves.values.count[order])
    version, cell, times = running_values(table, changes, versions.start)
    # Versions repeat few values, of which only those that are shown are decoded.
    ranks: Any = pa.array(cell_rank[cell], pa.int32())
    named: Any = pa.DictionaryArray.from_arrays(ranks, texts)
    columns: list[Any] = [version.astype(np.int32), cell_measure[cell].astype(np.int16), named, times]
    stay = np.flatnonzero(table.times > 0)
    numbers = store.keys.numbers(texts)
    after = GroupValues(
        query[stay],
        versions.key[cell_group[stay]],
        cell_measure[stay].astype(np.int16),
        numbers[cell_rank[stay]],
        table.times[stay],
    )
    return versions._replace(values=pa.Table.from_arrays(columns, names=VALUES.names)), after


def _ranked(store: GroupStore, value: Array) -> tuple[pa.BinaryArray, Array]:
    """Return the distinct values in order, and each one's rank."""
    distinct = DistinctNumbers(value)
    texts = store.keys.texts(distinct.values)
    order = pc.sort_indices(texts)
    rank = np.empty(len(distinct), np.int64)
    rank[order.to_numpy()] = np.arange(len(distinct))
    return texts.take(order), rank[distinct.find(value)]


def _wanted(store: GroupStore, query: Array, measure: Array) -> tuple[Array, Array]:
    """Return which values measures of queries need, and the maximum number of them."""
    wanted, most = np.zeros(len(query), np.int8), np.zeros(len(query), np.int32)
    form = store.queries.form[store.positions(query)]
    for number in DistinctNumbers(form).values.tolist():
        spec = store.spec(number)
        for j in DistinctNumbers(measure[form == number]).values.tolist():
            mine = (form == number) & (measure == j)
            wanted[mine], most[mine] = _sort_of(spec, j)
    return wanted, most


def _sort_of(spec: AggregateSpec, number: int) -> tuple[int, int]:
    measure = spec.measures[number]
    top = ALL if spec.error else TOP  # approximate: merged summaries are ranked only when shown
    sort = {"min": FIRST, "max": LAST, "topk": top}.get(measure.function, ALL)
    return sort, measure.k
