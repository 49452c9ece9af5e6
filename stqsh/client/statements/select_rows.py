"""SELECT … FROM a registered query, whose current answer it asks, and SELECT without FROM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from stqsh.client.read.accuracy import AccuracyWatch
from stqsh.client.read.projection import at_step, project
from stqsh.client.read.subscription import UpdateReader, wait_for_begin
from stqsh.client.results import Message, Outcome, Updates
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.row_answers import answer_rows
from stqsh.core.aggregates.answers import output_type
from stqsh.lang.ast.statements import Select
from stqsh.lang.binder.joins import NO_STREAM
from stqsh.lang.binder.live import types_selected
from stqsh.lang.errors import BindError, NotSupportedError, locating
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.stream import ROW, ColumnSpec, StreamSpec
from stqsh.storage.rows import Progress, QueryRow


def select_constants(desk: StatementContext, statement: Select) -> Iterator[Outcome]:
    """Answer a SELECT without FROM, which has one row.

    Raises:
        BindError: it names a column.
    """
    one: pa.RecordBatch = pa.RecordBatch.from_arrays([pa.array([0])], [ROW])
    with locating(statement.piece):
        yield answer_rows(desk, statement, NO_STREAM, [one], Progress())


def select_query(desk: StatementContext, statement: Select, query: QueryRow) -> Iterator[Outcome]:
    """Answer a SELECT over a registered query's answer after the last step.

    Raises:
        BindError: the query has no answer to ask, or the SELECT does not fit it.
        EngineDeadError: the engine dies before the query has begun.
    """
    link, relation = desk.link, statement.relations[0]
    of = link.book.stream(query.stream_id).spec
    with locating(statement.piece):
        _check(statement, of)
    progress = wait_for_begin(link, query)
    notice = AccuracyWatch(link, query).look()
    if notice:
        yield Message(f"{query.name}: {notice}")
    with locating(statement.piece):
        kinds = types_selected(query.spec, relation.span, desk.view)
        stream = _as_stream(query, of, kinds)
        rows = _rows(desk, query, progress, kinds)
        yield answer_rows(desk, statement, stream, [rows], progress)


def _check(statement: Select, stream: StreamSpec) -> None:
    """Raise for what an answer cannot be asked."""
    if len(statement.relations) > 1:
        raise NotSupportedError("joins with a query's answer", statement.relations[1].span)
    relation, length = statement.relations[0], statement.sync or statement.window
    if length is not None:
        clause = "SYNC" if statement.sync else "WINDOW"
        raise BindError(f"{clause} is for streams: an answer is asked once", length.span)
    if stream.keeps_none:
        reason = f"{stream.name} keeps no events (KEEP NONE), so {relation.name} has no answer"
        raise BindError(reason, relation.span, hint=f"TAIL {relation.name}; shows what comes")


def _as_stream(query: QueryRow, of: StreamSpec, kinds: dict[str, str]) -> StreamSpec:
    """Return the answer of a query as the stream that a SELECT asks.

    Its place and its time are the columns that show those of the query's stream.
    """
    plain = [one for one in reversed(query.spec.select) if isinstance(one.value, ColumnExpr)]
    shown = {one.value.name: one.name for one in plain if isinstance(one.value, ColumnExpr)}
    x, y = shown.get(of.x, ""), shown.get(of.y, "")
    return replace(
        of,
        id=0,
        name=query.name,
        kind="event",
        columns=tuple(ColumnSpec(name, kind) for name, kind in kinds.items()),
        key=ROW,
        x=x if y else "",
        y=y if x else "",
        time=shown.get(of.time, ""),
        text=None,
        retain="all",
        keep_us=None,
    )


def _rows(
    desk: StatementContext, query: QueryRow, progress: Progress, kinds: dict[str, str]
) -> pa.RecordBatch:
    """Return the answer of a query after a step, in its own order: neighbours by distance, others by key."""
    with UpdateReader(desk.link, -1, lambda ids: ids == query.id) as reader:
        found = reader.answer_at(query, progress.step, progress.batch)
    names = [*kinds, ROW]
    if found is None:
        nothing: list[Any] = [pa.array([], output_type(kind)) for kind in kinds.values()]
        return pa.RecordBatch.from_arrays([*nothing, pa.array([], pa.int64())], names)
    found = at_step(found, progress.step, progress.at_us())
    keys: list[tuple[str, Literal["ascending"]]] = [("key", "ascending")]
    if query.spec.region.is_nearest and query.spec.aggregates is None and "distance" in found.column_names:
        keys.insert(0, ("distance", "ascending"))
    found = found.take(pc.sort_indices(found, sort_keys=keys))
    updates = Updates(
        found,
        desk.link.book.stream(query.stream_id),
        {query.id: query},
        snapshot=True,
        lookups=desk.link.lookups,
    )
    columns = [_plain(column) for column in project(updates, query.spec.select)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(np.arange(found.num_rows))], names)


def _plain(column: Any) -> Any:
    """Return a column in one piece, without a dictionary."""
    one = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return one.dictionary_decode() if isinstance(one, pa.DictionaryArray) else one
