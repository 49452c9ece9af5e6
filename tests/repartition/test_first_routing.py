"""Large event streams begin with the strategy that is cheapest for their queries; answers are the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.local import LocalConnection, local_session
from support.repartition import POSTS, Dealt, routing, run, updates

from stqsh.client.api import Session
from stqsh.engine.config import TUNING
from stqsh.engine.planning import routes
from stqsh.engine.planning.planner_state import PlannerState
from stqsh.errors import StqshError
from stqsh.sources.recent_input import recent_input
from stqsh.sources.route_settings import RouteSettings
from stqsh.sources.routing_plans import current_table, plan_repartition, put_in_force
from stqsh.spec.log import StreamRouted
from stqsh.storage.catalogue import live_streams
from stqsh.storage.rows import LogRow
from stqsh.storage.stream_routes import INITIAL, stream_routes

QUERIES = "".join(
    f"REGISTER QUERY q{number} AS SELECT id FROM posts INSIDE (0, 0, 2.{number:03}, 2.{number:03});"
    for number in range(150)
)
OTHERS = """
REGISTER QUERY near AS SELECT id FROM posts NEAREST 3 TO (5, 5);
REGISTER QUERY words AS SELECT COUNT(*) AS n, TOPK(body, 2) AS words FROM posts INSIDE (0, 0, 6, 6) SYNC 10 s;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Posts of two minutes, uniform over a square; queries are about a corner of it."""
    chance = random.Random(4)
    lines = [
        f"{key},{chance.uniform(0, 10):.3f},{chance.uniform(0, 10):.3f},{1_718_409_300 + key // 10},"
        f"{chance.choice(['jam', 'sun', 'rain'])}"
        for key in range(1200)
    ]
    (tmp_path / "posts.csv").write_text("\n".join(["id,x,y,ts,body", *lines, ""]))
    return tmp_path


@contextmanager
def choosing(home: Path, slots: int, fewest: int, mishaps: set[int] = frozenset()) -> Iterator[Session]:  # type: ignore[assignment]
    """A session whose engine chooses the strategy of streams of at least so many records."""
    with local_session(home, slots, 100, mishaps, published=True) as session:
        assert isinstance(session.connection, LocalConnection)
        engine = session.connection.engine
        engine.tuning = replace(TUNING, chosen_records=fewest)
        engine.reader.planner._tuning = engine.tuning
        yield session


def test_the_cheapest_strategy_is_chosen_as_the_stream_begins(folder: Path) -> None:
    with choosing(folder / "home", 6, 1000) as session:
        run(session, POSTS.create.format(folder=folder) + QUERIES + "RUN 5 STEPS;")
        shown = routing(session)
        assert (shown["version"], shown["since step"], shown["state"]) == (2, 1, "in force")
        chosen = shown["strategy"]
        assert chosen != "grid"
        assert str(shown["last change"]).startswith(f"chosen as it begins, {chosen} is cheapest: max/mean ")
        [route] = stream_routes(session.connection.db, 1)
        assert not route.entry.is_automatic, "a balancer does not have to judge it"


@pytest.mark.parametrize(
    ("fewest", "script"),
    [(1201, QUERIES), (1000, ""), (1000, "REGISTER QUERY all AS SELECT id FROM posts;")],
    ids=["few records", "no queries", "queries that are everywhere"],
)
def test_a_stream_begins_with_a_grid_where_that_is_as_cheap(folder: Path, fewest: int, script: str) -> None:
    with choosing(folder / "home", 6, fewest) as session:
        run(session, POSTS.create.format(folder=folder) + script + "RUN 5 STEPS;")
        run(session, QUERIES.replace("QUERY q", "QUERY late") + "RUN 5 STEPS;")
        assert (routing(session)["strategy"], routing(session)["version"]) == ("grid", 1)


def test_what_somebody_has_chosen_stays(folder: Path) -> None:
    with choosing(folder / "home", 6, 1000) as session:
        change = "REPARTITION posts USING agrid INTO 3 SLOTS;"
        run(session, POSTS.create.format(folder=folder) + QUERIES + change + "RUN 5 STEPS;")
        shown = routing(session)
        assert (shown["strategy"], shown["version"], shown["slots"]) == ("agrid", 2, 3)


def test_a_choice_that_fails_is_logged_and_the_stream_begins_with_its_grid(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no choice")

    monkeypatch.setattr(routes, "plan_first", fail)
    with choosing(folder / "home", 6, 1000) as session:
        run(session, POSTS.create.format(folder=folder) + QUERIES + "RUN 5 STEPS;")
        assert (routing(session)["strategy"], session.connection.progress().step) == ("grid", 5)
    assert "the strategy of stream posts cannot be chosen" in caplog.text


@pytest.mark.parametrize(("slots", "mishaps"), [(3, {1, 2, 4}), (7, set[int]())])
def test_updates_and_snapshots_are_those_of_a_grid(folder: Path, slots: int, mishaps: set[int]) -> None:
    script = POSTS.create.format(folder=folder) + QUERIES + OTHERS
    found = []
    for name, fewest in (("grid", 1_000_000), ("chosen", 1000)):
        with choosing(folder / name, slots, fewest, mishaps) as session:
            run(session, script + "RUN 30 STEPS;")
            Dealt(slots).restart(session, arena=False)
            run(session, "REGISTER QUERY late AS SELECT id FROM posts INSIDE (0, 0, 3, 3); RUN 20 STEPS;")
            sizes = {query.name: query.size for query in session.queries()}
            found.append((updates(session), sizes, routing(session)["version"]))
    grid, chosen = found
    assert grid[:2] == chosen[:2]
    assert len(grid[0]) > 500
    assert (grid[2], chosen[2]) == (1, 2)


def test_a_stream_that_is_dropped_while_its_routing_is_planned_is_not_routed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan_first = routes.plan_first
    with choosing(folder / "home", 6, 1000) as session:

        def drop_meanwhile(*given: Any) -> Any:
            drops = "".join(f"DROP QUERY q{number};" for number in range(150))
            assert list(session.execute(drops + "DROP STREAM posts;"))
            return plan_first(*given)

        monkeypatch.setattr(routes, "plan_first", drop_meanwhile)
        run(session, POSTS.create.format(folder=folder) + QUERIES + "RUN 5 STEPS;")
        assert not stream_routes(session.connection.db, 1)
        assert "stream posts has been dropped" in caplog.text
        again = POSTS.create.format(folder=folder).replace("posts (", "others (")
        run(session, again + "REGISTER QUERY q AS SELECT id FROM others; RUN 5 STEPS;")
        assert session.queries()[0].size > 0


def test_a_plan_that_nobody_asked_for_gives_way_to_a_statement(folder: Path) -> None:
    with choosing(folder / "home", 6, 1000) as session:
        run(session, POSTS.create.format(folder=folder) + "RUN 5 STEPS;")
        connection = session.connection
        [stream] = live_streams(connection.db)
        recent = recent_input(connection.home, connection.db, stream.spec, RouteSettings())
        table = current_table(connection.home, connection.db, stream)
        assert table is not None
        plan = plan_repartition(recent, table, "agrid", 6)
        run(session, "REPARTITION posts USING quadtree;")
        with pytest.raises(StqshError, match="stream posts has another routing by now"):
            put_in_force(connection.db, stream, plan, after=INITIAL, is_automatic=True)
        assert routing(session)["strategy"] == "quadtree"


def test_a_routing_of_a_dropped_stream_in_an_older_log_does_no_harm() -> None:
    state = PlannerState()
    state.apply(LogRow(7, 0, StreamRouted(1, strategy="grid"), "", None))
    assert not state.routes
