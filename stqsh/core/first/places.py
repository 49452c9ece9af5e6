"""Places in the order of ORDER BY: bytes that compare as the rows do, so that all slots order alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.core.aggregates.keys import canonical, encode_keys
from stqsh.core.conditions.evaluation import columns_read, compute
from stqsh.core.kernels.jit import Array
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.spec.query import OrderColumn

pc: Any = pyarrow.compute  # its stubs know no bytes

_FIRST, _LAST = b"\x00", b"\x01"


def places_of(
    conditions: QueryConditions, key: str, order: Sequence[OrderColumn], versions: Array
) -> pa.BinaryArray:
    """Return the places of records in the order of (ORDER BY, key), by version.

    Args:
        conditions: Gives the columns of versions.
        key: The column of the stream's key.
        order: The expressions of ORDER BY.
        versions: The records, int32 (n,).
    """
    resolver = conditions.resolver
    names = {name for one in order for name in columns_read(one.value, resolver.location)} | {key}
    columns = conditions.columns(sorted(names), versions)
    pieces: list[Any] = []
    for one in order:
        value = canonical(_whole(compute(one.value, columns, 0, resolver)))
        pieces += [_of_nulls(value, one), _falling(_known(value)) if one.is_descending else _known(value)]
    pieces.append(encode_keys([columns[key]]))
    places: pa.BinaryArray = pc.binary_join_element_wise(*pieces, b"")
    return places


def _of_nulls(value: Any, one: OrderColumn) -> Any:
    """Return a byte that brings NULLs to their end of the order."""
    null, known = (_FIRST, _LAST) if one.nulls_first else (_LAST, _FIRST)
    return pc.if_else(pc.is_null(value), pa.scalar(null, pa.binary()), pa.scalar(known, pa.binary()))


def _known(value: Any) -> Any:
    """Return each value as bytes in their order; NULLs are alike."""
    return encode_keys([value])


def _falling(pieces: pa.BinaryArray) -> pa.BinaryArray:
    """Return bytes whose order is the reverse of that of the given ones, none of which begins another."""
    whole = pc.binary_join_element_wise(pieces, pa.scalar(b"", pa.binary()), b"")
    _, offsets, content = whole.buffers()
    data = np.frombuffer(memoryview(content), np.uint8) if content is not None else np.zeros(0, np.uint8)
    falling: Any = ~data
    inverted: Any = pa.py_buffer(falling)
    made = pa.Array.from_buffers(pa.binary(), len(whole), [None, offsets, inverted])
    assert isinstance(made, pa.BinaryArray)
    return made


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
