"""Functions that a user has registered: they map whole columns to a whole column.

A value for which a function fails is NULL, no matter which values are computed together with it. So the
division of a run never changes a result, and one record never stops a stream. Failures are counted; the
caller of the evaluation reports them.
"""

from __future__ import annotations

import base64
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.spec.expression import CallExpr

_TYPES: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
}
_KEPT = 64
_FAILURES = (Exception, SystemExit)  # a function that calls exit() would otherwise end the worker every time
_nulls: Any = pa.nulls  # its stubs do not accept computed types

Function = Callable[..., Any]

FAILURE = b"failure"
"""The metadata key of a schema with the reason why functions failed."""


class WrongNumberError(ValueError):
    """A function returned another number of values than there are rows."""


class Failures(NamedTuple):
    """How often functions failed, and the reason of the first failure."""

    times: int = 0
    reason: str = ""

    @property
    def text(self) -> str:
        """The reason, and how often functions failed."""
        return f"{self.reason}, and {self.times - 1:,} times more" if self.times > 1 else self.reason


class _Noted(threading.local):
    """The failures that are not yet reported."""

    failures = Failures()
    rows: dict[int, str] | None = None


_noted = _Noted()


def take_failures() -> Failures:
    """Return the failures in this thread since the last call."""
    found, _noted.failures = _noted.failures, Failures()
    return found


@contextmanager
def apart() -> Iterator[Callable[[], Failures]]:
    """Keep the failures of a block separate; yield a function that takes them."""
    before = take_failures()
    try:
        yield take_failures
    finally:
        _noted.failures = before


@contextmanager
def by_row() -> Iterator[dict[int, str]]:
    """Yield where failures in a block are noted instead: the first reason for each row."""
    before, _noted.rows = _noted.rows, {}
    try:
        yield _noted.rows
    finally:
        _noted.rows = before


def call_function(expr: CallExpr, arguments: list[pa.Array[Any]], rows: int) -> pa.Array[Any]:
    """Return the values of a function; NULL where the function fails.

    Args:
        expr: The call.
        arguments: The values of its arguments, (rows,) each.
        rows: The number of rows.
    """
    columns = [_shown(*pair) for pair in zip(arguments, expr.kinds, strict=True)]
    if not rows:
        return pa.array([], _TYPES[expr.type])
    try:
        return values_of_call(expr, columns, rows)
    except _FAILURES as error:
        if rows == 1:
            _note(expr, error, 0)
            return _null(expr)
    parts = [_one(expr, [column.slice(row, 1) for column in columns], row) for row in range(rows)]
    return pa.concat_arrays(parts)


@lru_cache(_KEPT)
def read_function(code: str) -> Function:
    """Return the function that is encoded in `code`."""
    function: Function = pickle.loads(base64.b64decode(code))
    return function


def _one(expr: CallExpr, columns: list[pa.Array[Any]], row: int) -> pa.Array[Any]:
    try:
        return values_of_call(expr, columns, 1)
    except _FAILURES as error:
        _note(expr, error, row)
        return _null(expr)


def _null(expr: CallExpr) -> pa.Array[Any]:
    null: pa.Array[Any] = _nulls(1, _TYPES[expr.type])
    return null


def _note(expr: CallExpr, error: BaseException, row: int) -> None:
    said = f"{expr.name}: {type(error).__name__}: {error}"
    if _noted.rows is not None:
        _noted.rows.setdefault(row, said)
        return
    times, reason = _noted.failures
    _noted.failures = Failures(times + 1, reason or said)


def values_of_call(expr: CallExpr, columns: list[pa.Array[Any]], rows: int) -> pa.Array[Any]:
    """Return the values that a function returns for columns, (rows,) each.

    Raises:
        Exception: any exception that the function raises.
        TypeError: the function returns values of another type.
        WrongNumberError: the function returns more or fewer values.
    """
    given = read_function(expr.code)(*columns)
    column = _column(given)
    if len(column) != rows:
        raise WrongNumberError(f"it gave {len(column)} values for {rows}")
    wanted = _TYPES[expr.type]
    if column.type != wanted and not _fits(column.type, wanted):
        raise TypeError(f"it gave values of the type {column.type}, and is registered as {expr.type}")
    return column.cast(wanted)


def _column(given: Any) -> pa.Array[Any]:
    """Convert an array, a list, or a numpy or pandas column to an Arrow array without a dictionary."""
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise TypeError(f"it gave a {type(given).__name__}, and no column")
    if isinstance(given, np.ndarray | list | tuple):
        given = pa.array(given)
    elif not isinstance(given, pa.Array | pa.ChunkedArray):
        given = pa.array(given, from_pandas=True)
    column = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type are also values of the other type."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_string(wanted):
        return pa.types.is_large_string(given) or pa.types.is_string_view(given)
    whole = pa.types.is_integer(given)
    if pa.types.is_floating(wanted):
        return whole or pa.types.is_floating(given)
    return pa.types.is_integer(wanted) and whole


def _shown(column: Any, kind: str) -> Any:
    """Return an argument as functions receive it: instants as timestamps in UTC."""
    return column.view(pa.timestamp("us", "UTC")) if kind == "TIMESTAMP" else column
