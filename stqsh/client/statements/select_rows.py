"""SELECT over rows outside streams: of a file, of a query's answer, and the single row without FROM.

Such a SELECT is answered once, without the engine.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from stqsh.client.catalogue_view import SessionCatalogue
from stqsh.client.read.accuracy import AccuracyWatch
from stqsh.client.read.answers import answer_of
from stqsh.client.read.projection import at_step, project
from stqsh.client.read.snapshots import SnapshotResult
from stqsh.client.read.subscription import UpdateReader, wait_for_begin
from stqsh.client.results import Answer, Message, Outcome, Updates
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.source_paths import find_files
from stqsh.core.aggregates.answers import output_type
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.snapshots.row_snapshots import answer_over_rows
from stqsh.core.state.slot_state import SlotState
from stqsh.errors import OptionError, SourceError
from stqsh.lang.ast.expressions import Literal, Quantity
from stqsh.lang.ast.statement import FileSource
from stqsh.lang.ast.statements import Relation, Select
from stqsh.lang.binder.bare_words import read_words
from stqsh.lang.binder.bind import bind, guess_roles
from stqsh.lang.binder.definitions.streams import source_spec
from stqsh.lang.binder.joins import NO_STREAM
from stqsh.lang.binder.live import types_selected
from stqsh.lang.errors import BindError, NotSupportedError, locating, near
from stqsh.lang.types import NUMBERS, a_type
from stqsh.sources.file_rows import FileRows
from stqsh.sources.recognition import recognize
from stqsh.spec.chunk import unpack
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import ROW, ColumnSpec, FileSourceSpec, StreamSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import wall_clock_us
from stqsh.storage.rows import Progress, QueryRow

_ROLES = ("x", "y", "planar")
"""The options that define columns; all others are options of the format."""

Given = Mapping[str, Literal | Quantity]


def select_file(context: StatementContext, statement: Select) -> Iterator[Outcome]:
    """Answer a SELECT from a file; report records that are set aside.

    Raises:
        BindError: the file cannot be read, or the SELECT does not fit it.
    """
    relation = statement.relations[0]
    assert relation.file is not None, "the statement reads a file"
    with locating(statement.piece):
        _check_file(statement)
        try:
            stream = _file_as_stream(context, relation, relation.file)
            rows = FileRows(stream)
            answer = answer_rows(context, statement, stream, rows.batches(), Progress())
        except OptionError as error:
            at = dict(relation.file.options).get(error.option)
            place = relation.span if at is None else at.span
            raise BindError(error.message, place, hint=error.hint) from error
        except SourceError as error:
            raise BindError(error.message, relation.span, hint=error.hint) from error
    if rows.first_letter is not None:
        count = "1 record was" if rows.set_aside == 1 else f"{rows.set_aside:,} records were"
        letter = rows.first_letter
        yield Message(f"{count} set aside, the first at {letter.file}:{letter.line}: {letter.reason}")
    yield replace(answer, is_timeless=True)


def _check_file(statement: Select) -> None:
    """Raise `BindError` for clauses that only streams support."""
    if len(statement.relations) > 1:
        raise BindError("a file cannot be joined", statement.relations[1].span, hint="make a TABLE of it")
    length = statement.sync or statement.window
    if length is not None:
        clause = "SYNC" if statement.sync else "WINDOW"
        raise BindError(f"{clause} is for streams: a file is read once", length.span)


def _file_as_stream(context: StatementContext, relation: Relation, file: FileSource) -> StreamSpec:
    """Return the definition of a file as a stream: its columns, and the location and time among them.

    Raises:
        BindError: an option names no column, or one of another type.
        SourceError: no file matches, or none can be read.
    """
    beside = None if context.script is None else Path(context.script).absolute().parent
    roles = {name: value for name, value in file.options if name in _ROLES}
    options = tuple(option for option in file.options if option[0] not in _ROLES)
    source = source_spec(replace(file, glob=find_files(file.glob, beside), options=options))
    assert isinstance(source, FileSourceSpec), "a file is a source of files"
    source, found, _ = recognize(source, None, None)
    columns = [ColumnSpec(name, kind) for name, kind in found]
    guesses = guess_roles(columns)
    x, y = (_axis(axis, roles, columns) or guesses[axis] or "" for axis in ("x", "y"))
    time = guesses["time"] or ""
    wanted = {x: "DOUBLE", y: "DOUBLE", time: "TIMESTAMP"}
    typed = tuple(
        ColumnSpec(name, wanted.get(name, kind) if kind in NUMBERS else kind) for name, kind in columns
    )
    planar = roles.get("planar")
    return StreamSpec(
        name=relation.name,
        kind="event",
        columns=typed,
        key=ROW,
        x=x if y else "",
        y=y if x else "",
        time=time,
        planar=isinstance(planar, Literal) and planar.value is True,
        source=source,
    )


def _axis(axis: str, roles: Given, columns: list[ColumnSpec]) -> str | None:
    """Return the column that the option `x` or `y` names; None without the option."""
    given = roles.get(axis)
    if given is None:
        return None
    types = dict(columns)
    name = str(given.value) if isinstance(given, Literal) else ""
    if name not in types:
        hint = f"the columns are {', '.join(types)}"
        raise BindError(f"there is no column {name!r}", given.span, near=near(name, types), hint=hint)
    if types[name] not in NUMBERS:
        raise BindError(f"{name} is {a_type(types[name])}, and cannot be LOCATION", given.span)
    return name


def select_constants(context: StatementContext, statement: Select) -> Iterator[Outcome]:
    """Answer a SELECT without FROM, which has one row.

    Raises:
        BindError: it names a column.
    """
    one: pa.RecordBatch = pa.RecordBatch.from_arrays([pa.array([0])], [ROW])
    with locating(statement.piece):
        yield answer_rows(context, statement, NO_STREAM, [one], Progress())


def select_query(context: StatementContext, statement: Select, query: QueryRow) -> Iterator[Outcome]:
    """Answer a SELECT over a registered query's answer after the last step.

    Raises:
        BindError: the query keeps no answer, or the SELECT does not fit it.
        EngineDeadError: the engine dies before the query has begun.
    """
    connection, relation = context.connection, statement.relations[0]
    of = connection.book.stream(query.stream_id).spec
    with locating(statement.piece):
        _check_query(statement, of)
    progress = wait_for_begin(connection, query)
    notice = AccuracyWatch(connection, query).look()
    if notice:
        yield Message(f"{query.name}: {notice}")
    with locating(statement.piece):
        kinds = types_selected(query.spec, relation.span, context.view)
        stream = _query_as_stream(query, of, kinds)
        rows = _rows(context, query, progress, kinds)
        yield answer_rows(context, statement, stream, [rows], progress)


def _check_query(statement: Select, stream: StreamSpec) -> None:
    """Raise for clauses that an answer does not support."""
    if len(statement.relations) > 1:
        raise NotSupportedError("joins with a query's answer", statement.relations[1].span)
    relation, length = statement.relations[0], statement.sync or statement.window
    if length is not None:
        clause = "SYNC" if statement.sync else "WINDOW"
        raise BindError(f"{clause} is for streams: an answer is asked once", length.span)
    if stream.keeps_none:
        reason = f"{stream.name} keeps no events (KEEP NONE), so {relation.name} has no answer"
        raise BindError(reason, relation.span, hint=f"TAIL {relation.name}; shows what comes")


def _query_as_stream(query: QueryRow, of: StreamSpec, kinds: dict[str, str]) -> StreamSpec:
    """Return the definition of a query's answer as a stream.

    Its location and time are the columns that show those of the query's stream, as is its extent.
    """
    plain = [one for one in reversed(query.spec.result.select) if isinstance(one.value, ColumnExpr)]
    shown = {one.value.name: one.name for one in plain if isinstance(one.value, ColumnExpr)}
    x, y = shown.get(of.x, ""), shown.get(of.y, "")
    extent = None if of.extent is None else shown.get(of.extent)
    if of.extent is not None and extent is None:
        x = y = ""  # the corner of an extent is not its location
    return structs.replace(
        of,
        id=0,
        name=query.name,
        kind="event",
        columns=tuple(ColumnSpec(name, kind) for name, kind in kinds.items()),
        key=ROW,
        x=x if y else "",
        y=y if x else "",
        time=shown.get(of.time, ""),
        extent=extent,
        text=None,
        retain="all",
        keep_us=None,
    )


def _rows(
    context: StatementContext, query: QueryRow, progress: Progress, kinds: dict[str, str]
) -> pa.RecordBatch:
    """Return the answer of a query after a step, in its own order: neighbours by distance, others by key."""
    with UpdateReader(context.connection, -1, lambda ids: ids == query.id) as reader:
        found = reader.answer_at(query, progress.step, progress.batch)
    names = [*kinds, ROW]
    if found is None:
        nothing: list[Any] = [pa.array([], output_type(kind)) for kind in kinds.values()]
        return pa.RecordBatch.from_arrays([*nothing, pa.array([], pa.int64())], names)
    found = at_step(found, progress.step, progress.at_us())
    keys: list[tuple[str, typing.Literal["ascending"]]] = [("key", "ascending")]
    if query.spec.region.is_nearest and query.spec.aggregates is None and "distance" in found.column_names:
        keys.insert(0, ("distance", "ascending"))
    found = found.take(pc.sort_indices(found, sort_keys=keys))
    updates = Updates(
        found,
        context.connection.book.stream(query.stream_id),
        {query.id: query},
        snapshot=True,
        lookups=context.connection.lookups,
    )
    columns = [_plain(column) for column in project(updates, query.spec.result.select)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(np.arange(found.num_rows))], names)


def _plain(column: Any) -> Any:
    """Return a column in one piece, without a dictionary."""
    one = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return one.dictionary_decode() if isinstance(one, pa.DictionaryArray) else one


class WithRows(SessionCatalogue):
    """A session's catalogue that also has rows under their name as a stream."""

    def __init__(self, context: StatementContext, rows: StreamSpec) -> None:
        super().__init__(context.connection.db, context.profile)
        self._rows = rows

    def stream(self, name: str) -> StreamSpec | None:
        """Return the rows, or a stream of the session."""
        return self._rows if name == self._rows.name else super().stream(name)


