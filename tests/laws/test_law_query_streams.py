"""The law of query streams: rows, however cut and killed, are the statements that they stand for.

Both give the same commands with the same ids in the same order, and the engine is a fold over these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.posts import free_port
from support.query_streams import commands, execute, session_without_engine

from stqsh.client.api import Session
from stqsh.engine.ingest.http_streams import HttpIntake
from stqsh.engine.ingest.query_intakes import SourceIntake, applied
from stqsh.sources import query_rows
from stqsh.sources.live.line_spool import SPOOL, SpoolWriter
from stqsh.sources.live.registry import open_source
from stqsh.sources.query_rows import OtherPositionError, SourceRows, apply_rows, schema_of
from stqsh.storage.control_log import read_log
from stqsh.storage.queries.query_streams import find_query_stream

STREAM = """CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING)
  KEY oid LOCATION (lon, lat) TIME ts FROM INSERTS;"""


class Template(NamedTuple):
    """A template; the parameters of the clauses that ALTER changes, and those of the rest."""

    select: str
    clauses: str
    changed: tuple[str, ...]
    fixed: tuple[str, ...] = ()


FAR = "SELECT oid, DISTANCE FROM taxis"
COUNT = "SELECT COUNT(*) AS n FROM taxis"
TEMPLATES = (
    Template(FAR, "INSIDE CIRCLE({x}, {y}, {r}) WHERE status = {s}", ("x", "y", "r", "s")),
    Template("SELECT oid FROM taxis", "INSIDE RECT({x}, {y}, 3, 2)", ("x", "y")),
    Template(COUNT, "INSIDE RECT({x}, {y}, {r}, 2) WHERE status = {s}", ("x", "y", "r", "s")),
    Template(FAR, "NEAREST {k} TO ({x}, {y}) WHERE status = {s}", ("k", "x", "y", "s")),
    Template("SELECT oid FROM taxis", "WHERE status = {s} OR lon > {r}", ("s", "r")),
    Template("SELECT oid FROM taxis", "INSIDE RECT(178, {y}, {e}, 2)", ("y", "e")),
    Template("SELECT oid, lon > {r} AS far FROM taxis", "INSIDE RECT({x}, {y}, 3, 2)", ("x", "y"), ("r",)),
)
VALUES = {
    "x": st.integers(-20, 20).map(lambda tenth: tenth / 10),
    "y": st.integers(-20, 20).map(lambda tenth: tenth / 10),
    "r": st.sampled_from([0.5, 1.0, 2.5]),
    "s": st.sampled_from(["f", "it's"]),
    "e": st.sampled_from([179.5, 180.5, 181.0]),
    "k": st.integers(1, 3),
}


def literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def statements(template: Template, rows: list[dict[str, Any]]) -> Iterator[str]:
    """The statements that rows stand for, each applied by itself."""
    known: dict[str, dict[str, Any]] = {}
    for row in rows:
        name, before = row["name"], known.get(row["name"])
        words = {key: literal(value) for key, value in row.items()}
        clauses, select = template.clauses.format(**words), template.select.format(**words)
        drop, register = f"DROP QUERY {name};", f"REGISTER QUERY {name} AS {select} {clauses};"
        if row["_drop"]:
            yield from [drop] if known.pop(name, None) else []
            continue
        known[name] = row
        if before is None:
            yield register
        elif any(before[key] != row[key] for key in template.fixed):
            yield from (drop, register)
        elif any(before[key] != row[key] for key in template.changed):
            yield f"ALTER QUERY {name} {clauses};"


def feed(session: Session, rows: list[dict[str, Any]], sizes: Iterator[tuple[int, bool]]) -> None:
    """Apply rows in parts of the given sizes; a part with a kill ends before its commit."""
    db, home = session.connection.db, session.home
    while True:
        stream = find_query_stream(db, "watch")
        assert stream is not None
        start = stream.position.get("t/0", 0)
        if start >= len(rows):
            assert (stream.rows, stream.dead) == (len(rows), 0)
            return
        size, is_killed = next(sizes, (len(rows), False))
        records = pa.RecordBatch.from_pylist(rows[start : start + size], schema_of(stream.spec).schema)
        part = SourceRows(records, "t/0", np.arange(start, start + records.num_rows), [])
        after = {"t/0": start + records.num_rows}
        if is_killed:
            killed = patch.object(query_rows, "note_applied", side_effect=KeyboardInterrupt)
            with killed, pytest.raises(KeyboardInterrupt):
                apply_rows(db, home, stream, part, after)
            continue
        apply_rows(db, home, stream, part, after)
        with pytest.raises(OtherPositionError):
            apply_rows(db, home, stream, part, after)  # a second reader that began at the same place


def post(session: Session, rows: list[dict[str, Any]], sizes: Iterator[tuple[int, bool]]) -> None:
    """Post rows in parts of the given sizes; one that is killed has no answer, and is posted again."""
    db, home, start = session.connection.db, session.home, 0
    stream = find_query_stream(db, "watch")
    assert stream is not None
    intake = HttpIntake(stream.spec.rows, home.stream(stream.id), applied(home, db, stream))
    while start < len(rows):
        size, is_killed = next(sizes, (len(rows), False))
        part = rows[start : start + size]
        body = b"\n".join(map(orjson.dumps, part))
        if is_killed:
            killed = patch.object(query_rows, "note_applied", side_effect=KeyboardInterrupt)
            with killed, pytest.raises(KeyboardInterrupt):
                intake.take(body)
            continue
        assert intake.take(body) == (len(part), 0)
        start += len(part)
    found = find_query_stream(db, "watch")
    assert found is not None
    assert (found.rows, found.dead) == (len(rows), 0)


def send_lines(session: Session, rows: list[dict[str, Any]], sizes: Iterator[tuple[int, bool]]) -> None:
    """Bring rows as lines in parts of the given sizes; one that is killed is followed by another process."""
    db, home, lines = session.connection.db, session.home, [*map(orjson.dumps, rows)]
    stream = find_query_stream(db, "watch")
    assert stream is not None
    writer = SpoolWriter(home.stream(stream.id) / SPOOL, segment_bytes=100)
    source = open_source(stream.spec.rows, home.stream(stream.id), "")
    while stream.position.get("lines", 0) < len(rows):
        size, is_killed = next(sizes, (len(rows), False))
        for line in lines[writer.lines : writer.lines + size]:
            writer.add(line + b"\n")
            writer.flush()
        intake = SourceIntake(home, db, stream)
        if is_killed:
            killed = patch.object(query_rows, "note_applied", side_effect=KeyboardInterrupt)
            with killed, pytest.raises(KeyboardInterrupt):
                intake.look(source)
            continue
        intake.look(source)
        stream = find_query_stream(db, "watch")
        assert stream is not None
    assert (stream.rows, stream.dead) == (len(rows), 0)


SOURCES = (("INSERTS", feed), ("HTTP PORT {port}", post), ("SOCKET '127.0.0.1:{port}'", send_lines))
"""Sources, and what brings their rows."""


def _session(folder: str, name: str) -> AbstractContextManager[Session]:
    return session_without_engine(Path(folder) / name)


@share(4)
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.clauses)
@given(st.data())
def test_rows_are_the_statements_that_they_stand_for(template: Template, data: st.DataObject) -> None:
    columns = (*template.fixed, *template.changed)
    row = st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b", "c"]),
            **{key: VALUES[key] for key in columns},
            "_drop": st.sampled_from([None, None, False, True]),
        }
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=12))
    holes = {key: f":{key}" for key in columns}
    select = f"{template.select} {template.clauses}".format(**holes)
    source, bring = data.draw(st.sampled_from(SOURCES))
    source = source.format(port=free_port())
    made = f"{STREAM} REGISTER QUERIES watch FROM {source} AS {select};"
    with TemporaryDirectory() as folder, _session(folder, "a") as streamed, _session(folder, "b") as typed:
        execute(streamed, made)
        bring(streamed, rows, iter(sizes))
        execute(typed, made)
        for statement in statements(template, rows):
            execute(typed, statement)
        assert commands(read_log(streamed.connection.db)) == commands(read_log(typed.connection.db))
        names = [[query.name for query in session.queries()] for session in (streamed, typed)]
        assert names[0] == names[1]
