"""Rows of a record batch in the place of a stream's stored objects, so that snapshots can ask them."""

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
    """The rows of a batch, each an object by its number, int32.

    Args:
        spec: the names of the columns and of their roles; `x` and `y` are empty where rows have no places.
        rows: a batch with the columns of `spec`, and its key, whose values differ.
        nowhere: the place of a row without one: NaN, with which it is no member of any query, or infinity,
            which is in no region.
    """

    def __init__(self, spec: StreamSpec, rows: pa.RecordBatch, nowhere: float) -> None:
        self.spec, self._rows, self._nowhere = spec, rows, nowhere

    def __len__(self) -> int:
        return self._rows.num_rows

    @cached_property
    def stored(self) -> StoredArrays:
        """The places of the rows; their times are of no matter."""
        x, y = self._axis(self.spec.x), self._axis(self.spec.y)
        without = np.isnan(x) | np.isnan(y)
        x[without] = y[without] = self._nowhere
        return StoredArrays(x, y, np.zeros(len(self), np.int64), np.ones(len(self), np.bool_))

    def view(self, name: str, objects: Array, *, coded: bool = False) -> pa.Array[Any]:
        """Return a column of some rows; `coded` is of no matter, as values are a dictionary at will."""
        del coded
        column, places = self._rows.column(name), as_run(objects)
        if isinstance(places, slice):
            return column.slice(places.start, places.stop - places.start)
        numbers: Any = pa.array(places)
        return column.take(numbers)

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

    def _axis(self, name: str) -> Array:
        if not name:
            return np.full(len(self), np.nan)
        return np.array(self._rows.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False))
