"""The columns of a stream or a table: as listed, or as its source was found to have them."""

from __future__ import annotations

from stqsh.errors import StqshError
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import ColumnDefinition
from stqsh.lang.binder.column_roles import Columns
from stqsh.lang.errors import BindError


def listed_columns(
    name: Name, columns: tuple[ColumnDefinition, ...], inferred: Columns | None
) -> list[tuple[str, str]]:
    """Name and type of each column, in order; `inferred` where none are listed.

    Raises `BindError` for two columns of one name, `StqshError` where no column is known.
    """
    if not columns and inferred is None:
        raise StqshError(f"the columns of {name.text} are not known", hint="list them after its name")
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise BindError(f"two columns are called {column.name!r}", column.span)
        seen.add(column.name)
    if columns:
        return [(column.name, column.type) for column in columns]
    return [(found, kind) for found, kind in inferred or ()]
