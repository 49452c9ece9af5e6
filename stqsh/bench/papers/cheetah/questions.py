"""The snapshots that figures of CheetahGIS ask (Definitions 1 to 3), and the slots that they ask."""

from __future__ import annotations

import msgspec
import numpy as np

from stqsh.arrays import Floats
from stqsh.bench.papers.routing.asked import RoutedSlots, bound
from stqsh.bench.papers.routing.maps import Places, squares_around
from stqsh.bench.papers.routing.world import EVENTS, Records, load_by, records
from stqsh.routing.strategies import STRATEGIES
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import StreamSpec

BY_KEY, BY_CELL = "object", "grid"
"""The routing under which all slots are asked, as by the paper's QueryBroadcast, and the paper's own."""

OBJECTS: StreamSpec = msgspec.structs.replace(EVENTS, kind="moving", keep_us=None)


def counts(places: Floats, area: float) -> list[SnapshotSpec]:
    """Return range counts: the objects in squares around places, float64 (n, 2), of a share of the area."""
    boxes = squares_around(places, area**0.5).tolist()
    return [
        bound(f"SELECT COUNT(*) FROM events INSIDE RECT({x1}, {y1}, {x2}, {y2})", OBJECTS)
        for x1, y1, x2, y2 in boxes
    ]


def neighbours(places: Floats, k: int) -> list[SnapshotSpec]:
    """Return queries for the k nearest objects of places, float64 (n, 2)."""
    return [
        bound(f"SELECT id, DISTANCE FROM events NEAREST {k} TO ({x}, {y})", OBJECTS)
        for x, y in places.tolist()
    ]


def lookups(objects: Records, count: int) -> list[SnapshotSpec]:
    """Return object queries: the places of the first objects by their ids."""
    ids = objects.batch.column("id")[:count].to_pylist()
    return [bound(f"SELECT x, y FROM events WHERE id = {number}", OBJECTS) for number in ids]


def routed(drawn: Records, slots: int, strategy: str, side: int | None = None) -> RoutedSlots:
    """Return slots that have objects under a strategy, and count them in `side` x `side` cells if given."""
    table = STRATEGIES[strategy](load_by(drawn.places, np.empty((0, 4))), slots)
    stream = OBJECTS if side is None else msgspec.structs.replace(OBJECTS, grid=side)
    return RoutedSlots(table, stream, drawn)


def objects_of(places: Places, count: int, seed: int) -> Records:
    """Draw objects."""
    return records(1, places(np.random.default_rng(seed), count))
