"""Read columns of objects as stored, without the rows of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.events.versions import number, read
from stqsh.core.kernels.jit import frozen
from stqsh.core.objects.stored_columns import StoredColumns
from stqsh.core.state.columns import StoredColumn, as_arrow


def read_column(columns: StoredColumns, name: str, objects: Array | slice) -> pa.Array[Any]:
    """Return a column of objects, int32 (n,), in its Arrow type.

    For a slice the result may be a view, which is valid until the state changes.
    """
    kind = columns.types[name]
    values, nulls = _stored(columns[name], objects)
    is_place = name not in columns.names and kind != "TIMESTAMP"
    if is_place and len(values) and np.isnan(values.min()):
        nowhere = np.isnan(values)
        nulls = nowhere if nulls is None else nulls | nowhere
    return as_arrow(values, nulls, kind, columns.pool.strings() if kind == "STRING" else None)


def read_coded(columns: StoredColumns, name: str, objects: Array | slice) -> pa.Array[Any]:
    """Return a column like `read_column`; texts are a dictionary whose entries all occur.

    Numbering the codes of texts takes an array as long as the stream's dictionary.
    """
    if columns.stored_type(name) != "STRING":
        return read_column(columns, name, objects)
    codes, nulls = _stored(columns[name], objects)
    texts = columns.pool.strings()
    if len(texts) > len(codes):
        return read_column(columns, name, objects).dictionary_encode()
    known = slice(None) if nulls is None else ~nulls
    numbers, unseen = np.zeros(len(codes), np.int32), np.full(len(texts), -1, np.int32)
    numbers[known], distinct = number(frozen(codes[known]), unseen)
    places: Any = pa.array(numbers, mask=nulls)
    chosen: Any = pa.array(distinct)
    coded: pa.Array[Any] = pa.DictionaryArray.from_arrays(places, texts.take(chosen), safe=False)
    return coded


def _stored(column: StoredColumn, objects: Array | slice) -> tuple[Array, Array | None]:
    """Return the values of objects, and which are null; None instead if no value is null."""
    if isinstance(objects, slice):
        valid = column.valid[objects]
        return column.values[objects], None if valid.all() else ~valid
    values, is_null, nulls = read(*map(frozen, (*column, objects)))
    return values, is_null if nulls else None
