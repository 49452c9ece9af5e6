"""SYNC and WINDOW: the updates of refreshes are the oracle's, to the byte, however a run is cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.cases import Case, Command, Spec
from support.oracle.groups import GroupUpdate
from support.oracle.refreshes import run_refreshes
from support.strategies import BATCHES, cases, cut, cuts, drawn_until
from support.strategies.groups import ALL, FAR, forms_over, group_cases, has_distances, values_of
from test_law_groups import FEATURES, SLOTS, updates

from stqsh.core.aggregates.states import EXTREMES
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.groups import refreshed_members, region_tallies
from stqsh.core.groups.refresh_times import Refresh, next_refresh, refreshes_since
from stqsh.core.groups.region_tallies import RegionTallies
from stqsh.core.queries.query_table import AREA, CIRCLE
from stqsh.engine.planning.planner_state import RefreshedQuery
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.offset import Offset


@st.composite
def refreshed_cases(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of aggregate queries of which most are refreshed every so often, some over a window."""
    some = group_cases(cases(features)).filter(lambda case: bool(case.records and case.queries))
    case = draw(some)
    tick = case.clock.tick_us
    commands = [(1, draw(lasting_queries(case, 900 + i))) for i in range(draw(st.integers(2, 3)))]
    for step, command in case.commands:
        query = command.get("query")
        if query is not None and draw(st.booleans()):
            form = draw(refreshed(query["aggregates"], tick))
            changed = {"kind": _kind_over(query["region"]), "aggregates": form}
            commands.append((step, command | {"query": query | changed}))
        else:
            commands.append((step, command))
    return replace(case, commands=commands)


@st.composite
def lasting_queries(draw: st.DrawFn, case: Case, id_: int) -> Command:
    """The registration of a query with SYNC that lasts and has members more often than not."""
    inside = {"type": "rect", "x1": -0.5, "y1": -1.0, "x2": 1.0, "y2": 1.0}
    regions = [ALL, ALL, ALL, inside, *(query["region"] for query in case.queries)]
    if any(query["region"]["type"] == "nearest" for query in case.queries):
        near = {"type": "nearest", "k": draw(st.integers(1, 4)), "x": 0.0, "y": 0.0}
        regions += [near] * len(regions)
    region = draw(st.sampled_from(regions))
    first = case.queries[0]
    conditions = [None, None, None, *(query["condition"] for query in case.queries)]
    query = first | {
        "id": id_,
        "kind": _kind_over(region),
        "for_us": None,
        "region": region,
        "condition": draw(st.sampled_from(conditions)),
    }
    far = FAR if has_distances(case, query, "circle", "moving_circle") else {}
    form = draw(refreshed(draw(forms_over(values_of(case) | far)), case.clock.tick_us))
    return {"op": "register", "query": query | {"aggregates": form}}


