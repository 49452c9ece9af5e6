"""The states of groups after each step of a batch, from those before it and the slots' differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.aggregates.states import VALUES
from stqsh.core.groups.group_store import GroupStore, GroupTotals, GroupValues
from stqsh.core.kernels.groups.running_values import (
    ALL,
    FIRST,
    LAST,
    TOP,
    ValueCells,
    ValueChanges,
    running_values,
)
from stqsh.spec.aggregate import AggregateSpec

Array = npt.NDArray[Any]


class Differences(NamedTuple):
    """By how much groups differ from the step before, unordered.

    Attributes:
        totals, steps: Totals, and their steps.
        values, value_steps: Occurrences, and their steps.
    """

    totals: GroupTotals
    steps: Array
    values: GroupValues
    value_steps: Array


class GroupVersions(NamedTuple):
    """The states of some groups, by group and step; the first of each group is that before the batch.

    Attributes:
        query, key: The query's id, and the number of the key, of each group.
        start: The versions of each group, int64 (groups + 1,).
        group: The group of each version, int64 (versions,).
        step: The step, int64; of the state before the batch, the step before its first.
        totals: The totals by name, int64 (versions,) each.
        values: A table of `VALUES`: what measures show of their values, by version.
    """

    query: Array
    key: Array
    start: Array
    group: Array
    step: Array
    totals: dict[str, Array]
    values: pa.Table

    @property
    def is_first(self) -> Array:
        """Whether a version is the state before the batch."""
        first = np.zeros(len(self.group), np.bool_)
        first[self.start[:-1]] = True
        return first


class PairIndex:
    """Numbers for groups, given by query and key."""

    def __init__(self, query: Array, key: Array) -> None:
        self.codes = sorted_distinct(_pair(query, key))

    def __len__(self) -> int:
        return len(self.codes)

    def find(self, query: Array, key: Array) -> Array:
        """Return the number of each group, -1 for unknown ones."""
        codes = _pair(query, key)
        at = np.minimum(np.searchsorted(self.codes, codes), max(len(self.codes) - 1, 0))
        return np.where(self.codes[at] == codes, at, -1) if len(self.codes) else np.full(len(codes), -1)

    @property
    def query(self) -> Array:
        """The query of each group."""
        return self.codes >> 31

    @property
    def key(self) -> Array:
        """The key of each group."""
        return (self.codes & ((1 << 31) - 1)).astype(np.int32)


def sorted_distinct(numbers: Array) -> Array:
    """Return the distinct numbers in order; `np.unique` hashes, and takes ten times as long for millions."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    distinct: Array = ordered[is_new]
    return distinct


def _pair(query: Array, key: Array) -> Array:
    """Return query and key as one number; keys are int32, and ids are rows of the log, far below 2 ** 32."""
    codes: Array = (query.astype(np.int64) << 31) | key
    return codes


def versions_of(groups: PairIndex, before: GroupTotals, moves: Differences, first: int) -> GroupVersions:
    """Return the states of groups before a batch and after each step that changes them.

    Args:
        groups: The groups that are wanted; those of the differences are among them.
        before: The stored states.
        moves: The differences.
        first: The first step of the batch.
    """
    last = max([first, *(int(steps.max()) for steps in (moves.steps, moves.value_steps) if len(steps))])
    span = last - first + 2
    every = np.arange(len(groups)) * span
    changed = groups.find(moves.totals.query, moves.totals.key) * span + (moves.steps - first + 1)
    codes = sorted_distinct(np.concatenate([every, changed]))
    group, start = codes // span, np.searchsorted(codes, np.append(every, len(groups) * span))
    held = groups.find(before.query, before.key)
    known, base = before.where(held >= 0).totals, start[held[held >= 0]]
    at, totals = np.searchsorted(codes, changed), {}
    for name in sorted({*known, *moves.totals.totals}):
        column = np.zeros(len(codes), np.int64)
        if name in known:
            column[base] = known[name]
        if name in moves.totals.totals:
            np.add.at(column, at, moves.totals.totals[name])
        totals[name] = _running(column, start)
    step = first - 1 + codes % span
    return GroupVersions(groups.query, groups.key, start, group, step, totals, VALUES.empty_table())


