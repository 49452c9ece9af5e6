"""SYNC and WINDOW of rows: their updates are the oracle's, to the byte, however a run is cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case
from support.local import local_session
from support.memory import memory_engine
from support.running import run_script
from support.strategies import cut, cuts, drawn_until, restarts, slots
from support.strategies.altering import altered_cases
from support.strategies.refreshes import refreshed_rows

from stqsh.core.kinds.refreshed_rows import RefreshedRowsLogic

FEATURES = {
    "rectangles": frozenset[str](),
    "circles": frozenset({"circles", "nearest", "expressions", "events"}),
    "polygons": frozenset({"polygons", "inside", "events"}),
    "texts": frozenset({"events", "text", "nearest"}),
    "joins": frozenset({"joins", "expressions", "text"}),
    "all": frozenset({"circles", "polygons", "inside", "events", "text", "joins", "expressions", "nearest"}),
}
REFRESHED = ("refreshed_first", "refreshed_nearest_first")


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, slots, restarts)
def test_updates_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    drawn = refreshed_rows(features)
    case = data.draw(st.one_of(drawn, altered_cases(drawn, features)))
    expected = oracle.run(case)
    outcome = memory.run(case, count, cut(case, size), again)
    assert outcome.updates == expected
    sizes = {query: len(keys) for query, keys in oracle.fold(expected).items() if keys}
    assert {query: size for query, size in outcome.sizes.items() if size} == sizes


@share(12, least=10)
@given(refreshed_rows(frozenset({"events", "text", "nearest"})), cuts, slots)
def test_the_end_refreshes_once_more(case: Case, size: int | None, count: int) -> None:
    with memory_engine([case], count, ends=True) as engine:
        for first, last in cut(case, size):
            engine.take(first, last)
        assert engine.delivered().updates == oracle.run(case, closing=case.steps + 1)


@pytest.mark.hunt
def test_cases_bring_events_whose_changes_are_found_at_once() -> None:
    seen: Counter[str] = Counter()
    offer_all = RefreshedRowsLogic._offer_all

    def noted(self: RefreshedRowsLogic, dues: Any, changes: Any, before: Any, windows_us: Any) -> Any:
        seen["leaving"] += bool((changes.sign < 0).any())
        seen["sent before"] += bool(len(before.query))
        return offer_all(self, dues, changes, before, windows_us)

    def enough(newest: list[Case]) -> bool:
        for case in newest[::4]:
            memory.run(case, 2, cut(case, 7))
        return min(seen["leaving"], seen["sent before"]) >= 1

    with mock.patch.object(RefreshedRowsLogic, "_offer_all", noted):
        drawn_until(refreshed_rows(FEATURES["texts"]), enough)
    assert min(seen["leaving"], seen["sent before"]) >= 1


@pytest.mark.hunt
def test_cases_bring_updates_of_each_kind_and_reason() -> None:
    seen: set[tuple[str, str]] = set()

    def enough(newest: list[Case]) -> bool:
        for case in newest:
            kinds = {query["id"]: query["kind"] for query in case.queries}
            seen.update((kinds[update.query], update.why) for update in oracle.run(case))
        return wanted <= seen

    wanted = {(kind, why) for kind in REFRESHED for why in ("", "overtaken", "expired", "disconnected")}
    wanted.add(("refreshed_first", "left"))
    drawn = drawn_until(refreshed_rows(FEATURES["all"]), enough)
    assert wanted <= seen
    for case in [case for case in drawn if case.steps <= 200][:10]:
        assert oracle.run(case) == oracle.run(case, every_step=True)


def test_distances_from_a_fixed_centre_are_those_of_the_snapshot(tmp_path: Path) -> None:
    lines = [f"e{i},{10 + i / 1000},50,{i}" for i in range(12)]
    (tmp_path / "posts.csv").write_text("id,lon,lat,ts\n" + "\n".join(lines) + "\n", encoding="utf-8")
    select = "SELECT id, DISTANCE AS far FROM posts INSIDE CIRCLE(10.003, 50, 300)"
    script = f"""
        CREATE EVENT STREAM posts FROM FILE '{tmp_path}/posts.csv' KEY id LOCATION (lon, lat) TIME ts;
        REGISTER QUERY near AS {select} SYNC 2 s;
        RUN;
        {select};
    """
    with local_session(tmp_path / "home", slots=2) as session:
        printed = [orjson.loads(line) for line in run_script(session, script).splitlines()]
    sent, asked = (
        {(one["row"]["id"], one["row"]["far"]) for one in printed if given in one}
        for given in ("query", "statement")
    )
    assert sent == asked
    assert len(sent) == 8
