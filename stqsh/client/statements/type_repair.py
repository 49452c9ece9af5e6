"""Repair the column types of locations and times if a few records of a source do not fit.

A column's type is inferred from its values. A single location 'n/a' would make the column text, and the
stream impossible. Therefore a column that a statement names as LOCATION or TIME, or that has a usual name for
it, gets the type of most of its values, and the other records are set aside when the stream is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import CreateStream
from stqsh.lang.binder.definitions.column_roles import guess_roles, usual_names
from stqsh.lang.errors import BindError
from stqsh.sources.type_votes import leaning
from stqsh.spec.stream import FileSourceSpec

_KINDS = {"x": "DOUBLE", "y": "DOUBLE", "time": "TIMESTAMP"}
_CLAUSES = {"x": "LOCATION", "y": "LOCATION", "time": "TIME"}
_EXPECTED = {"x": "numbers", "y": "numbers", "time": "times (ISO 8601, or seconds since the epoch)"}
_SHOWN = 40

Columns = list[list[str]]


def fitted(
    statement: CreateStream, columns: Columns, source: FileSourceSpec
) -> tuple[Columns, tuple[str, ...]]:
    """Return inferred columns with the location and time types of most records, and remarks on the changes.

    Raises:
        BindError: the only column for a role is empty, or does not hold suitable values.
    """
    types, notes = dict(columns), []
    for role, name in _texts(statement, types).items():
        found = leaning(source, name.text, _KINDS[role])
        if found is None or name.text not in types:
            continue
        if not found.seen:
            raise BindError(
                f"{name.text} has no value in the first rows, so its type is not known",
                name.span,
                hint="list the columns after the stream's name: (id STRING, lon DOUBLE, lat DOUBLE, …)",
            )
        if found.is_strong:
            types[name.text] = _KINDS[role]
            notes.append(
                f"{name.text}: {found.seen - found.fitting} of {found.seen} values seen are no"
                f" {_KINDS[role]}, such as {_short(found.example)}; such records are set aside"
            )
        else:
            raise _misfit(role, name, found.example, source)
    notes += _nearly_numbers(types, source, statement.key.text.lower() if statement.key else "")
    return [[name, kind] for name, kind in types.items()], tuple(notes)


def _nearly_numbers(types: dict[str, str], source: FileSourceSpec, key: str) -> Iterator[str]:
    """Yield a remark on each column except the key that is text because a few values are not numbers."""
    keys = {*usual_names("key", [*types])}
    texts = [name for name, kind in types.items() if kind == "STRING"]
    for name in [name for name in texts if name.lower() != key and name not in keys]:
        found = leaning(source, name, "DOUBLE")
        if found is not None and found.is_strong and found.fitting < found.seen:
            others = found.seen - found.fitting
            yield (
                f"{name}: STRING, as {others} of {found.seen} values seen are no numbers, such as"
                f" {_short(found.example)}; a column list with {name} DOUBLE sets such records aside"
            )


def _texts(statement: CreateStream, types: dict[str, str]) -> dict[str, Name]:
    """Return the text columns for location and time: those the statement names, or else usual names."""
    x, y = statement.location or (None, None)
    guesses = guess_roles([*types.items()])
    found = {"x": x, "y": y, "time": statement.time}
    for role, name in found.items():
        if name is None and guesses[role] is None:
            found[role] = _usual(role, types, statement.name)
    return {
        role: name for role, name in found.items() if name is not None and types.get(name.text) == "STRING"
    }


def _usual(role: str, types: dict[str, str], at: Name) -> Name | None:
    """Return the first column with a usual name for a role."""
    usual = next(iter(usual_names(role, [*types])), None)
    return None if usual is None else Name(usual, span=at.span)


def _misfit(role: str, name: Name, example: str, source: FileSourceSpec) -> BindError:
    hint = None
    if role == "time" and "timestamp" not in source.options:
        hint = "FORMAT CSV (timestamp => '%d.%m.%Y %H:%M') says how times are written"
    return BindError(
        f"{name.text} holds {_short(example)}, and cannot be {_CLAUSES[role]}",
        name.span,
        expected=(_EXPECTED[role],),
        hint=hint,
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
