"""Which slots get the records and the queries of an event stream: those whose cells they touch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.core.kernels.geometry.circles import circle_box, circle_boxes
from stqsh.routing.grid_routing import CellRouting
from stqsh.sources.replay_store.manifest import Manifest, read_manifest
from stqsh.spec.chunk import unpack
from stqsh.spec.query import SlotQuery
from stqsh.spec.query_rows import QueryRows
from stqsh.spec.region import CircleSpec, NamedRegionSpec, PolygonSpec, RectangleSpec, Region
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import ControlDb

Box = tuple[float, float, float, float]
EVERYWHERE: Box = (-np.inf, -np.inf, np.inf, np.inf)


class EventRouting:
    """The routings of a home's event streams, as a task needs them."""

    def __init__(self, home: Path, slots: int) -> None:
        self._home, self.slots = home, slots
        self._area, self._area_boxes = cache(self._area_box), cache(self._boxes_of_area)

    def routing(self, stream_id: int) -> CellRouting | None:
        """Give the routing of an event stream; None while it is being read and nobody knows where it lies."""
        manifest = read_manifest(self._home / "streams" / str(stream_id))
        return None if manifest is None else cell_routing(manifest, self.slots)

    def slots_of_queries(self, stream: StreamSpec, queries: Sequence[SlotQuery]) -> NDArray[np.bool_]:
        """Say which slots a stream's queries concern, by their specs. bool (n, slots)."""
        routing = self.routing(stream.id)
        if routing is None:
            return np.ones((len(queries), self.slots), np.bool_)
        boxes = [self.box(query.region, bool(stream.planar)) for query in queries]
        return routing.slots_touching(np.array(boxes, np.float64).reshape(-1, 4))

    def slots_of_alike(self, stream: StreamSpec, new: QueryRows) -> NDArray[np.bool_]:
        """The same of queries of one template. bool (n, slots)."""
        routing, region, count = self.routing(stream.id), new.pattern.region, len(new.ids)
        if routing is None or ("region", "member") in new.paths:
            return np.ones((count, self.slots), np.bool_)
        if not isinstance(region, RectangleSpec | CircleSpec) or not new.numbers:
            [same] = self.slots_of_queries(stream, [new.pattern])
            return np.broadcast_to(same, (count, self.slots))
        names = region.__struct_fields__
        measures = [new.numbers.get(name, np.full(count, getattr(region, name))) for name in names]
        if isinstance(region, RectangleSpec):
            return routing.slots_touching(np.column_stack(measures))
        x, y, radius = measures
        return routing.slots_touching(circle_boxes(x, y, radius, stream.planar))

    def box(self, region: Region, planar: bool) -> Box:
        """Give a box in which all places of a stationary region lie; of nearest neighbours, everywhere."""
        match region:
            case RectangleSpec():
                return region.box
            case CircleSpec(x, y, radius):
                return circle_box(x, y, radius, planar)
            case PolygonSpec(rings):
                xs, ys = zip(*rings[0], strict=True)
                return min(xs), min(ys), max(xs), max(ys)
            case NamedRegionSpec(area, _, member):
                return self._area(area, member)
        return EVERYWHERE

    def _area_box(self, area: int, member: str | None) -> Box:
        """Give the box of a member of an area; without one, that of all of it."""
        boxes = self._area_boxes(area)
        if member is not None:
            return boxes[member]
        x1, y1, x2, y2 = zip(*boxes.values(), strict=True)
        return min(x1), min(y1), max(x2), max(y2)

    def _boxes_of_area(self, area: int) -> dict[str | None, Box]:
        """Give the boxes of an area's members."""
        import shapely  # takes a while to load

        geometry = unpack(area_geometry(ControlDb(self._home), area))
        members: list[str | None] = geometry.column("member").to_pylist()
        wkb = geometry.column("wkb").to_numpy(zero_copy_only=False)
        boxes = shapely.bounds(shapely.from_wkb(wkb)).tolist()
        return {member: (x1, y1, x2, y2) for member, (x1, y1, x2, y2) in zip(members, boxes, strict=True)}


def cell_routing(manifest: Manifest, slots: int) -> CellRouting | None:
    """Give the routing that follows from an event stream's store; None where it is not of one."""
    return None if manifest.bounds is None else CellRouting.of(manifest.bounds, manifest.sample, slots)


def slots_of_places(routing: CellRouting, records: pa.RecordBatch, x: str, y: str) -> NDArray[np.int32]:
    """Give the slots of event records, whose places are in columns x and y. int32 (n,)."""
    return routing.slots_of(records.column(x).to_numpy(), records.column(y).to_numpy())
