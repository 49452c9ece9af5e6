"""Snapshots of aggregates: one slot's share of the groups, and the answer that the shares form.

A slot's share contains the states of its groups, which add up. If a slot has few records, its share contains
the records themselves, so that the records of all slots are grouped at once. The share of a nearest-neighbour
snapshot also contains records, because the members are known only when all slots' candidates are together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.answers import KEY, first_groups, show_groups, typed
from stqsh.core.aggregates.keys import number_groups, whole
from stqsh.core.aggregates.states import VALUES, Contribution, States, add_states, contribute
from stqsh.core.contract.snapshot_selection import SnapshotSelection, StoredRows
from stqsh.spec.aggregate import AggregateSpec, GroupColumn, Measure
from stqsh.spec.chunk import arrow_type
from stqsh.spec.expression import ColumnExpr, Expr
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.region import NearestSpec

NOW = b"now_us"
"""The key of a share's metadata that holds the value of NOW."""
_RANK, _TIME = "rank", "time"
_FEW = 1 << 14
"""A slot with at most this many records does not group them."""


def groups_part(selection: SnapshotSelection, objects: Array, rank: Array | None) -> pa.RecordBatch:
    """Return one slot's share of an aggregate over members, objects int32 (n,), with their ranks if any."""
    spec = selection.spec.aggregates
    assert spec is not None, "the snapshot has aggregates"
    rows, now = StoredRows(selection.present, objects, selection.reach), selection.present.now
    if rank is not None:
        order = {KEY: selection.present.table.show_keys(objects), _RANK: pa.array(rank)}
        if selection.spec.past:
            order[_TIME] = rows.value(ColumnExpr(selection.present.table.spec.time))
        nearest = _records(spec.groups, spec.measures, rows.value, rows)
        return _share(pa.table({**order, **nearest}), now)
    records = _records(spec.groups, spec.measures, rows.coded, rows)
    if records and len(objects) <= _FEW:
        return _share(pa.table(records), now)
    states = _states(spec.groups, spec.measures, records, len(objects), spec.error)
    return states_share(states, now)


def states_share(states: States, now: int) -> pa.RecordBatch:
    """Return one slot's share as of an instant, µs, from the states of its groups."""
    return _share(_packed(states), now)


def group_states(
    groups: tuple[GroupColumn, ...],
    measures: tuple[Measure, ...],
    rows: StoredRows,
    count: int,
    error: float = 0.0,
) -> States:
    """Return the states of the groups of some rows, whose number is `count`.

    With an `error`, those of TOPK are summaries.
    """
    return _states(groups, measures, _records(groups, measures, rows.coded, rows), count, error)


def groups_whole(parts: Sequence[pa.RecordBatch], spec: SnapshotSpec) -> pa.Table:
    """Return the answer that the slots' shares form: the select list's named columns, in order."""
    aggregates = spec.aggregates
    assert aggregates is not None, "the snapshot has aggregates"
    if isinstance(spec.region, NearestSpec):
        states = _of_nearest(parts, aggregates, spec.region.k)
    else:
        states = _added(parts, aggregates)
    now_us = int((parts[0].schema.metadata or {})[NOW])
    shown = show_groups(aggregates, _with_members(aggregates, states), now_us)
    positions: Any = pa.array(first_groups(aggregates, shown))
    found = shown.take(positions)
    names = [output.name for output in aggregates.select]
    return pa.Table.from_arrays([found[f"s{i}"] for i in range(len(names))], names=names)


def _added(parts: Sequence[pa.RecordBatch], spec: AggregateSpec) -> States:
    """Return the sum of the slots' shares, both of states and of records."""
    few = [pa.Table.from_batches([part.replace_schema_metadata(None)]) for part in parts if _is_few(part)]
    states = [_unpacked(part) for part in parts if not _is_few(part)]
    if few:
        records = pa.concat_tables(few, promote_options="permissive")
        columns = {name: whole(records[name]) for name in records.column_names}
        states.append(_states(spec.groups, spec.measures, columns, records.num_rows, spec.error))
    if len(states) == 1 and few and not states[0].values.num_rows:
        return states[0]  # the groups of records are ordered, and none is empty
    return add_states([*states, *_always(spec)])


