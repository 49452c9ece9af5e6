"""The stored columns of a stream's objects on a slot, combined with the rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import RowArrays, StoredArrays
from stqsh.core.kernels.events.versions import are_consecutive, number
from stqsh.core.kernels.jit import frozen
from stqsh.core.state.columns import StoredColumn, declared_arrays, decode, encode, pick
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.chunk import RecordRole
from stqsh.spec.stream import ARRIVED, StreamSpec


def as_run(numbers: Array) -> Array | slice:
    """Return consecutive numbers, such as those of new events, as a slice, which indexes faster."""
    if len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers) and are_consecutive(frozen(numbers)):
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers


class _StoredRecords(StateTable):
    """The last record of each object, without its key; the further declared columns are added at run time."""

    x = ArraySpec(np.float64)
    y = ArraySpec(np.float64)
    ts = ArraySpec(np.int64)
    known = ArraySpec(np.bool_)


class _StoredEvents(_StoredRecords):
    """Events, without their keys; `arrived` is 0 for events that an older version of stqsh stored."""

    arrived = ArraySpec(np.int64)


@dataclass(frozen=True)
class BatchRows:
    """A batch's rows: the input of kernels, the keys, and the other declared columns by name.

    Attributes:
        roles: the `RecordRole` of each row, int8 (rows,); empty if no object crosses from slot to slot.
    """

    arrays: RowArrays
    keys: pa.Array[Any]
    columns: dict[str, StoredColumn]
    roles: Array

    def __len__(self) -> int:
        return len(self.arrays.obj)

    @property
    def reported(self) -> int:
        """The number of the slot's own records, without those of objects on other slots."""
        return len(self) - int(np.isin(self.roles, (RecordRole.DEPARTED, RecordRole.PREVIOUS)).sum())


class StoredColumns:
    """The declared columns of objects except the key; with `further=False`, only places, times and extents.

    Attributes:
        types: The type of each declared column.
        names: The further columns by name, with their numbers.
        pool: The strings of the stream.
    """

    def __init__(
        self, state: SlotState, prefix: str, spec: StreamSpec, pool: Interner, *, further: bool = True
    ) -> None:
        self._spec, self.pool = spec, pool
        own = {spec.key, spec.x, spec.y, spec.time}
        self.types: dict[str, str] = spec.types | {ARRIVED: "BIGINT"}
        kept = {name for name, _ in spec.columns if further or name == spec.extent} - own
        self.names = {name: i for i, (name, _) in enumerate(spec.columns) if name in kept}
        self._table = (_StoredEvents if spec.is_event else _StoredRecords)(
            state, prefix, declared_arrays(spec.columns, self.names)
        )
        if further and spec.is_event:
            self.names[ARRIVED] = len(spec.columns)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> StoredColumn:
        """Return a column as stored; a coordinate that is NaN is null."""
        if name == ARRIVED:
            return StoredColumn(self._table.array("arrived"), self._table.known)
        if name not in self.names:
            spec, own = self._spec, self._table
            return StoredColumn({spec.x: own.x, spec.y: own.y, spec.time: own.ts}[name], own.known)
        i = self.names[name]
        return StoredColumn(self._table.array(f"c{i}"), self._table.array(f"v{i}"))

    @property
    def further_types(self) -> dict[str, str]:
        """The types of the further columns."""
        return {name: self.types[name] for name in self.names}

    def stored_type(self, name: str) -> str | None:
        """Return the type of a further column; None if the column is not stored as such."""
        return self.types[name] if name in self.names else None

    def resize(self, count: int) -> None:
        """Make room for a number of objects."""
        self._table.resize(count)

    @property
    def stored(self) -> StoredArrays:
        """The stored places and times; valid until the table grows."""
        return StoredArrays(self._table.x, self._table.y, self._table.ts, self._table.known)

    def instants(self, name: str) -> Array | None:
        """Return a stored TIMESTAMP column, int64 µs (n,), 0 for null; None for another type."""
        if self.types[name] != "TIMESTAMP":
            return None
        return self.stored.ts if name == self._spec.time else self[name].values

    def encode(self, batch: pa.RecordBatch | None) -> dict[str, StoredColumn]:
        """Return the further columns of a batch by name; empty columns for None."""
        if batch is None:
            columns = {name: self[name] for name in self.names}
            return {name: StoredColumn(one.values[:0], one.valid[:0]) for name, one in columns.items()}
        return {name: encode(batch.column(name), self.types[name], self.pool) for name in self.names}

    def store(self, rows: BatchRows, final: Array) -> None:
        """Store the rows at the positions `final`, ascending, with at most one row per object."""
        source, stored = rows.arrays, self.stored
        at, row = as_run(source.obj[final]), as_run(final)
        stored.x[at], stored.y[at], stored.ts[at] = source.x[row], source.y[row], source.ts[row]
        stored.known[at] = True
        for name in self.names:
            target = self[name]
            target.values[at] = rows.columns[name].values[row]
            target.valid[at] = rows.columns[name].valid[row]

    def show(self, name: str, rows: BatchRows, versions: Array) -> pa.Array[Any]:
        """Return a column of some versions, int32 (n,), in its Arrow type; null where a version is -1."""
        spec, kind = self._spec, self.types[name]
        if name in self.names:
            return decode(pick(self[name], rows.columns[name], versions), kind, self.pool.strings())
        axis, stored = {spec.x: 0, spec.y: 1, spec.time: 2}[name], self[name]
        batch = StoredColumn(
            (rows.arrays.x, rows.arrays.y, rows.arrays.ts)[axis], np.ones(len(rows), np.bool_)
        )
        column = pick(stored, batch, versions)
        if kind != "TIMESTAMP":
            column.valid[np.isnan(column.values)] = False
        return decode(column, kind, self.pool.strings())

    def show_coded(self, name: str, rows: BatchRows, versions: Array) -> pa.Array[Any] | None:
        """Return a column of texts as a dictionary, with an entry for NULL; None for other columns."""
        if name not in self.names or self.types[name] != "STRING":
            return None
        column, texts = pick(self[name], rows.columns[name], versions), self.pool.strings()
        codes = np.where(column.valid, column.values, np.int32(len(texts)))
        numbers, distinct = number(codes, np.full(len(texts) + 1, -1, np.int32))
        shown: Any = pa.array(distinct, mask=distinct == len(texts))
        coded: pa.Array[Any] = pa.DictionaryArray.from_arrays(numbers, texts.take(shown))
        return coded
