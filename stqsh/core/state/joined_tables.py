"""Joined tables on a slot: rows by key, looked up for many keys at once (SOLE section 7.3).

Each slot has the whole table, so a join on key equality is a local look-up for every object. A row takes its
values, eight bytes of hash and its share of the hash table; equal strings are stored once.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.state.columns import StoredColumn, declared_arrays, decode, encode, pick
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import StateTable
from stqsh.spec.chunk import arrow_type
from stqsh.spec.stream import TableSpec


class JoinedTables:
    """The tables of a slot, by id; the header's entry "tables" holds their specs.

    Arrays below `t{id}/`: keys/… (an interner; the number of a row is the index of its key), strings/… (an
    interner of all texts except keys), and for each further column i: c{i} values, v{i} bool.
    """

    def __init__(self, state: SlotState) -> None:
        self._state = state
        self._saved = state.entry("tables")

    def define(self, spec: TableSpec) -> None:
        """Create an empty table; an existing table does not change.

        Args:
            spec: The table; its key is a column of STRING, BIGINT or INT.
        """
        if str(spec.id) in self._saved:
            return
        self._saved[str(spec.id)] = msgspec.to_builtins(spec)
        self._table(spec)

    def _spec(self, table: int) -> TableSpec:
        return msgspec.convert(self._saved[str(table)], TableSpec)

    def _table(self, spec: TableSpec) -> StateTable:
        """Return all columns except the key."""
        names = [name for name, _ in spec.columns if name != spec.key]
        return StateTable(self._state, f"t{spec.id}", declared_arrays(spec.columns, names, None))

    def type(self, table: int, column: str) -> str:
        """Return the type of a column of a table; raise `KeyError` if there is none."""
        return self._spec(table).types[column]

    def add(self, table: int, batch: pa.RecordBatch) -> None:
        """Append rows of the declared columns; of rows with equal keys the first counts. Keys are not null.

        Raises:
            KeyError: the table does not exist.
        """
        spec = self._spec(table)
        keys = self._keys(table)
        before = len(keys)
        rows, first = np.unique(keys.intern(batch.column(spec.key)), return_index=True)
        positions = first[rows >= before]
        texts = Interner(self._state, f"t{table}/strings")
        columns: dict[str, Array] = {}
        for i, (name, kind) in enumerate(spec.columns):
            if name != spec.key:
                column = encode(batch.column(name), kind, texts)
                columns |= {f"c{i}": column.values[positions], f"v{i}": column.valid[positions]}
        self._table(spec).append(**columns)

    def drop(self, table: int) -> None:
        """Remove a table, if it exists."""
        if self._saved.pop(str(table), None) is not None:
            self._state.release(f"t{table}/")

    def values(self, table: int, keys: pa.Array[Any], column: str) -> pa.Array[Any]:
        """Return a column of the rows with given keys; null if no row has the key or the key is null.

        Args:
            table: The id of the table.
            keys: Keys of the key column's type, integers of any width; (n,).
            column: The name of the column.

        Returns:
            An array of the column's declared Arrow type, (n,).

        Raises:
            KeyError: the table or column does not exist.
        """
        spec = self._spec(table)
        kinds = spec.types
        rows = self.rows(table, keys)
        if column == spec.key:
            return self._shown_keys(table, rows).cast(arrow_type(kinds[column]))
        i = list(kinds).index(column)
        stored = StoredColumn(self._state.array(f"t{table}/c{i}"), self._state.array(f"t{table}/v{i}"))
        nothing = StoredColumn(stored.values[:0], stored.valid[:0])
        texts = Interner(self._state, f"t{table}/strings").strings()
        return decode(pick(stored, nothing, rows), kinds[column], texts)

    def rows(self, table: int, keys: pa.Array[Any]) -> Array:
        """Return the row of each key, int32 (n,); -1 if no row has the key."""
        rows = self._keys(table).find(keys)
        if keys.null_count:
            rows[pc.is_null(keys).to_numpy(zero_copy_only=False)] = -1
        return rows

    def _keys(self, table: int) -> Interner:
        return Interner(self._state, f"t{table}/keys")

    def _shown_keys(self, table: int, rows: Array) -> pa.Array[Any]:
        spec, keys = self._spec(table), self._keys(table)
        positions: Any = pa.array(rows, mask=rows < 0)
        if spec.types[spec.key] == "STRING":
            return keys.strings().take(positions)
        return pa.array(keys.integers()).take(positions)
