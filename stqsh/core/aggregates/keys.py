"""Keys of groups: the values of GROUP BY as bytes that sort like the values, NULL last.

Equal groups have equal keys on all slots, so keys identify groups wherever states are merged. NULL is
encoded as the tag 2. Every other value is the tag 1, followed by 8 bytes for numbers, instants and truth
values, or by the UTF-8 bytes of a string and a terminator that sorts before all characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.lib.stride_tricks import sliding_window_view

from stqsh.arrays import Array
from stqsh.core.kernels.aggregates.exact_sums import are_plain
from stqsh.core.kernels.events.versions import number_wholes
from stqsh.core.kernels.jit import frozen
from stqsh.spec.chunk import arrow_type

Column: TypeAlias = Any
"""An Arrow array."""

pc: Any = pyarrow.compute  # its stubs do not know binary values

_VALUE, _NULL = b"\x01", b"\x02"
_ZERO, _ESCAPED, _END = b"\x00", b"\x00\xff", b"\x00\x01"
_FLIP = np.uint64(1 << 63)
_MANY, _FEW = 1 << 12, 1 << 16
"""Whole numbers are numbered by a table if there are many of them in a narrow range; others by hashing."""


class Groups(NamedTuple):
    """The groups of some records.

    Attributes:
        ids: the number of each record's group, int32 (n,).
        keys: the keys of the groups, ascending.
    """

    ids: Array
    keys: pa.BinaryArray


def canonical(column: Column) -> Column:
    """Return a column in which NaN and infinities are NULL, and -0.0 is 0.0."""
    if not pa.types.is_floating(column.type):
        return column
    values = column.to_numpy(zero_copy_only=False)
    if not column.null_count and _are_plain(values):
        return column
    is_finite = np.isfinite(values)
    mask = None if is_finite.all() else ~is_finite
    return pa.array(values + values.dtype.type(0), column.type, mask=mask)


def _are_plain(values: Array) -> bool:
    """Return whether no value is NaN, infinite or -0.0."""
    bits = np.array([np.inf, -0.0], values.dtype).view(f"i{values.itemsize}")
    return bool(are_plain(frozen(values.view(bits.dtype)), *bits))


def number_groups(columns: Sequence[Column], rows: int) -> Groups:
    """Number the groups of records by their values; without columns, all records are in one group.

    Args:
        columns: The values of GROUP BY, (rows,) each.
        rows: The number of records.
    """
    if not columns:
        return Groups(np.zeros(rows, np.int32), pa.array([b""], pa.binary()))
    ids, distinct = distinct_rows([canonical(column) for column in columns])
    keys = encode_keys(distinct)
    order = pc.sort_indices(keys)
    in_order = np.arange(len(keys), dtype=np.int32)
    if np.array_equal(order.to_numpy(), in_order):
        return Groups(ids, keys)
    place = np.empty(len(keys), np.int32)
    place[order.to_numpy()] = in_order
    return Groups(place[ids], keys.take(order))


def distinct_rows(columns: Sequence[Column]) -> tuple[Array, list[Column]]:
    """Return the number of each row's distinct combination of values, int32 (n,), and the combinations."""
    coded = [_coded(whole(column)) for column in columns]
    codes = coded[0].indices.to_numpy()
    places = [np.arange(len(coded[0].dictionary))]
    for column in coded[1:]:
        size = len(column.dictionary)
        both: Any = pa.array(codes.astype(np.int64) * size + column.indices.to_numpy()).dictionary_encode()
        codes, combined = both.indices.to_numpy(), both.dictionary.to_numpy()
        places = [*(place[combined // max(size, 1)] for place in places), combined % max(size, 1)]
    distinct = [column.dictionary.take(pa.array(at)) for column, at in zip(coded, places, strict=True)]
    return codes.astype(np.int32, copy=False), distinct


def _coded(column: Column) -> Any:
    """Return a column as a dictionary, which may contain an entry for NULL."""
    if pa.types.is_dictionary(column.type):
        return _with_entry_for_null(column) if column.null_count else column
    if pa.types.is_signed_integer(column.type) and len(column) >= _MANY and not column.null_count:
        values = column.to_numpy().astype(np.int64, copy=False)
        codes, distinct = number_wholes(frozen(values), _FEW)
        if len(distinct):
            values = pa.array(distinct, pa.int64()).cast(column.type)
            return pa.DictionaryArray.from_arrays(codes, values, safe=False)
    return column.dictionary_encode(null_encoding="encode")


def _with_entry_for_null(column: Any) -> Any:
    indices = column.indices.fill_null(len(column.dictionary))
    values = pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)])
    return pa.DictionaryArray.from_arrays(indices, values)


