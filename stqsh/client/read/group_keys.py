"""The keys of aggregate rows: bytes in the log, GROUP BY values for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from stqsh.storage.rows import QueryRow


def is_group_key(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> bool:
    """Return whether keys identify groups rather than records."""
    return pa.types.is_binary(column.type)


def group_types(query: QueryRow) -> tuple[str, ...]:
    """Return the types of the values that identify the rows of an aggregate query."""
    form = query.spec.aggregates
    return () if form is None else form.key_types


def group_values(keys: pa.BinaryArray, types: tuple[str, ...]) -> list[pa.Array[Any]]:
    """Decode keys into their GROUP BY values, one column for each."""
    from stqsh.core.aggregates.keys import decode_keys  # numpy and numba: only where there are such keys

    return decode_keys(keys, types)
