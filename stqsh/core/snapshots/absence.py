"""A slot's figures about an answer without rows: known objects, their places, and the region's content."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import structs

from stqsh.arrays import Array
from stqsh.core.conditions.region_test import reach_of
from stqsh.core.contract.snapshot_selection import EVERYWHERE, PresentObjects, StoredRows
from stqsh.core.kernels.index.scan import in_box
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.expression import AndExpr, Expr, ExtentTestExpr, extent_tests
from stqsh.spec.query import BoundQuery
from stqsh.spec.region import Key, Place

Box = tuple[float, float, float, float]


class Sighting(NamedTuple):
    """The last record of an object: its time, µs; whether it has a place; whether the object is present."""

    at_us: int
    is_placed: bool
    is_present: bool


class Absence(NamedTuple):
    """The figures of a slot, or of several slots together.

    Attributes:
        present: the number of present objects.
        inside: the number of these in the region.
        satisfied: the number of those inside that also satisfy the condition.
        touching: the number of objects whose extents share a point with the region; as `inside` for points.
        extent: x1, y1, x2, y2 around the objects present; None without any.
        box: x1, y1, x2, y2 of the region; None if it is unbounded or the focal object is absent.
    """

    present: int = 0
    inside: int = 0
    satisfied: int = 0
    touching: int = 0
    extent: Box | None = None
    box: Box | None = None

    def plus(self, other: Absence) -> Absence:
        """Return the sum of both."""
        both = [one for one in (self.extent, other.extent) if one is not None]
        columns = list(zip(*both, strict=True))
        extent = (min(columns[0]), min(columns[1]), max(columns[2]), max(columns[3])) if both else None
        return Absence(
            self.present + other.present,
            self.inside + other.inside,
            self.satisfied + other.satisfied,
            self.touching + other.touching,
            extent,
            self.box or other.box,
        )


def absence(state: SlotState, spec: BoundQuery, place: Place | None = None) -> Absence:
    """Return a slot's figures for a query or snapshot whose answer has no rows.

    `place` is the place of the region's focal object, None while it is absent.
    """
    objects = PresentObjects.of(state, spec.stream_id)
    if objects is None:
        return Absence()
    there = in_box(objects.stored, objects.since, EVERYWHERE)
    if tests := extent_tests(spec.condition):
        return _of_extents(objects, there, spec, tests)
    reach = reach_of(spec.region, objects.resolver, place)
    inside = there[:0] if reach.is_nowhere else in_box(objects.stored, objects.since, reach.box)
    if reach.shape is not None and len(inside):
        inside = inside[reach.shape(*objects.places(inside))]
    rows, condition = StoredRows(objects, inside, reach), spec.condition
    x, y = objects.places(there)
    extent = (float(x.min()), float(y.min()), float(x.max()), float(y.max())) if len(there) else None
    box = tuple(reach.box.tolist()) if np.isfinite(reach.box).all() else None
    return Absence(
        len(there),
        len(inside),
        len(inside) if condition is None else int(rows.truth(condition).sum()),
        len(inside),
        extent,
        box,
    )


def _of_extents(
    objects: PresentObjects, there: Array, spec: BoundQuery, tests: tuple[ExtentTestExpr, ...]
) -> Absence:
    """Return a slot's figures for a query with regions that extents must meet."""
    from stqsh.core.conditions.extents import extents_of, region_box  # shapely: only when needed

    rows = StoredRows(objects, there, reach_of(spec.region, objects.resolver, None))

    def count(*conditions: Expr) -> int:
        return int(rows.truth(AndExpr(conditions)).sum())

    assert spec.condition is not None, "it has the tests"
    x1, y1, x2, y2 = extents_of(rows.value(tests[0].extent)).distinct.boxes[:, :-1]
    extent = (float(x1.min()), float(y1.min()), float(x2.max()), float(y2.max())) if len(there) else None
    touching = (structs.replace(test, relation="intersects") for test in tests)
    is_fixed = len(tests) == 1 and tests[0].around is None
    box = region_box(tests[0]) if is_fixed else None
    return Absence(len(there), count(*tests), count(spec.condition), count(*touching), extent, box)


def sighting(state: SlotState, stream_id: int, key: Key) -> Sighting | None:
    """Return the last record of an object on a slot; None if the slot has no record of it."""
    objects = PresentObjects.of(state, stream_id)
    if objects is None:
        return None
    found = objects.find(key)
    if not len(found) or not objects.stored.known[found[0]]:
        return None
    stored, [row] = objects.stored, found.tolist()
    return Sighting(int(stored.ts[row]), not np.isnan(stored.x[row]), bool(len(objects.among(found))))
