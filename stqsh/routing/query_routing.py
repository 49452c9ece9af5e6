"""Routing of queries: send each slot the queries whose regions touch its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from stqsh.routing.table import RoutingTable
from stqsh.routing.text_leaves import SoughtTerms
from stqsh.spec.command import RegisterCommand
from stqsh.spec.query_rows import REGION_PATH, QueryRows
from stqsh.spec.region import CircleSpec, NamedRegionSpec, PolygonSpec, RectangleSpec, Region
from stqsh.spec.stream import StreamSpec

Box = tuple[float, float, float, float]
MemberBoxes = dict[str | None, Box]
"""The boxes of an area's members by name; an area without members has one box under the name None."""
EVERYWHERE: Box = (-np.inf, -np.inf, np.inf, np.inf)
_CORNERS, _CIRCLE = ("x1", "y1", "x2", "y2"), ("x", "y", "radius")


class QueryRouting:
    """Computes the slots that queries concern.

    Args:
        slots: the number of slots.
        tables: returns the routing tables of a stream by id, over at most a number of slots: those that dealt
            kept records, and the one in force. There is none while the stream is being prepared.
        area: returns the boxes of an area's members by its id.
    """

    def __init__(
        self,
        slots: int,
        tables: Callable[[int], Sequence[RoutingTable]],
        area: Callable[[int], MemberBoxes],
    ) -> None:
        self.slots, self._tables = slots, tables
        self._area_box, self._member_boxes = cache(self._compute_area_box), cache(area)

    def slots_of(
        self, stream: StreamSpec, new: Sequence[RegisterCommand | QueryRows]
    ) -> list[NDArray[np.bool_]]:
        """Return the slots that the queries of each command concern: bool (queries, slots)."""
        if not new:
            return []
        boxes = [self.boxes(stream, command) for command in new]
        starts = np.cumsum([len(some) for some in boxes])[:-1]
        touched = self.slots_touching(stream.id, np.concatenate(boxes), self.sought(stream, new))
        return np.split(touched, starts)

    def sought(self, stream: StreamSpec, new: Sequence[RegisterCommand | QueryRows]) -> SoughtTerms | None:
        """Return the terms that queries need; None if no table of their stream splits records by terms."""
        if not self.looks_at_terms(stream.id):
            return None
        from stqsh.routing.slot_terms import sought_terms  # numba: only when needed

        return sought_terms(new, stream)

    def boxes(self, stream: StreamSpec, command: RegisterCommand | QueryRows) -> NDArray[np.float64]:
        """Return a box around the region of each query, float64 (n, 4); infinite if it may be anywhere."""
        if isinstance(command, RegisterCommand):
            return np.array([self.box(command.query.region, stream.planar)])
        region, count = command.pattern.region, len(command.ids)
        if (*REGION_PATH, "member") in command.paths:
            return np.tile(np.array(EVERYWHERE), (count, 1))
        if not isinstance(region, RectangleSpec | CircleSpec) or not command.numbers:
            return np.tile(np.array(self.box(region, stream.planar)), (count, 1))
        names = _CORNERS if isinstance(region, RectangleSpec) else _CIRCLE
        measures = [command.numbers.get(name, np.full(count, getattr(region, name))) for name in names]
        if isinstance(region, RectangleSpec):
            return np.column_stack(measures)
        x, y, radius = measures
        return _circle_boxes(x, y, radius, planar=stream.planar)

    def looks_at_terms(self, stream: int) -> bool:
        """Return whether any table of a stream splits records by their terms."""
        return any(table.texts is not None for table in self._tables(stream))

    def slots_touching(
        self, stream: int, boxes: NDArray[np.float64], sought: SoughtTerms | None = None
    ) -> NDArray[np.bool_]:
        """Return the slots that queries concern: bool (queries, slots).

        Infinite boxes concern all slots, so these never need to add such queries later.

        Args:
            stream: their stream.
            boxes: the boxes of their regions, float64 (queries, 4).
            sought: the terms that the queries need; None if any record may satisfy them.
        """
        tables = self._tables(stream)
        touched = np.isinf(boxes).all(axis=1, keepdims=True) | np.zeros((1, self.slots), np.bool_)
        if not tables:
            touched[:] = True
        for table in tables:
            touched[:, : table.slots] |= table.slots_touching(boxes, sought)
        return touched

    def box(self, region: Region, planar: bool) -> Box:
        """Return a box around a stationary region; infinite for nearest neighbours, which may be anywhere."""
        match region:
            case RectangleSpec():
                return region.box
            case CircleSpec(x, y, radius):
                circle = np.array([[x], [y], [radius]], np.float64)
                [(x1, y1, x2, y2)] = _circle_boxes(*circle, planar=planar).tolist()
                return x1, y1, x2, y2
            case PolygonSpec(rings):
                xs, ys = zip(*rings[0], strict=True)
                return min(xs), min(ys), max(xs), max(ys)
            case NamedRegionSpec(area, _, member):
                return self._area_box(area, member)
        return EVERYWHERE

    def _compute_area_box(self, area: int, member: str | None) -> Box:
        """Return the box of an area's member, or of the whole area if `member` is None."""
        boxes = self._member_boxes(area)
        if member is not None:
            return boxes[member]
        x1, y1, x2, y2 = zip(*boxes.values(), strict=True)
        return min(x1), min(y1), max(x2), max(y2)


def member_boxes(geometry: pa.RecordBatch) -> MemberBoxes:
    """Return the boxes of an area's members from its geometry [member, wkb]."""
    members: list[str | None] = geometry.column("member").to_pylist()
    wkb = geometry.column("wkb").to_numpy(zero_copy_only=False)
    boxes = shapely.bounds(shapely.from_wkb(wkb)).tolist()
    return {member: (x1, y1, x2, y2) for member, (x1, y1, x2, y2) in zip(members, boxes, strict=True)}


def _circle_boxes(
    x: NDArray[np.float64], y: NDArray[np.float64], radius: NDArray[np.float64], *, planar: bool
) -> NDArray[np.float64]:
    """Return boxes around circles, float64 (n, 4)."""
    from stqsh.core.kernels.geometry.circles import circle_boxes  # numba: only when needed

    return circle_boxes(x, y, radius, planar)
