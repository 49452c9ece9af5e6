"""The objects of a stream on a slot: each key's last record, or every event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.kernels.events.transitions import RowArrays, StoredArrays
from stqsh.core.kernels.events.versions import number
from stqsh.core.kernels.jit import frozen
from stqsh.core.objects.event_objects import EventKeyColumn
from stqsh.core.state.columns import StoredColumn, concatenate, declared_arrays, decode, encode, pick
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import pool_of
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.chunk import ROLE, RecordRole, arrow_type, columns_schema
from stqsh.spec.stream import ARRIVED, StreamSpec

Array = npt.NDArray[Any]


class _StoredRecords(StateTable):
    """The last record of each object, without its key; the other declared columns are added at run time."""

    x = ArraySpec(np.float64)
    y = ArraySpec(np.float64)
    ts = ArraySpec(np.int64)
    known = ArraySpec(np.bool_)


class _StoredEvents(_StoredRecords):
    """Events, without their keys; `arrived` is 0 for those that an older version of stqsh stored."""

    arrived = ArraySpec(np.int64)


@dataclass(frozen=True)
class BatchRows:
    """A batch's rows: the input of kernels, the keys, and the other declared columns by name.

    Attributes:
        roles: a `RecordRole` for each row, int8 (rows,); empty where no objects cross from slot to slot.
    """

    arrays: RowArrays
    keys: pa.Array[Any]
    columns: dict[str, StoredColumn]
    roles: Array

    def __len__(self) -> int:
        return len(self.arrays.obj)

    @property
    def reported(self) -> int:
        """The number of records that are the slot's own, rather than those of objects on other slots."""
        return len(self) - int(np.isin(self.roles, (RecordRole.DEPARTED, RecordRole.PREVIOUS)).sum())