@st.composite
def cases_with_equals(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of refreshed queries, most of which are registered several times, for different durations."""
    case = draw(refreshed_cases(features))
    often = [(step, command) for step, command in case.commands if command["op"] == "register"]
    more = []
    for number, (step, command) in enumerate(often * 2):
        later = draw(st.sampled_from([step, step, step + 1, step + 4]))
        lasts = draw(st.sampled_from([command["query"].get("for_us"), None, 6 * case.clock.tick_us]))
        more.append((later, command | {"query": command["query"] | {"id": 2000 + number, "for_us": lasts}}))
    return replace(case, commands=[*case.commands, *more])


@st.composite
def summed_cases(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of refreshed queries whose measures are numbers of values, sums, means and extremes."""
    case = draw(cases_with_equals(features))

    def summed(command: Command) -> Command:
        if command["op"] != "register":
            return command
        query = command["query"]
        return command | {"query": query | {"aggregates": _summed(query["aggregates"])}}

    return replace(case, commands=[(step, summed(command)) for step, command in case.commands])


def _summed(form: Spec) -> Spec:
    """A form that counts values where another looks at single ones."""
    listed = {f"m{j}" for j, one in enumerate(form["measures"]) if one[0] in ("distinct", "topk")}
    measures = [
        ["count", *one[1:3], 0] if f"m{j}" in listed else one for j, one in enumerate(form["measures"])
    ]
    select = [
        [name, value, "BIGINT" if value[0] == "col" and value[1] in listed else kind]
        for name, value, kind in form["select"]
    ]
    return form | {"measures": measures, "select": select}


def _kind_over(region: Spec) -> str:
    return "refreshed_nearest" if region["type"] == "nearest" else "aggregate"


@st.composite
def refreshed(draw: st.DrawFn, form: Spec, tick: int) -> Spec:
    """What a query computes, now and then."""
    often = st.sampled_from([tick, tick, 2 * tick, 5 * tick, 3 * tick + 1, max(tick // 2, 1)])
    lengths = st.sampled_from([None, None, 1, tick, 3 * tick, 7 * tick + 1, 20 * tick])
    return form | {"sync_us": draw(often), "window_us": draw(lengths)}


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, st.sampled_from(SLOTS))
def test_updates_of_refreshes_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int
) -> None:
    case = data.draw(refreshed_cases(features))
    assert updates(case, count, cut(case, size)) == run_refreshes(case)


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, st.sampled_from(SLOTS), st.sampled_from([1, 3, 1 << 23]))
def test_equal_queries_and_portions_of_members_do_not_show(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, portion: int
) -> None:
    case = data.draw(cases_with_equals(features))
    with mock.patch.multiple(refreshed_members, PORTION=portion, FIRST_PORTION=min(portion, 1 << 14)):
        assert updates(case, count, cut(case, size)) == run_refreshes(case)


@share(6)
@pytest.mark.parametrize("name", ["rectangles", "circles", "polygons", "texts", "joins"])
@given(st.data(), cuts, st.sampled_from(SLOTS), st.sampled_from([1, 1 << 18]))
def test_regions_that_are_added_up_without_lists_of_members_have_the_oracles_sums(
    name: str, data: st.DataObject, size: int | None, count: int, rows: int
) -> None:
    case = data.draw(summed_cases(FEATURES[name]))
    with mock.patch.multiple(region_tallies, CROWD=1, SHARE=0.0, ROWS=rows):
        assert updates(case, count, cut(case, size)) == run_refreshes(case)


def test_cases_bring_all_that_is_added_up_without_lists_of_members() -> None:
    wanted = ("circles", "polygons", "conditions", "extremes", "done")
    seen: Counter[str] = Counter()
    add_up = RegionTallies._lot

    def noted(self: RegionTallies, spec: AggregateSpec, positions: Any) -> Any:
        queries = self._members.context.queries
        seen["circles"] += int((queries.shape[positions] == CIRCLE).any())
        seen["polygons"] += int((queries.shape[positions] == AREA).any())
        seen["extremes"] += any(measure.function in EXTREMES for measure in spec.measures)
        seen["conditions"] += int((queries.template[positions] >= 0).any())
        done = yield from add_up(self, spec, positions)
        seen["done"] += done
        return done

    def enough(cases: list[Case]) -> bool:
        for case in cases[len(cases) - 40 :: 4]:
            updates(case, 2, cut(case, None))
        return min(seen[name] for name in wanted) >= 3

    small = mock.patch.multiple(region_tallies, CROWD=1, SHARE=0.0)
    with small, mock.patch.object(RegionTallies, "_lot", noted):
        drawn_until(summed_cases(FEATURES["circles"] | FEATURES["polygons"]), enough)
    assert min(seen[name] for name in wanted) >= 3


@share(12, least=10)
@given(refreshed_cases(frozenset({"events", "text", "nearest"})), cuts, st.sampled_from(SLOTS))
def test_the_end_refreshes_once_more(case: Case, size: int | None, count: int) -> None:
    assert updates(case, count, cut(case, size), ends=True) == run_refreshes(case, case.steps + 1)


@share(40, least=6)
@given(refreshed_cases(frozenset({"events", "text"})), st.sets(st.integers(0, 12), min_size=1))
def test_neither_slots_nor_cuts_nor_restarts_change_refreshes(case: Case, restarts: set[int]) -> None:
    one = updates(case, SLOTS[0], cut(case, BATCHES[0]))
    for count in SLOTS[1:]:
        for size in BATCHES:
            assert updates(case, count, cut(case, size), restarts) == one


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rectangles", "aggregate"),
        ("circles", "aggregate"),
        ("texts", "aggregate"),
        ("neighbours", "refreshed_nearest"),
    ],
)
def test_cases_bring_updates_at_refreshes_and_steps_between_them_nothing(name: str, kind: str) -> None:
    def changing(cases: list[Case]) -> list[Case]:
        return [c for c in cases if any(u.why == "changed" for u in refreshed_updates(c, kind))]

    def short(cases: list[Case]) -> list[Case]:
        return [case for case in cases if case.steps <= 200]

    drawn = drawn_until(
        refreshed_cases(FEATURES[name]),
        lambda cases: len(short(cases)) >= 5 and len(changing(cases)) >= 10,
    )
    assert len(changing(drawn)) >= 10
    assert len(short(drawn)) >= 5
    for case in short(drawn):
        assert run_refreshes(case) == run_refreshes(case, every_step=True)


