"""Keys of objects, as the user wrote them and as their column has them."""

from __future__ import annotations

from stqsh.lang.ast.expressions import Literal
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import WHOLE_RANGES, a_type


def key_value(literal: Literal, key_type: str) -> str | int:
    """A key as the key column has it: 368 is '368' for strings, '368' is 368 for numbers.

    Raises `BindError` for one that the column cannot hold.
    """
    if key_type == "STRING":
        return str(literal.value)
    try:
        value = int(literal.value) if literal.value is not None else None
    except ValueError:
        value = None
    low, high = WHOLE_RANGES[key_type]
    if value is None or not low <= value <= high:
        raise BindError(f"the key is {a_type(key_type)}, and {printed(literal)} is none", literal.span)
    return value
