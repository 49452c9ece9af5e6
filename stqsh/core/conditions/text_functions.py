"""Functions of texts over whole columns.

Arrow's functions accept one pattern or position for a whole column. If these differ from row to row, each
distinct combination is applied to its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.core.conditions.column_functions import Value

pc: Any = pyarrow.compute  # its stubs do not accept Python values

_TEXT = pa.string()
_BLANK = pa.scalar(" ")
_FAR = 2**31 - 1
"""Positions after this one are beyond the end of any text."""


def by_setting(value: Value, settings: list[Value], kind: pa.DataType, apply: Callable[..., Value]) -> Value:
    """Apply a function to a column, with settings of which Arrow accepts only one per column.

    Args:
        value: The values.
        settings: The settings; if any of them is NULL, so is the result.
        kind: The type of the result.
        apply: Called with values, and with the settings as Python values, none of which is None.
    """
    if all(isinstance(one, pa.Scalar) for one in settings):
        return _applied(value, [one.as_py() for one in settings], kind, apply)
    rows = next(len(one) for one in settings if not isinstance(one, pa.Scalar))
    value, *columns = (_column(one, rows) for one in (value, *settings))
    names = [str(number) for number in range(len(columns))]
    table = pa.table([*columns, pa.array(np.arange(rows))], names=[*names, "row"])
    parts, places = [pa.array([], kind)], [np.empty(0, np.int64)]
    for group in table.group_by(names, use_threads=False).aggregate([("row", "list")]).to_pylist():
        at: Any = pa.array(group["row_list"])
        parts.append(_applied(value.take(at), [group[name] for name in names], kind, apply))
        places.append(at.to_numpy())
    order: Any = pa.array(np.argsort(np.concatenate(places)))
    return pa.concat_arrays(parts).take(order)


def _applied(value: Value, settings: list[Any], kind: pa.DataType, apply: Callable[..., Value]) -> Value:
    if None not in settings:
        return apply(value, *settings)
    null = pa.scalar(None, kind)
    return null if isinstance(value, pa.Scalar) else _column(null, len(value))


def _column(value: Value, rows: int) -> Value:
    repeat: Any = pa.repeat
    return repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _trimming(function: str) -> Callable[..., Value]:
    """Return the evaluator of TRIM, LTRIM or RTRIM."""

    def trimmed(text: Value, characters: str) -> Value:
        return pc.call_function(function, [text], pc.TrimOptions(characters)) if characters else text

    return lambda text, characters=_BLANK: by_setting(text, [characters], _TEXT, trimmed)


def _concatenation(*texts: Value) -> Value:
    return pc.binary_join_element_wise(*(pc.coalesce(text, pa.scalar("")) for text in texts), "")


def _substring(text: Value, begin: Value, count: Value | None = None) -> Value:
    def part(texts: Value, begin: int, count: int | None = None) -> Value:
        end = _FAR if count is None else begin - 1 + count
        start, stop = (min(max(at, 0), _FAR) for at in (begin - 1, end))
        return pc.utf8_slice_codeunits(texts, start, max(start, stop))

    if count is None:
        return by_setting(text, [begin], _TEXT, part)
    not_negative = pc.if_else(pc.less(count, pa.scalar(0)), pa.scalar(None, pa.int64()), count)
    return by_setting(text, [begin, not_negative], _TEXT, part)


def _left(text: Value, count: Value) -> Value:
    def begin(texts: Value, count: int) -> Value:
        return pc.utf8_slice_codeunits(texts, 0, max(min(count, _FAR), -_FAR))

    return by_setting(text, [count], _TEXT, begin)


def _right(text: Value, count: Value) -> Value:
    def end(texts: Value, count: int) -> Value:
        if count == 0:
            return pc.utf8_slice_codeunits(texts, 0, 0)
        return pc.utf8_slice_codeunits(texts, max(min(-count, _FAR), -_FAR), _FAR)

    return by_setting(text, [count], _TEXT, end)


def _replaced(text: Value, old: Value, new: Value) -> Value:
    def replaced(texts: Value, old: str, new: str) -> Value:
        return pc.replace_substring(texts, old, new) if old else texts

    return by_setting(text, [old, new], _TEXT, replaced)


def _place(text: Value, part: Value) -> Value:
    def found(texts: Value, part: str) -> Value:
        if not part:
            return pc.if_else(pc.is_valid(texts), pa.scalar(1), pa.scalar(None, pa.int64()))
        before = pc.list_element(pc.split_pattern(texts, part, max_splits=1), 0)
        place = pc.add(pc.utf8_length(before).cast(pa.int64()), pa.scalar(1))
        return pc.if_else(pc.match_substring(texts, part), place, pa.scalar(0))

    return by_setting(text, [part], pa.int64(), found)


EVALUATORS: dict[str, Callable[..., Value]] = {
    "CONCAT": _concatenation,
    "LEFT": _left,
    "LENGTH": lambda text: pc.utf8_length(text).cast(pa.int64()),
    "LOWER": pc.utf8_lower,
    "LTRIM": _trimming("utf8_ltrim"),
    "REPLACE": _replaced,
    "REVERSE": pc.utf8_reverse,
    "RIGHT": _right,
    "RTRIM": _trimming("utf8_rtrim"),
    "STARTS_WITH": lambda text, part: by_setting(text, [part], pa.bool_(), pc.starts_with),
    "STRPOS": _place,
    "SUBSTRING": _substring,
    "TRIM": _trimming("utf8_trim"),
    "UPPER": pc.utf8_upper,
}
"""How the functions of texts are evaluated, by name."""
