"""SELECT … FROM 'file': rows of files, asked once, without a stream and without the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.row_answers import answer_rows
from stqsh.client.statements.source_paths import find_files
from stqsh.errors import OptionError, SourceError
from stqsh.lang.ast.expressions import Literal, Quantity
from stqsh.lang.ast.statement import FileSource
from stqsh.lang.ast.statements import Relation, Select
from stqsh.lang.binder.bind import guess_roles
from stqsh.lang.binder.definitions.streams import source_spec
from stqsh.lang.errors import BindError, locating, near
from stqsh.lang.types import NUMBERS, a_type
from stqsh.sources.file_rows import FileRows
from stqsh.sources.recognition import recognize
from stqsh.spec.stream import ROW, ColumnSpec, FileSourceSpec, StreamSpec
from stqsh.storage.rows import Progress

_ROLES = ("x", "y", "planar")
"""The options that say what columns are; the others are those of the format."""

Given = Mapping[str, Literal | Quantity]


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
            rows = FileRows(stream)
            answer = answer_rows(desk, statement, stream, rows.batches(), Progress())
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