def refreshed_updates(case: Case, kind: str) -> list[GroupUpdate]:
    """The updates of the queries of a kind with SYNC."""
    some = [query for query in case.queries if query["kind"] == kind]
    mine = {query["id"] for query in some if query["aggregates"].get("sync_us") is not None}
    return [u for u in run_refreshes(case) if u.query in mine]


def test_instants_are_multiples_of_the_duration_since_the_epoch() -> None:
    timing = BatchTiming(1, 10, 5, 10, -1)  # steps 1 .. 10 cover 50 .. 150 µs
    every = np.arange(50, 150)
    assert refreshes_since(timing, 25, every) == [(1, 50), (3, 75), (6, 100), (8, 125)]
    assert refreshes_since(timing, 4, every)[:2] == [(1, 56), (2, 68)]
    assert refreshes_since(timing, 1000, every) == []
    assert refreshes_since(timing, 25, every, 8)[-1] == Refresh(8, 120)
    negative = BatchTiming(1, 3, -2, 10, -1)  # -20 .. 10 µs
    assert refreshes_since(negative, 7, np.arange(-20, 10)) == [(1, -14), (2, -7), (3, 7)]


def test_only_refreshes_after_a_change_are_evaluated() -> None:
    timing = BatchTiming(1, 3_000_000, 5, 10, -1)
    assert refreshes_since(timing, 25, np.array([50, 51, 1_000_001])) == [
        (1, 50), (3, 75), (99_998, 1_000_025)
    ]  # fmt: skip
    assert next_refresh(timing, 25, 4, 3_000_000) == 6
    assert next_refresh(timing, 25, 4, 5) == NEVER
    assert next_refresh(timing, 25, 4, 5, closing=5) == 5


def test_the_end_waits_for_no_query_whose_for_is_over() -> None:
    offset = Offset(seq=7, step=10, base_tick=0, tick_us=1000, ends={5: 20})
    assert not RefreshedQuery(1, 5, 9000).is_over(offset, 19)
    assert RefreshedQuery(1, 5, 9000).is_over(offset, 20)
    assert RefreshedQuery(1, 4, 2000).is_over(offset, 11), "it is taken in, and no more among the ends"
    assert not RefreshedQuery(1, 8, 2500).is_over(offset, 13), "step 11 will register it"
    assert RefreshedQuery(1, 8, 2500).is_over(offset, 14)
    assert not RefreshedQuery(1, 5, None).is_over(offset, 1 << 40)
