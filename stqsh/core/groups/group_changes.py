"""Compute the rows of group versions, and the updates of answers between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.answers import KEY, PASSES, are_new, group_order, plain, show_groups
from stqsh.core.aggregates.keys import whole
from stqsh.core.aggregates.states import States
from stqsh.core.groups.group_store import GroupStore
from stqsh.core.groups.group_versions import GroupVersions
from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.kernels.events.versions import number
from stqsh.core.kernels.groups.row_changes import OVERTAKEN, ShownGroups, ShownVersions, row_changes
from stqsh.core.kernels.jit import frozen
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.spec.aggregate import AggregateSpec, shown_column
from stqsh.spec.chunk import KEY_COLUMN, decoded

_KEYS = pa.dictionary(pa.int32(), pa.binary())


class GroupRows:
    """The rows that updates of aggregates show: the key, and columns named by position and type."""

    def __init__(self, tables: list[pa.Table]) -> None:
        uncoded = {
            one.name for table in tables for one in table.schema if not pa.types.is_dictionary(one.type)
        }
        same = [_with_plain(table, uncoded) for table in tables if table.num_rows] or tables[:1]
        self._rows = pa.concat_tables(same, promote_options="default").combine_chunks()

    def __len__(self) -> int:
        return self._rows.num_rows

    def keys(self, rows: Array) -> Array:
        """Return a number for the key of each of some rows, int64 (n,); equal keys have equal numbers."""
        chosen: Any = pa.array(rows)
        coded: Any = whole(plain(self._rows[KEY]).take(chosen).dictionary_encode())
        numbers: Array = coded.indices.to_numpy().astype(np.int64)
        return numbers

    def show(self, versions: Array) -> pa.RecordBatch:
        """Return some of the rows."""
        chosen: Any = pa.array(versions)
        [batch] = self._rows.take(chosen).combine_chunks().to_batches()
        return decoded(batch).replace_schema_metadata({KEY_COLUMN: KEY})


def _with_plain(table: pa.Table, names: set[str]) -> pa.Table:
    """Decode the dictionaries of the named columns of a table."""
    for at, one in enumerate(table.schema):
        if one.name in names and pa.types.is_dictionary(one.type):
            table = table.set_column(at, one.name, plain(table[one.name]))
    return table


def show_versions(
    store: GroupStore, versions: GroupVersions, there: Array, instants: Array
) -> tuple[ShownVersions, GroupRows]:
    """Compute the rows of the versions marked in `there`, bool (versions,).

    `instants`, int64 (versions,), has the value of NOW for each, µs.
    """
    count = len(versions.group)
    row = np.full(count, -1, np.int32)
    same, passes, answered = (np.zeros(count, np.bool_) for _ in range(3))
    forms = store.queries.form[store.positions(versions.queries)]
    tables, rows = [pa.table({KEY: pa.array([], _KEYS)})], 0
    for form in np.flatnonzero(np.bincount(forms)).tolist():
        mine = there if (forms == form).all() else there & versions.by_query(forms == form)
        at, spec = np.flatnonzero(mine), store.spec(form)
        if not len(at):
            continue
        shown = show_groups(spec, states_of(store, spec, versions, at), pa.array(instants[at]))
        chosen = slice(None) if len(at) == count else at
        row[chosen] = np.arange(rows, rows + len(at), dtype=np.int32)
        same[chosen] = _like_before(shown, len(spec.select))
        passes[chosen] = own = shown[PASSES].to_numpy()
        answered[chosen] = own if spec.limit is None else _within_limit(spec, versions, at, shown)
        named = [KEY, *(shown_column(i, one) for i, one in enumerate(spec.select))]
        columns = [shown[name] for name in (KEY, *(f"s{i}" for i in range(len(spec.select))))]
        tables.append(pa.Table.from_arrays(columns, names=named))
        rows += len(at)
    return ShownVersions(row, same, passes, answered), GroupRows(tables)


def states_of(store: GroupStore, spec: AggregateSpec, versions: GroupVersions, at: Array) -> States:
    """Return the states of some versions."""
    none = np.full(len(store.keys), -1, np.int32)
    if len(at) == len(versions.group):  # all versions: nothing is copied
        chosen: Any = slice(None)
        numbers, distinct = number(versions.key, none)
        position = numbers[versions.group]
    else:
        chosen = at
        position, distinct = number(versions.key[versions.group[at]], none)
    keys = pa.DictionaryArray.from_arrays(position, store.keys.texts(distinct))
    columns: Any = {name: column[chosen] for name, column in versions.totals.items()}
    for j in range(len(spec.measures)):
        if f"c{j}" not in columns:
            columns[f"c{j}"] = np.zeros(len(at), np.int64)
    totals = pa.table(columns)
    if not versions.values.num_rows:
        return States(pa.table({KEY: keys}), totals, versions.values)
    if len(at) == len(versions.group):
        return States(pa.table({KEY: keys}), totals, versions.values)
    place = np.full(len(versions.group), -1, np.int32)
    place[at] = np.arange(len(at), dtype=np.int32)
    rows = place[versions.values["row"].to_numpy()]
    values = versions.values.set_column(0, versions.values.schema.field("row"), pa.array(rows))
    return States(pa.table({KEY: keys}), totals, values.filter(pa.array(rows >= 0)))


def _like_before(shown: pa.Table, columns: int) -> Array:
    """Return whether each row's select list equals that of the previous row, bool (rows,)."""
    like = np.ones(shown.num_rows, np.bool_)
    like[:1] = False
    for i in range(columns if len(like) else 0):
        column = whole(shown[f"s{i}"])
        if pa.types.is_dictionary(column.type):
            column = column.indices  # all versions of a group have the same key
        if pa.types.is_list(column.type):
            same = _same_lists(column)
        else:
            equal: Any = pc.equal(column.slice(0, len(like) - 1), column.slice(1)).fill_null(False)
            same = equal.to_numpy(zero_copy_only=False)
        if column.null_count:
            known = column.is_valid().to_numpy(zero_copy_only=False)
            same = np.where(known[1:] & known[:-1], same, known[1:] == known[:-1])
        like[1:] &= same
    return like


