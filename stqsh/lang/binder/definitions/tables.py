"""Bind CREATE TABLE to a TableSpec."""

from __future__ import annotations

from msgspec.structs import replace

from stqsh.lang.ast.statements import CreateTable
from stqsh.lang.binder.definitions.column_roles import Columns, guess_roles, listed_columns
from stqsh.lang.binder.definitions.derived_columns import derived_columns
from stqsh.lang.binder.definitions.streams import source_spec
from stqsh.lang.binder.names import check_free
from stqsh.lang.binder.unsupported import SOURCE_RULES, check
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.values import column_name
from stqsh.lang.types import KEY_TYPES, a_type
from stqsh.spec.stream import ColumnSpec, StreamSpec, TableSpec


def create_table(
    table: CreateTable, catalogue: CatalogueView, inferred: Columns | None
) -> tuple[TableSpec, tuple[str, ...]]:
    """Return the spec, without its id, and notes for the user about guesses.

    `inferred` are the columns found in the source, if the statement lists none.

    Raises:
        BindError: a column, the key or an expression is invalid.
        NotSupportedError: the source is no file.
    """
    check(SOURCE_RULES, table)
    check_free(table.name, catalogue)
    columns = listed_columns(table.name, table.columns, inferred)
    key = _key(table, columns)
    notes = []
    if not table.listed:
        made = {column.name for column in table.derived}
        found = [f"{column_name(name)} {kind}" for name, kind in columns if name not in made]
        notes.append("columns found: " + ", ".join(found))
    if table.key is None:
        notes.append(f"guessed: KEY {key}")
    spec = TableSpec(
        name=table.name.text,
        columns=tuple(ColumnSpec(name, kind) for name, kind in columns),
        key=key,
        source=source_spec(table.source),
    )
    rows = StreamSpec(
        name=spec.name, columns=spec.columns, kind="event", key=key, x="", y="", time="", source=spec.source
    )
    return replace(spec, derived=derived_columns(table, rows, catalogue)), tuple(notes)


def _key(table: CreateTable, columns: list[tuple[str, str]]) -> str:
    types = dict(columns)
    if table.key is None:
        # Take a usual name, or else the first column that can be a key.
        guess = guess_roles(columns)["key"] or next((n for n, kind in columns if kind in KEY_TYPES), None)
        if guess is None:
            raise BindError(
                f"{table.name.text} has no column that looks like its key",
                table.name.span,
                expected=("KEY column",),
            )
        return guess
    name = table.key.text
    if name not in types:
        raise BindError(
            f"there is no column {name!r}",
            table.key.span,
            near=near(name, types),
            hint=f"the columns are {', '.join(types)}",
        )
    if types[name] not in KEY_TYPES:
        raise BindError(
            f"{name} is {a_type(types[name])}, and cannot be KEY",
            table.key.span,
            expected=tuple(sorted(KEY_TYPES)),
        )
    return name
