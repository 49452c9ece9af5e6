"""INSERT INTO: append records to the stream's spool, from which the engine reads them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.core.conditions.evaluation import compute
from stqsh.errors import StqshError
from stqsh.lang.ast import statements
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.inserts import BoundInsert, check_range
from stqsh.lang.errors import BindError, locating
from stqsh.profile import Profile
from stqsh.sources.formats.record_parser import FileBlock, ParsedRecords, RowBlock, RowLocation, parse
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.live.inserted_records import RecordAppender
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.record_spool import SpoolSegment
from stqsh.sources.query_rows import Applied, BadRowError, SourceRows, apply_rows
from stqsh.spec.chunk import arrow_type
from stqsh.spec.expression import Expr, LiteralExpr
from stqsh.storage.catalogue import find_stream
from stqsh.storage.control_log import wall_clock_us
from stqsh.storage.disk_space import DiskFullError, is_full
from stqsh.storage.queries.query_streams import QueryStreamRow, find_query_stream
from stqsh.storage.session_settings import session_settings

_ONE_ROW = {"row": pa.array([0])}


def insert(context: StatementContext, statement: statements.Insert) -> Iterator[Outcome]:
    """Append the records of INSERT INTO, all or none.

    Raises:
        BindError: a value does not fit its column, or makes no valid record.
    """
    bound: BoundInsert = bind(statement, context.view).spec
    with locating(statement.piece):
        records = _records(bound, statement)
        if bound.queries is not None:
            yield Message(f"{_applied(context, bound, records, statement).text()} by {bound.stream.name}")
            return
    settings = session_settings(context.connection.db, context.profile)
    put(
        context.connection,
        bound.stream.name,
        SpoolSegment.of(records, RecordSchema.of(bound.stream)),
        settings,
    )
    count = len(bound.rows)
    yield Message(f"{'1 record' if count == 1 else f'{count:,} records'} inserted into {bound.stream.name}")


def _applied(
    context: StatementContext, bound: BoundInsert, records: ParsedRecords, statement: statements.Insert
) -> Applied:
    """Apply rows of a query stream, all or none; raise `BindError` for a row that makes no valid query."""
    stream = find_query_stream(context.connection.db, bound.stream.name)
    if stream is None:
        raise StqshError(f"there is no query stream {bound.stream.name}", hint="another shell has dropped it")
    batch = SpoolSegment.of(records, RecordSchema.of(bound.stream)).records
    try:
        done = apply_rows(
            context.connection.db,
            context.connection.home,
            stream,
            SourceRows.of(batch, "insert", []),
            valid="all",
        )
    except BadRowError as bad:
        raise BindError(bad.reason, statement.rows[bad.line - 1].span) from bad
    context.connection.wake()
    return done


def apply_segment(connection: Connection, stream: QueryStreamRow, segment: SpoolSegment) -> Applied:
    """Apply fed rows of a query stream; those that make no valid query become dead letters.

    Raises:
        StqshError: another client has just dropped the query stream.
    """
    assert segment.origin is not None, "rows are read with their lines"
    file, lines = segment.origin
    rows = SourceRows(segment.records, file, lines, segment.dead)
    done = apply_rows(connection.db, connection.home, stream, rows)
    connection.wake()
    return done


def put(connection: Connection, stream: str, segment: SpoolSegment, settings: Profile) -> None:
    """Append a segment to a stream's spool; the next SELECT of this client waits until it is read.

    Raises:
        DiskFullError: there is no room for records.
        StqshError: another client has just dropped the stream.
    """
    found, home = find_stream(connection.db, stream), connection.home
    if found is None:
        raise StqshError(f"there is no stream {stream}", hint="another shell has just dropped it")
    if is_full(home.path):
        raise DiskFullError(home.path)
    appender = RecordAppender(home.stream(found.id) / SPOOL, durable=settings.text("durability") == "disk")
    connection.inserted[found.id] = appender.append(segment)
    connection.wake()


def _records(bound: BoundInsert, statement: statements.Insert) -> ParsedRecords:
    """Return the records, checked like those of files."""
    now_us = wall_clock_us()
    columns = [
        pa.array(
            [_computed(row[place], column, now_us, at, statement) for at, row in enumerate(bound.rows)],
            pa.int64() if column.type == "TIMESTAMP" else arrow_type(column.type),
        ).cast(arrow_type(column.type))
        for place, column in enumerate(bound.stream.given)
    ]
    rows = np.arange(len(bound.rows), dtype=np.int64)
    block = RowBlock(columns, rows, partial(_locate, statement))
    found = parse([FileBlock(0, "", block)], RecordSchema.of(bound.stream))
    if found.dead:
        row = statement.rows[found.dead[0].line]
        raise BindError(found.dead[0].reason, row.span)
    return found


def _locate(statement: statements.Insert, rows: NDArray[np.int64]) -> list[RowLocation]:
    return [RowLocation(row, "") for row in rows.tolist()]


def _computed(expr: Expr, column: Any, now_us: int, at: int, statement: statements.Insert) -> object:
    """Evaluate a constant expression; `at` is the index of its row."""
    if isinstance(expr, LiteralExpr):
        value: object = expr.value
    else:
        value = compute(expr, _ONE_ROW, now_us)[0].as_py()
        check_range(value, column.name, column.type, statement.rows[at])
    return float(value) if column.type in ("DOUBLE", "FLOAT") and isinstance(value, int) else value
