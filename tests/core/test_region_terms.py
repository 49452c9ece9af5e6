"""What records add to groups, in words of their own or by value, is the same and exact."""

import math

import numpy as np
import pyarrow as pa
import pytest

from stqsh.core.aggregates.keys import number_groups
from stqsh.core.aggregates.limbs import doubles_of, wholes_of
from stqsh.core.groups import region_terms
from stqsh.core.groups.region_terms import Summands
from stqsh.core.kernels.geometry.circles import QueryCircles
from stqsh.core.kernels.groups.region_members import (
    TallyRegions,
    most_members,
    place_records,
    put_in_order,
)
from stqsh.core.kernels.groups.region_tallies import (
    tally_regions,
)
from stqsh.core.kernels.index.static_rects import cell_of
from stqsh.core.kernels.jit import frozen
from stqsh.core.regions.grid_layout import frame_over
from stqsh.core.regions.polygon_table import PolygonTable, polygon_arrays
from stqsh.core.state.slot_state import SlotState

COUNT = 400
BOXES = np.array([[0.0, 0.0, 1.0, 1.0], [0.2, 0.1, 0.7, 0.8], [0.5, 0.5, 0.6, 0.9]])


def regions():
    nothing = np.full(len(BOXES), np.nan)
    circles = QueryCircles(*(nothing for _ in QueryCircles._fields))
    areas = polygon_arrays(PolygonTable(SlotState.fresh(0)))
    return TallyRegions(BOXES, circles, True, np.full(len(BOXES), -1, np.int32), areas)


def columns(draw):
    far = draw.choice([1e-300, 1e300, 3.7, -1e17], COUNT) * draw.random(COUNT)
    missing = draw.random(COUNT) < 0.2
    return {
        "near": pa.array(draw.integers(1, 2800, COUNT) / 10),
        "signed": pa.array(draw.normal(size=COUNT), mask=missing),
        "far": pa.array(far, mask=~missing),
        "whole": pa.array(draw.integers(-(1 << 62), 1 << 62, COUNT)),
        "some": pa.array(draw.integers(-9, 9, COUNT), mask=missing),
        "nothing": pa.nulls(COUNT, pa.float64()),
    }


def tallied(x, y, groups, given):
    """Return the totals of each region and group by name, and the extremes of the column "some"."""
    frame = frame_over(BOXES[:, 0::2].ravel(), BOXES[:, 1::2].ravel(), 8)
    placed = place_records(frozen(x), frozen(y), frame)
    summands = Summands()
    for j, column in enumerate(given.values()):
        summands.count(f"c{j}", column)
        summands.sum(f"s{j}", column)
    summands.extreme(9, "max", given["some"])
    terms = summands.terms(groups, [], placed.order, most_members(placed, regions()))
    assert summands.width >= len(terms.names) == terms.terms.width
    end, rows = tally_regions(placed, terms.terms, regions(), 0, 1000)
    assert end == len(BOXES)
    totals = {name: rows.totals[i] for i, name in enumerate(terms.names)}
    totals |= dict.fromkeys(terms.same, totals["n"])
    [extremes] = terms.extremes
    place = totals.pop("x9")
    greatest = extremes.values.take(pa.array(place - 1, mask=place == 0)).to_pylist()
    return list(zip(rows.region.tolist(), rows.group.tolist(), strict=True)), totals, greatest


@pytest.mark.parametrize(("count", "side"), [(0, 8), (1, 1), (COUNT, 1), (COUNT, 8), (COUNT, 40)])
def test_records_are_in_the_order_of_cells_then_numbers(count, side):
    draw = np.random.default_rng(5)
    x, y = draw.random((2, count)) * 1.4 - 0.2  # some beyond the grid, whose border cells they are in
    frame = frame_over(BOXES[:, 0::2].ravel(), BOXES[:, 1::2].ravel(), side)
    placed = place_records(frozen(x), frozen(y), frame)
    cells = np.array([cell_of(*place, frame) for place in zip(x, y, strict=True)], np.int64)
    order = np.argsort(cells, kind="stable")
    assert placed.start.tolist() == np.searchsorted(cells[order], np.arange(frame.side**2 + 1)).tolist()
    assert placed.places.tolist() == np.column_stack([x, y])[order].tolist()
    numbers = np.arange(count, dtype=np.int32)
    assert put_in_order(frozen(numbers), placed.order).tolist() == order.tolist()


@pytest.mark.parametrize(("words", "topics"), [(0, 4), (5, 4), (24, 4), (100, 4), (24, 300)])
def test_totals_are_exact_whichever_way_they_are_added(monkeypatch, words, topics):
    monkeypatch.setattr(region_terms, "_WORDS", words)
    draw = np.random.default_rng(7)
    x, y, topic = draw.random(COUNT), draw.random(COUNT), draw.integers(0, topics, COUNT)
    groups, given = number_groups([pa.array(topic)], COUNT), columns(draw)
    rows, totals, greatest = tallied(x, y, groups, given)
    inside = [(x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2) for x1, y1, x2, y2 in BOXES]
    assert rows == sorted({(r, g) for r in range(len(BOXES)) for g in groups.ids[inside[r]].tolist()})
    for at, (region, group) in enumerate(rows):
        mine = np.flatnonzero(inside[region] & (groups.ids == group))
        assert totals["n"][at] == len(mine)
        for j, column in enumerate(given.values()):
            values = [value for value in column.take(pa.array(mine)).to_pylist() if value is not None]
            own = {name: total[at : at + 1] for name, total in totals.items() if name.startswith(f"s{j}.")}
            assert totals[f"c{j}"][at] == len(values)
            if pa.types.is_integer(column.type):
                [found], [fits] = wholes_of(own, f"s{j}", 1)
                assert (fits, found if fits else 0) == (fits, sum(values) if fits else 0)
                assert fits == (-(1 << 63) <= sum(values) < 1 << 63)
            else:
                assert doubles_of(own, f"s{j}", 1)[0] == math.fsum(values)
        some = [value for value in given["some"].take(pa.array(mine)).to_pylist() if value is not None]
        assert (greatest[at] is None) == (not some)


def test_the_greatest_value_is_that_of_the_members():
    draw = np.random.default_rng(8)
    x, y = draw.random(COUNT), draw.random(COUNT)
    groups, given = number_groups([], COUNT), columns(draw)
    rows, _, greatest = tallied(x, y, groups, given)
    inside = [(x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2) for x1, y1, x2, y2 in BOXES]
    values = [given["some"].filter(pa.array(mine)) for mine in inside]
    wanted = [
        region_terms.encode_keys([pa.array([max(v.drop_null().to_pylist())])])[0].as_py() for v in values
    ]
    assert (rows, greatest) == ([(r, 0) for r in range(len(BOXES))], wanted)
