"""Counts of the values of measures in regions at a refresh, for COUNT(DISTINCT …) and TOPK."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import encode_keys
from stqsh.core.aggregates.states import VALUES, value_lists
from stqsh.core.kernels.groups.region_members import (
    PlacedRecords,
    PlaceOrder,
    TallyRegions,
    put_in_order,
)
from stqsh.core.kernels.groups.region_tallies import (
    RecordTerms,
    RecordValues,
    TallyRows,
    count_values,
)
from stqsh.core.kernels.jit import frozen
from stqsh.spec.aggregate import Measure


class ListedMeasure(NamedTuple):
    """A measure that needs all values: its number, the values of records, and their keys, ascending."""

    measure: int
    listed: RecordValues
    keys: pa.BinaryArray


def listed_measure(number: int, measure: Measure, column: Any, order: PlaceOrder) -> ListedMeasure:
    """Return the values of a measure for records, put in a given order."""
    there = column.is_valid().to_numpy(zero_copy_only=False)
    found = value_lists(measure, column.filter(pa.array(there)))
    place, keys = _in_order(encode_keys([found.distinct]))
    lengths = np.zeros(len(column), np.int64)
    lengths[there] = found.lengths
    begin = np.cumsum(lengths) - lengths
    own = put_in_order(frozen(lengths), order)
    start = np.append(0, np.cumsum(own))
    at = np.repeat(put_in_order(frozen(begin), order) - start[:-1], own) + np.arange(start[-1])
    codes = place[found.codes[at]]
    return ListedMeasure(number, RecordValues(start, codes, len(keys)), keys)


def _in_order(keys: pa.BinaryArray) -> tuple[Array, pa.BinaryArray]:
    """Return the rank of each key, int32, and the sorted keys."""
    order = pc.sort_indices(keys)
    place = np.empty(len(keys), np.int32)
    place[order.to_numpy()] = np.arange(len(keys), dtype=np.int32)
    return place, keys.take(order)


def values_of_rows(
    one: ListedMeasure,
    placed: PlacedRecords,
    terms: RecordTerms,
    regions: TallyRegions,
    rows: TallyRows,
) -> pa.Table:
    """Count the values of a measure in the rows of regions; return a table of `VALUES`."""
    if not one.listed.values:
        return VALUES.empty_table()
    begin, end = int(rows.region[0]), int(rows.region[-1]) + 1
    codes, times = count_values(placed, terms, one.listed, regions, begin, end)
    groups, value = np.divmod(codes, one.listed.values)
    known = rows.region.astype(np.int64) * terms.groups + rows.group
    at: Any = pa.array(value)
    columns: list[Any] = [
        np.searchsorted(known, groups),
        np.full(len(at), one.measure),
        one.keys.take(at),
        times,
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, VALUES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=VALUES)
