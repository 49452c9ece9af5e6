"""Print names, constants, quantities and clauses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stqsh.lang.ast.expressions import Column, Coordinate, Literal, Parameter, Quantity
from stqsh.lang.ast.statements import Options

RESERVED = frozenset(
    {
        *(
            "ALL",
            "ANALYZE",
            "AS",
            "CASE",
            "CIRCLE",
            "DISTINCT",
            "FALSE",
            "FORMAT",
            "GROUP",
            "HAVING",
            "IF",
            "INSIDE",
            "INTERSECTS",
            "KNN",
            "LIMIT",
        ),
        *(
            "NEAREST",
            "NOT",
            "NOW",
            "NULL",
            "ORDER",
            "POLYGON",
            "QUERY",
            "RECT",
            "SELECT",
            "SYNC",
            "TO",
            "TRUE",
        ),
        *("USING", "WHERE", "WINDOW", "WITH"),
    }
)
"""Keywords where names are possible; names equal to them need double quotes."""
_VALUES = frozenset({"CASE", "DISTINCT", "FALSE", "NOT", "NOW", "NULL", "TRUE"})
_CLAUSES = frozenset({"AS", "FOR", "FORMAT", "FROM", "IF", "KEY", "LIKE", "SINCE", "WITH"})
"""Keywords after REGISTER QUERIES and DROP QUERIES."""
_PLAIN = re.compile(r"[^\W\d]\w*")
_LARGEST_EXACT = 2**53


def quoted(text: str) -> str:
    """Return a string in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def column_name(text: str) -> str:
    """Return the name of a column; few words are keywords where columns are possible."""
    return text if _PLAIN.fullmatch(text) and text.upper() not in _VALUES else _in_quotes(text)


def identifier(text: str) -> str:
    """Return a name, in double quotes if the parser needs them."""
    if _PLAIN.fullmatch(text) and text.upper() not in RESERVED:
        return text
    return _in_quotes(text)


def query_stream_name(text: str) -> str:
    """Return the name of a query stream, after which clauses may follow that it could be taken for."""
    return _in_quotes(text) if text.upper() in _CLAUSES else identifier(text)


def _in_quotes(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def number(value: float) -> str:
    """Return a number with the fewest characters that preserve it; a whole one has no point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return str(int(value))
    return repr(value)


def parameter(value: Parameter) -> str:
    """Return a parameter of REGISTER QUERIES as text."""
    return f":{value.name if _PLAIN.fullmatch(value.name) else _in_quotes(value.name)}"


def coordinate(value: Coordinate) -> str:
    """Return a number, or the parameter that stands for one."""
    return parameter(value) if isinstance(value, Parameter) else number(value)


def text(value: str | Parameter) -> str:
    """Return a string in quotes, or the parameter that stands for one."""
    return parameter(value) if isinstance(value, Parameter) else quoted(value)


def constant(value: Literal | Quantity | Column | Parameter) -> str:
    """Return a constant, the parameter that stands for one, or the bare word of a SET."""
    if isinstance(value, Parameter):
        return parameter(value)
    if isinstance(value, Quantity):
        return f"{number(value.number)} {value.unit}"
    if isinstance(value, Column):
        return identifier(value.name)
    if value.kind == "STRING":
        return quoted(str(value.value))
    if value.kind in ("BOOLEAN", "NULL"):
        return "NULL" if value.value is None else str(value.value).upper()
    # 1.0 must stay a DECIMAL when it is parsed again, so number() cannot be used.
    return repr(value.value)


def options(given: Options) -> str:
    """Return ` (a => 1)`, or nothing."""
    if not given:
        return ""
    return " (" + ", ".join(f"{identifier(name)} => {constant(value)}" for name, value in given) + ")"


def pace(value: float | str) -> str:
    """Return `10x` or MAX."""
    return value if isinstance(value, str) else f"{number(value)}x"


def joined(parts: Iterable[str | None]) -> str:
    """Return the parts that are not None, separated by spaces."""
    return " ".join(part for part in parts if part)
