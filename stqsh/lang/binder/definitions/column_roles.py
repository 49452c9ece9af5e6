"""The columns of a stream or table, and their roles: key, location and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stqsh.errors import StqshError
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import ColumnDefinition, CreateStream
from stqsh.lang.errors import BindError, near, or_list
from stqsh.lang.types import KEY_TYPES, NUMBERS

Columns = Sequence[Sequence[str]]
"""Name and type of each column."""

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "key": (
        "oid", "id", "key", "object_id", "vehicle_id", "taxi_id", "icao24", "mmsi", "device_id", "uid",
        "user_id", "track_id", "track", "tripid", "trip_id", "name",
    ),
    "x": ("lon", "lng", "long", "longitude", "x"),
    "y": ("lat", "latitude", "y"),
    "time": ("ts", "time", "timestamp", "datetime", "date_time", "t", "when", "event_time"),
}  # fmt: skip
"""Usual names of each role's column, the most specific first."""

_FITTING: Mapping[str, frozenset[str]] = {
    "key": KEY_TYPES,
    "x": NUMBERS,
    "y": NUMBERS,
    "time": NUMBERS | {"TIMESTAMP"},
}
_CLAUSES = {"key": "KEY column", "x": "LOCATION (x, y)", "y": "LOCATION (x, y)", "time": "TIME column"}
_WORDS = {"key": "key", "x": "location", "y": "location", "time": "time"}
_SEPARATORS = {";": ";", "\t": "\\t", "|": "|"}
"""Other separators of a file's columns, as they are written in an option."""


class ColumnRoles(NamedTuple):
    """The columns by role, and the roles that were guessed."""

    key: str
    x: str
    y: str
    time: str
    guessed: tuple[str, ...]


def listed_columns(
    name: Name, columns: tuple[ColumnDefinition, ...], inferred: Columns | None
) -> list[tuple[str, str]]:
    """Return name and type of each column, in order; the `inferred` ones if none are listed.

    Raises:
        BindError: two columns have the same name.
        StqshError: no column is known.
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


def guess_roles(columns: Columns) -> dict[str, str | None]:
    """Return the column of each role ("key", "x", "y", "time") by its name and type; None for no match."""
    return {role: _guess(role, columns) for role in USUAL_NAMES}


def find_roles(stream: CreateStream, columns: Columns) -> ColumnRoles:
    """Return the roles that the statement gives, with the missing ones guessed.

    Raises:
        BindError: a column does not exist, a column has two roles, or no name suits a role.
    """
    x, y = stream.location or (None, None)
    said = {"key": stream.key, "x": x, "y": y, "time": stream.time}
    named = {name.text for name in said.values() if name is not None}
    guesses = guess_roles([column for column in columns if column[0] not in named])
    missing = [role for role, name in said.items() if name is None and guesses[role] is None]
    if missing:
        raise _missing(stream, missing, columns)
    found: dict[str, str] = {}
    for role, name in said.items():
        column = _existing(name, columns) if name is not None else guesses[role]
        assert column is not None, "missing ones are reported above"
        if column in found.values():
            raise BindError(f"{column} cannot be two of KEY, LOCATION and TIME", (name or stream.name).span)
        found[role] = column
    return ColumnRoles(**found, guessed=tuple(role for role, name in said.items() if name is None))


def _missing(stream: CreateStream, roles: Sequence[str], columns: Columns) -> BindError:
    """Return the error for a stream without columns for key, location or time; it names all of them."""
    words = tuple(dict.fromkeys(_WORDS[role] for role in roles))
    clauses = tuple(dict.fromkeys(_CLAUSES[role] for role in roles))
    return BindError(
        f"{stream.name.text} has no column that looks like its {or_list(words)}",
        stream.name.span,
        expected=(" ".join(clauses),),
        # The types tell why a column of the right name is none of them, such as texts among longitudes.
        hint=_columns_hint([name if len(columns) == 1 else f"{name} {kind}" for name, kind in columns]),
    )


def _guess(role: str, columns: Columns) -> str | None:
    by_name = {name.lower(): name for name, kind in columns if kind in _FITTING[role]}
    return next((by_name[usual] for usual in USUAL_NAMES[role] if usual in by_name), None)


def _columns_hint(names: Sequence[str]) -> str:
    """Return a hint: the columns that exist, or that a file's single column is really several."""
    found = next((one for one in _SEPARATORS if len(names) == 1 and one in names[0]), None)
    if found is None:
        return f"the columns are {', '.join(names)}"
    return f"the one column is {names[0]!r}; add FORMAT CSV (separator => '{_SEPARATORS[found]}')"


def _existing(name: Name, columns: Columns) -> str:
    names = [column for column, _ in columns]
    if name.text not in names:
        raise BindError(
            f"there is no column {name.text!r}",
            name.span,
            near=near(name.text, names),
            hint=f"the columns are {', '.join(names)}",
        )
    return name.text
