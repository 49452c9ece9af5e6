"""Queries whose regions are areas: they name rows of the slot's areas, and own the polygons they bring."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState

Array = npt.NDArray[Any]


def assign_polygons(state: SlotState, columns: dict[str, Any], new: NewQueries) -> None:
    """Assign rows and boxes to new queries with polygons or areas.

    columns: of a `QueryTable`, changed in place: area, and the box in a to d.

    Raises:
        KeyError: no such area.
    """
    own, polygons = new.regions(lambda region: region["type"] == "polygon")
    named, members = new.regions(lambda region: region["type"] == "area")
    if not len(own) and not len(named):
        return
    from stqsh.core.regions.polygon_table import (
        PolygonTable,
    )  # shapely takes a while to load, and few slots have areas

    areas, rows = PolygonTable(state), columns["area"]
    if len(own):
        rows[own] = areas.intern_polygons([region["rings"] for region in polygons])
    rows[named] = [areas.row_of(region["area"], region["member"]) for region in members]
    both = np.concatenate([own, named])
    boxes = areas.boxes(rows[both])
    for axis, name in enumerate("abcd"):
        corners = np.array(columns[name], np.float64)
        corners[both] = boxes[:, axis]
        columns[name] = corners


def release_polygons(state: SlotState, rows: Array) -> None:
    """Release the polygons of retired queries; rows of named areas stay, -1 is none."""
    if (rows >= 0).any():
        from stqsh.core.regions.polygon_table import PolygonTable

        PolygonTable(state).release_polygons(rows)
