"""Queries whose regions are areas: they name rows of the slot's areas, and own the polygons they bring."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.slot.state import SlotState

Array = npt.NDArray[Any]
Spec = dict[str, Any]


def place_in_areas(state: SlotState, columns: dict[str, Any], specs: list[Spec]) -> None:
    """Give new queries with polygons or areas their rows and boxes.

    columns: of a `QueryTable`, changed in place: area, and the box in a to d.

    Raises:
        KeyError: no such area.
    """
    regions = [spec["region"] for spec in specs]
    own = [i for i, region in enumerate(regions) if region["type"] == "polygon"]
    named = [i for i, region in enumerate(regions) if region["type"] == "area"]
    if not own and not named:
        return
    from stqsh.core.regions.areas import Areas  # shapely takes a while to load, and few slots have areas

    areas, rows = Areas(state), columns["area"]
    if own:
        rows[own] = areas.intern_polygons([regions[i]["rings"] for i in own])
    rows[named] = [areas.row_of(regions[i]["area"], regions[i]["member"]) for i in named]
    boxes = areas.boxes(rows[own + named])
    for axis, name in enumerate("abcd"):
        corners = np.array(columns[name], np.float64)
        corners[own + named] = boxes[:, axis]
        columns[name] = corners


def leave_areas(state: SlotState, rows: Array) -> None:
    """Forget the polygons of queries that go; rows of named areas stay, -1 is none."""
    if (rows >= 0).any():
        from stqsh.core.regions.areas import Areas

        Areas(state).release_polygons(rows)
