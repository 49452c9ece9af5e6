"""States of measures: the contributions of records to groups, exact and independent of order.

States are signed: the states of records that leave are subtracted, and the difference of two states is a
state. Numbers of records and sums add up. For MIN, MAX, COUNT(DISTINCT …) and TOPK, a state stores how often
each value occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.distinct_numbers import DistinctNumbers
from stqsh.core.aggregates.keys import canonical, distinct_rows, encode_keys
from stqsh.core.aggregates.limbs import add_terms, normalised
from stqsh.core.aggregates.summaries import summarised
from stqsh.core.kernels.events.versions import count_each, tally
from stqsh.core.kernels.jit import frozen
from stqsh.core.texts.tokenizer import coded_terms
from stqsh.spec.aggregate import Measure
from stqsh.spec.chunk import decoded
from stqsh.spec.narrow_columns import narrowed

COUNTED = frozenset({"count", "sum", "avg"})
SUMMED = frozenset({"sum", "avg"})
EXTREMES = frozenset({"min", "max"})
_LISTED = EXTREMES | {"distinct", "topk"}

_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("row", pa.int32()),
    ("measure", pa.int16()),
    ("value", pa.binary()),
    ("n", pa.int64()),
]
VALUES = pa.schema(_COLUMNS)
"""The schema of counts of measures' values in rows."""

_SAME = b"same"
"""The metadata key of a batch of totals that names the totals that equal `n`."""

PART_ROWS = 1 << 17
"""The most rows of groups in a chunk."""


class States(NamedTuple):
    """The states of rows; each row is a group of some query, identified by the columns of `by`.

    Attributes:
        by: the columns that identify each row, without repeats.
        totals: for each row `n`, the number of records; `c{j}`, the number of records where the argument of
            measure j is not NULL; and `s{j}.{place}`, the limbs of the argument's sum; a missing place is 0.
        values: how often, `n`, a value or term of a measure occurs in a row, by row, measure and value.
    """

    by: pa.Table
    totals: pa.Table
    values: pa.Table


class Contribution(NamedTuple):
    """The rows that records belong to.

    Attributes:
        rows: int32 (n,).
        signs: 1 for records that enter, -1 for records that leave, int8 (n,); None if all enter.
    """

    rows: Array
    signs: Array | None = None

    def where(self, chosen: Array) -> Contribution:
        """Return the contribution of the marked records, bool (n,)."""
        return Contribution(self.rows[chosen], None if self.signs is None else self.signs[chosen])

    def repeated(self, lengths: Array) -> Contribution:
        """Return the contribution with each record repeated by its length."""
        signs = None if self.signs is None else np.repeat(self.signs, lengths)
        return Contribution(np.repeat(self.rows, lengths), signs)

    def tally(self, rows: int) -> Array:
        """Return the net number of records that enter each row, int64 (rows,)."""
        own = frozen(self.rows)
        return count_each(own, rows) if self.signs is None else tally(own, frozen(self.signs), rows)


class ValueLists(NamedTuple):
    """The values of records: value numbers record by record, counts per record, and distinct values."""

    codes: Array
    lengths: Array
    distinct: Any


def leader(measures: Sequence[Measure], number: int, functions: frozenset[str]) -> int:
    """Return the first measure with one of the functions and the same argument; these share a state."""
    argument = measures[number].argument
    return next(i for i, one in enumerate(measures) if one.argument == argument and one.function in functions)


def contribute(
    measures: Sequence[Measure],
    arguments: Sequence[pa.Array[Any] | None],
    by: pa.Table,
    records: Contribution,
    *,
    lasting: bool = True,
    error: float = 0.0,
) -> States:
    """Return the contributions of records to the rows of `by`; values are unordered.

    Args:
        measures: The measures.
        arguments: The values of their arguments, (n,) each; None for COUNT(*).
        by: The columns that identify the rows.
        records: The rows of the records.
        lasting: Whether records may leave later; if not, only the extremes are stored for MIN and MAX.
        error: How much too high counts of TOPK may be, as a share of a row's records. If it is positive, rows
            must be complete.
    """
    totals: dict[str, Array] = {"n": records.tally(by.num_rows)}
    values: list[pa.Table] = []
    for j, (measure, argument) in enumerate(zip(measures, arguments, strict=True)):
        if argument is None:
            continue
        column, function = canonical(argument), measure.function
        known, own = column, records
        if column.null_count:
            there = column.is_valid().to_numpy(zero_copy_only=False)
            known, own = column.filter(pa.array(there)), records.where(there)
        if function in COUNTED and leader(measures, j, COUNTED) == j:
            totals[f"c{j}"] = own.tally(by.num_rows) if column.null_count else totals["n"]
        if function in SUMMED and leader(measures, j, SUMMED) == j:
            totals |= add_terms(f"s{j}", known, own.rows, own.signs, by.num_rows)
        if function in _LISTED:
            found = _occurrences(j, measure, known, own, lasting)
            is_about = error > 0 and function == "topk"
            values.append(summarised(found, totals["n"], error, measure.k) if is_about else found)
    return States(by, _table(totals), pa.concat_tables(values) if values else VALUES.empty_table())


def add_states(parts: Sequence[States]) -> States:
    """Return the sum of states, without rows and values that are all zero, ordered by `by`, then value."""
    by = pa.concat_tables([part.by for part in parts])
    ids, order, distinct = _number_rows(by)
    totals = pa.concat_tables([part.totals for part in parts], promote_options="default")
    summed = normalised({name: _sums(totals[name], ids, len(order)) for name in totals.column_names})
    start, shifted = 0, []
    for part in parts:
        own = part.values
        rows = pa.array(ids[own["row"].to_numpy() + start])
        shifted.append(own.set_column(0, VALUES.field("row"), rows))
        start += part.by.num_rows
    return _without_zeros(States(distinct, _table(summed), _by_value(shifted)))


