"""The answers of aggregate queries: measures of states, the select list, HAVING, ORDER BY and LIMIT."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import canonical, decode_keys, encode_keys, whole
from stqsh.core.aggregates.limbs import doubles_of, wholes_of
from stqsh.core.aggregates.states import COUNTED, SUMMED, States, leader
from stqsh.core.aggregates.summaries import estimated
from stqsh.core.conditions.evaluation import compute, evaluate
from stqsh.spec.aggregate import AggregateSpec, Measure
from stqsh.spec.chunk import arrow_type
from stqsh.spec.expression import ColumnExpr, find_nodes

Column: TypeAlias = Any
"""An Arrow array."""

pc: Any = pyarrow.compute  # its stubs do not accept computed column names

TOPK = pa.list_(pa.struct([("term", pa.string()), ("count", pa.int64())]))
"""The type of a TOPK: terms and their counts, by descending count, then by term."""

KEY, MEMBERS, PASSES = "key", "n", "passes"


def output_type(name: str) -> pa.DataType:
    """Return the Arrow type of a column that an aggregate shows."""
    return TOPK if name == "TOPK" else arrow_type(name)


def show_measures(measures: tuple[Measure, ...], states: States, *, about: bool = False) -> pa.Table:
    """Return the values of measures as the columns `m0`, `m1`, ….

    Args:
        measures: the measures.
        states: the states; none is negative, and values are in the order of `add_states`.
        about: whether the states of TOPK are summaries.
    """
    rows = states.by.num_rows
    totals = {name: states.totals[name].to_numpy() for name in states.totals.column_names}
    shown = {f"m{j}": _measure(measures, j, totals, states, about) for j in range(len(measures))}
    return pa.table(shown) if shown else pa.table({"": pa.nulls(rows)}).select([])


def group_values(spec: AggregateSpec, states: States) -> pa.Table:
    """Return the values of groups, whose keys are the column `key` of `states.by`, plain or as a dictionary.

    The columns are those of `states.by`, n, g0 … and m0 …; g0 … are dictionaries if the keys are one. The
    caller must leave out negative states.
    """
    keys: Any = whole(states.by[KEY])
    types = [group.type for group in spec.groups]
    if pa.types.is_dictionary(keys.type):
        values: Any = decode_keys(keys.dictionary, types)
        groups = [_coded(keys.indices, column) for column in values]
    else:
        groups = decode_keys(keys, types)
    table = states.by.append_column(MEMBERS, states.totals["n"])
    for i, column in enumerate(groups):
        table = table.append_column(f"g{i}", column)
    shown = show_measures(spec.measures, states, about=spec.error > 0)
    for name in shown.column_names:
        table = table.append_column(name, shown[name])
    return table


def show_groups(spec: AggregateSpec, states: States, now_us: pa.Array[Any] | int) -> pa.Table:
    """Return the rows of groups.

    The columns are those of `group_values`, the select list s0 …, ORDER BY o0 …, and `passes`, whether HAVING
    is TRUE. The caller must leave out groups without members. With `distinct`, the key is that of what a row
    shows, so that equal rows have equal keys.

    Args:
        spec: What the query computes.
        states: The states of the groups.
        now_us: The value of NOW, µs: one instant, or one for each group.
    """
    return _with_outputs(spec, group_values(spec, states), now_us)


def first_groups(spec: AggregateSpec, shown: pa.Table) -> Array:
    """Return the positions of the rows that pass, ordered by ORDER BY, then key, up to LIMIT.

    With `distinct`, equal rows are adjacent, and only the first of them counts.
    """
    at = np.flatnonzero(shown[PASSES].to_numpy())
    passing: Any = pa.array(at)
    table = shown.select([KEY, *(f"o{i}" for i in range(len(spec.order)))]).take(passing)
    order = group_order(spec, table, [])
    first: Array = at[order.to_numpy()]
    if spec.distinct:
        first = first[are_new(table[KEY].take(order))]
    return first if spec.limit is None else first[: spec.limit]


def group_order(spec: AggregateSpec, table: pa.Table, before: list[str]) -> Any:
    """Return the positions of rows, ordered by the columns `before`, then ORDER BY, then key."""
    keys = [(name, "ascending") for name in before]
    for i, one in enumerate(spec.order):
        if one.nulls_first:
            table = table.append_column(f"null{i}", table[f"o{i}"].is_valid().cast(pa.int8()))
            keys.append((f"null{i}", "ascending"))
        keys.append((f"o{i}", "descending" if one.is_descending else "ascending"))
    return pc.sort_indices(table, sort_keys=[*keys, (KEY, "ascending")])


def are_new(keys: Any) -> Array:
    """Return which keys, (n,), differ from the one before."""
    new = np.ones(len(keys), np.bool_)
    if len(keys):
        column = plain(keys)
        new[1:] = pc.not_equal(column.slice(1), column.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return new


def plain(column: Any) -> Column:
    """Return a column in one piece, without a dictionary."""
    one = whole(column)
    return one.dictionary.take(one.indices) if pa.types.is_dictionary(one.type) else one


def _with_outputs(spec: AggregateSpec, table: pa.Table, now_us: pa.Array[Any] | int) -> pa.Table:
    columns = {name: plain(table[name]) for name in _read(spec)}
    for i, output in enumerate(spec.select):
        if isinstance(output.value, ColumnExpr):
            value = whole(table[output.value.name])
        else:
            value = compute(output.value, columns, now_us)
        table = table.append_column(f"s{i}", canonical(typed(value, output.type)))
    for i, order in enumerate(spec.order):
        value = order.value
        ordered = columns[value.name] if isinstance(value, ColumnExpr) else compute(value, columns, now_us)
        table = table.append_column(f"o{i}", canonical(ordered))
    passes: Any = pa.array(np.ones(table.num_rows, np.bool_))
    if spec.having is not None:
        passes = evaluate(spec.having, columns, now_us).fill_null(False)
    if spec.distinct:
        keys = encode_keys([_as_key(table[f"s{i}"]) for i in range(len(spec.select))])
        table = table.set_column(table.column_names.index(KEY), KEY, keys)
    return table.append_column(PASSES, passes)


def _as_key(column: Any) -> Column:
    """Return a column whose values can be encoded as keys: a TOPK as its JSON."""
    values = plain(column)
    if not pa.types.is_list(values.type):
        return values
    lists = ([[one["term"], one["count"]] for one in terms] for terms in values.to_pylist())
    return pa.array([msgspec.json.encode(terms).decode() for terms in lists], pa.string())


def _coded(indices: Any, values: Any) -> Any:
    """Return values as a dictionary without NULL, so that it can be combined with others."""
    if values.null_count:
        known = values.is_valid().to_numpy(zero_copy_only=False)
        place: Any = pa.array(np.cumsum(known, dtype=np.int32) - np.int32(1), mask=~known)
        indices, values = place.take(indices), values.drop_null()
    return pa.DictionaryArray.from_arrays(indices, values)


def _read(spec: AggregateSpec) -> set[str]:
    """Return the columns of groups that are compared or computed with, and the one that always exists."""
    shown = (one.value for one in spec.select if not isinstance(one.value, ColumnExpr))
    wanted = [*shown, spec.having, *(one.value for one in spec.order)]
    names = {node.name for expr in wanted if expr is not None for node in find_nodes(expr, ColumnExpr)}
    return names | {MEMBERS}


def typed(column: Column, kind: str) -> Column:
    """Return a column in the type of an output; a dictionary of such values remains one."""
    wanted = output_type(kind)
    is_coded = pa.types.is_dictionary(column.type) and column.type.value_type == wanted
    return column if is_coded or column.type == wanted else plain(column).cast(wanted)


def _measure(
    measures: tuple[Measure, ...], number: int, totals: dict[str, Array], states: States, about: bool
) -> Column:
    measure, rows = measures[number], states.by.num_rows
    if measure.argument is None:
        return pa.array(totals["n"])
    if measure.function in COUNTED:
        count = totals[f"c{leader(measures, number, COUNTED)}"]
        return pa.array(count) if measure.function == "count" else _sum(measures, number, totals, count)
    values = states.values
    mine = np.flatnonzero(values["measure"].to_numpy() == number)
    if measure.function == "distinct":
        return pa.array(np.bincount(values["row"].to_numpy()[mine], minlength=rows))
    if measure.function == "topk" and about:
        chosen: Any = pa.array(mine)
        values = estimated(values.take(chosen), rows)
        mine = np.arange(values.num_rows)
    if measure.function == "topk":
        return _top(values, mine, rows, measure.k)
    return _extreme(measure, values, mine, rows)


def _sum(measures: tuple[Measure, ...], number: int, totals: dict[str, Array], count: Array) -> Column:
    measure, name = measures[number], f"s{leader(measures, number, SUMMED)}"
    if measure.type == "BIGINT":
        sums, fits = wholes_of(totals, name, len(count))
        return pa.array(sums, mask=(count == 0) | ~fits)
    sums = doubles_of(totals, name, len(count))
    known = np.isfinite(sums) & (count != 0)
    if measure.function == "avg":
        np.divide(sums, count, out=sums, where=known)
    return pa.array(sums, mask=None if known.all() else ~known)


def _extreme(measure: Measure, values: pa.Table, mine: Array, rows: int) -> Column:
    """Return the first or the last value of each row; the values at `mine` must be ordered."""
    at = values["row"].to_numpy()[mine]
    is_first = np.diff(at, prepend=-1) != 0
    chosen = is_first if measure.function == "min" else np.diff(at, append=rows) != 0
    [found] = decode_keys(_taken(values["value"], mine[chosen]), [measure.argument_type])
    place = np.full(rows, -1, np.int64)
    place[at[chosen]] = np.arange(len(found))
    positions: Any = pa.array(place, mask=place < 0)
    return found.take(positions)


def _taken(column: Column, at: Array) -> Any:
    """Return some values of a column, without a dictionary; only these are copied."""
    return plain(whole(column).take(pa.array(at)))


def _top(values: pa.Table, mine: Array, rows: int, k: int) -> Column:
    """Return the k most frequent terms of each row; the values at `mine` must be ordered."""
    at, counts = (values[name].to_numpy()[mine] for name in ("row", "n"))
    order = np.lexsort((np.arange(len(at)), -counts, at))
    begin = np.searchsorted(at, np.arange(rows + 1))
    kept = order[np.arange(len(at)) - begin[at] < k] if len(at) else order
    [terms] = decode_keys(_taken(values["value"], mine[kept]), ["STRING"])
    pairs: Any = pa.StructArray.from_arrays([terms, pa.array(counts[kept])], fields=list(TOPK.value_type))
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.minimum(np.diff(begin), k), out=offsets[1:])
    places: Any = pa.array(offsets)
    return pa.ListArray.from_arrays(places, pairs).cast(TOPK)
