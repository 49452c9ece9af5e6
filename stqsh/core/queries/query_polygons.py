"""The polygons of queries, which refer to rows in the slot's table of polygons."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.region import NamedRegionSpec, PolygonSpec


def assign_polygons(state: SlotState, new: NewQueries, boxes: Array) -> Array:
    """Store the polygons of new queries, and return the row of each one's area, int32 (n,); -1 for none.

    Args:
        state: The slot's state.
        new: The queries.
        boxes: float64 (n, 4), changed in place: set for queries with an area.

    Raises:
        KeyError: there is no such named region.
    """
    rows = np.full(len(new), -1, np.int32)
    own, polygons = new.regions(PolygonSpec)
    named, members = new.regions(NamedRegionSpec)
    if not len(own) and not len(named):
        return rows
    areas = PolygonTable(state)
    if len(own):
        rows[own] = areas.intern_polygons([region.rings for region in polygons])
    rows[named] = [areas.row_of(region.area, region.member) for region in members]
    both = np.concatenate([own, named])
    boxes[both] = areas.boxes(rows[both])
    return rows


def release_polygons(state: SlotState, rows: Array) -> None:
    """Release the polygons of retired queries; rows of named areas stay, and -1 is ignored."""
    if (rows >= 0).any():
        PolygonTable(state).release_polygons(rows)
