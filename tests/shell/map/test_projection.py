"""Places and dots: a place is drawn in its dot, zooming keeps the centre, what fits is all in view."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share

from stqsh.shell.map.terminal.map_projection import MapProjection, box_of, fitted, nice, tick_text, ticks

degrees = st.tuples(st.floats(-179, 179), st.floats(-80, 80))
projections = st.builds(
    lambda place, scale, size, tall, planar: MapProjection(*place, scale, *size, tall, planar),
    degrees,
    st.floats(1e-6, 0.5),
    st.tuples(st.integers(1, 400), st.integers(1, 200)),
    st.sampled_from([1.0, 2.0]),
    st.booleans(),
)


@share(2)
@given(projections, st.floats(0, 1), st.floats(0, 1))
def test_a_place_of_a_dot_is_drawn_in_that_dot(projection: MapProjection, right: float, down: float) -> None:
    column, row = right * projection.width, down * projection.height
    x, y = projection.place(column, row)
    across, below = projection.dots(np.array([x]), np.array([y]))
    assert across[0] == pytest.approx(column, abs=1e-4)
    assert below[0] == pytest.approx(row, abs=1e-4)


@share(2)
@given(projections, st.floats(0.1, 10))
def test_zooming_keeps_the_centre(projection: MapProjection, factor: float) -> None:
    zoomed = projection.zoomed(factor)
    middle = projection.width / 2, projection.height / 2
    assert zoomed.place(*middle) == projection.place(*middle)
    assert zoomed.zoomed(1 / factor).scale == pytest.approx(projection.scale)


@share(2)
@given(st.lists(degrees, min_size=1, max_size=30), st.integers(20, 300), st.integers(10, 150), st.booleans())
def test_what_is_fitted_is_in_view_and_no_smaller_than_need_be(
    places: list[tuple[float, float]], width: int, height: int, planar: bool
) -> None:
    x, y = np.array(places).T
    projection = fitted(box_of(x, y), MapProjection(0, 0, 1, width, height, planar=planar))
    across, down = projection.dots(x, y)
    assert ((across >= 0) & (across <= width) & (down >= 0) & (down <= height)).all()
    if max(np.ptp(x), np.ptp(y)) > 1:
        wide, high = np.ptp(across) / width, np.ptp(down) / height
        assert max(wide, high) > 0.9


def test_panning_moves_by_a_share_of_what_is_shown_and_stops_at_the_poles() -> None:
    projection = MapProjection(10, 50, 0.01, 200, 100)
    moved = projection.panned(0.5, 0)
    assert moved.x == pytest.approx(projection.box[2])
    assert projection.panned(0, 0.5).y == pytest.approx(projection.box[3])
    assert projection.panned(0, 1e6).y == 90


def test_a_degree_of_longitude_is_shorter_than_one_of_latitude() -> None:
    at_60 = MapProjection(0, 60, 0.01, 100, 100)
    across, down = at_60.dots(np.array([0.0, 1.0, 0.0]), np.array([60.0, 60.0, 61.0]))
    assert across[1] - across[0] == pytest.approx(0.5 * (down[0] - down[2]))
    characters = MapProjection(0, 60, 0.01, 100, 100, tall=2.0)
    assert characters.across == pytest.approx(at_60.across / 2)


def test_lengths_are_those_on_the_sphere() -> None:
    projection = MapProjection(10, 50, 0.001, 100, 100)
    assert projection.length(1000) == pytest.approx(math.radians(1) * 6371008.8)
    assert MapProjection(0, 0, 2.0, 100, 100, planar=True).length(10) == 20


@share(2)
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10))
def test_ticks_are_round_within_and_not_too_many(low: float, length: float, most: int) -> None:
    found = ticks(low, low + length, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * length <= value <= low + length * (1 + 1e-6) for value in found)


def test_ticks_are_told_with_the_decimals_that_they_need() -> None:
    assert [tick_text(value, 0.01) for value in ticks(10.0, 10.03, 3)] == ["10.00", "10.01", "10.02", "10.03"]
    assert [tick_text(value, 100.0) for value in ticks(-180, 180, 4)] == ["-100", "0", "100"]
    assert [nice(value) for value in (0.03, 1, 7, 4.9, 99)] == pytest.approx([0.02, 1, 5, 2, 50])
