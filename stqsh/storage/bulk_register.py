"""REGISTER and DROP of very many queries at once: one row of the log for as many as make a chunk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from msgspec import to_builtins
from numpy.typing import NDArray

from stqsh.spec.chunk import pack
from stqsh.storage.control_log import ControlDb, append, to_text
from stqsh.storage.query_templates import QueryTemplate

MOST = 1 << 16
"""Queries in one row of the log at the most: what slots get of them is a chunk, which Spark copies about."""

_NAMES = " UNION ALL ".join(
    f"SELECT name FROM {table} WHERE dropped_seq IS NULL" for table in ("streams", "tables", "areas")
)
_ENTER = (
    "INSERT INTO queries (id, name, stream_id, spec, state, seq, size, since_us, pattern)"
    " VALUES (?, ?, ?, ?, 'active', ?, 0, ?, ?)"
)
_FIND = (
    "SELECT queries.id, queries.stream_id FROM json_each(?) AS asked JOIN queries"
    " ON queries.name = asked.value AND queries.state IN ('active', 'paused') ORDER BY asked.key"
)
_DROP = "UPDATE queries SET state = 'dropped', seq = ? WHERE id IN (SELECT value FROM json_each(?))"
_LOG = "INSERT INTO log (seq, at_us, kind, text, spec, payload) VALUES (?, ?, 'register_alike', '', ?, ?)"


@dataclass(frozen=True, slots=True, eq=False)
class QueryGroup:
    """Queries of one pattern: their names, and what is in its holes, as typed.

    numbers: float64 (n, holes with numbers). keys: n of them, or none where no hole holds a key.
    """

    pattern: QueryTemplate
    names: Sequence[str]
    numbers: NDArray[np.float64]
    keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    """The first id of queries, the row of the log that they come with, and when that was."""

    first: int
    seq: int
    at_us: int


def register_alike(db: ControlDb, queries: QueryGroup) -> bool:
    """Log queries of one pattern as one row, and enter them; False, and nothing done, where a name is in use.

    Their ids follow each other; the last one is the row's own number.
    """
    with db.transaction() as connection:
        taken = {name for (name,) in connection.execute(_NAMES)}
        if not taken.isdisjoint(queries.names) or len(set(queries.names)) < len(queries.names):
            return False
        [(last,)] = connection.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'log'")
        entry = _Entry(last + 1, last + len(queries.names), db.clock())
        connection.execute("SAVEPOINT alike")
        try:
            _enter(connection, queries, entry)
        except sqlite3.IntegrityError:  # a live query has one of the names
            connection.execute("ROLLBACK TO alike")
            return False
        finally:
            connection.execute("RELEASE alike")
        _log(connection, queries, entry)
    return True


def _enter(connection: sqlite3.Connection, queries: QueryGroup, entry: _Entry) -> None:
    """Put queries into the catalogue. Raises `sqlite3.IntegrityError` where a live one has such a name."""
    stream_id, ids = queries.pattern.spec.stream_id, range(entry.first, entry.seq + 1)
    connection.executemany(
        _ENTER,
        (
            (id_, name, stream_id, spec, entry.seq, entry.at_us, entry.seq)
            for id_, name, spec in zip(ids, queries.names, _packed(queries), strict=True)
        ),
    )


def _packed(queries: QueryGroup) -> Iterator[bytes]:
    """What differs in each of the queries, for `QueryTemplate.unpacked`."""
    numbers, width = queries.numbers.tobytes(), 8 * queries.numbers.shape[1]
    keys = queries.keys or [""] * len(queries.names)
    return (numbers[row * width : (row + 1) * width] + key.encode() for row, key in enumerate(keys))


def _log(connection: sqlite3.Connection, queries: QueryGroup, entry: _Entry) -> None:
    pattern = queries.pattern
    connection.execute(
        "INSERT INTO patterns VALUES (?, ?, ?)",
        (entry.seq, to_text(to_builtins(pattern.spec)), pattern.to_json().decode()),
    )
    spec = {
        "first": entry.first,
        "count": len(queries.names),
        "stream_id": pattern.spec.stream_id,
        "pattern": orjson.loads(pattern.to_json()),
        # With the spec, for who plans a batch reads no payloads.
        **({"focal": [*map(pattern.key, queries.keys)]} if queries.keys else {}),
    }
    columns: list[Any] = [pa.array(queries.names, pa.string()), *map(pa.array, queries.numbers.T)]
    batch = pa.RecordBatch.from_arrays(columns, names=["name", *pattern.numbers])
    connection.execute(_LOG, (entry.seq, entry.at_us, to_text(spec), pack(batch)))


def drop_alike(db: ControlDb, names: Sequence[str]) -> bool:
    """Log the DROP of live queries as one row a stream; False, and nothing done, where a name is of none."""
    with db.transaction() as connection:
        found = connection.execute(_FIND, (to_text(names),)).fetchall()
        ids = [id_ for id_, _ in found]
        if len(set(names)) < len(names) or len(ids) < len(names):
            return False
        streams: dict[int, list[int]] = {}
        for id_, stream_id in found:
            streams.setdefault(stream_id, []).append(id_)
        for stream_id, gone in streams.items():
            row = append(db, "drop_alike", "", {"ids": gone, "stream_id": stream_id})
            connection.execute(_DROP, (row.seq, to_text(gone)))
    return True
