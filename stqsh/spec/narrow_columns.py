"""Store integers of payloads in as few bytes as possible: otherwise half of a batch's output is zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def narrowed(batch: pa.RecordBatch, *, only_coded: bool = False) -> pa.RecordBatch:
    """Return a batch with its integers and dictionary indices in as few bytes as possible.

    `only_coded`: whether plain columns stay unchanged, because their types are declared.
    """
    columns: list[Any] = []
    for column in batch.columns:
        narrow: Any = column
        if pa.types.is_dictionary(column.type):
            narrow = pa.DictionaryArray.from_arrays(_narrowed(narrow.indices), narrow.dictionary)
        elif pa.types.is_integer(column.type) and not only_coded:
            narrow = _narrowed(column)
        columns.append(narrow)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names, metadata=batch.schema.metadata)


def widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch whose columns in a schema have the schema's types; other columns are unchanged."""
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if batch.schema.field(at).type != field.type:
            batch = batch.set_column(at, field, batch.column(at).cast(field.type))
    return batch


def _narrowed(column: Any) -> Any:
    if column.null_count or not len(column):
        return column
    values = column.to_numpy(zero_copy_only=False)
    low, high = int(values.min()), int(values.max())
    kind = np.result_type(*map(np.min_scalar_type, (low, ~high if low < 0 <= high else high)))
    return pa.array(values.astype(kind)) if kind.itemsize < values.itemsize else column
