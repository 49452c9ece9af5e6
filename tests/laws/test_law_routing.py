"""The first law under any routing: whatever the tables, and whenever they change, updates are the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.budget import share
from support.cases import Case
from support.group_updates import read_groups
from support.oracle.groups import run_groups
from support.oracle.refreshes import run_refreshes
from support.routed import REPLAY, WAYS, Routed, Way, events
from support.strategies import cases
from support.strategies.altering import altered_cases
from support.strategies.dwelling import dwelling_aggregates
from support.strategies.groups import group_cases
from support.strategies.refreshes import refreshed_cases, refreshed_rows
from support.strategies.routing import Routing, changing, early, splitting, worded
from support.strategies.top_n import top_n_cases

from stqsh.core.retention import object_retention
from stqsh.engine.config import EngineSettings
from stqsh.engine.ingest import dealer, record_sieve, textual_summary

pytestmark = pytest.mark.slow

EVENTS = {
    "rectangles": frozenset({"events"}),
    "circles": frozenset({"events", "circles", "nearest"}),
    "polygons": frozenset({"events", "polygons", "inside"}),
    "texts": frozenset({"events", "text", "expressions"}),
}
PUBLISHED = {
    "some ask for words": frozenset({"events", "forgotten", "text", "circles", "expressions"}),
    "all ask for words": frozenset({"events", "forgotten", "text", "keywords", "polygons"}),
}
SPLIT = {
    "some ask for words": frozenset({"events", "text", "circles", "expressions"}),
    "all ask for words": frozenset({"events", "text", "keywords", "dwell"}),
    "nearest": frozenset({"events", "text", "keywords", "nearest", "joins"}),
}
MOVING = {
    "rectangles": frozenset[str](),
    "shapes": frozenset({"circles", "polygons", "inside", "expressions"}),
    "nearest": frozenset({"nearest", "circles"}),
    "texts": frozenset({"text", "joins", "expressions"}),
    "dwell": frozenset({"dwell", "circles", "inside", "changes"}),
    "around": frozenset({"around", "circles", "nearest", "dwell"}),
}


def movements(drawn: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Cases of moving streams that have records."""
    return drawn.filter(lambda case: case.spec["kind"] == "moving" and bool(case.records))


def remembering(drawn: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Cases with queries for which slots have to remember objects."""
    return movements(drawn).filter(
        lambda case: (
            any(query["options"].get("dwell_us") for query in case.queries)
            or any(command["op"] == "pause" for _, command in case.commands)
        )
    )


def plain_or_first(features: frozenset[str]) -> st.SearchStrategy[Case]:
    return st.one_of(cases(features), top_n_cases(cases(features)))


@pytest.fixture(params=WAYS.values(), ids=WAYS, scope="module")
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture(scope="module")
def eager_forgetting() -> Iterator[None]:
    """Objects that are silent or have left are forgotten at once."""
    spared = mock.patch.object(dealer, "_SPARE", -1), mock.patch.object(object_retention, "_SPARE", -1)
    with spared[0], spared[1]:
        yield


@pytest.fixture(params=[textual_summary._MOST_STREAMS, 0], ids=["followed", "read anew"])
def summaries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Summaries are remembered or not; records are sifted however few that spares, and logs name slices."""
    remembers = mock.patch.object(textual_summary, "_MOST_STREAMS", request.param)
    names = mock.patch("support.memory.EngineSettings", partial(EngineSettings, spool_bytes=1))
    with remembers, names, mock.patch.object(record_sieve, "_WORTH_IT", 1.0):
        yield


def has_the_oracles_updates(routed: Routed) -> None:
    delivered = routed.engine.delivered()
    assert delivered.updates == oracle.run(routed.counted)
    assert delivered.stats["records"] == len(routed.sent.records)


def has_the_oracles_updates_and_stale_records(routed: Routed) -> None:
    has_the_oracles_updates(routed)
    stale = len(routed.sent.records) - len(routed.counted.records)
    assert routed.engine.stats["stale"] == stale


@share(12)
@pytest.mark.parametrize("features", EVENTS.values(), ids=EVENTS)
@given(st.data(), changing)
def test_changes_of_the_routing_change_no_update(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(way.events(cases(features))), routing) as routed:
        has_the_oracles_updates_and_stale_records(routed)


@share(12)
@pytest.mark.parametrize("features", EVENTS.values(), ids=EVENTS)
@given(st.data(), changing)
def test_changes_of_the_routing_and_of_queries_change_no_update(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    drawn = altered_cases(cases(features), features)
    with way.run(data.draw(way.events(drawn)), routing) as routed:
        has_the_oracles_updates_and_stale_records(routed)


@share(12)
@pytest.mark.usefixtures("summaries")
@given(st.data(), changing)
def test_records_that_altered_queries_have_no_use_for_change_no_update(
    way: Way, data: st.DataObject, routing: Routing
) -> None:
    features = PUBLISHED["all ask for words"]
    drawn = altered_cases(cases(features), features)
    with way.run(data.draw(way.events(drawn)), routing) as routed:
        has_the_oracles_updates_and_stale_records(routed)


@share(12)
@pytest.mark.usefixtures("summaries")
@pytest.mark.parametrize("features", PUBLISHED.values(), ids=PUBLISHED)
@given(st.data(), changing)
def test_records_that_no_query_has_use_for_change_no_update(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(way.events(cases(features))), routing) as routed:
        has_the_oracles_updates_and_stale_records(routed)


@share(12)
@pytest.mark.parametrize("features", SPLIT.values(), ids=SPLIT)
@given(st.data(), splitting)
def test_splits_by_texts_change_no_update(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    drawn = st.one_of(cases(features), altered_cases(cases(features), features))
    with way.run(data.draw(worded(way.events(drawn))), routing) as routed:
        has_the_oracles_updates_and_stale_records(routed)


@share(12)
@pytest.mark.usefixtures("summaries")
@given(st.data(), splitting)
def test_splits_by_texts_of_records_that_are_sifted_change_no_update(
    way: Way, data: st.DataObject, routing: Routing
) -> None:
    features = PUBLISHED["all ask for words"]
    drawn = st.one_of(cases(features), altered_cases(cases(features), features))
    with way.run(data.draw(worded(way.events(drawn))), routing) as routed:
        has_the_oracles_updates_and_stale_records(routed)


@share(12)
@pytest.mark.parametrize("features", SPLIT.values(), ids=SPLIT)
@given(st.data(), splitting)
def test_splits_by_texts_change_no_group(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(group_cases(worded(way.events(cases(features))))), routing) as routed:
        assert read_groups(routed.engine, routed.sent) == run_groups(routed.counted)


@share(12)
@pytest.mark.usefixtures("eager_forgetting")
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), changing)
def test_objects_that_cross_change_no_update(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(movements(plain_or_first(features))), routing) as routed:
        has_the_oracles_updates(routed)


@share(12)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), changing)
def test_objects_that_cross_as_queries_change_change_no_update(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    drawn = altered_cases(plain_or_first(features), features)
    with way.run(data.draw(movements(drawn)), routing) as routed:
        has_the_oracles_updates(routed)


@share(12)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), early)
def test_what_is_remembered_of_objects_that_cross_changes_no_update(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(remembering(plain_or_first(features))), routing) as routed:
        has_the_oracles_updates(routed)


