"""Convert columns between Arrow and arrays; strings are codes of a dictionary."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.jit import frozen
from stqsh.core.state.interner import Interner
from stqsh.core.state.table import ArraySpec, Relation
from stqsh.spec.chunk import arrow_type

DTYPES: dict[str, npt.DTypeLike] = {
    "STRING": np.int32,
    "BIGINT": np.int64,
    "INT": np.int32,
    "DOUBLE": np.float64,
    "FLOAT": np.float32,
    "BOOLEAN": np.bool_,
    "TIMESTAMP": np.int64,
}
"""The dtype of each column type: strings are codes of the stream's dictionary, times are µs."""


class StoredColumn(NamedTuple):
    """Values, (n,), and whether each is not null, bool (n,); the value of a null is 0."""

    values: Array
    valid: Array


def declared_arrays(
    columns: Iterable[Sequence[str]], kept: Container[str], refers_to: Relation | None = "strings"
) -> dict[str, ArraySpec]:
    """Return the arrays of the declared columns that are kept.

    Args:
        columns: Name and type of all declared columns, in order.
        kept: The names of the columns to keep.
        refers_to: What the codes of texts refer to.

    Returns:
        For column i: c{i}, its values, and v{i}, whether they are not null.
    """
    specs: dict[str, ArraySpec] = {}
    for i, (name, kind) in enumerate(columns):
        if name in kept:
            specs[f"c{i}"] = ArraySpec(DTYPES[kind], refers_to if kind == "STRING" else None)
            specs[f"v{i}"] = ArraySpec(np.bool_)
    return specs


def encode(column: pa.Array[Any], kind: str, pool: Interner) -> StoredColumn:
    """Convert an Arrow array of a declared type to arrays; new strings are added to the pool."""
    if column.null_count:
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    else:
        valid = np.ones(len(column), np.bool_)
    if kind == "STRING":
        return StoredColumn(_codes(column, pool), valid)
    if kind == "TIMESTAMP":
        column = column.view(pa.int64())
    if column.null_count:
        column = column.fill_null(False if kind == "BOOLEAN" else 0)
    return StoredColumn(column.to_numpy(zero_copy_only=False), valid)


def _codes(column: pa.Array[Any], pool: Interner) -> Array:
    """Return the codes of texts; a column that is all NULL is looked up only once."""
    if 0 < column.null_count == len(column):
        return np.repeat(pool.intern(column[:1]), len(column))
    return pool.intern(column)


def decode(column: StoredColumn, kind: str, texts: pa.Array[Any] | None) -> pa.Array[Any]:
    """Convert arrays to an Arrow array of the declared type; `texts` are the strings of the pool."""
    return as_arrow(column.values, None if column.valid.all() else ~column.valid, kind, texts)


def as_arrow(values: Array, nulls: Array | None, kind: str, texts: pa.Array[Any] | None) -> pa.Array[Any]:
    """Convert values like `decode`; those marked in `nulls` are null."""
    plain: Any = pa.array(values, mask=nulls)
    if kind == "STRING":
        assert texts is not None, "codes are those of texts"
        return texts.take(plain)
    typed: pa.Array[Any] = plain.view(arrow_type(kind)) if kind == "TIMESTAMP" else plain
    return typed


def pick(stored: StoredColumn, rows: StoredColumn, versions: Array) -> StoredColumn:
    """Return a column's values in some versions: versions of stored objects or of a batch's rows.

    `versions` is int32 (n,): v < len(stored) is object v as stored, other values are row v - len(stored), and
    -1 reads as null.
    """
    versions = frozen(versions)
    return StoredColumn(
        gather(stored.values, frozen(rows.values), versions),
        gather(stored.valid, frozen(rows.valid), versions),
    )


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate record batches of one schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # type: ignore[attr-defined]  # the stubs lack it
