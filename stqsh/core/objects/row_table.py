"""Rows of a record batch in place of a stream's stored objects, so that snapshots can query them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.objects.stored_columns import as_run
from stqsh.spec.stream import StreamSpec


class RowTable:
    """The rows of a batch; each row is an object, whose number is the row's, int32.

    Args:
        spec: the names of the columns and their roles; `x` and `y` are empty if rows have no places.
        rows: a batch with the columns of `spec` and its key, whose values are distinct.
        nowhere: the coordinate of a row without a place: NaN, with which it is a member of no query, or
            infinity, which is in no region.
        is_timed: whether the times of rows matter; otherwise they are 0.
    """

    def __init__(
        self, spec: StreamSpec, rows: pa.RecordBatch, nowhere: float, *, is_timed: bool = False
    ) -> None:
        self.spec, self._rows, self._nowhere, self._is_timed = spec, rows, nowhere, is_timed

    def __len__(self) -> int:
        return self._rows.num_rows

    @cached_property
    def stored(self) -> StoredArrays:
        """The places and times of the rows."""
        x, y = self._axis(self.spec.x), self._axis(self.spec.y)
        without = np.isnan(x) | np.isnan(y)
        x[without] = y[without] = self._nowhere
        return StoredArrays(x, y, self._times(), np.ones(len(self), np.bool_))

    def view(self, name: str, objects: Array, *, coded: bool = False) -> pa.Array[Any]:
        """Return a column of some rows; with `coded` texts are a dictionary, as on slots."""
        column, places = self._rows.column(name), as_run(objects)
        if isinstance(places, slice):
            found = column.slice(places.start, places.stop - places.start)
        else:
            numbers: Any = pa.array(places)
            found = column.take(numbers)
        is_coded = coded and name != self.spec.key and pa.types.is_string(found.type)
        return found.dictionary_encode() if is_coded else found

    def read(self, name: str, objects: Array) -> pa.Array[Any]:
        """Return a column of some rows."""
        return self.view(name, objects)

    def show_keys(self, objects: Array) -> pa.Array[Any]:
        """Return the keys of some rows."""
        return self.view(self.spec.key, objects)

    def find(self, key: Any) -> Array:
        """Return the rows with a key, int32 (n,)."""
        found: Any = pc.equal(self._rows.column(self.spec.key), key)
        return np.flatnonzero(found.fill_null(False).to_numpy(zero_copy_only=False)).astype(np.int32)

    def _times(self) -> Array:
        if not self._is_timed:
            return np.zeros(len(self), np.int64)
        return np.array(self._rows.column(self.spec.time).cast(pa.int64()).to_numpy(zero_copy_only=False))

    def _axis(self, name: str) -> Array:
        if not name:
            return np.full(len(self), np.nan)
        return np.array(self._rows.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False))