def _same_lists(column: Any) -> Array:
    """Return whether each list of a TOPK equals the previous one, bool (rows - 1,); null is like empty.

    Lists of equal length are compared element by element, all at once.
    """
    length = pc.list_value_length(column).fill_null(0).to_numpy()
    elements, begin = column.flatten(), np.cumsum(length) - length
    same: Array = length[1:] == length[:-1]
    at = np.flatnonzero(same) + 1
    count = length[at]
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    after = np.repeat(begin[at], count) + nth
    before = after - np.repeat(count, count)
    for field in elements.type:
        values = pc.struct_field(elements, field.name).dictionary_encode().indices.to_numpy()
        same[np.repeat(at, count)[values[after] != values[before]] - 1] = False
    return same


def _within_limit(spec: AggregateSpec, versions: GroupVersions, at: Array, shown: pa.Table) -> Array:
    """Return which rows are within LIMIT in their step; each such step has all groups of the query."""
    passes = shown[PASSES].to_numpy()
    chosen = np.flatnonzero(passes)
    query, step = versions.query[versions.group[at]][chosen], versions.step[at][chosen]
    taken: Any = pa.array(chosen)
    named = shown.set_column(shown.column_names.index(KEY), KEY, plain(shown[KEY]))
    table = named.take(taken).append_column("query", pa.array(query))
    table = table.append_column("step", pa.array(step))
    order = group_order(spec, table, ["query", "step"]).to_numpy()
    first = np.diff(query[order], prepend=-1) != 0
    first |= np.diff(step[order], prepend=-1) != 0
    begin = np.flatnonzero(first)
    places = np.arange(len(order))
    if spec.distinct:  # equal rows have the same place
        places = np.cumsum(first | are_new(table[KEY].take(pa.array(order)))) - 1
    rank = places - np.repeat(places[begin], np.diff(np.append(begin, len(order))))
    assert spec.limit is not None
    within = np.zeros(len(at), np.bool_)
    within[chosen[order[rank < spec.limit]]] = True
    return within


def changes(versions: GroupVersions, shown: ShownVersions, *, is_event: bool) -> QueryUpdates:
    """Return the updates between successive versions of each group."""
    groups = ShownGroups(frozen(versions.start), frozen(versions.query))
    step, members = frozen(versions.step), frozen(versions.totals["n"])
    return QueryUpdates(*row_changes(groups, step, members, shown, is_event))


