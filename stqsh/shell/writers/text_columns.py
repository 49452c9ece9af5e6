"""Convert whole Arrow columns to lists of text: the fast half of every output format.

Nulls and NaN become `null` (JSON) or an empty text. Instants are ISO 8601 in UTC with `Z`, with fractions
only if there are any. Numbers are written as in JSON: the shortest text that parses to the same number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.control_characters import escape_controls, escape_json, has_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
NULL = b"null"
UTC = pa.timestamp("us", tz="UTC")
_COARSE = 2**53 / 1e6
"""From this magnitude on, a float64 has no seventh decimal, and a millionfold of it may overflow."""


def is_numeric(column: Column) -> bool:
    """Return whether the column holds numbers."""
    return pa.types.is_integer(column.type) or pa.types.is_floating(column.type)


def json_fragments(column: Column) -> list[bytes]:
    """Return each value of the column as a JSON text."""
    array = whole(column)
    if isinstance(array, pa.DictionaryArray):
        fragments = json_fragments(array.dictionary)
        return [fragments[code] for code in _codes(array)]
    if pa.types.is_timestamp(array.type):
        texts = instants(array.cast(UTC).cast(pa.int64()))
        return [NULL if text is None else b'"%b"' % text.encode() for text in texts]
    if is_numeric(array):
        return _number_fragments(array)
    if pa.types.is_list(array.type):
        return _pair_lists(array)
    return value_fragments(array.to_pylist())


def texts(column: Column) -> list[str]:
    """Return each value of the column as plain text; nulls and NaN are empty."""
    array = whole(column)
    if isinstance(array, pa.DictionaryArray):
        named = texts(array.dictionary)
        return [named[code] for code in _codes(array)]
    if pa.types.is_timestamp(array.type):
        return [text or "" for text in instants(array.cast(UTC).cast(pa.int64()))]
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return [value or "" for value in array.to_pylist()]
    return ["" if text == NULL else text.decode() for text in json_fragments(array)]


def empty_texts(column: Column) -> list[bool]:
    """Return which values of the column are texts without characters; nulls are not."""
    return [value == "" for value in whole(column).to_pylist()]


def rounded(column: Column) -> Column:
    """Round numbers to six decimals, and to nine below one thousandth."""
    if not pa.types.is_floating(column.type):
        return column
    numbers: Any = pc.cast(column, pa.float64())
    # Do not use the `ndigits` of `pc.round`, which can return 39.821600000000004.
    tiny, usual = (pc.divide(pc.round(pc.multiply(numbers, scale)), scale) for scale in (1e9, 1e6))
    size = pc.abs(numbers)
    fine = pc.if_else(pc.less(size, pa.scalar(1e-3)), tiny, usual)
    return cast("Column", pc.if_else(pc.less(size, pa.scalar(_COARSE)), fine, numbers))


def metres(column: Column) -> list[str]:
    """Return lengths in metres as texts with one decimal; nulls and NaN are empty."""
    values = whole(column).to_pylist()
    return ["" if value is None or math.isnan(value) else f"{value:.1f}" for value in values]


def escaped(found: list[str], keep: str = "") -> list[str]:
    """Escape control characters other than those in `keep`, so that no value clears a terminal."""
    return [escape_controls(text, keep) for text in found] if has_controls("".join(found)) else found


def instants(column: Column) -> list[str | None]:
    """Return microseconds since the epoch (int64, shape (n,)) as ISO 8601 texts; None for nulls."""
    array = whole(column)
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[us]")
    distinct, places = np.unique(values, return_inverse=True)  # many rows share few instants
    named: list[str | None] = [_trim(text) for text in np.datetime_as_string(distinct, unit="us").tolist()]
    result = [named[place] for place in places.tolist()]
    for null in _nulls(array):
        result[null] = None
    return result


def instant(at_us: int | None) -> str | None:
    """Return one instant, in microseconds since the epoch, as ISO 8601 in UTC."""
    return None if at_us is None else _trim(str(np.datetime64(at_us, "us")))


def value_fragments(values: Sequence[object]) -> list[bytes]:
    """Return the JSON text of each value, from a single call of the serialiser."""
    if not values:
        return []
    # A raw newline can only be the serialiser's indentation.
    return dumps(values, orjson.OPT_INDENT_2)[4:-2].split(b",\n  ")


def whole(column: Column) -> pa.Array[Any]:
    """Return the column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _codes(array: pa.DictionaryArray[Any, Any]) -> list[int]:
    codes: list[int] = array.indices.to_numpy().tolist()
    return codes


def _trim(text: str) -> str:
    seconds, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{seconds}.{fraction}Z" if fraction else f"{seconds}Z"


def _number_fragments(array: pa.Array[Any]) -> list[bytes]:
    if len(array) == 0:
        return []
    values = np.ascontiguousarray(array.fill_null(0).to_numpy(zero_copy_only=False))
    fragments = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    for null in _nulls(array):
        fragments[null] = NULL
    return fragments


def _pair_lists(array: Any) -> list[bytes]:
    """Return the JSON of lists of structs, such as the terms and counts of TOPK: `[["rain",3],["fog",1]]`.

    Arrow joins the texts of the structs, because lists are many and repeat their values.
    """
    compute: Any = pc
    elements = array.flatten()  # without those of nulls
    parts = [
        pa.array(json_fragments(part.dictionary), pa.binary()).take(part.indices)
        for part in (
            compute.struct_field(elements, field.name).dictionary_encode() for field in elements.type
        )
    ]
    pairs = compute.binary_join_element_wise(*parts, b",")
    pairs = compute.binary_join_element_wise(b"[", pairs, b"]", b"")
    length = compute.fill_null(compute.list_value_length(array), 0).to_numpy()
    places: Any = pa.array(np.concatenate([[0], np.cumsum(length)]).astype(np.int32))
    joined = compute.binary_join(pa.ListArray.from_arrays(places, pairs), b",")
    fragments: list[bytes] = compute.binary_join_element_wise(b"[", joined, b"]", b"").to_pylist()
    for null in _nulls(array):
        fragments[null] = NULL
    return fragments


def _nulls(array: pa.Array[Any]) -> list[int]:
    if not array.null_count:
        return []
    places: list[int] = np.flatnonzero(pc.is_null(array).to_numpy(zero_copy_only=False)).tolist()
    return places


def dumps(value: Any, option: int = 0) -> bytes:
    r"""Return a value as JSON, with all control characters and line separators escaped.

    >>> dumps("one\u2028two").decode()
    '"one\\u2028two"'
    """
    return escape_json(orjson.dumps(value, option=option))
