"""Parameters of REGISTER QUERIES: their types, and the holes that they leave in the queries' spec.

A parameter `:name` stands for a constant that each row has in the column of that name. The template is bound
only once; its spec has a `Hole` in place of each such constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import msgspec

from stqsh.lang.ast.expressions import Parameter
from stqsh.lang.errors import BindError, near
from stqsh.lang.types import a_type

Content = Literal[
    "number", "longitude", "latitude", "length", "count", "terms", "pattern", "member",
    "STRING", "BIGINT", "INT", "DOUBLE", "BOOLEAN", "TIMESTAMP",
]  # fmt: skip
"""The possible contents of a hole: any value of a type, or a value with further constraints."""
COLUMN_TYPES: dict[Content, str] = {
    "number": "DOUBLE", "longitude": "DOUBLE", "latitude": "DOUBLE", "length": "DOUBLE", "count": "BIGINT",
    "terms": "STRING", "pattern": "STRING", "member": "STRING", "STRING": "STRING", "BIGINT": "BIGINT",
    "INT": "BIGINT", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN", "TIMESTAMP": "TIMESTAMP",
}  # fmt: skip
"""The column type that each content requires."""
_TEXT_OR_WHOLE = frozenset({"STRING", "BIGINT", "INT"})
_NUMBERS = frozenset({"BIGINT", "INT", "DOUBLE", "FLOAT", "STRING"})
# One bad value turns the whole column into strings, so each row is checked for whether its value fits.
_ACCEPTED: dict[Content, frozenset[str]] = {
    **dict.fromkeys(("number", "longitude", "latitude", "length"), _NUMBERS),
    "count": _TEXT_OR_WHOLE,
    **dict.fromkeys(("terms", "pattern", "member", "STRING", "BIGINT", "INT"), _TEXT_OR_WHOLE),
    "DOUBLE": _NUMBERS,
    "BOOLEAN": frozenset({"BOOLEAN", "STRING"}),
    "TIMESTAMP": frozenset({"TIMESTAMP", "STRING"}),
}
_WANTED: dict[Content, str] = {
    **dict.fromkeys(("number", "longitude", "latitude", "length", "DOUBLE"), "a number"),
    **dict.fromkeys(("count", "BIGINT", "INT"), "a whole number"),
    **dict.fromkeys(("terms", "pattern", "member", "STRING"), "a string"),
    "BOOLEAN": "TRUE or FALSE",
    "TIMESTAMP": "a time",
}
Part = TypeVar("Part")

MOST_IN_PATTERN = 10_000
"""The maximum length of a LIKE pattern, because large regular expressions cannot be compiled."""


HOLE_TAG = "hole"
"""The key that marks a hole in the JSON of a spec."""


class Hole(msgspec.Struct, frozen=True, tag_field=HOLE_TAG, tag=True):
    """A place in a spec for which each query has its own value.

    Attributes:
        column: The column with the values.
        content: The requirement for a value.
        offset_us: A duration to add to a time.
        constant: The value if all queries share it: a corner of a rectangle, which can only be ordered once
            the other corner is known.
        members: The allowed names for the content "member".
    """

    column: str
    content: Content
    offset_us: int = 0
    constant: float | None = None
    members: tuple[str, ...] = ()


def hole(parameter: Parameter, content: Content, **more: Any) -> Any:
    """Return the hole that replaces the value of a parameter.

    Raises:
        BindError: the statement has no rows that provide values, or the column's type does not fit.
    """
    if parameter.type is None:
        raise BindError(
            f":{parameter.name} has no value here",
            parameter.span,
            hint="REGISTER QUERIES FROM FILE takes values from columns; \\set gives a variable its value",
        )
    if parameter.type not in _ACCEPTED[content]:
        raise BindError(
            f"{_WANTED[content]} is needed, but the column {parameter.name} is {a_type(parameter.type)}",
            parameter.span,
        )
    return Hole(parameter.name, content, **more)


def typed(part: Part, columns: Mapping[str, str]) -> Part:
    """Return a part of a statement with the types of its parameters filled in.

    Raises:
        BindError: there is no column for a parameter.
    """
    if isinstance(part, Parameter):
        if part.name not in columns:
            raise BindError(
                f"there is no column {part.name!r} in the rows",
                part.span,
                expected=tuple(columns),
                near=near(part.name, columns),
            )
        return replace(part, type=columns[part.name])
    if isinstance(part, tuple):
        return tuple(typed(item, columns) for item in part)  # type: ignore[return-value]
    if not is_dataclass(part) or isinstance(part, type):
        return part
    old = {each.name: getattr(part, each.name) for each in fields(part) if each.name not in ("span", "piece")}
    new = {name: typed(value, columns) for name, value in old.items()}
    changed = {name: value for name, value in new.items() if value is not old[name]}
    return replace(part, **changed) if changed else part


def parameters_in(part: Any) -> dict[str, Parameter]:
    """Return the parameters in a part of a statement by name, in order of appearance."""
    if isinstance(part, Parameter):
        return {part.name: part}
    parts: Any = ()
    if isinstance(part, tuple):
        parts = part
    elif is_dataclass(part):
        parts = [getattr(part, each.name) for each in fields(part) if each.name not in ("span", "piece")]
    found: dict[str, Parameter] = {}
    for each in parts:
        found |= {name: one for name, one in parameters_in(each).items() if name not in found}
    return found