def answer_rows(
    context: StatementContext,
    statement: Select,
    stream: StreamSpec,
    rows: Iterable[pa.RecordBatch],
    progress: Progress,
) -> Answer:
    """Return the answer of a SELECT over rows.

    Args:
        context: The client.
        statement: The SELECT.
        stream: The definition of the rows as a stream: their columns, and the location and time among them.
        rows: The rows, see `answer_over_rows`.
        progress: The step of the rows. NOW is its time; before the first step, the time of the wall clock.

    Raises:
        BindError: the SELECT does not fit the rows.
    """
    reading = read_words(statement, WithRows(context, stream))
    spec: SnapshotSpec = bind(reading.statement, WithRows(context, stream)).spec
    at_us = progress.at_us()
    now_us = wall_clock_us() if at_us is None else at_us
    table = answer_over_rows(rows, spec, stream, now_us=now_us, state=_areas(context, spec))
    answer = answer_of(SnapshotResult(table, progress.step, at_us), spec, stream, context.connection.db)
    return replace(answer, remark="\n".join(reading.notes)) if reading.notes else answer


def _areas(context: StatementContext, spec: SnapshotSpec) -> SlotState:
    """Return a state with the named regions of a query."""
    state = SlotState.fresh(0)
    for area in spec.areas:
        PolygonTable(state).define(area, unpack(area_geometry(context.connection.db, area)))
    return state
