"""Outcomes as Arrow tables: distinct names, and times as timestamps in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stqsh.client.read.group_keys import group_types, group_values, is_group_key
from stqsh.client.read.projection import project
from stqsh.storage.update_log.reader import REASONS

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, Updates
    from stqsh.storage.rows import QueryRow

UTC = pa.timestamp("us", tz="UTC")
HEAD = ("query", "step", "at", "op", "key", "why")
"""The columns of updates before those of the select list."""


def answer_table(answer: Answer) -> pa.Table:
    """Return the rows of a snapshot."""
    return in_utc(answer.table).rename_columns(distinct(answer.names))


def rows_table(rows: Rows) -> pa.Table:
    """Return the rows of a SHOW or DESCRIBE; a column of values of different types becomes text."""
    columns = zip(*rows.rows, strict=True) if rows.rows else [()] * len(rows.columns)
    return pa.Table.from_arrays([cell_array(column) for column in columns], names=distinct(rows.columns))


def update_table(updates: Updates, query: QueryRow) -> pa.Table:
    """Return updates of one query: `HEAD`, then its select list.

    `op` is `+` or `-`, `why` the reason of a `-`. The key of an aggregate's row is a struct of its GROUP BY
    values, `group_1`, `group_2`, …. A selected column with the name of a `HEAD` column is called
    `row.NAME`, as in Arrow files.
    """
    table = updates.table
    why = table.column("why").to_numpy()
    head: list[Any] = [
        pa.repeat(pa.scalar(query.name, pa.string()), table.num_rows),
        table.column("step"),
        table.column("at_us").cast(UTC),
        pa.array(["-", "+"]).take(pa.array(table.column("op").to_numpy() > 0).cast(pa.int32())),
        _keys(table.column("key"), query),
        pa.array([None, *REASONS[1:]], pa.string()).take(pa.array(why)),
    ]
    columns = [*head, *project(updates, query.spec.result.select)]
    names = (column.name for column in query.spec.result.select)
    shown = (f"row.{name}" if name in HEAD else name for name in names)
    return in_utc(pa.Table.from_arrays(columns, names=distinct([*HEAD, *shown])))


def in_utc(table: pa.Table) -> pa.Table:
    """Return the table with all its timestamps in microseconds, UTC."""
    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type != UTC:
            table = table.set_column(place, column.name, table.column(place).cast(UTC))
    return table.replace_schema_metadata(None)


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to repeated ones.

    >>> distinct(["lon", "lat", "lon"])
    ['lon', 'lat', 'lon_2']
    """
    found: list[str] = []
    for name in names:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return found


def cell_array(values: Sequence[Any]) -> pa.Array[Any]:
    """Return cells of a SHOW as an Arrow array; as text where their types differ."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        values = [None if value is None else str(value) for value in values]
    return pa.array(values, None if kinds else pa.string())


def _keys(keys: pa.ChunkedArray[Any], query: QueryRow) -> Any:
    if not is_group_key(keys):
        return keys
    whole: Any = keys.combine_chunks()
    columns = group_values(whole, group_types(query))
    names = [f"group_{place}" for place in range(1, len(columns) + 1)]
    if not columns:  # an aggregate without GROUP BY has one row
        return pa.array([{}] * len(whole), pa.struct([]))
    return pa.StructArray.from_arrays(columns, names=names)