def _running(column: Array, start: Array) -> Array:
    """Return the sums from the beginning of each group."""
    summed = np.cumsum(column)  # may wrap round, which the difference takes back
    earlier = summed[start[:-1]] - column[start[:-1]]
    sums: Array = summed - np.repeat(earlier, np.diff(start))
    return sums


def with_values(
    versions: GroupVersions,
    groups: PairIndex,
    before: GroupValues,
    moves: Differences,
    store: GroupStore,
) -> tuple[GroupVersions, GroupValues]:
    """Return versions with what measures show of single values, and the occurrences after the batch."""
    mine = groups.find(before.query, before.key)
    before, own = before.where(mine >= 0), mine[mine >= 0]
    their = groups.find(moves.values.query, moves.values.key)
    parts = (before, moves.values)
    group = np.concatenate([own, their])
    measure, value = (np.concatenate([getattr(p, name) for p in parts]) for name in ("measure", "value"))
    if not len(group):
        return versions, before
    texts, rank = _ranked(store, value)
    codes = np.stack([group, measure.astype(np.int64), rank])
    cells, place = np.unique(codes, axis=1, return_inverse=True)
    place = place.reshape(-1)
    count = np.zeros(cells.shape[1], np.int64)
    count[place[: len(own)]] = before.count
    wanted, most = _wanted(store, versions.query[cells[0]], cells[1])
    table = ValueCells(
        np.searchsorted(cells[0], np.arange(len(groups) + 1)), cells[1].astype(np.int16), wanted, most, count
    )
    span = int(versions.step.max()) + 2
    known = versions.group * span + versions.step
    at = np.searchsorted(known, their * span + moves.value_steps)
    order = np.argsort(at, kind="stable")
    changes = ValueChanges(at[order], place[len(own) :][order].astype(np.int64), moves.values.count[order])
    version, cell, times = running_values(table, changes, versions.start)
    chosen: Any = pa.array(cells[2][cell])
    columns: list[Any] = [version.astype(np.int32), cells[1][cell], texts.take(chosen), times]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, VALUES, strict=True)]
    stay = np.flatnonzero(table.times > 0)
    numbers = store.numbers(texts)
    after = GroupValues(
        versions.query[cells[0][stay]],
        versions.key[cells[0][stay]],
        cells[1][stay].astype(np.int16),
        numbers[cells[2][stay]],
        table.times[stay],
    )
    return versions._replace(values=pa.Table.from_arrays(arrays, schema=VALUES)), after


def _ranked(store: GroupStore, value: Array) -> tuple[pa.BinaryArray, Array]:
    """Return the distinct values in order, and each one's rank."""
    distinct, position = np.unique(value, return_inverse=True)
    texts = store.texts(distinct)
    order = pc.sort_indices(texts)
    rank = np.empty(len(distinct), np.int64)
    rank[order.to_numpy()] = np.arange(len(distinct))
    return texts.take(order), rank[position.reshape(-1)]


def _wanted(store: GroupStore, query: Array, measure: Array) -> tuple[Array, Array]:
    """Return which values are wanted of measures of queries, and how many of them."""
    wanted, most = np.zeros(len(query), np.int8), np.zeros(len(query), np.int32)
    form = store.queries.form[np.searchsorted(store.queries.id, query)]
    for number in np.unique(form).tolist():
        spec = store.spec(number)
        for j in np.unique(measure[form == number]).tolist():
            mine = (form == number) & (measure == j)
            wanted[mine], most[mine] = _sort_of(spec, j)
    return wanted, most


def _sort_of(spec: AggregateSpec, number: int) -> tuple[int, int]:
    measure = spec.measures[number]
    top = ALL if spec.error else TOP  # of merged summaries the first are only known when they are shown
    sort = {"min": FIRST, "max": LAST, "topk": top}.get(measure.function, ALL)
    return sort, measure.k
