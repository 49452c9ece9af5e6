"""The objects of a stream on a slot: each key's last record, or every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import RowArrays, StoredArrays
from stqsh.core.kernels.events.versions import number, read
from stqsh.core.kernels.jit import frozen
from stqsh.core.objects.event_objects import EventKeyColumn
from stqsh.core.objects.stored_columns import BatchRows, StoredColumns, as_run
from stqsh.core.state.columns import StoredColumn, as_arrow, concatenate
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import pool_of
from stqsh.spec.chunk import ROLE, arrow_type, columns_schema
from stqsh.spec.stream import StreamSpec


class ObjectTable:
    """Last records by key, or events.

    Arrays below `prefix`: keys/… (an interner; for events an `EventKeyColumn`), x, y float64 (NaN: empty
    location), ts int64 µs, known bool, arrived int64 for events, and for each further column i: c{i} values,
    v{i} bool. With `columns=False` only places, times and extents are kept by key, as for focal objects of
    other slots.

    Attributes:
        key_type: The Arrow type of the key column.
        pool: The strings of the stream.
        columns: The other columns.
    """

    def __init__(self, state: SlotState, prefix: str, spec: StreamSpec, *, columns: bool = True) -> None:
        self.spec = spec
        self.pool = pool_of(state, spec.id)
        self.keys: Interner | EventKeyColumn
        if columns and spec.is_event:
            self.keys = EventKeyColumn(state, prefix, spec, self.pool)
        else:
            self.keys = Interner(state, f"{prefix}/keys")
        self.schema = columns_schema(spec.columns)
        self.columns = StoredColumns(state, prefix, spec, self.pool, further=columns)
        self.key_type = arrow_type(self.columns.types[spec.key])

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def stored(self) -> StoredArrays:
        """The stored places and times; valid until the table grows."""
        return self.columns.stored

    def intern(self, keys: pa.Array[Any], hashes: Array | None = None) -> npt.NDArray[np.int32]:
        """Return the object of each key; new keys, and all keys of events, create new objects."""
        found = self.keys.intern(keys, hashes)
        if len(self.keys) > len(self):
            self.columns.resize(len(self.keys))
        return found

    def find(self, key: Any) -> Array:
        """Return the object with a key, whether or not it has a record; int32 (0,) or (1,)."""
        found = self.keys.find(pa.array([key], self.key_type))
        return found[found >= 0]

    def encode(self, batches: Sequence[pa.RecordBatch]) -> BatchRows:
        """Return rows from the payloads of "records" or "focal" chunks, in order; intern new keys."""
        if not batches:
            instant, number = np.empty(0, np.int64), np.empty(0, np.float64)
            arrays = _row_arrays(np.empty(0, np.int32), instant, number, number, instant)
            no_keys: pa.Array[Any] = pa.array([], self.key_type)
            return BatchRows(arrays, no_keys, self.columns.encode(None), frozen(np.empty(0, np.int8)))
        batch = concatenate(batches)
        keys = batch.column(self.spec.key)
        obj = self.intern(keys, batch.column("_hash").to_numpy())
        x, y = (batch.column(axis).to_numpy(zero_copy_only=False) for axis in (self.spec.x, self.spec.y))
        ts = batch.column(self.spec.time).view(pa.int64()).to_numpy()
        arrays = _row_arrays(obj, batch.column("_step").to_numpy(), x, y, ts)
        roles = batch.column(ROLE).to_numpy() if ROLE in batch.schema.names else np.empty(0, np.int8)
        return BatchRows(arrays, keys, self.columns.encode(batch), frozen(roles))

    def forget(self, objects: Array) -> None:
        """Forget the records of objects, int32 (n,); their keys remain."""
        self.stored.known[objects] = False

    def rows(self, objects: Array) -> pa.RecordBatch:
        """Return the stored records of objects, int32 (n,), in the stream's columns."""
        columns = [self.read(name, objects) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def show(self, name: str, rows: BatchRows, versions: Array, objects: Array) -> pa.Array[Any]:
        """Return a declared column of some versions in its Arrow type; null where a version is -1.

        The key column is shown for all objects. `versions`, and `objects` (the object of each version), are
        int32 (n,).
        """
        if name == self.spec.key:
            return self.show_keys(objects)
        return self.columns.show(name, rows, versions)

    def read(self, name: str, objects: Array) -> pa.Array[Any]:
        """Return a declared column of objects as stored, int32 (n,), in its Arrow type."""
        return self.show_keys(objects) if name == self.spec.key else read_column(self.columns, name, objects)

    def view(self, name: str, objects: Array, *, coded: bool = False) -> pa.Array[Any]:
        """Return a column like `read`, without a copy where possible.

        A view is valid until the state changes. With `coded` the result may be a dictionary.
        """
        if name == self.spec.key:
            return self.show_keys(objects)
        return (read_coded if coded else read_column)(self.columns, name, as_run(objects))

    def show_keys(self, objects: Array) -> pa.Array[Any]:
        """Return the keys of objects in the key column's type."""
        return self.keys.take(objects, self.key_type)


def _row_arrays(*columns: Array) -> RowArrays:
    return RowArrays(*(frozen(column) for column in columns))


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
