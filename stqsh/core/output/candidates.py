"""The records of candidates on a slot of Aggregate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.knn.tie_order import KeyOrder, by_number, by_text
from stqsh.core.state.columns import DTYPES, StoredColumn, declared_arrays, decode, encode, pick
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import pool_of
from stqsh.core.state.table import StateTable
from stqsh.spec.chunk import columns_schema
from stqsh.spec.stream import StreamSpec

LOOKED_UP = "\0looked up"
"""The column of bytes that a kind may send with each candidate's record; NULL for none."""


class CandidateRecords:
    """Records by version: the stored candidates first, then the rows of the batch.

    Arrays below `prefix`, for each declared column i: c{i} values and v{i} bool, one row for each candidate;
    `LOOKED_UP` follows the declared columns.
    """

    def __init__(self, state: SlotState, prefix: str, spec: StreamSpec) -> None:
        self._spec, self._pool = spec, pool_of(state, spec.id)
        columns = [*spec.columns, (LOOKED_UP, "STRING")]
        self._kinds: dict[str, str] = dict(columns)
        self._schema = columns_schema(spec.columns)
        self._table = StateTable(state, prefix, declared_arrays(columns, self._kinds))
        self._stored = {name: self._load(i) for i, name in enumerate(self._kinds)}
        self._rows = {
            name: StoredColumn(np.empty(0, DTYPES[kind]), np.empty(0, np.bool_))
            for name, kind in self._kinds.items()
        }

    def _load(self, i: int) -> StoredColumn:
        """Copy a stored column, because the state is overwritten before updates show the old records."""
        return StoredColumn(self._table.array(f"c{i}").copy(), self._table.array(f"v{i}").copy())

    def __len__(self) -> int:
        key = self._spec.key
        return len(self._stored[key].values) + len(self._rows[key].values)

    def take(self, columns: list[pa.Array[Any]]) -> None:
        """Add the batch's rows, as columns in order; columns missing from older versions become NULL."""
        rows, sent = len(columns[0]), len(columns)
        missing = [pa.nulls(rows, pa.string())] * (len(self._kinds) - sent)
        for (name, kind), column in zip(self._kinds.items(), [*columns, *missing], strict=True):
            self._rows[name] = encode(column, kind, self._pool)

    def keys(self) -> Array:
        """Return the keys of all versions; for text keys, their numbers."""
        key = self._spec.key
        return np.concatenate([self._stored[key].values, self._rows[key].values])

    def order(self) -> KeyOrder:
        """Return the keys of all versions, in the form that the kernel compares."""
        is_text, codes = self._kinds[self._spec.key] == "STRING", self.keys()
        return by_text(codes, self._pool.strings()) if is_text else by_number(codes)

    def show(self, versions: Array) -> pa.RecordBatch:
        """Return the declared columns of some versions."""
        columns = [self._column(name, versions) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def looked_up(self, versions: Array) -> pa.BinaryArray:
        """Return the looked-up bytes of some versions; null for none."""
        column: Any = self._column(LOOKED_UP, versions)
        found: pa.BinaryArray = column.view(pa.binary())
        return found

    def numbers_looked_up(self) -> Array:
        """Return a number for the looked-up bytes of each version, equal for equal bytes; -1 for none."""
        columns = (self._stored[LOOKED_UP], self._rows[LOOKED_UP])
        return np.concatenate([np.where(column.valid, column.values, -1) for column in columns])

    def _column(self, name: str, versions: Array) -> pa.Array[Any]:
        column = pick(self._stored[name], self._rows[name], versions)
        return decode(column, self._kinds[name], self._pool.strings())

    def keep(self, versions: Array) -> None:
        """Store the records of the candidates after the batch; `show` still returns all versions."""
        for i, name in enumerate(self._kinds):
            column = pick(self._stored[name], self._rows[name], versions)
            self._table.store(**{f"c{i}": column.values, f"v{i}": column.valid})