class EndedGroups(NamedTuple):
    """Groups whose queries end: their numbers, the steps, and the reasons, (n,) each."""

    group: Array
    step: Array
    why: Array


def removals(versions: GroupVersions, shown: ShownVersions, ended: EndedGroups) -> QueryUpdates:
    """Return the removals of groups of ended queries whose last versions are in answers."""
    final = versions.start[ended.group + 1] - 1
    there = shown.answered[final]
    final, step, why = final[there], ended.step[there], ended.why[there]
    query = versions.query[versions.group[final]]
    return QueryUpdates(step, query, np.full(len(final), -1, np.int8), why, shown.row[final].astype(np.int64))


def distinct_changes(
    versions: GroupVersions, shown: ShownVersions, rows: GroupRows, mine: Array, ended: EndedGroups
) -> QueryUpdates:
    """Return the updates of queries with `distinct`, where groups that show equal values are one row.

    Idea: a row is in the answer as long as any group shows it, so groups are counted by query and row.
    Invariant: `versions` include all groups of these queries, so that counts begin with those before the
    batch. Cost: one sort of the versions of these queries.

    Args:
        versions: The states of groups.
        shown: Their rows.
        rows: The rows, by which equal ones are found.
        mine: Which groups are of such queries, bool (groups,).
        ended: The groups whose queries end.
    """
    now = np.flatnonzero(mine[versions.group] & shown.passes & (shown.row >= 0))
    follows = np.ones(len(versions.group), np.bool_)
    follows[versions.start[1:] - 1] = False
    until = now[follows[now]]  # the row of a version is shown until the next version of its group
    at = np.concatenate([now, until])
    step = np.concatenate([versions.step[now], versions.step[until + 1]])
    sign = np.repeat(np.array([1, -1]), [len(now), len(until)])
    row = shown.row[at]
    keys = rows.keys(row)
    size = int(keys.max(initial=0)) + 1
    pair = versions.owner[versions.group[at]] * size + keys
    order = np.lexsort((step, pair))
    pair, step, row, sign = pair[order], step[order], row[order], sign[order]
    begin = np.flatnonzero(np.diff(pair, prepend=-1))
    last = np.append((np.diff(pair) != 0) | (np.diff(step) != 0), True)[: len(pair)]
    passes = _running(sign, begin)[last] > 0
    there = _running(sign * shown.answered[at[order]], begin)[last] > 0
    pair, step, row = pair[last], step[last], row[last]
    query = versions.queries[pair // size]
    was = np.append(False, there[:-1] & (pair[1:] == pair[:-1]))[: len(pair)]
    in_batch = step > versions.step[0]  # the first version of each group has the step before the batch
    came, went = there & ~was & in_batch, was & ~there & in_batch
    stay = there & np.append(pair[1:] != pair[:-1], True)[: len(pair)]
    place = dict(zip(versions.query[ended.group].tolist(), range(len(ended.group)), strict=True))
    gone = stay & np.isin(query, list(place))
    which = [place[id_] for id_ in query[gone].tolist()]
    left = np.where(passes[went], OVERTAKEN, LEFT)
    parts = (
        (came, step[came], np.zeros(np.count_nonzero(came)), 1),
        (went, step[went], left, -1),
        (gone, ended.step[which], ended.why[which], -1),
    )
    return QueryUpdates(
        np.concatenate([steps for _, steps, _, _ in parts]),
        np.concatenate([query[chosen] for chosen, _, _, _ in parts]),
        np.concatenate([np.full(len(steps), op, np.int8) for _, steps, _, op in parts]),
        np.concatenate([why.astype(np.int8) for _, _, why, _ in parts]),
        np.concatenate([row[chosen].astype(np.int64) for chosen, _, _, _ in parts]),
    )


def _running(changes: Array, begin: Array) -> Array:
    """Return the running sum of changes, int64 (n,), which begins with 0 at each of some positions."""
    total = np.cumsum(changes)
    before = np.append(0, total)[begin]
    sums: Array = total - np.repeat(before, np.diff(np.append(begin, len(changes))))
    return sums
