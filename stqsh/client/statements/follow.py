"""FOLLOW: the records of one object as updates of a query, which is dropped when its reader stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from msgspec import structs

from stqsh.client.read.subscription import Subscription, TailOptions
from stqsh.client.results import Message, Outcome, SnapshotMark, Updates
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.dispatch import free_name
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Name
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.live import BoundFollow
from stqsh.lang.printer.printer import to_sql
from stqsh.spec.chunk import WHY
from stqsh.spec.query import RECORDS
from stqsh.spec.stream import StreamSpec


def follow(context: StatementContext, statement: statements.Follow) -> Iterator[Outcome]:
    """Follow an object, from its last record on."""
    bound: BoundFollow = bind(statement, context.view).spec
    name = free_name(context, "follow")
    subscribed = bind(statements.Subscribe(bound.select, piece=statement.piece), context.view, name=name).spec
    text = to_sql(statements.RegisterQuery(Name(name), bound.select))
    spec = structs.replace(subscribed, kind=RECORDS.name)
    asked, stream = context.snapshots.bound(bound.select, context.view)
    found = context.snapshots.ask(asked, stream)
    if not found.table.num_rows and asked.lookup is not None:
        from stqsh.client.read.empty_answers import unknown_key  # numpy

        if away := unknown_key(context.connection, context.snapshots, stream, asked.lookup):
            yield Message(f"{away}; its records are shown once it reports")
    first = context.connection.progress().step + 1  # before it is registered
    query = context.register_own(f"{text};", spec)
    yield Followed(
        query,
        TailOptions(from_step=first),
        context.connection,
        temporary=True,
        until_idle=context.is_script,
        last=(found.table, found.step, found.at_us),
    )


_CHANGED = WHY.index("changed")


@dataclass
class Followed(Subscription):
    """The records of one object: its last one, then each new one, and a `-` when it has gone.

    Attributes:
        last: the last record, with the stream's columns, and the step and time at which it was read.
    """

    last: tuple[pa.Table, int, int | None] | None = None
    not_begun: ClassVar[str] = (
        "{}: further records come with further steps, and none is due; RUN or PLAY lets time go on"
    )

    def __iter__(self) -> Iterator[Updates | SnapshotMark]:
        """Yield the records, as updates of the object's stream."""
        stream = self.connection.book.stream(self.query.stream_id).spec
        shown = None
        if self.last is not None and self.last[0].num_rows:
            shown = _records(_as_update(*self.last, self.query.id, stream), stream)
            yield self._updates(_as_update(*self.last, self.query.id, stream), snapshot=False)
        for item in super().__iter__():
            if isinstance(item, SnapshotMark):
                continue
            table = _in_order(item.table, stream)
            if shown is not None and table.num_rows:  # skip the record that was already shown
                table = table.slice(1) if _records(table.slice(0, 1), stream) == shown else table
                shown = None
            if table.num_rows:
                yield replace(item, table=table)


def _in_order(table: pa.Table, stream: StreamSpec) -> pa.Table:
    """Return the records and the departures among updates, by step and time."""
    table = table.filter(pa.array(table.column("why").to_numpy() != _CHANGED))
    times: Any = table.column(f"c.{stream.time}").cast(pa.int64()).combine_chunks()
    latest = np.where(times.is_null(), np.iinfo(np.int64).max, times.fill_null(0))
    return table.take(np.lexsort((-table.column("op").to_numpy(), latest, table.column("step").to_numpy())))


def _as_update(table: pa.Table, step: int, at_us: int | None, query: int, stream: StreamSpec) -> pa.Table:
    """Return the record of a snapshot as a table of updates with a `+`."""
    head = {"step": step, "at_us": at_us, "query": query, "op": 1, "why": 0}
    columns: dict[str, Any] = {
        name: pa.array([value], pa.int8() if name in ("op", "why") else pa.int64())
        for name, value in head.items()
    }
    columns["key"] = table.column(stream.key)
    return pa.table(columns | {f"c.{name}": table.column(name) for name, _ in stream.columns})


def _records(table: pa.Table, stream: StreamSpec) -> list[dict[str, object]]:
    """Return the records of updates as rows."""
    rows: list[dict[str, object]] = table.select([f"c.{name}" for name, _ in stream.columns]).to_pylist()
    return rows
