"""The first law under any routing of live streams, where slots die within batches.

A live stream has a dealer from its first change of the routing on. Deaths fall on all that a change consists
of: the batch in which slots send their objects, the first in which the dealer deals, those in which a copy by
key begins and ends, and any other.
"""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.budget import share
from support.cases import Case
from support.live_memory import Death, LiveCase, LiveMemoryEngine, as_live, live_engine
from support.oracle.groups import run_groups
from support.strategies import cases, cut, cuts
from support.strategies.first import first_cases
from support.strategies.groups import group_cases
from test_law_groups import read
from test_law_routing import FEATURES, MOVING, SLOTS, changes, early, events, movements, remembering, route

from stqsh.core.retention import object_retention
from stqsh.engine.ingest import live_dealer
from stqsh.routing.table import RoutingTable

deaths = st.dictionaries(
    st.integers(0, 20), st.builds(Death, st.integers(0, 20), st.booleans(), st.booleans()), max_size=4
)


@st.composite
def repeated(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A case of events some of which come again later, from elsewhere."""
    case = draw(events(cases))
    again = draw(st.lists(st.tuples(*[st.sampled_from(case.records)] * 2), max_size=6))
    later = [
        (max(first[0], other[0]), first[1] | {"x": other[1]["x"], "y": other[1]["y"]})
        for first, other in again
    ]
    return replace(case, records=sorted([*case.records, *later], key=lambda record: record[0]))


def run_under(engine: LiveMemoryEngine, live: LiveCase, routes: dict[int, RoutingTable]) -> None:
    """Run a case; before each batch in `routes` its routing changes."""
    for number, (first, last) in enumerate(live.batches):
        if number in routes:
            route(engine, live.sent, routes[number])
        engine.take(first, last)


@share(4)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), cuts, st.sampled_from(SLOTS), changes, deaths)
def test_live_objects_that_cross_change_no_update(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    deaths: dict[int, Death],
) -> None:
    drawn = data.draw(movements(st.one_of(cases(features), first_cases(cases(features)))))
    live = as_live(drawn, cut(drawn, size))
    spare = mock.patch.multiple(live_dealer, _SPARE=-1), mock.patch.object(object_retention, "_SPARE", -1)
    with spare[0], spare[1], live_engine(live.sent, count, deaths) as engine:
        run_under(engine, live, routes)
        delivered = engine.delivered()
    assert delivered.updates == oracle.run(live.counted)
    assert delivered.stats["records"] == len(live.sent.records)


@share(4)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), cuts, st.sampled_from(SLOTS), early, deaths)
def test_what_is_remembered_of_live_objects_changes_no_update(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    deaths: dict[int, Death],
) -> None:
    drawn = data.draw(remembering(st.one_of(cases(features), first_cases(cases(features)))))
    live = as_live(drawn, cut(drawn, size))
    with live_engine(live.sent, count, deaths) as engine:
        run_under(engine, live, routes)
        delivered = engine.delivered()
    assert delivered.updates == oracle.run(live.counted)
    assert delivered.stats["records"] == len(live.sent.records)


@share(4)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), cuts, st.sampled_from(SLOTS), changes, deaths)
def test_live_objects_that_cross_change_no_group(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    deaths: dict[int, Death],
) -> None:
    drawn = data.draw(movements(group_cases(cases(features))))
    live = as_live(drawn, cut(drawn, size))
    with live_engine(live.sent, count, deaths) as engine:
        run_under(engine, live, routes)
        assert read(engine, live.sent) == run_groups(live.counted)


@share(4)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, st.sampled_from(SLOTS), changes, deaths)
def test_live_events_are_the_same_under_every_routing(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    deaths: dict[int, Death],
) -> None:
    drawn = data.draw(repeated(cases(features)))
    live = as_live(drawn, cut(drawn, size))
    with live_engine(live.sent, count, deaths) as engine:
        run_under(engine, live, routes)
        delivered = engine.delivered()
    assert delivered.updates == oracle.run(live.counted)
    assert delivered.stats["records"] == len(live.sent.records)
    assert delivered.stats["stale"] == len(live.sent.records) - len(live.counted.records)


@share(4)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, st.sampled_from(SLOTS), changes, deaths)
def test_groups_of_live_events_are_the_same_under_every_routing(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    routes: dict[int, RoutingTable],
    deaths: dict[int, Death],
) -> None:
    drawn = data.draw(group_cases(repeated(cases(features))))
    live = as_live(drawn, cut(drawn, size))
    with live_engine(live.sent, count, deaths) as engine:
        run_under(engine, live, routes)
        assert read(engine, live.sent) == run_groups(live.counted)