@share(12)
@pytest.mark.parametrize("features", EVENTS.values(), ids=EVENTS)
@given(st.data(), changing)
def test_changes_of_the_routing_change_no_group_of_events(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(group_cases(way.events(cases(features)))), routing) as routed:
        assert read_groups(routed.engine, routed.sent) == run_groups(routed.counted)


@share(12)
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), changing)
def test_objects_that_cross_change_no_group(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(movements(group_cases(cases(features)))), routing) as routed:
        assert read_groups(routed.engine, routed.sent) == run_groups(routed.counted)


@share(4)
@given(remembering(group_cases(cases(MOVING["nearest"]))), early)
def test_what_is_remembered_of_objects_that_cross_changes_no_group(case: Case, routing: Routing) -> None:
    with REPLAY.run(case, routing) as routed:
        assert read_groups(routed.engine, case) == run_groups(case)


REFRESHED = {
    "moving": movements(refreshed_cases(frozenset({"circles", "nearest"}))),
    "events": events(refreshed_cases(frozenset({"events", "text"}))),
}


@share(12)
@pytest.mark.parametrize("drawn", REFRESHED.values(), ids=REFRESHED)
@given(st.data(), changing)
def test_changes_of_the_routing_change_no_refresh(
    drawn: st.SearchStrategy[Case], data: st.DataObject, routing: Routing
) -> None:
    case = data.draw(drawn)
    with REPLAY.run(case, routing) as routed:
        assert read_groups(routed.engine, case) == run_refreshes(case)


DWELLING = {
    "moving": movements(dwelling_aggregates(frozenset({"circles", "nearest"}))),
    "altered": movements(altered_cases(dwelling_aggregates(frozenset({"circles"})), frozenset({"circles"}))),
    "events": events(dwelling_aggregates(frozenset({"events", "text", "nearest"}))),
}


@share(8)
@pytest.mark.parametrize("drawn", DWELLING.values(), ids=DWELLING)
@given(st.data(), changing)
def test_changes_of_the_routing_change_no_group_whose_members_dwell(
    drawn: st.SearchStrategy[Case], data: st.DataObject, routing: Routing
) -> None:
    case = data.draw(drawn)
    with REPLAY.run(case, routing) as routed:
        assert read_groups(routed.engine, case) == run_refreshes(case)


@share(12)
@pytest.mark.usefixtures("eager_forgetting")
@pytest.mark.parametrize("features", MOVING.values(), ids=MOVING)
@given(st.data(), changing)
def test_objects_that_cross_between_refreshes_change_no_row(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(movements(refreshed_rows(features))), routing) as routed:
        has_the_oracles_updates(routed)


@share(12)
@pytest.mark.parametrize("features", EVENTS.values(), ids=EVENTS)
@given(st.data(), changing)
def test_changes_of_the_routing_change_no_row_at_refreshes(
    way: Way, features: frozenset[str], data: st.DataObject, routing: Routing
) -> None:
    with way.run(data.draw(way.events(refreshed_rows(features))), routing) as routed:
        has_the_oracles_updates(routed)
