"""Query load shedding scales regions: what falls out is told as shed, what comes back as it was."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from shapely.affinity import scale as scaled
from support.budget import share
from support.typed import slot_query

from core.slots import SPEC, TICK, Slot, records, register
from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.geometry.boxes import region_box as rectangle_around
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.matching.region_scaling import scale, will_scale
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.queries.query_table import REGION, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import stream_spec

STAR = [[0, 0], [8, 0], [8, 2], [3, 3], [2, 9], [0, 9], [0, 0]]
REGIONS = {
    "rect": {"type": "rect", "x1": -4.0, "y1": -3.0, "x2": 6.0, "y2": 5.0},
    "circle": {"type": "circle", "x": 1.0, "y": 1.0, "radius": 5.0},
    "polygon": {"type": "polygon", "rings": [STAR]},
    "moving_rect": {"type": "moving_rect", "focal": "f", "xdist": 8.0, "ydist": 6.0},
    "moving_circle": {"type": "moving_circle", "focal": "f", "radius": 4.0},
}


def memory(area=1.0, k=1, factor=1.0, cache=1.0):
    return {"op": "memory", "factor": factor, "k": k, "cache": cache, "area": area}


def demanding(id_, region, least, **more):
    """A query with a least accuracy."""
    command = register(id_, region, **more)
    return command | {"query": command["query"] | {"options": {"min_accuracy": least}}}


def holds(region, area, place, focal, planar=True):
    """Whether a region of which a share of the area is left holds a place, by formula."""
    side, (x, y) = area**0.5, place
    if region["type"] == "rect":
        x1, y1, x2, y2 = (region[name] for name in ("x1", "y1", "x2", "y2"))
        return (
            abs(x - (x1 + x2) / 2) <= (x2 - x1) / 2 * side and abs(y - (y1 + y2) / 2) <= (y2 - y1) / 2 * side
        )
    if region["type"] == "polygon":
        return bool(shapely.intersects_xy(scaled(shapely.Polygon(region["rings"][0]), side, side), x, y))
    if region["type"] == "moving_rect":
        x1, y1, x2, y2 = rectangle_around(*focal, region["xdist"] * side, region["ydist"] * side, planar)
        return x1 <= x <= x2 and y1 <= y <= y2
    centre = focal if "focal" in region else (region["x"], region["y"])
    return distance(*centre, x, y, planar) <= region["radius"] * side


def table_of(*regions, least=0.0):
    table = QueryTable(SlotState.fresh(0), "s1/range")
    specs = [slot_query(demanding(i, region, least)["query"]) for i, region in enumerate(regions)]
    add(table, specs)
    return table


def add(table, specs):
    new = NewQueries.of(specs)
    focals = ObjectTable(SlotState.fresh(0), "s1/focal", stream_spec(SPEC), columns=False)
    focals.intern(new.moving(focals.key_type)[1])
    return table.register(new, set(), BatchTiming(1, 1, 1, TICK, -1, 3), focals)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.7, 0.999, 1.0]), max_size=5), st.sampled_from([0.0, 0.5]))
def test_regions_come_back_to_the_bit(areas, least):
    table = table_of(*REGIONS.values(), {"type": "all"}, least=least)
    every = np.arange(len(table))
    before = {name: table.array(name).copy() for name in REGION}
    for area in areas:
        scale(table, area, every)
        for name in REGION:
            np.testing.assert_array_equal(table.whole(name), before[name])
        assert not len(will_scale(table, area, every))
    scale(table, 1.0, every)
    assert table.shares is None
    for name in REGION:
        np.testing.assert_array_equal(table.array(name), before[name])


def test_shares_follow_queries_that_come_and_go():
    table = table_of(REGIONS["circle"], REGIONS["moving_circle"])
    scale(table, 0.25, np.arange(2))
    assert table.radius.tolist() == [2.5, 2.0]
    spec = slot_query(demanding(7, REGIONS["circle"], 0.0)["query"])
    at = add(table, [spec])
    assert table.radius.tolist() == [2.5, 2.0, 5.0]
    scale(table, 0.25, at)
    table.remove(np.array([0]))
    assert (table.radius.tolist(), table.shares.tolist()) == ([2.0, 2.5], [0.25, 0.25])
    scale(table, 1.0, np.array([0, 1]))
    assert (table.radius.tolist(), table.shares) == ([4.0, 5.0], None)


def test_where_the_scaled_ones_have_gone_nothing_is_remembered():
    table = table_of(REGIONS["circle"], REGIONS["moving_circle"])
    scale(table, 0.25, np.array([0]))
    table.remove(np.array([0]))
    scale(table, 1.0)
    assert table.shares is None
    table.reach[:] = 7.0
    scale(table, 0.25)
    assert table.reach.tolist() == [7.0]


def test_no_region_falls_below_its_least_accuracy_and_everywhere_stays_everywhere():
    table = table_of(REGIONS["circle"], {"type": "all"}, least=0.64)
    scale(table, 0.25, np.arange(2))
    assert table.shares.tolist() == [0.64, 1.0]
    assert table.radius[0] == pytest.approx(4.0)
    assert table.x1[1] == -np.inf


def test_what_lies_over_the_180th_meridian_stays_at_both_ends_of_its_box():
    table = table_of({"type": "rect", "x1": -180.0, "y1": -3.0, "x2": 180.0, "y2": 5.0})
    scale(table, 0.25)
    assert [table.array(name)[0] for name in ("x1", "y1", "x2", "y2")] == [-180.0, 0.0, 180.0, 2.0]


FOCAL = (0.5, 0.5)
PLACES = st.tuples(*[st.integers(-100, 100).map(lambda n: n / 10 + 0.0123)] * 2)
MOVES = st.dictionaries(st.sampled_from("abcde"), PLACES)
AREAS = st.sampled_from([None, 1.0, 0.5, 0.1])


@share(2)
@given(
    st.sampled_from(list(REGIONS)), st.lists(st.tuples(AREAS, MOVES), max_size=6), st.sampled_from([0, 0.3])
)
def test_answers_are_those_of_the_scaled_region(kind, steps, least):
    slot, region, held, area = Slot(), REGIONS[kind], set(), 1.0
    first = [(1, "f", *FOCAL, 1)]
    slot.batch(1, 1, first, [demanding(7, region, least)], focal=records(slot.spec, first))
    places = {} if "focal" in region else {"f": FOCAL}
    held = set(places)
    for step, (command, moves) in enumerate(steps, start=2):
        area = area if command is None else command
        places |= moves
        rows = [(step, key, *place, step) for key, place in moves.items()]
        told = slot.updates(step, step, rows, [] if command is None else [memory(command)])
        inside, whole = (
            {key for key, place in places.items() if holds(region, left, place, FOCAL)}
            for left in (max(area, least), 1.0)
        )
        gone = {(key, "shed" if key in whole else "left") for key in held - inside}
        assert {(key, why) for _, _, op, key, why in told if op == "-"} == gone
        assert {key for _, _, op, key, _ in told if op == "+"} == inside - held
        held = inside
