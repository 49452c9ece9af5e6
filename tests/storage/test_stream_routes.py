"""Which routings of a stream are in use."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stqsh.spec.stream import StdinSourceSpec, StreamSpec
from stqsh.storage.stream_routes import routes_kept

SECOND = 1_000_000
POSTS = StreamSpec(
    name="posts",
    kind="event",
    columns=(),
    key="id",
    x="lon",
    y="lat",
    time="ts",
    tick_us=SECOND,
    keep_us=5 * SECOND,
    source=StdinSourceSpec(),
)


@given(st.lists(st.integers(1, 40), max_size=12).map(sorted), st.integers(1, 60))
def test_a_routing_is_in_use_until_what_it_dealt_has_expired(steps: list[int], step: int) -> None:
    routes = tuple(range(len(steps) + 1))
    kept = [
        route
        for route, following in pairwise(routes)
        if steps[following - 1] > 1 and step - steps[following - 1] - 2 <= 5
    ]
    found = routes_kept(POSTS, routes, lambda route: steps[route - 1], step, SECOND)
    assert found == (*kept, routes[-1])


def test_routings_that_are_over_cost_nothing() -> None:
    asked = []

    def taken(route: int) -> int:
        asked.append(route)
        return 10 * route

    assert routes_kept(POSTS, range(1001), taken, 10_003, SECOND) == (999, 1000)
    assert asked == [1000, 999]
