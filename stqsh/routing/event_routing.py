"""Routing of event streams: slots get the records and the queries whose cells they own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from stqsh.core.kernels.geometry.circles import circle_box, circle_boxes
from stqsh.routing.grid_routing import CellRouting
from stqsh.spec.query import SlotQuery
from stqsh.spec.query_rows import QueryRows
from stqsh.spec.region import CircleSpec, NamedRegionSpec, PolygonSpec, RectangleSpec, Region
from stqsh.spec.stream import StreamSpec

Box = tuple[float, float, float, float]
EVERYWHERE: Box = (-np.inf, -np.inf, np.inf, np.inf)
_CORNERS, _CIRCLE = ("x1", "y1", "x2", "y2"), ("x", "y", "radius")


class EventRouting:
    """Which slots the queries of event streams concern.

    Args:
        slots: the number of slots.
        routing: returns the routing of a stream by id, None while the stream is being read.
        area: returns the geometry of an area by id, a record batch [member, wkb].
    """

    def __init__(
        self,
        slots: int,
        routing: Callable[[int], CellRouting | None],
        area: Callable[[int], pa.RecordBatch],
    ) -> None:
        self.slots, self._routing, self._area = slots, routing, area
        self._area_box, self._member_boxes = cache(self._compute_area_box), cache(self._read_member_boxes)

    def slots_of_queries(self, stream: StreamSpec, queries: Sequence[SlotQuery]) -> NDArray[np.bool_]:
        """Return which slots a stream's queries concern: bool (n, slots)."""
        routing = self._routing(stream.id)
        if routing is None:
            return np.ones((len(queries), self.slots), np.bool_)
        boxes = [self.box(query.region, bool(stream.planar)) for query in queries]
        return routing.slots_touching(np.array(boxes, np.float64).reshape(-1, 4))

    def slots_of_alike(self, stream: StreamSpec, new: QueryRows) -> NDArray[np.bool_]:
        """Return which slots the queries of one template concern: bool (n, slots)."""
        routing, region, count = self._routing(stream.id), new.pattern.region, len(new.ids)
        if routing is None or ("region", "member") in new.paths:
            return np.ones((count, self.slots), np.bool_)
        if not isinstance(region, RectangleSpec | CircleSpec) or not new.numbers:
            [same] = self.slots_of_queries(stream, [new.pattern])
            return np.broadcast_to(same, (count, self.slots))
        names = _CORNERS if isinstance(region, RectangleSpec) else _CIRCLE
        measures = [new.numbers.get(name, np.full(count, getattr(region, name))) for name in names]
        if isinstance(region, RectangleSpec):
            return routing.slots_touching(np.column_stack(measures))
        x, y, radius = measures
        return routing.slots_touching(circle_boxes(x, y, radius, stream.planar))

    def box(self, region: Region, planar: bool) -> Box:
        """Return a box around a stationary region; nearest neighbours may be everywhere."""
        match region:
            case RectangleSpec():
                return region.box
            case CircleSpec(x, y, radius):
                return circle_box(x, y, radius, planar)
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

    def _read_member_boxes(self, area: int) -> dict[str | None, Box]:
        """Return the boxes of an area's members."""
        geometry = self._area(area)
        members: list[str | None] = geometry.column("member").to_pylist()
        wkb = geometry.column("wkb").to_numpy(zero_copy_only=False)
        boxes = shapely.bounds(shapely.from_wkb(wkb)).tolist()
        return {member: (x1, y1, x2, y2) for member, (x1, y1, x2, y2) in zip(members, boxes, strict=True)}
