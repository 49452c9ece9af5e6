"""SYNC and WINDOW: the updates of refreshes are the oracle's, to the byte, however a run is cut."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.cases import Case
from support.group_updates import updates
from support.oracle.groups import GroupUpdate
from support.oracle.refreshes import run_refreshes
from support.strategies import chosen, cut, cuts, drawn_until, restarts, slots
from support.strategies.groups import FEATURES
from support.strategies.refreshes import cases_with_equals, refreshed_cases, summed_cases

from stqsh.core.aggregates.states import EXTREMES
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.groups import refreshed_members, region_tallies
from stqsh.core.groups.refresh_schedule import Refresh, next_refresh, refreshes_since
from stqsh.core.groups.region_tallies import RegionTallies
from stqsh.core.kinds import aggregates
from stqsh.core.queries.query_table import AREA, CIRCLE
from stqsh.engine.planning.planner_state import RefreshedQuery
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.offset import Offset

pytestmark = pytest.mark.slow


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts, chosen)
def test_updates_of_refreshes_are_the_oracles(
    features: frozenset[str],
    data: st.DataObject,
    size: int | None,
    count: int,
    again: set[int],
    indexes: dict[int, str | int],
) -> None:
    case = data.draw(refreshed_cases(features))
    assert updates(case, count, cut(case, size), again, chosen=indexes) == run_refreshes(case)


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, st.sampled_from([1, 3, 1 << 23]))
def test_equal_queries_and_portions_of_members_do_not_show(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, portion: int
) -> None:
    case = data.draw(cases_with_equals(features))
    with mock.patch.multiple(refreshed_members, PORTION=portion, FIRST_PORTION=min(portion, 1 << 14)):
        assert updates(case, count, cut(case, size)) == run_refreshes(case)


@share(6)
@pytest.mark.parametrize("name", ["rectangles", "circles", "polygons", "texts", "joins"])
@given(st.data(), cuts, slots, st.sampled_from([1, 1 << 18]))
def test_regions_that_are_added_up_without_lists_of_members_have_the_oracles_sums(
    name: str, data: st.DataObject, size: int | None, count: int, rows: int
) -> None:
    case = data.draw(summed_cases(FEATURES[name]))
    with mock.patch.multiple(region_tallies, CROWD=1, SHARE=0.0, ROWS=rows):
        assert updates(case, count, cut(case, size)) == run_refreshes(case)


@pytest.mark.hunt
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

    def enough(newest: list[Case]) -> bool:
        for case in newest[::4]:
            updates(case, 2, cut(case, None))
        return min(seen[name] for name in wanted) >= 3

    small = mock.patch.multiple(region_tallies, CROWD=1, SHARE=0.0)
    with small, mock.patch.object(RegionTallies, "_lot", noted):
        drawn_until(summed_cases(FEATURES["circles"] | FEATURES["polygons"]), enough)
    assert min(seen[name] for name in wanted) >= 3


@pytest.mark.hunt
def test_cases_bring_members_whose_changes_are_found_at_once() -> None:
    seen: Counter[str] = Counter()
    find, evaluate = refreshed_members.member_changes, refreshed_members._while_they_hold

    def found(context: Any, dues: Any, positions: Any, windows_us: Any) -> Any:
        changes = find(context, dues, positions, windows_us)
        if changes is not None and len(changes.sign):
            seen["windows"] += bool((windows_us[changes.query] >= 0).any())
            seen["leaving"] += bool((changes.sign < 0).any())
        return changes

    def held(context: Any, spans: Any, instants: Any) -> Any:
        left = evaluate(context, spans, instants)
        seen["now"] += len(left.query) != len(spans.query) or bool((left.begin != spans.begin).any())
        return left

    def enough(newest: list[Case]) -> bool:
        for case in {id(case): case for case in (*newest[::4], *filter(compares_with_now, newest))}.values():
            updates(case, 2, cut(case, None))
        return min(seen[name] for name in ("windows", "leaving", "now")) >= 1

    with (
        mock.patch.object(refreshed_members, "_while_they_hold", held),
        mock.patch.object(aggregates, "member_changes", found),
    ):
        drawn_until(refreshed_cases(FEATURES["texts"]), enough)
    assert min(seen[name] for name in ("windows", "leaving", "now")) >= 1


@share(12, least=10)
@given(refreshed_cases(frozenset({"events", "text", "nearest"})), cuts, slots)
def test_the_end_refreshes_once_more(case: Case, size: int | None, count: int) -> None:
    assert updates(case, count, cut(case, size), ends=True) == run_refreshes(case, case.steps + 1)


@pytest.mark.hunt
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
    changing: list[Case] = []
    short: list[Case] = []

    def enough(newest: list[Case]) -> bool:
        changing.extend(c for c in newest if any(u.why == "changed" for u in refreshed_updates(c, kind)))
        short.extend(case for case in newest if case.steps <= 200)
        return len(short) >= 5 and len(changing) >= 10

    drawn_until(refreshed_cases(FEATURES[name]), enough)
    assert len(changing) >= 10
    assert len(short) >= 5
    for case in short:
        assert run_refreshes(case) == run_refreshes(case, every_step=True)


def compares_with_now(case: Case) -> bool:
    """Return whether a query over events compares with NOW."""
    return case.spec["kind"] == "event" and any("now" in repr(query["condition"]) for query in case.queries)


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
