"""Routing tables as payloads of the control log.

A table with leaves split by texts stores its metadata under another name, so that versions of stqsh without
such leaves fail to read it, instead of dealing records differently.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, json
from numpy.typing import NDArray

from stqsh.routing.cells import Bounds, Cells, z_order
from stqsh.routing.table import RoutingTable
from stqsh.routing.text_leaves import CHILDREN, TextLeaves
from stqsh.spec.chunk import pack, unpack

_PLAIN, _SPLIT, _LISTS = b"table", b"table split by texts", b"lists"
_GOAL, _QUERIES = b"goal", b"queries"


class _About(Struct):
    """The metadata of a table in a payload; `slot` is None if leaves are single cells."""

    strategy: str
    bounds: Bounds
    side: int
    slots: int
    slot: list[int] | None


@dataclass(frozen=True, eq=False)
class Move:
    """What a change of the routing moves, and still has to do.

    Attributes:
        queries: the ids of the queries that slots may learn of with this routing, and with each package after
            it, int64, ascending.
        goal: the table that the change is to reach with its last package; None with the last one.
    """

    queries: Sequence[NDArray[np.int64]]
    goal: RoutingTable | None = None


def pack_table(table: RoutingTable, move: Move | None = None) -> bytes:
    """Return a table as a payload.

    It stores runs of cells along the Z curve: of one leaf each, or of one slot if leaves are single cells.

    Args:
        table: the table.
        move: what the change to it moves, None if that is not known.
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
    described = {_PLAIN: json.encode(about)}
    if table.texts is not None:
        described = {_SPLIT: json.encode(about), _LISTS: _pack_lists(table.texts)}
    if move is not None:
        described[_QUERIES] = _pack_ids(move.queries)
        described |= {} if move.goal is None else {_GOAL: pack_table(move.goal)}
    return pack(runs.replace_schema_metadata(described))


def unpack_table(payload: bytes) -> RoutingTable:
    """Read the form of `pack_table`."""
    runs = unpack(payload)
    described = runs.schema.metadata or {}
    about = json.decode(described[_SPLIT if _SPLIT in described else _PLAIN], type=_About)
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
        _unpack_lists(described[_LISTS]) if _LISTS in described else None,
    )


def unpack_move(payload: bytes) -> Move | None:
    """Return what a payload of `pack_table` says of the change, None if it says nothing."""
    described = unpack(payload).schema.metadata or {}
    if _QUERIES not in described:
        return None
    goal = unpack_table(described[_GOAL]) if _GOAL in described else None
    return Move(_unpack_ids(described[_QUERIES]), goal)


def _pack_ids(lists: Sequence[NDArray[np.int64]]) -> bytes:
    """Return lists of ascending ids as bytes: how many there are, their lengths, and their differences."""
    ids = [np.diff(some, prepend=0) for some in lists]
    numbers = np.concatenate([np.array([len(lists), *map(len, lists)]), *ids])
    return zlib.compress(numbers.astype("<i8").tobytes(), 1)


def _unpack_ids(packed: bytes) -> list[NDArray[np.int64]]:
    """Read the form of `_pack_ids`."""
    numbers = np.frombuffer(zlib.decompress(packed), "<i8").astype(np.int64)
    count = int(numbers[0])
    differences = np.split(numbers[1 + count :], np.cumsum(numbers[1 : 1 + count])[:-1])
    return [some.cumsum() for some in differences][:count]


def _leaves_are_cells(table: RoutingTable) -> bool:
    """Return whether each cell is a leaf with the cell's number."""
    leaf = table.leaf
    return leaf.size == len(table.slot) and bool((leaf.ravel() == np.arange(leaf.size)).all())


def _pack_lists(texts: TextLeaves) -> bytes:
    """Return the lists of leaves that are split by texts: a row per term, with the shares as metadata."""
    rows: dict[str, NDArray[Any]] = {
        "leaf": np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(texts.start)),
        "term": texts.term,
        "lists": texts.lists,
    }
    lists = pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in rows.items()})
    shares = {b"records": texts.records, b"cost": texts.cost}
    return pack(
        lists.replace_schema_metadata({name: some.astype("<f8").tobytes() for name, some in shares.items()})
    )


def _unpack_lists(payload: bytes) -> TextLeaves:
    """Read the form of `_pack_lists`."""
    rows = unpack(payload)
    leaf, term, on = (rows.column(name).to_numpy() for name in ("leaf", "term", "lists"))
    shares = rows.schema.metadata or {}
    records, cost = (
        np.frombuffer(shares[name], "<f8").reshape(-1, CHILDREN) for name in (b"records", b"cost")
    )
    start = np.searchsorted(leaf, np.arange(len(records) + 1))
    return TextLeaves(start, term, on, records, cost)
