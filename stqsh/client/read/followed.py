"""FOLLOW: the records of one object as updates of a query that lives as long as somebody reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from stqsh.client.read.subscription import Subscription
from stqsh.client.results import SnapshotMark, Updates
from stqsh.spec.chunk import WHY
from stqsh.spec.stream import StreamSpec

_CHANGED = WHY.index("changed")


@dataclass
class Followed(Subscription):
    """The records of one object: its last one, then each that comes, and a `-` where it has gone.

    Attributes:
        last: the last record, of a stream's columns, with the step and time as of which it was read.
    """

    last: tuple[pa.Table, int, int | None] | None = None
    not_begun: ClassVar[str] = (
        "{}: further records come with further steps, and none is due; RUN or PLAY lets time go on"
    )

    def __iter__(self) -> Iterator[Updates | SnapshotMark]:
        """Yield the records, as updates of the object's stream."""
        stream = self.link.book.stream(self.query.stream_id).spec
        shown = None
        if self.last is not None and self.last[0].num_rows:
            shown = _records(_as_update(*self.last, self.query.id, stream), stream)
            yield self._updates(_as_update(*self.last, self.query.id, stream), snapshot=False)
        for item in super().__iter__():
            if isinstance(item, SnapshotMark):
                continue
            table = _in_order(item.table, stream)
            if shown is not None and table.num_rows:  # the record that was shown already
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
