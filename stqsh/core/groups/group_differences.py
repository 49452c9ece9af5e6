"""The differences of groups from step to step: those that slots send, and restarts from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.distinct_numbers import DistinctNumbers
from stqsh.core.aggregates.states import same_totals
from stqsh.core.groups.group_store import GroupStore, GroupTotals, GroupValues
from stqsh.core.groups.group_versions import Differences
from stqsh.core.groups.marks import BEGIN, GroupMarks
from stqsh.core.output.merge import MergeInput

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
