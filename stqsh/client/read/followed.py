"""FOLLOW: the records of one object as updates of a query that lives as long as somebody reads it.

Its groups are records: each new one brings a group in, and takes the one before it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.client.read.projection import project
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import SnapshotMark, Updates
from stqsh.spec.chunk import arrow_type
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import SelectColumn
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import QueryRow

_HEAD = ("step", "at_us", "query", "op", "why")


@dataclass
class Followed(Subscription):
    """The records of one object: its last one, then each that comes, and a `-` where it has gone.

    Attributes:
        last: the last record, of a stream's columns, with the step and time as of which it was read.
    """

    last: tuple[pa.Table, int, int | None] | None = None

    def __iter__(self) -> Iterator[Updates | SnapshotMark]:
        """Yield the records, as updates of the object's stream."""
        stream = self.link.book.stream(self.query.stream_id)
        shown: list[dict[str, Any]] = []
        if self.last is not None and self.last[0].num_rows:
            table, step, at_us = self.last
            shown = table.to_pylist()
            yield self._records(stream.spec, [c.combine_chunks() for c in table.columns], _first(step, at_us))
        for item in super().__iter__():
            if isinstance(item, SnapshotMark):
                continue
            rows = item.table.filter(pa.array(_telling(item.table)))
            columns = project(replace(item, table=rows), self.query.spec.select)
            found = self._records(stream.spec, columns, rows.select(list(_HEAD)))
            if found.table.num_rows and shown:  # the record that was shown already
                again = _values(found.table, stream.spec)[0] == shown[-1]
                found = replace(found, table=found.table.slice(1 if again else 0))
                shown = []
            if found.table.num_rows:
                yield found

    def _records(self, stream: StreamSpec, columns: Sequence[Any], head: pa.Table) -> Updates:
        """Return records with their heads as updates of the stream, by a query that selects all columns."""
        names = [name for name, _ in stream.columns]
        typed = [
            column.cast(arrow_type(kind)) for column, (_, kind) in zip(columns, stream.columns, strict=True)
        ]
        table = head.set_column(2, "query", pa.array(np.full(head.num_rows, self.query.id, np.int64)))
        table = table.append_column("key", typed[names.index(stream.key)])
        for name, column in zip(names, typed, strict=True):
            table = table.append_column(f"c.{name}", column)
        row = self.link.book.stream(self.query.stream_id)
        return Updates(table, row, {self.query.id: self._plain(names)}, lookups=self.link.lookups)

    def _plain(self, names: list[str]) -> QueryRow:
        select = tuple(SelectColumn(name, ColumnExpr(name)) for name in names)
        return replace(
            self.query, spec=msgspec.structs.replace(self.query.spec, select=select, aggregates=None)
        )


def _telling(table: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which updates tell something: each that came in, and what went out where nothing came in."""
    ops, steps = table.column("op").to_numpy(), table.column("step").to_numpy()
    telling: np.ndarray[Any, np.dtype[np.bool_]] = (ops > 0) | ~np.isin(steps, steps[ops > 0])
    return telling


def _first(step: int, at_us: int | None) -> pa.Table:
    types = (pa.int64(), pa.int64(), pa.int64(), pa.int8(), pa.int8())
    values = (step, at_us, 0, 1, 0)
    columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    return pa.table(columns, names=list(_HEAD))


def _values(table: pa.Table, stream: StreamSpec) -> list[dict[str, Any]]:
    """Return the records of updates as rows of the stream."""
    names = [name for name, _ in stream.columns]
    records: list[dict[str, Any]] = (
        table.select([f"c.{name}" for name in names]).rename_columns(names).to_pylist()
    )
    return records