def _is_few(part: pa.RecordBatch) -> bool:
    return KEY not in part.schema.names


def _records(
    groups: tuple[GroupColumn, ...],
    measures: tuple[Measure, ...],
    group_value: Callable[[Expr], Any],
    rows: StoredRows,
) -> dict[str, Any]:
    """Return the values of groups, g0, …, and of the arguments of measures, a0, …."""
    return {f"g{i}": typed(group_value(group.value), group.type) for i, group in enumerate(groups)} | {
        f"a{j}": typed(rows.value(measure.argument), measure.argument_type)
        for j, measure in enumerate(measures)
        if measure.argument is not None
    }


def _share(table: pa.Table, now: int) -> pa.RecordBatch:
    [batch] = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return batch.replace_schema_metadata({NOW: str(now)})


def _states(
    groups: tuple[GroupColumn, ...],
    measures: tuple[Measure, ...],
    records: dict[str, Any],
    count: int,
    error: float = 0.0,
) -> States:
    """Return the states of the groups of records, which have the columns g0, … and a0, …."""
    found = number_groups([records[f"g{i}"] for i in range(len(groups))], count)
    arguments = [records.get(f"a{j}") for j in range(len(measures))]
    by = pa.table({KEY: found.keys})
    return contribute(measures, arguments, by, Contribution(found.ids), lasting=False, error=error)


def _always(spec: AggregateSpec) -> list[States]:
    """Return the state of the one group that exists without GROUP BY, before any record."""
    if spec.groups:
        return []
    empty = {
        f"a{j}": pa.array([], arrow_type(measure.argument_type))
        for j, measure in enumerate(spec.measures)
        if measure.argument is not None
    }
    return [_states(spec.groups, spec.measures, empty, 0)]


def _with_members(spec: AggregateSpec, states: States) -> States:
    """Return the states; if they are empty, return the group that always exists without GROUP BY."""
    return states if states.by.num_rows or spec.groups else _always(spec)[0]


def _of_nearest(parts: Sequence[pa.RecordBatch], spec: AggregateSpec, k: int) -> States:
    """Return the states of the k nearest of all candidates; ties: smaller key, then earlier time first."""
    found = pa.Table.from_batches([part.replace_schema_metadata(None) for part in parts])
    names = [name for name in (_RANK, KEY, _TIME) if name in found.column_names]
    order = pc.sort_indices(found, sort_keys=[(name, "ascending") for name in names])
    nearest = found.take(order[:k]).combine_chunks()
    records = {name: whole(nearest[name]) for name in nearest.column_names}
    return add_states([_states(spec.groups, spec.measures, records, nearest.num_rows)])


def _packed(states: States) -> pa.Table:
    """Return states as one table: first the totals, then the values, whose `measure` is not NULL."""
    totals = pa.Table.from_arrays(
        [*states.by.columns, *states.totals.columns],
        names=[*states.by.column_names, *states.totals.column_names],
    )
    if not states.values.num_rows:
        return totals
    return pa.concat_tables([totals, states.values.cast(VALUES)], promote_options="default")


def _unpacked(batch: pa.RecordBatch) -> States:
    table = pa.Table.from_batches([batch.replace_schema_metadata(None)])
    if "measure" not in table.column_names:
        return States(table.select([KEY]), table.drop_columns([KEY]), VALUES.empty_table())
    listed = pc.is_valid(table["measure"])
    totals = table.filter(pc.invert(listed)).drop_columns([KEY, "row", "measure", "value"])
    return States(
        table.filter(pc.invert(listed)).select([KEY]), totals, table.filter(listed).select(VALUES.names)
    )
