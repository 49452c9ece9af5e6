"""`stqsh bench star`: each figure runs at a tiny size, all ways answer alike, and views are used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from stqsh.bench import cli
from stqsh.bench.papers.figures import STAR
from stqsh.bench.papers.runner import run
from stqsh.bench.papers.star import beside_databases
from stqsh.bench.papers.star.asking import StarScale, World, ask
from stqsh.bench.papers.star.beside_databases import Answer, in_sql, timed_alike
from stqsh.bench.papers.star.contenders import Contender, baseline_1, baseline_2, q_cache, scan
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import COMBINATIONS, Workload, bound
from stqsh.bench.papers.star.world import make_posts
from stqsh.core.snapshots.cache import time_slots

TINY = StarScale(posts=3000, past=24, asked=3, budget=8 << 20, queries=(20,), updates=5_000)


@pytest.fixture(autouse=True)
def _small_slots() -> Iterator[None]:
    with mock.patch.object(time_slots, "FINEST", 256):
        yield


@pytest.fixture(scope="module")
def world() -> World:
    posts = make_posts(TINY.posts)
    return World(posts, posts.on_slots(1))


def test_questions_are_those_of_table_1(world: World) -> None:
    assert len(set(COMBINATIONS)) == 31
    texts = [*Workload("S2", "COUNT(*)", 4).texts(world.posts, 20, seed=1)]
    assert texts == [*Workload("S2", "COUNT(*)", 4).texts(world.posts, 20, seed=1)]
    for word in ("INSIDE", "CONTAINS", "ts > NOW", "topic ="):
        assert all(word in text for text in texts)
    assert all(bound(text).aggregates is not None for text in texts)


def test_a_way_that_answers_otherwise_is_found(world: World) -> None:
    class Wrong(Contender):
        def answer(self, state, spec):
            table, milliseconds = super().answer(state, spec)
            return table.slice(1), milliseconds

    workload = Workload("S1", "COUNT(*)", 0, 0.5)
    with pytest.raises(ValueError, match="wrong answers Q_S1-Count otherwise"):
        ask(world, workload, [scan(), Wrong("wrong")], TINY, lambda text: None)


def test_views_are_chosen_by_the_past(world: World) -> None:
    ways = [scan(), baseline_1(), baseline_2(TINY.budget), q_cache(TINY.budget)]
    with (
        mock.patch("stqsh.core.snapshots.cache.selection.VIEW_COST", 1.0),
        mock.patch("stqsh.core.snapshots.cache.covering.VIEW_COST", 1.0),
    ):
        found = ask(world, Workload("S1", "COUNT(*)", 1), ways, replace(TINY, past=96), lambda text: None)
    assert set(found) == {"scan", "Baseline-1", "Baseline-2", "Q-cache"}
    assert found["Q-cache"].nbytes > 0
    assert found["Baseline-1"].nbytes == 0


@pytest.mark.slow
def test_a_figure_is_written(tmp_path: Path) -> None:
    results = run(STAR, ["13"], lambda text: None, scale=TINY, out=tmp_path)
    assert [result.name for result in results] == ["13a", "13b", "13c", "13d"]
    written = json.loads((tmp_path / "figure-13b.json").read_text())
    assert len(written["results"]) == 3


@pytest.mark.slow
def test_snapshots_are_compared_with_the_databases_that_are_here() -> None:
    said = list[str]()
    results = beside_databases.measure(StarRun(replace(TINY, past=2, asked=2), said.append))
    assert [result.name for result in results] == ["8a", "8b", "8d"]
    missing = {name for name in ("DuckDB", "PostGIS") if any(f"{name} is left out" in one for one in said)}
    for result in results:
        assert {row["name"] for row in result.rows} == {"scan", "with words", "DuckDB", "PostGIS"} - missing
        assert all(goal.found is not None and goal.found > 0 for goal in result.goals)


def test_another_answer_of_a_database_is_found(world: World) -> None:
    def wrong(questions: Sequence[str]) -> tuple[list[Answer], list[float]]:
        return [[("1", "2")] for _ in questions], [1.0 for _ in questions]

    texts = [*Workload("S2", "COUNT(*)", 2, is_ranged=True).texts(world.posts, 20, seed=3)]
    assert all("INSIDE" in text for text in texts)
    with pytest.raises(ValueError, match="it answers otherwise: SELECT"):
        timed_alike("it", wrong, world.states, texts)


def test_questions_are_asked_in_sql() -> None:
    text = (
        "SELECT city, HOUR(ts), COUNT(*) FROM posts WHERE body CONTAINS 'w1 w2' AND ts > NOW - 10 min "
        "INSIDE (0.1, 0.2, 0.3, 0.4) GROUP BY city, HOUR(ts);"
    )
    assert in_sql(text, 7_200_000_000) == (
        "SELECT city, HOUR(ts), COUNT(*) FROM posts "
        "WHERE contains(padded, ' w1 ') AND contains(padded, ' w2 ') "
        "AND ts > TIMESTAMP '1970-01-01 01:50:00' AND x BETWEEN 0.1 AND 0.3 AND y BETWEEN 0.2 AND 0.4 "
        "GROUP BY city, HOUR(ts)"
    )


@pytest.mark.parametrize("number", ["9", "11"])
def test_a_figure_is_measured_on_several_numbers_of_slots(number: str, tmp_path: Path) -> None:
    [result] = run(STAR, [number], lambda text: None, scale=TINY, out=tmp_path)
    assert {row["slots"] for row in result.rows} == {1, 2, 4, 8}


def test_a_figure_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        cli.app(["star", "--figure", "99", "--out", str(tmp_path)])
