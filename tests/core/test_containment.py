"""A place lies in a region or does not, whoever asks: a query's region, a condition, a snapshot."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st
from support.budget import share

from core.slots import Slot, register
from stqsh.core.snapshots.select import part, whole
from stqsh.spec.chunk import pack

COORDINATE = st.one_of(
    st.integers(-6, 6).map(lambda n: n / 2), st.floats(-3, 3), st.sampled_from([0.1, 1 / 3])
)
PLACE = st.tuples(COORDINATE, COORDINATE)
SIZE = st.sampled_from([0.0, 0.5, 1.0, 2e5])
AREA = 5


@st.composite
def polygons(draw):
    """A valid ring, closed, of corners that are mostly no round numbers."""
    ring = draw(st.lists(PLACE, min_size=3, max_size=6, unique=True))
    assume(shapely.Polygon(ring).is_valid and shapely.Polygon(ring).area > 0)
    return [*ring, ring[0]]


@st.composite
def regions(draw, rings):
    """One of the rings, as a polygon of its own or as a member of the area; a rectangle; a circle."""
    number = draw(st.integers(0, len(rings) - 1))
    (x, y), (u, v), size = draw(PLACE), draw(PLACE), draw(SIZE)
    return draw(
        st.sampled_from(
            [
                {"type": "polygon", "rings": [[list(place) for place in rings[number]]]},
                {"type": "area", "area": AREA, "name": "s", "member": f"m{number}"},
                {"type": "rect", "x1": min(x, u), "y1": min(y, v), "x2": max(x, u), "y2": max(y, v)},
                {"type": "circle", "x": x, "y": y, "radius": size},
            ]
        )
    )


def on_borders(ring):
    """Corners, and places on edges as far as numbers go."""
    found = list(ring)
    for (x1, y1), (x2, y2) in pairwise(ring):
        found += [((x1 + x2) / 2, (y1 + y2) / 2), (x1 + (x2 - x1) / 3, y1 + (y2 - y1) / 3)]
    return found


def area_of(rings):
    shapes = pa.array([shapely.to_wkb(shapely.Polygon(ring)) for ring in rings], pa.binary())
    names = pa.array([f"m{number}" for number in range(len(rings))])
    return pack(pa.RecordBatch.from_arrays([names, shapes], names=["member", "wkb"]))


def asked(slot, region, condition):
    """The keys that a snapshot answers with."""
    spec = {"stream_id": 1, "kind": "range", "region": region, "condition": condition}
    spec |= {"select": [["oid", ["col", "oid"]]], "lookup": None, "order": [], "limit": None}
    spec |= {"aggregate": None}
    return set(whole([part(slot.state, spec, None)], spec).column("oid").to_pylist())


@pytest.mark.parametrize("planar", [True, False])
@share(2)
@given(data=st.data())
def test_regions_conditions_and_snapshots_hold_the_same_places(planar, data):
    rings = data.draw(st.lists(polygons(), min_size=1, max_size=3))
    chosen = data.draw(st.lists(regions(rings), min_size=1, max_size=6))
    places = {place for ring in rings for place in on_borders(ring)} | set(data.draw(st.lists(PLACE)))
    slot, everywhere = Slot(planar=planar), {"type": "all"}
    commands = [register(2 * n, region) for n, region in enumerate(chosen, 1)]
    commands += [register(2 * n + 1, everywhere, ["inside", region]) for n, region in enumerate(chosen, 1)]
    slot.batch(1, 1, beside=[("area_define", AREA, area_of(rings))])
    rows = [(2, f"o{number}", *place, 2) for number, place in enumerate(sorted(places))]
    found = slot.updates(2, 2, rows, commands)
    for n, region in enumerate(chosen, 1):
        of_region, of_condition = ({key for _, q, _, key, _ in found if q == at} for at in (2 * n, 2 * n + 1))
        assert of_region == of_condition
        assert of_region == asked(slot, region, None)
        assert of_region == asked(slot, everywhere, ["inside", region])
        if region["type"] == "polygon":
            corners = {f"o{i}" for i, place in enumerate(sorted(places)) if list(place) in region["rings"][0]}
            assert corners <= of_region