def group_payloads(found: Iterable[States]) -> Iterator[pa.RecordBatch]:
    """Yield the totals and the values of states as record batches, with the query's id as the first column.

    Whole numbers of totals are as narrow as possible. Totals that equal the number of records are only named,
    see `same_totals`.
    """
    for states in found:
        totals, members, same = states.by, states.totals["n"], list[str]()
        for name in states.totals.column_names:
            column = states.totals[name]
            if name != "n" and "." not in name and column.equals(members):
                same.append(name)
            else:
                totals = totals.append_column(name, column)
        totals = totals.replace_schema_metadata({_SAME: " ".join(same)})
        yield from map(narrowed, map(decoded, totals.combine_chunks().to_batches(PART_ROWS)))
        if states.values.num_rows:
            values = states.by.take(states.values["row"])
            for name in states.values.column_names[1:]:
                values = values.append_column(name, states.values[name])
            yield from map(decoded, values.combine_chunks().to_batches(PART_ROWS))


def same_totals(batch: pa.RecordBatch) -> list[str]:
    """Return the totals that equal `n` in a batch of totals, and so are not among its columns."""
    return (batch.schema.metadata or {}).get(_SAME, b"").decode().split()


def _without_zeros(states: States) -> States:
    count = states.by.num_rows
    some = np.zeros(count, np.bool_)
    for column in states.totals.columns:
        some |= column.to_numpy() != 0
    some[states.values["row"].to_numpy()] = True
    if some.all():
        return states
    place = np.cumsum(some, dtype=np.int32) - np.int32(1)
    chosen: Any = pa.array(some)
    rows = pa.array(place[states.values["row"].to_numpy()], pa.int32())
    values = states.values.set_column(0, VALUES.field("row"), rows)
    return States(states.by.filter(chosen), states.totals.filter(chosen), values)


def _number_rows(by: pa.Table) -> tuple[Array, Array, pa.Table]:
    """Return each row's number among the distinct rows in order, int32 (n,), and the distinct rows."""
    if not by.num_rows:
        return np.empty(0, np.int32), np.empty(0, np.int64), by
    ids, columns = distinct_rows(by.columns)
    distinct = pa.table(columns, names=by.column_names)
    order = pc.sort_indices(distinct, sort_keys=[(name, "ascending") for name in by.column_names])
    place = np.empty(distinct.num_rows, np.int32)
    place[order.to_numpy()] = np.arange(distinct.num_rows, dtype=np.int32)
    return place[ids], order.to_numpy(), distinct.take(order)


def _table(columns: dict[str, Array]) -> pa.Table:
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def _sums(column: Any, ids: Array, rows: int) -> Array:
    out = np.zeros(rows, np.int64)
    np.add.at(out, ids, (column.fill_null(0) if column.null_count else column).to_numpy())
    return out


def _occurrences(
    number: int, measure: Measure, column: pa.Array[Any], records: Contribution, lasting: bool
) -> pa.Table:
    """Return how often each value, or each term of a TOPK, occurs in a row."""
    codes, lengths, distinct = value_lists(measure, column)
    if measure.function == "topk":
        records = records.repeated(lengths)
    values = encode_keys([distinct])
    if measure.function in EXTREMES and not lasting:
        return _extremes(number, measure.function, values, codes, records.rows)
    size = max(len(values), 1)
    pairs = records.rows * np.int64(size) + codes
    distinct = DistinctNumbers(pairs)
    counts = records._replace(rows=distinct.find(pairs).astype(np.int32)).tally(len(distinct))
    kept = counts != 0
    row, code = np.divmod(distinct.values[kept], size)
    return _listed(number, row, values, code, counts[kept])


def value_lists(measure: Measure, column: pa.Array[Any]) -> ValueLists:
    """Return the values, or the terms of a TOPK, of records without NULL."""
    coded: Any = column.dictionary_encode()
    indices = coded.indices.to_numpy()
    if measure.function != "topk":
        ones = np.ones(len(indices), np.int64)
        return ValueLists(indices.astype(np.int64), ones, coded.dictionary)
    texts, terms = coded_terms(coded.dictionary)
    begin = texts.start[indices]
    lengths = texts.start[indices + 1] - begin
    at = np.repeat(begin - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    return ValueLists(texts.codes[at].astype(np.int64), lengths, terms)


def _extremes(number: int, function: str, values: pa.BinaryArray, codes: Array, rows: Array) -> pa.Table:
    """Return the smallest or largest value of each row, with a count of one."""
    order = np.empty(len(values), np.int64)
    order[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
    ranks = order[codes] if function == "min" else -order[codes]
    by_rank = np.lexsort((ranks, rows))
    first = by_rank[np.flatnonzero(np.diff(rows[by_rank], prepend=-1))]
    return _listed(number, rows[first], values, codes[first], np.ones(len(first), np.int64))


def _listed(number: int, rows: Array, values: pa.BinaryArray, codes: Array, counts: Array) -> pa.Table:
    measure = np.full(len(rows), number, np.int16)
    positions: Any = pa.array(codes)
    columns: list[Any] = [rows.astype(np.int32), measure, values.take(positions), counts]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, VALUES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=VALUES)


def _by_value(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the sum of counts by row, measure and value, without zeros."""
    some = [part for part in parts if part.num_rows]
    if not some:
        return VALUES.empty_table()
    names = VALUES.names[:3]
    together = pa.concat_tables(some)
    summed = together.group_by(names, use_threads=False).aggregate([("n", "sum")])
    summed = summed.rename_columns(VALUES.names).filter(pc.field("n") != 0)
    return summed.sort_by([(name, "ascending") for name in names]).cast(VALUES)
