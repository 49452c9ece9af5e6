"""SELECT … FROM 'file': rows of files, asked once, without a stream and without the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from stqsh.client.catalogue_view import SessionCatalogue
from stqsh.client.read.answers import answer_of
from stqsh.client.read.snapshots import SnapshotResult
from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.source_paths import find_files
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.snapshots.row_snapshots import answer_over_rows
from stqsh.core.state.slot_state import SlotState
from stqsh.errors import OptionError, SourceError
from stqsh.lang.ast.expressions import Literal, Quantity
from stqsh.lang.ast.statement import FileSource
from stqsh.lang.ast.statements import Relation, Select
from stqsh.lang.binder.bind import bind, guess_roles
from stqsh.lang.binder.definitions.streams import source_spec
from stqsh.lang.errors import BindError, locating, near
from stqsh.lang.types import NUMBERS, a_type
from stqsh.sources.file_rows import ROW, FileRows
from stqsh.sources.inference import infer
from stqsh.spec.chunk import unpack
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import wall_clock_us

_ROLES = ("x", "y", "planar")
"""The options that say what columns are; the others are those of the format."""

Given = Mapping[str, Literal | Quantity]


class _WithFile(SessionCatalogue):
    """The catalogue of a session, in which a file is a stream of its name."""

    def __init__(self, desk: StatementContext, file: StreamSpec) -> None:
        super().__init__(desk.link.db, desk.profile)
        self._file = file

    def stream(self, name: str) -> StreamSpec | None:
        """Return the file, or a stream of the session."""
        return self._file if name == self._file.name else super().stream(name)


def select_file(desk: StatementContext, statement: Select) -> Iterator[Outcome]:
    """Answer a SELECT whose FROM is a file; what it sets aside is told.

    Raises:
        BindError: the file cannot be read, or the SELECT does not fit it.
    """
    relation = statement.relations[0]
    assert relation.file is not None, "the statement reads a file"
    with locating(statement.piece):
        _check(statement)
        try:
            stream = _as_stream(desk, relation, relation.file)
            spec: SnapshotSpec = bind(statement, _WithFile(desk, stream)).spec
            rows = FileRows(stream)
            table = answer_over_rows(
                rows.batches(), spec, stream, now_us=wall_clock_us(), state=_areas(desk, spec)
            )
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
    yield answer_of(SnapshotResult(table, 0, None), spec, stream, desk.link.db)


def _check(statement: Select) -> None:
    """Raise `BindError` for what only streams have."""
    if len(statement.relations) > 1:
        raise BindError("a file cannot be joined", statement.relations[1].span, hint="make a TABLE of it")
    length = statement.sync or statement.window
    if length is not None:
        clause = "SYNC" if statement.sync else "WINDOW"
        raise BindError(f"{clause} is for streams: a file is read once", length.span)


def _as_stream(desk: StatementContext, relation: Relation, file: FileSource) -> StreamSpec:
    """Return a file as the stream that a SELECT asks: its columns, and which of them are place and time.

    Raises:
        BindError: an option names no column, or one of another type.
        SourceError: there is no file, or none that can be read.
    """
    beside = None if desk.script is None else Path(desk.script).absolute().parent
    roles = {name: value for name, value in file.options if name in _ROLES}
    options = tuple(option for option in file.options if option[0] not in _ROLES)
    source = source_spec(replace(file, glob=find_files(file.glob, beside), options=options))
    assert isinstance(source, FileSourceSpec), "a file is a source of files"
    columns = [ColumnSpec(name, kind) for name, kind in infer(source)]
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


def _areas(desk: StatementContext, spec: SnapshotSpec) -> SlotState:
    """Return a state that has the named regions of a query."""
    state = SlotState.fresh(0)
    for area in spec.areas:
        PolygonTable(state).define(area, unpack(area_geometry(desk.link.db, area)))
    return state
