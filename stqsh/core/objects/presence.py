"""Counts of objects by cell on a slot, so that snapshots skip slots without objects in their region.

This is the metadata of CheetahGIS (section V-C). There, counts reach the index with a delay and may be wrong
until then. Here, counts are part of a slot's state after each batch, and are never too low: a cell with count
0 has no object, so answers do not depend on counts. The place of each record is counted at once
(accumulative). Objects that left, expired or moved stay counted until there were as many records as there are
objects; then all objects are counted again (periodic), over a grid laid for their current places. So each
record is counted about twice.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.object_grid import any_in_box, count_places
from stqsh.core.kernels.index.static_rects import GridFrame
from stqsh.core.kernels.jit import frozen
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import RecordRole

SIDE = 64
"""The number of cells per side, unless the stream's GRID sets it."""
_FEW = 256
"""Objects are counted again after at least this many records, however few the objects are."""
_SAMPLE = 1024
"""The most objects whose places determine a grid."""
_OUTSIDE = 0.01
"""The share of these objects that may be outside the grid on each side; they count in border cells."""


def count_presence(state: SlotState, stream: int, objects: BatchObjects, side: int = SIDE) -> None:
    """Count the places of a batch's records, after the records are stored; `side` is for new grids."""
    rows = objects.rows
    counts, frame, noted = (f"s{stream}/presence/{name}" for name in ("counts", "frame", "noted"))
    if counts in state:
        there = np.ones(len(rows), np.bool_) if not len(rows.roles) else rows.roles != RecordRole.DEPARTED
        _count(rows.arrays.x, rows.arrays.y, there, state.array(frame), state.array(counts))
        state.array(noted)[0] += len(rows)
        if state.array(noted)[0] <= max(len(objects.table), _FEW):
            return
    elif not len(objects.table):
        return
    stored = objects.table.stored
    laid = _laid(stored.x, stored.y, stored.known, side)
    every = np.zeros(side * side, np.int32)
    _count(stored.x, stored.y, stored.known, laid, every)
    for name, values in ((counts, every), (frame, laid), (noted, np.zeros(1, np.int64))):
        if name in state and len(state.array(name)) == len(values):
            state.array(name)[:] = values  # in place, because a new array would create a new file
        else:
            state.replace(name, values)


def may_hold(state: SlotState, stream: int, box: Array) -> bool:
    """Return whether a slot may have objects of a stream in a box, x1, y1, x2, y2: float64 (4,)."""
    places, counts = f"s{stream}/objects/x", f"s{stream}/presence/counts"
    if places in state and not len(state.array(places)):
        return False
    if counts not in state:
        return True
    found = state.array(counts)
    frame = _frame(state.array(f"s{stream}/presence/frame"), found)
    return bool(any_in_box(frozen(found), frame, frozen(box)))


class CountedCell(NamedTuple):
    """A cell of a slot's grid that has objects.

    Attributes:
        place: The number of the cell in the grid, row by row.
        bounds: x1, y1, x2, y2; None on an open side, because a border cell contains everything beyond it.
        objects: The most objects that the cell may have.
        noted: The number of records since all objects were counted, which shows how fresh the count is.
    """

    place: int
    bounds: tuple[float | None, float | None, float | None, float | None]
    objects: int
    noted: int


def counted_cells(state: SlotState, stream: int) -> list[CountedCell]:
    """Return the cells of a slot that have objects of a stream; none before its first records."""
    if f"s{stream}/presence/counts" not in state:
        return []
    counts, laid, noted = (state.array(f"s{stream}/presence/{name}") for name in ("counts", "frame", "noted"))
    x0, y0, per_x, per_y = laid.tolist()
    side = isqrt(len(counts))

    def sides(cell: int, origin: float, per_unit: float) -> tuple[float | None, float | None]:
        low = None if cell == 0 else origin + cell / per_unit
        return low, None if cell == side - 1 else origin + (cell + 1) / per_unit

    found = []
    for place in np.flatnonzero(counts).tolist():
        row, column = divmod(place, side)
        (x1, x2), (y1, y2) = sides(column, x0, per_x), sides(row, y0, per_y)
        found.append(CountedCell(place, (x1, y1, x2, y2), int(counts[place]), int(noted[0])))
    return found


def _laid(x: Array, y: Array, known: Array, side: int) -> Array:
    """Return a grid for places: its corner, and cells per unit of x and of y, float64 (4,)."""
    every = 1 + len(x) // _SAMPLE
    places = np.column_stack([x[::every], y[::every]])[known[::every]]
    places = places[~np.isnan(places).any(axis=1)]
    if not len(places):
        return np.array([0.0, 0.0, 1.0, 1.0])
    ordered, beyond = np.sort(places, axis=0), int(_OUTSIDE * len(places))
    low, high = ordered[beyond], ordered[-1 - beyond]
    with np.errstate(divide="ignore", over="ignore"):
        per_unit = side / (high - low)
    return np.concatenate([low, np.where(np.isfinite(per_unit) & (per_unit > 0), per_unit, 1.0)])


def _count(x: Array, y: Array, counted: Array, laid: Array, counts: Array) -> None:
    count_places(frozen(x), frozen(y), frozen(counted), _frame(laid, counts), counts)


def _frame(laid: Array, counts: Array) -> GridFrame:
    x0, y0, per_x, per_y = laid.tolist()
    return GridFrame(x0, y0, per_x, per_y, isqrt(len(counts)))
