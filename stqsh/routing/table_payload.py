"""Routing tables as payloads of the control log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from msgspec import Struct, json

from stqsh.routing.cells import Bounds, Cells, z_order
from stqsh.routing.table import RoutingTable
from stqsh.spec.chunk import pack, unpack


class _About(Struct):
    """What a payload says of a table besides its cells; `slot` is None if leaves are single cells."""

    strategy: str
    bounds: Bounds
    side: int
    slots: int
    slot: list[int] | None


def pack_table(table: RoutingTable) -> bytes:
    """Return a table as a payload.

    It has runs of cells along the Z curve: of one leaf each, or of one slot if leaves are single cells.
    """
    by_cell, along = _leaves_are_cells(table), z_order(table.cells.side)
    values = (table.slot if by_cell else table.leaf).ravel()[along]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    lengths = np.diff(np.append(starts, len(values)))
    slot = None if by_cell else table.slot.tolist()
    x1, y1, x2, y2 = map(float, table.cells.bounds)
    about = _About(table.strategy, (x1, y1, x2, y2), table.cells.side, table.slots, slot)
    columns = {"value": values[starts].astype(np.int32), "length": lengths.astype(np.int32)}
    runs = pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})
    return pack(runs.replace_schema_metadata({b"table": json.encode(about)}))


def unpack_table(payload: bytes) -> RoutingTable:
    """Read the form of `pack_table`."""
    runs = unpack(payload)
    about = json.decode((runs.schema.metadata or {})[b"table"], type=_About)
    side, slot = about.side, about.slot
    values = np.empty(side * side, np.int32)
    values[z_order(side)] = np.repeat(runs.column(0).to_numpy(), runs.column(1).to_numpy())
    leaf = np.arange(side * side, dtype=np.int32) if slot is None else values
    return RoutingTable(
        about.strategy,
        Cells(about.bounds, side),
        leaf.reshape(side, side),
        (values if slot is None else np.array(slot)).astype(np.int16),
        about.slots,
    )


def _leaves_are_cells(table: RoutingTable) -> bool:
    """Return whether each cell is a leaf, and has the number of its leaf."""
    leaf = table.leaf
    return leaf.size == len(table.slot) and bool((leaf.ravel() == np.arange(leaf.size)).all())