def encode_keys(columns: Sequence[Column]) -> pa.BinaryArray:
    """Return the key of each row, from at least one column of canonical values."""
    first, *others = [_encoded(column) for column in columns]
    keys: pa.BinaryArray = pc.binary_join_element_wise(first, *others, b"") if others else first
    return keys


def decode_keys(keys: pa.BinaryArray, types: Sequence[str]) -> list[Column]:
    """Return the columns of the values that keys encode, in their declared types."""
    _, places, content = keys.buffers()
    assert places is not None
    offsets = np.frombuffer(memoryview(places), np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(memoryview(content), np.uint8) if content is not None else np.zeros(0, np.uint8)
    at, columns = offsets[:-1].astype(np.int64), []
    for kind in types:
        column, at = _decoded(data, at, kind)
        columns.append(column)
    return columns


def whole(column: Column) -> Any:
    """Return a column in one piece, without a copy if it already is in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _encoded(column: Column) -> Any:
    """Return each value of a column as bytes."""
    if pa.types.is_string(column.type):
        text: Any = column.cast(pa.binary())
        if pc.any(pc.match_substring(text, _ZERO)).as_py():
            text = pc.replace_substring(text, _ZERO, _ESCAPED)
        pieces = pc.binary_join_element_wise(pa.scalar(_VALUE), text, pa.scalar(_END), b"")
    else:
        pieces = _tagged(_ordered(column))
    return pc.if_else(pc.is_null(column), pa.scalar(_NULL), pieces) if column.null_count else pieces


def _tagged(numbers: Array) -> pa.BinaryArray:
    """Return numbers, uint64 (n,), as a tag and 8 bytes each."""
    data = np.empty((len(numbers), 9), np.uint8)
    data[:, 0] = _VALUE[0]
    data[:, 1:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    return _binary(np.arange(len(numbers) + 1, dtype=np.int32) * 9, data.reshape(-1))


def _ordered(column: Column) -> Array:
    """Return values as uint64 that sort like the values; 0 for NULL."""
    if pa.types.is_floating(column.type):
        doubles = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        bits = doubles.view(np.int64)
        ordered: Array = bits.view(np.uint64) ^ ((bits >> 63).view(np.uint64) | _FLIP)
        return ordered
    wholes: Any = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    flipped: Array = wholes.astype(np.int64).view(np.uint64) ^ _FLIP
    return flipped


def _decoded(data: Array, at: Array, kind: str) -> tuple[Column, Array]:
    """Return the values that begin at positions, and the positions after these values."""
    null = data[at] == _NULL[0] if len(at) else np.zeros(0, np.bool_)
    begin = at + 1
    if kind == "STRING":
        ends = np.flatnonzero((data[:-1] == _END[0]) & (data[1:] == _END[1]))
        end = begin.copy()
        end[~null] = ends[np.searchsorted(ends, begin[~null])]
        return _texts(data, begin, end, null), np.where(null, begin, end + len(_END))
    there = begin[~null]
    numbers = np.zeros(len(at), np.uint64)
    if len(there):
        numbers[~null] = sliding_window_view(data, 8)[there].view(">u8").reshape(-1)
    return _numbers(numbers, null, kind), np.where(null, begin, begin + 8)


def _texts(data: Array, begin: Array, end: Array, null: Array) -> Column:
    texts: Any = byte_slices(data, begin, end)
    if pc.any(pc.match_substring(texts, _ZERO)).as_py():
        texts = pc.replace_substring(texts, _ESCAPED, _ZERO)
    plain = texts.cast(pa.string())
    return pc.if_else(pa.array(null), pa.scalar(None, pa.string()), plain)


def byte_slices(data: Array, begin: Array, end: Array) -> pa.BinaryArray:
    """Return data[begin : end] of each row, with data uint8 and positions int64 (n,)."""
    lengths = end - begin
    offsets = np.zeros(len(begin) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    positions = np.repeat(begin - offsets[:-1], lengths) + np.arange(offsets[-1])
    return _binary(offsets.astype(np.int32), data[positions])


def _binary(offsets: Any, data: Any) -> pa.BinaryArray:
    content: Any = np.ascontiguousarray(data)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    made = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    assert isinstance(made, pa.BinaryArray)
    return made


def _numbers(numbers: Array, null: Array, kind: str) -> Column:
    """Return the values of a type from the numbers of `_ordered`."""
    if kind in ("DOUBLE", "FLOAT"):
        is_negative = numbers < _FLIP
        doubles = np.where(is_negative, ~numbers, numbers ^ _FLIP).view(np.float64)
        return pa.array(doubles, mask=null).cast(arrow_type(kind))
    wholes: Any = pa.array((numbers ^ _FLIP).view(np.int64), mask=null)
    if kind == "BOOLEAN":
        return pc.equal(wholes, 1)
    return wholes.cast(arrow_type(kind))
