"""The types of columns: their names in the language, and which values fit them."""

from __future__ import annotations

from stqsh.lang.ast.expressions import Name
from stqsh.lang.errors import BindError, near

TYPES = ("STRING", "BIGINT", "INT", "DOUBLE", "FLOAT", "BOOLEAN", "TIMESTAMP")
ALIASES = {
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "LONG": "BIGINT",
    "INTEGER": "INT",
    "REAL": "FLOAT",
    "BOOL": "BOOLEAN",
}
NUMBERS = frozenset({"BIGINT", "INT", "DOUBLE", "FLOAT"})
WHOLE_NUMBERS = frozenset({"BIGINT", "INT"})
KEY_TYPES = frozenset({"STRING", "BIGINT", "INT"})
FITTING = {
    "STRING": frozenset({"STRING"}),
    "BOOLEAN": frozenset({"BOOLEAN"}),
    "BIGINT": WHOLE_NUMBERS,
    "INT": WHOLE_NUMBERS,
    "DOUBLE": NUMBERS,
    "FLOAT": NUMBERS,
    "TIMESTAMP": frozenset({"TIMESTAMP"}),
}
"""The types of values that a column of each type accepts."""
WHOLE_RANGES = {"INT": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}


def a_type(kind: str) -> str:
    """Return a type with its article: `a DOUBLE`, `an INT`."""
    return f"an {kind}" if kind == "INT" else f"a {kind}"


def type_named(name: Name) -> str:
    """Return the normalised type for a type's name, ignoring case; raise for an unknown type."""
    given = name.text.upper()
    found = ALIASES.get(given, given)
    if found in TYPES:
        return found
    raise BindError(
        f"unknown type {name.text!r}", name.span, expected=TYPES, near=near(given, (*TYPES, *ALIASES))
    )
