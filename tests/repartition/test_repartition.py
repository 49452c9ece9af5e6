"""REPARTITION and REBALANCE: what they say, that updates stay the same, and what is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import local_session
from support.repartition import POSTS, Dealt, dealt_in_all_ways, drive, routing, run, write_posts

from stqsh.client.api import Session
from stqsh.client.results import Answer, Rows, Script
from stqsh.engine.delivery import balancer
from stqsh.engine.delivery.balancer import Balancer
from stqsh.errors import StqshError
from stqsh.routing import initial_routing
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import stream_routes

CREATE, QUERIES, CHANGES, OTHERS = POSTS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the posts."""
    write_posts(tmp_path)
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with local_session(folder / "home", 2, 100, published=True) as session:
        run(session, CREATE.format(folder=folder))
        yield session


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The updates under the routing by object on one slot."""
    folder = tmp_path_factory.mktemp("usual")
    write_posts(folder)
    return drive(folder, "usual", Dealt(1), CREATE + QUERIES, OTHERS)


@pytest.mark.slow
@dealt_in_all_ways
def test_updates_are_the_same_under_every_routing(
    folder: Path, usual: list[dict[str, object]], dealt: Dealt
) -> None:
    assert {row["query"] for row in usual} >= {"corner", "middle", "busy", "each", "brief", "fresh", "near"}
    assert drive(folder, "changing", dealt, CREATE + QUERIES, CHANGES) == usual


def test_it_says_what_was_decided_and_what_stands(session: Session) -> None:
    run(session, "RUN 10 STEPS;")
    said, balance = run(session, "REPARTITION posts USING qttree INTO 8 SLOTS;")
    assert re.fullmatch(r"posts: qttree over 8 slots, version 2, \d+ packages, moving", said)
    assert re.fullmatch(r"posts: max/mean \d\.\d\d before, \d\.\d\d expected", balance)
    assert run(session, "REPARTITION posts USING qttree INTO 8 SLOTS;") == [
        "posts: already qttree over 8 slots"
    ]
    shown = routing(session)
    assert (shown["strategy"], shown["version"], shown["slots"], shown["since step"]) == ("qttree", 2, 8, 11)
    assert shown["state"] == "in force"
    run(session, "RUN 1 STEPS;")
    assert routing(session)["since step"] == 11


def test_what_each_strategy_would_cost_is_shown(session: Session) -> None:
    assert routing(session)["cost by strategy"] is None
    run(session, "REGISTER QUERY centre AS SELECT id FROM posts INSIDE (2, 2, 7, 7); RUN 20 STEPS;")
    run(session, "REPARTITION posts USING agrid INTO 6 SLOTS; RUN 1 STEPS;")
    costs = dict(one.split(" ") for one in str(routing(session)["cost by strategy"]).split(", "))
    assert set(costs) == {"object", "grid", "agrid", "quadtree", "qttree"}
    values = [float(cost) for cost in costs.values()]
    assert values[0] == 1 and values == sorted(values)


def test_a_stream_that_is_even_has_nothing_to_gain(session: Session) -> None:
    run(session, "REPARTITION posts USING qttree;")
    (said,) = run(session, "REBALANCE posts;")
    assert said.startswith("posts: nothing to gain (max/mean 1.0")
    assert routing(session)["version"] == 2
    run(session, "REPARTITION posts USING object;")
    assert run(session, "REBALANCE posts;") == ["posts: dealt by hash: nothing to move"]


def test_a_stream_that_grew_uneven_is_balanced(session: Session) -> None:
    run(session, "RUN 20 STEPS; REPARTITION posts USING agrid INTO 6 SLOTS; RUN 60 STEPS;")
    before = routing(session)
    said, balance = run(session, "REBALANCE posts USING splitmerge;")
    assert re.fullmatch(r"posts: agrid over 6 slots, version 3, \d+ packages, moving", said)
    assert balance.endswith(" expected by splitmerge")
    after = routing(session)
    assert after["max/mean"] < before["max/mean"]  # type: ignore[operator]
    assert str(after["last change"]).startswith("splitmerge: max/mean")


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("REPARTITION posts USING grid INTO 0 SLOTS;", "INTO takes 1 to 1,024 slots, not 0", None),
        ("REPARTITION posts USING grid INTO 1025 SLOTS;", "INTO takes 1 to 1,024 slots, not 1,025", None),
        ("REPARTITION post USING grid;", "unknown stream 'post'", None),
        (
            "REBALANCE posts USING shift;",
            "shift needs agrid: it moves the borders of rectangles, and posts is routed by grid",
            "REPARTITION posts USING agrid;",
        ),
        (
            "REBALANCE posts USING fm;",
            "fm needs quadtree or qttree: it moves leaves of a tree, and posts is routed by grid",
            None,
        ),
    ],
)
def test_what_does_not_fit_is_an_error_and_changes_nothing(
    session: Session, text: str, error: str, hint: str | None
) -> None:
    run(session, "RUN 1 STEPS;")
    with pytest.raises(StqshError, match=error) as caught:
        run(session, text)
    assert hint is None or caught.value.hint == hint
    assert routing(session)["version"] == 1


def test_dump_has_the_routing_that_stands(session: Session) -> None:
    run(session, "REPARTITION posts USING grid INTO 4 SLOTS; REPARTITION posts USING agrid INTO 3 SLOTS;")
    (script,) = [outcome for outcome in session.outcomes("DUMP;") if isinstance(outcome, Script)]
    assert script.text.endswith('REPARTITION "posts" USING agrid INTO 3 SLOTS;\n')


def test_a_snapshot_is_complete_after_any_number_of_changes(session: Session) -> None:
    whole, found = [], []
    for text in CHANGES:
        run(session, f"RUN 4 STEPS; {text.replace('DROP QUERY middle;', '')}" if "QUERY" not in text else "")
        (answer,) = (one for one in session.execute("SELECT COUNT(*) FROM posts;") if isinstance(one, Answer))
        found.append(answer.table.to_pylist()[0]["count"])
        whole.append(session.connection.progress().step * 10)
    assert found == whole


def test_fewer_slots_by_hash_hold_all_that_later_queries_ask_for(folder: Path) -> None:
    with local_session(folder / "home", 5, 100, published=True) as session:
        run(session, CREATE.format(folder=folder))
        run(session, "RUN 5 STEPS; REPARTITION posts USING object INTO 1 SLOTS; RUN 60 STEPS;")
        run(session, "REGISTER QUERY late AS SELECT id FROM posts INSIDE (0, 0, 9, 9); RUN 30 STEPS;")
        (answer,) = [
            outcome
            for outcome in session.outcomes("SELECT id FROM posts INSIDE (0, 0, 9, 9);")
            if isinstance(outcome, Answer)
        ]
        (late,) = session.queries()
        assert late.size == answer.table.num_rows > 100


@pytest.mark.parametrize("how", ["auto", "greedy"])
def test_an_uneven_stream_is_balanced_by_itself(session: Session, how: str) -> None:
    connection = session.connection
    run(session, "SET balance.every = 1000000;")  # looks are the test's
    run(session, "RUN 10 STEPS; REPARTITION posts USING grid INTO 6 SLOTS; RUN 60 STEPS;")
    watching = Balancer(connection.home, connection.db, lambda: session_settings(connection.db))
    run(session, f"SET balance = {how}; SET balance.above = 1.1;")
    before = float(str(routing(session)["max/mean"]))
    for _ in range(20):
        watching.look()
    changes = stream_routes(connection.db, 1)
    assert [route.entry.is_automatic for route in changes] == [False, True], "no second while one is pending"
    shown = routing(session)
    assert float(str(shown["max/mean"])) < before
    assert str(shown["last change"]).startswith("balance, ")
    run(session, "RUN 5 STEPS;")
    assert routing(session)["state"] == "in force"


def test_a_change_that_costs_more_than_it_saves_is_not_made_and_that_is_said(session: Session) -> None:
    def said() -> str:
        tables = [one for one in session.execute("SHOW ROUTING;") if isinstance(one, Rows)]
        looks = [one for one in tables if one.title == "what balance does"]
        return "" if not looks else str(dict(looks[0].rows).get("posts"))

    connection = session.connection
    run(
        session,
        "".join(
            f"REGISTER QUERY q{n} AS SELECT id FROM posts INSIDE ({n % 9}, 0, 9, 9); " for n in range(20)
        ),
    )
    run(session, "RUN 10 STEPS; REPARTITION posts USING agrid INTO 6 SLOTS; RUN 60 STEPS;")
    watching = Balancer(connection.home, connection.db, lambda: session_settings(connection.db))
    run(session, "SET balance.every = 1000000; SET balance = auto; SET balance.above = 1.05;")
    assert not said()
    run(session, "SET balance.transfer = 100000;")
    for _ in range(5):
        watching.look()
    assert said().startswith("acts if 1 more look shows this: max/mean is ")
    watching.look()
    costly = r"does not act, because the best change saves the time of \d+ records and moves queries for that"
    assert re.match(costly, said()) and len(stream_routes(connection.db, 1)) == 1
    run(session, "SET balance.transfer = 0;")
    for _ in range(2):
        watching.look()
    assert said().startswith("has acted: max/mean is ") and len(stream_routes(connection.db, 1)) == 2
    run(session, "RUN 1 STEPS; SET balance.above = 9;")
    watching.look()
    assert said().startswith("even: max/mean is ") and said().endswith(", not above 9")
    run(session, "REPARTITION posts USING object; RUN 1 STEPS;")
    for _ in range(5):
        watching.look()
    assert said() == "has nothing to do: dealt by hash"
    run(session, "SET balance = off;")
    assert not said()


def test_the_cheapest_strategy_takes_the_place_of_a_first_grid_that_stays_uneven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial_routing, "SIDE", 4)
    chance = random.Random(3)
    places = [(chance.uniform(0, 10), chance.uniform(0, 10)) for _ in range(1000)]
    rows = [f"{key},{x:.4f},{y:.4f},{1_718_409_300 + key // 10},sun" for key, (x, y) in enumerate(places)]
    (tmp_path / "posts.csv").write_text("\n".join(["id,x,y,ts,body", *rows, ""]))
    with local_session(tmp_path / "home", 6, 100, published=True) as session:
        connection = session.connection
        # Looks are the test's.
        run(session, CREATE.format(folder=tmp_path) + "SET balance.every = 1000000; SET balance = auto;")
        # All queries are about one cell of the first grid, which no adjuster splits.
        query = "REGISTER QUERY q{} AS SELECT id FROM posts INSIDE (0, 0, 2, 2);"
        run(session, " ".join(query.format(number) for number in range(200)) + "RUN 60 STEPS;")
        assert float(str(routing(session)["max/mean"])) > 1.8
        watching = Balancer(connection.home, connection.db, lambda: session_settings(connection.db))
        for _ in range(2):
            watching.look()
        [change] = stream_routes(connection.db, 1)
        cheapest = str(routing(session)["cost by strategy"]).split(" ")[0]
        assert (change.entry.is_automatic, change.entry.strategy) == (True, cheapest)
        assert str(routing(session)["last change"]).startswith(f"balance, {cheapest} is cheapest: max/mean ")
        run(session, "RUN;")
        near = session.queries()[0]
        [answer] = [
            one
            for one in session.outcomes("SELECT id FROM posts INSIDE (0, 0, 2, 2);")
            if isinstance(one, Answer)
        ]
        assert near.size == answer.table.num_rows > 0
        # What somebody has chosen stays.
        run(session, "REPARTITION posts USING grid;")
        for _ in range(20):
            watching.look()
        assert routing(session)["strategy"] == "grid"


def test_a_balancer_that_fails_is_told_and_the_engine_goes_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of balance")

    connection = session.connection
    run(session, "RUN 1 STEPS;")
    monkeypatch.setattr(balancer, "recent_input", fail)
    run(session, "SET balance = auto;")
    Balancer(connection.home, connection.db, lambda: session_settings(connection.db)).look()
    (_, *others) = [one for one in session.outcomes("SHOW ROUTING;") if isinstance(one, Rows)]
    assert others[-1].rows == (("failed", "RuntimeError: out of balance"),)
    run(session, "RUN 5 STEPS;")
    assert connection.progress().step == 6