class ObjectTable:
    """Last records by key, or events.

    Arrays below `prefix`: keys/… (an interner; for events an `EventKeyColumn`), x, y float64 (NaN: empty
    location), ts int64 µs, known bool, for events arrived int64, and for each further column i: c{i} values,
    v{i} bool. With `columns=False` only places and times are kept by key, as for focal objects of other
    slots.

    Attributes:
        key_type: The Arrow type of the key column.
        pool: The strings of the stream.
    """

    def __init__(self, state: SlotState, prefix: str, spec: StreamSpec, *, columns: bool = True) -> None:
        self.spec = spec
        self.pool = pool_of(state, spec.id)
        self.keys: Interner | EventKeyColumn
        if columns and spec.is_event:
            self.keys = EventKeyColumn(state, prefix, spec, self.pool)
        else:
            self.keys = Interner(state, f"{prefix}/keys")
        own = {spec.key, spec.x, spec.y, spec.time}
        self.schema = columns_schema(spec.columns)
        self._kinds: dict[str, str] = spec.types | {ARRIVED: "BIGINT"}
        self.key_type = arrow_type(self._kinds[spec.key])
        self._names = {name: i for i, (name, _) in enumerate(spec.columns) if columns and name not in own}
        self._table = (_StoredEvents if spec.is_event else _StoredRecords)(
            state, prefix, declared_arrays(spec.columns, self._names)
        )
        if columns and spec.is_event:
            self._names[ARRIVED] = len(spec.columns)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def stored(self) -> StoredArrays:
        """The stored places and times; valid until the table grows."""
        return StoredArrays(self._table.x, self._table.y, self._table.ts, self._table.known)

    def column(self, name: str) -> StoredColumn:
        """Return a further column as stored."""
        if name == ARRIVED:
            return StoredColumn(self._table.array("arrived"), self._table.known)
        i = self._names[name]
        return StoredColumn(self._table.array(f"c{i}"), self._table.array(f"v{i}"))

    def instants(self, name: str) -> Array | None:
        """Return a stored TIMESTAMP column, int64 µs (n,), 0 for null; None for another type."""
        if self._kinds[name] != "TIMESTAMP":
            return None
        return self.stored.ts if name == self.spec.time else self.column(name).values

    def intern(self, keys: pa.Array[Any], hashes: Array | None = None) -> npt.NDArray[np.int32]:
        """Return the object of each key; new keys, and all keys of events, become new objects."""
        found = self.keys.intern(keys, hashes)
        if len(self.keys) > len(self):
            self._table.resize(len(self.keys))
        return found

    def encode(self, batches: Sequence[pa.RecordBatch]) -> BatchRows:
        """Return rows from the payloads of "records" or "focal" chunks, in order; intern new keys."""
        if not batches:
            return self._no_rows()
        batch = concatenate(batches)
        keys = batch.column(self.spec.key)
        obj = self.intern(keys, batch.column("_hash").to_numpy())
        x, y = (batch.column(axis).to_numpy(zero_copy_only=False) for axis in (self.spec.x, self.spec.y))
        ts = batch.column(self.spec.time).view(pa.int64()).to_numpy()
        arrays = _row_arrays(obj, batch.column("_step").to_numpy(), x, y, ts)
        columns = {name: encode(batch.column(name), self._kinds[name], self.pool) for name in self._names}
        roles = batch.column(ROLE).to_numpy() if ROLE in batch.schema.names else np.empty(0, np.int8)
        return BatchRows(arrays, keys, columns, frozen(roles))

    def _no_rows(self) -> BatchRows:
        instant, number = np.empty(0, np.int64), np.empty(0, np.float64)
        columns = {name: self.column(name) for name in self._names}
        columns = {
            name: StoredColumn(column.values[:0], column.valid[:0]) for name, column in columns.items()
        }
        arrays = _row_arrays(np.empty(0, np.int32), instant, number, number, instant)
        return BatchRows(arrays, pa.array([], self.key_type), columns, frozen(np.empty(0, np.int8)))

    def apply(self, rows: BatchRows, final: Array) -> None:
        """Store the rows at the positions in `final`, at most one for each object."""
        source, stored = rows.arrays, self.stored
        obj = source.obj[final]
        stored.x[obj], stored.y[obj], stored.ts[obj] = source.x[final], source.y[final], source.ts[final]
        stored.known[obj] = True
        for name in self._names:
            target = self.column(name)
            target.values[obj] = rows.columns[name].values[final]
            target.valid[obj] = rows.columns[name].valid[final]

    def forget(self, objects: Array) -> None:
        """Forget the records of objects, int32 (n,); their keys stay."""
        self.stored.known[objects] = False

    def rows(self, objects: Array) -> pa.RecordBatch:
        """Return the stored records of objects, int32 (n,), in the stream's columns."""
        none = self._no_rows()
        columns = [self.show(name, none, objects, objects) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def show(self, name: str, rows: BatchRows, versions: Array, objects: Array) -> pa.Array[Any]:
        """Return a declared column of some versions in its Arrow type; null where a version is -1.

        Keys are shown for all objects. `versions` and `objects`, the object of each version, are int32 (n,).
        """
        return self.show_keys(objects) if name == self.spec.key else self.show_column(name, rows, versions)

    def show_column(self, name: str, rows: BatchRows, versions: Array) -> pa.Array[Any]:
        """Return what `show` does for a column other than the key."""
        spec, kind = self.spec, self._kinds[name]
        if name in self._names:
            column = pick(self.column(name), rows.columns[name], versions)
            return decode(column, kind, self.pool.strings())
        axis = {spec.x: 0, spec.y: 1, spec.time: 2}[name]
        stored = StoredColumn(self.stored[axis], self.stored.known)
        batch = StoredColumn(
            (rows.arrays.x, rows.arrays.y, rows.arrays.ts)[axis], np.ones(len(rows), np.bool_)
        )
        column = pick(stored, batch, versions)
        if kind != "TIMESTAMP":
            column.valid[np.isnan(column.values)] = False
        return decode(column, kind, self.pool.strings())

    def show_coded(self, name: str, rows: BatchRows, versions: Array) -> pa.Array[Any] | None:
        """Return a column of texts as a dictionary, with an entry for NULL; None for another column."""
        if name not in self._names or self._kinds[name] != "STRING":
            return None
        column, texts = pick(self.column(name), rows.columns[name], versions), self.pool.strings()
        codes = np.where(column.valid, column.values, len(texts)).astype(np.int32)
        numbers, distinct = number(codes, np.full(len(texts) + 1, -1, np.int32))
        shown: Any = pa.array(distinct, mask=distinct == len(texts))
        coded: pa.Array[Any] = pa.DictionaryArray.from_arrays(numbers, texts.take(shown))
        return coded

    def show_keys(self, objects: Array) -> pa.Array[Any]:
        """Return the keys of objects in the key column's type."""
        return self.keys.take(objects, self.key_type)


def _row_arrays(*columns: Array) -> RowArrays:
    return RowArrays(*(frozen(column) for column in columns))
