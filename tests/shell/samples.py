"""Results as a session would give them, made by hand."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from support.specs import stream_spec
from support.typed import query_spec

from stqsh.client.results import Updates
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import Target
from stqsh.storage.rows import QueryRow, StreamRow

COLUMNS = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"], ["status", "STRING"]]
STREAM = StreamRow(1, "taxis", stream_spec(columns=COLUMNS, key="oid", x="lon", y="lat"))
START_US = 1_201_964_412_000_000  # 2008-02-02T15:00:12Z
WHY = {"": 0, "left": 1, "disconnected": 3, "dropped": 8}

Update = tuple[int, int, str, str, str, float | None, float | None, int | None, str | None]


def query(number: int, name: str, select: list[tuple[str, str]] | None = None) -> QueryRow:
    """A query that selects `oid, lon, lat` unless told otherwise."""
    chosen = select or [("oid", "oid"), ("lon", "lon"), ("lat", "lat")]
    spec = {"select": [[output, ["col", column]] for output, column in chosen], "stream": "taxis"}
    return QueryRow(number, name, 1, query_spec(spec), "active", number, 0, 0)


def updates(queries: list[QueryRow], rows: list[Update], *, snapshot: bool = False) -> Updates:
    """Updates from tuples (step, query id, `+` or a reason, key, oid, lon, lat, ts in µs, status)."""
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(9)]
    steps, ids, ops, keys, oids, lons, lats, times, states = columns
    table = pa.table(
        {
            "step": pa.array(steps, pa.int64()),
            "at_us": pa.array([START_US + (step - 12) * 1_000_000 for step in steps], pa.int64()),
            "query": pa.array(ids, pa.int64()),
            "op": pa.array([1 if op == "+" else -1 for op in ops], pa.int8()),
            "why": pa.array([WHY["" if op == "+" else op] for op in ops], pa.int8()),
            "key": pa.array(keys, pa.string()),
            "c.oid": pa.array(oids, pa.string()),
            "c.lon": pa.array(lons, pa.float64()),
            "c.lat": pa.array(lats, pa.float64()),
            "c.ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "c.status": pa.array(states, pa.string()),
        }
    )
    return Updates(table, STREAM, {one.id: one for one in queries}, snapshot)


class Paper:
    """A writer on a buffer: `writer` writes, `text` is what came of it."""

    def __init__(self, name: str, **target: Any) -> None:
        self._buffer = io.BytesIO()
        self.writer = open_writer(name, Target(self._buffer, **target))

    @property
    def text(self) -> str:
        """All that was written."""
        return self._buffer.getvalue().decode()
