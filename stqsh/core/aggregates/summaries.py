"""Mergeable summaries of term counts: approximate TOPK in bounded memory (STAR section 4.1.2).

A slot's summary of a group contains its frequent terms with their counts, and the greatest count that it
omits, which is at most `error` times the group's records on the slot. As in SpaceSaving, a term that is not
in a summary may have had that count. Merging follows Agarwal et al. (TODS 2013): counters of a term add up,
and a summary without the term adds its greatest omitted count. So counts are never too low, and too high by
at most `error` times the group's records. They depend only on how records are dealt to slots.

Sums must remain sums of differences. So a slot writes a counter as its excess over the greatest omitted
count, times `_UNIT`, plus one; the one counts the summaries that have the term. The greatest omitted count is
written as the count of no term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array

_UNIT = 1 << 20
"""A number greater than the number of slots."""

_NO_TERM = b""


def summarised(values: pa.Table, records: Array, error: float, k: int) -> pa.Table:
    """Return the summary of the terms of one measure.

    Args:
        values: A table of `VALUES`; all records of a row enter, or all leave.
        records: The number of records of each row, int64 (rows,).
        error: The most by which a count may be too high, as a share of the records.
        k: The least number of terms in a summary, if there are that many.
    """
    row, count = values["row"].to_numpy(), values["n"].to_numpy()
    texts: Any = values["value"].combine_chunks()
    rank = np.empty(len(row), np.int64)
    rank[pc.sort_indices(texts).to_numpy()] = np.arange(len(row))
    size, sign = np.abs(count), np.sign(count)
    order = np.lexsort((rank, -size, row))
    begin = np.searchsorted(row[order], np.arange(len(records)))
    place = np.arange(len(row)) - begin[row[order]]
    kept = (place < k) | (size[order] > error * np.abs(records[row[order]]))
    least = np.zeros(len(records), np.int64)
    np.maximum.at(least, row[order[~kept]], size[order[~kept]])
    chosen = order[kept]
    excess = sign[chosen] * ((size[chosen] - least[row[chosen]]) * _UNIT + 1)
    signs = np.zeros(len(records), np.int64)
    signs[row] = sign
    left_out = np.flatnonzero(least)
    taken: Any = pa.array(chosen)
    nothing: Any = pa.repeat(pa.scalar(_NO_TERM, pa.binary()), len(left_out))
    measure = values["measure"].to_numpy()[:1]
    columns: list[Any] = [
        np.concatenate([row[chosen], left_out]),
        np.repeat(measure, len(chosen) + len(left_out)),
        pa.concat_arrays([texts.take(taken), nothing]),
        np.concatenate([excess, (signs * least)[left_out]]),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, values.schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=values.schema)


def estimated(values: pa.Table, rows: int) -> pa.Table:
    """Return the terms of merged summaries with their counts, in the order of `values`.

    Args:
        values: A table of `VALUES`, for one measure.
        rows: The number of rows.
    """
    is_term = pc.not_equal(values["value"], pa.scalar(_NO_TERM, pa.binary()))
    rest = values.filter(pc.invert(is_term))
    left_out = np.zeros(rows, np.int64)
    np.add.at(left_out, rest["row"].to_numpy(), rest["n"].to_numpy())
    terms = values.filter(is_term)
    counts = terms["n"].to_numpy() // _UNIT + left_out[terms["row"].to_numpy()]
    return terms.set_column(3, values.schema.field("n"), pa.array(counts))
