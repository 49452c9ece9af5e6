"""Edge cases of REPARTITION and REBALANCE: unusual statements, moments, streams and places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.local import LocalConnection, local_session
from support.repartition import POSTS, STEPS, routing, run, updates

from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription, TailOptions
from stqsh.client.results import Answer, Rows, SnapshotMark
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.kinds import KINDS
from stqsh.engine.delivery import balancer
from stqsh.engine.delivery.balancer import Balancer
from stqsh.errors import StqshError
from stqsh.lang.errors import NotSupportedError
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import read_table, stream_routes

LOOKS = 2
CREATE = POSTS.create
SPATIAL = ["grid", "agrid", "quadtree", "qttree"]
SQUARES = [(x + 0.2, y + 0.2, x + 0.8, y + 0.8) for x in range(9) for y in range(9)]
CENTRE = "REGISTER QUERY centre AS SELECT id FROM posts INSIDE (2, 2, 7, 7);"
MOVING = """
CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM FILE '{file}' TICK 1 s REPORT EVERY 8 s PLANAR;
"""


def posts(file: Path, places: list[tuple[float, float]]) -> None:
    """Write posts of two minutes, ten a second, at places in turn."""
    lines = [
        f"{key},{x:.3f},{y:.3f},{1_718_409_300 + key // 10},{('jam', 'sun', 'rain')[key % 3]}"
        for key, (x, y) in enumerate((places * (STEPS * 10 // max(len(places), 1) + 1))[: STEPS * 10])
    ]
    file.write_text("\n".join(["id,x,y,ts,body", *(lines if places else [])]) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chance = random.Random(5)
    posts(tmp_path / "posts.csv", [(chance.gauss(4, 1.5), chance.uniform(0, 9)) for _ in range(700)])
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with local_session(folder / "home", 3, 100, published=True) as session:
        run(session, CREATE.format(folder=folder))
        yield session


def usual(folder: Path, script: str) -> list[dict[str, object]]:
    """Return the updates of a script on one slot without any change of the routing."""
    with local_session(folder / "usual", 1, 100, published=True) as session:
        run(session, CREATE.format(folder=folder) + script)
        return updates(session)


def compared(folder: Path, session: Session, script: str, changed: str) -> list[dict[str, object]]:
    """Check that a script with changes of the routing sends the updates of one without; return them."""
    run(session, changed)
    found = updates(session)
    assert found == usual(folder, script)
    return found


def answer(session: Session, text: str) -> list[dict[str, object]]:
    (found,) = [outcome for outcome in session.outcomes(text) if isinstance(outcome, Answer)]
    rows: list[dict[str, object]] = found.table.to_pylist()
    return rows


def explained(session: Session, text: str) -> str:
    (rows,) = [outcome for outcome in session.outcomes(text) if isinstance(outcome, Rows)]
    return str(dict(rows.rows)["slots"])


def test_a_change_gives_slots_arrays_of_the_kinds_in_use_only(session: Session) -> None:
    """Slots would otherwise do the work of all kinds in each batch from then on."""
    run(session, CENTRE + "RUN 5 STEPS; REPARTITION posts USING object INTO 3 SLOTS; RUN 5 STEPS;")
    assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
    states = session.connection.engine.states()
    used = [[name for name, kind in KINDS.items() if kind.is_used(state, 1)] for state in states]
    assert used == [["range"]] * 3


# --- statements -------------------------------------------------------------------------------------------


def test_all_streams_are_told_and_none_is_an_error(session: Session, folder: Path) -> None:
    """Case 2."""
    with (
        local_session(folder / "none", 2, 100) as empty,
        pytest.raises(StqshError, match="there is no stream yet"),
    ):
        run(empty, "REPARTITION USING grid;")
    run(session, MOVING.format(file=few_taxis(folder)) + "RUN 2 STEPS;")
    said = [line for line in run(session, "REPARTITION USING agrid;") if "version" in line]
    assert [line.split(",")[0] for line in said] == ["posts: agrid over 3 slots", "taxis: agrid over 3 slots"]
    said = run(session, "REPARTITION USING agrid;")
    assert said == ["posts: already agrid over 3 slots", "taxis: already agrid over 3 slots"]


def test_where_it_is_possible_for_no_stream_it_is_an_error(folder: Path) -> None:
    """Case 2, and 58."""
    file = few_taxis(folder)
    create = MOVING.format(file=file).replace("PLANAR", "PLANAR MAX SPEED 5 m/s RETAIN SIGNIFICANT")
    with local_session(folder / "home", 2, 100) as session:
        run(session, create + create.replace("STREAM taxis", "STREAM others"))
        with pytest.raises(NotSupportedError, match="USING agrid on a stream that RETAINs SIGNIFICANT"):
            run(session, "REPARTITION USING agrid;")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("REPARTITION taxis USING grid;", "unknown stream 'taxis'"),
        ("REPARTITION names USING grid;", "names is a table"),
        ("REBALANCE poste;", "unknown stream 'poste'"),
        ("REBALANCE gone;", "unknown stream 'gone'"),
    ],
)
def test_only_streams_that_are_there_are_routed(
    session: Session, folder: Path, text: str, error: str
) -> None:
    """Case 3."""
    (folder / "names.csv").write_text("id,name\n1,a\n")
    run(session, f"CREATE TABLE names FROM FILE '{folder}/names.csv';")
    run(session, CREATE.format(folder=folder).replace("STREAM posts", "STREAM gone") + "DROP STREAM gone;")
    with pytest.raises(StqshError, match=error):
        run(session, text)


def test_as_many_slots_as_can_be(folder: Path, session: Session) -> None:
    """Case 9."""
    script = f"{CENTRE} RUN 10 STEPS;"
    change = "REPARTITION posts USING quadtree INTO 1024 SLOTS;"
    compared(folder, session, f"{script} RUN;", f"{script} {change} RUN;")
    assert routing(session)["slots"] == 1024


def test_before_the_first_run_it_holds_from_step_1(session: Session) -> None:
    """Case 10."""
    run(session, "REPARTITION posts USING agrid INTO 4 SLOTS;")
    assert float(str(routing(session)["expected"])) < 1.3, "by a sample of what is to come"
    run(session, "RUN 3 STEPS;")
    assert routing(session)["since step"] == 1


def test_a_second_change_before_the_first_is_in_force(folder: Path, session: Session) -> None:
    """Cases 13 and 14: of streams that change at the same time each has its own."""
    script = f"{CENTRE} RUN 15 STEPS;"
    changes = (
        "REPARTITION posts USING agrid INTO 7 SLOTS; REBALANCE posts USING shift;"
        "REPARTITION posts USING qttree INTO 2 SLOTS; REBALANCE posts;"
    )
    other = MOVING.format(file=few_taxis(folder))
    run(session, other)
    run(session, f"{script} {changes} REPARTITION taxis USING grid; RUN;")
    assert routing(session)["strategy"] == "qttree"
    alone = folder / "alone"
    with local_session(alone, 1, 100, published=True) as plain:
        run(plain, CREATE.format(folder=folder) + other + f"{script} RUN;")
        assert updates(session) == updates(plain)


def test_after_a_manual_change_the_balancer_rests(session: Session) -> None:
    """Case 15."""
    connection = session.connection
    run(session, f"SET balance.every = 1000000; SET balance.looks = {LOOKS};")  # looks are the test's
    run(session, f"{CENTRE} RUN 10 STEPS; SET balance = auto; SET balance.above = 1.01;")
    watching = Balancer(connection.home, connection.db, lambda: session_settings(connection.db))
    run(session, "REPARTITION posts USING agrid INTO 6 SLOTS; RUN 60 STEPS;")
    for _ in range(balancer.REST + LOOKS - 1):
        watching.look()
        assert len(stream_routes(connection.db, 1)) == 1
    for _ in range(3):
        watching.look()
    assert [route.entry.is_automatic for route in stream_routes(connection.db, 1)] == [False, True]


# --- moments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", SPATIAL)
def test_a_stream_dropped_before_its_change_is_in_force(
    folder: Path, session: Session, strategy: str
) -> None:
    """Case 17."""
    script = f"{CENTRE} RUN 20 STEPS;"
    dropped = "DROP QUERY centre; DROP STREAM posts;"
    change = f"REPARTITION posts USING {strategy} INTO 4 SLOTS;"
    more = CREATE.replace("STREAM posts", "STREAM later") + "RUN 5 STEPS;"
    found = compared(
        folder,
        session,
        script + dropped + more.format(folder=folder),
        script + change + dropped + more.format(folder=folder),
    )
    left = [row["key"] for row in found if row["why"] == DROPPED]
    assert len(left) == len(set(left)) > 50


@pytest.mark.parametrize("before", [14, 15, 16])
def test_queries_that_begin_and_end_around_a_change(folder: Path, session: Session, before: int) -> None:
    """Cases 18 to 21: a query ends one step before the change, in its step, and one step after it."""
    begin = (
        f"{CENTRE} REGISTER QUERY brief FOR 20 s AS SELECT id FROM posts INSIDE (1, 1, 8, 8); RUN 5 STEPS;"
    )
    until = f"RUN {before} STEPS; PAUSE QUERY centre;"
    new = (
        "REGISTER QUERY new AS SELECT id FROM posts INSIDE (3, 3, 9, 9);"
        "REGISTER QUERY plane AS SELECT id FROM posts;"
        "REGISTER QUERY words AS SELECT id FROM posts WHERE body CONTAINS 'jam'; RESUME QUERY centre;"
    )
    change = "REPARTITION posts USING agrid INTO 5 SLOTS;"
    found = compared(folder, session, begin + until + new + "RUN;", begin + until + change + new + "RUN;")
    ends = {row["step"] for row in found if row["why"] == ENDED}
    assert len(ends) == 1
    assert {"new", "plane", "words", "centre", "brief"} == {row["query"] for row in found}


def test_a_query_finds_events_that_expire_in_the_batch_that_registers_it(tmp_path: Path) -> None:
    """They are where an older routing dealt them, of which nothing is kept at the batch's end."""
    seconds = [*range(8), 200]
    lines = [f"{at},{at % 4}.5,{at % 3}.5,{1_718_409_300 + at},sun" for at in seconds]
    (tmp_path / "posts.csv").write_text("\n".join(["id,x,y,ts,body", *lines]) + "\n")
    begin = "RUN 8 STEPS;"
    squares = [(x, y) for x in range(4) for y in range(3)]
    queries = [
        f"REGISTER QUERY at_{x}_{y} AS SELECT id FROM posts INSIDE ({x}, {y}, {x + 1}, {y + 1});"
        for x, y in squares
    ]
    new = f"RUN 1 STEPS; {' '.join(queries)} RUN;"
    with local_session(tmp_path / "home", 3, published=True) as session:
        run(
            session,
            f"{CREATE.format(folder=tmp_path)} {begin} REPARTITION posts USING grid INTO 5 SLOTS; {new}",
        )
        found = updates(session)
    assert {row["key"] for row in found} == set(seconds)
    assert found == usual(tmp_path, begin + new)


def test_many_queries_registered_with_the_change(folder: Path, session: Session) -> None:
    """Case 26."""
    chance = random.Random(3)
    lines = [f"q{at},{(x := chance.uniform(-2, 9)):.2f},{x + 1:.2f}" for at in range(300)]
    (folder / "q.csv").write_text("\n".join(["name,low,high", *lines]) + "\n")
    register = (
        f"REGISTER QUERIES FROM FILE '{folder}/q.csv' KEY name AS"
        " SELECT id FROM posts INSIDE RECT(:low, :low, :high, :high);"
    )
    script = f"{CENTRE} RUN 12 STEPS;"
    change = "REPARTITION posts USING quadtree INTO 6 SLOTS;"
    again = "REPARTITION posts USING agrid INTO 9 SLOTS;"
    compared(
        folder,
        session,
        f"{script} {register} RUN 20 STEPS; RUN;",
        f"{script} {change} {register} RUN 20 STEPS; {again} RUN;",
    )


def test_a_subscription_goes_on_over_changes(session: Session) -> None:
    """Case 36."""
    run(session, f"{CENTRE} RUN 10 STEPS;")
    (query,) = session.queries()
    tail = iter(Subscription(query, TailOptions(), session.connection))
    marks = [item.edge for item in (next(tail), next(tail), next(tail)) if isinstance(item, SnapshotMark)]
    assert marks == ["begin", "end"]
    for strategy in ("agrid INTO 6 SLOTS", "grid INTO 2 SLOTS", "object"):
        run(session, f"REPARTITION posts USING {strategy}; RUN 10 STEPS;")
    wanted = [(row["step"], row["op"], row["key"]) for row in updates(session) if int(str(row["step"])) > 10]
    found: list[tuple[object, ...]] = []
    while len(found) < len(wanted):
        item = next(tail)
        if not isinstance(item, SnapshotMark):
            rows = item.table.select(["step", "op", "key"]).to_pylist()
            found += [(row["step"], row["op"], row["key"]) for row in rows if row["step"] > 10]
    assert sorted(found) == sorted(wanted)


def test_a_stream_paused_with_a_change_under_way(folder: Path, session: Session) -> None:
    """Cases 12 and 67: the change waits for the next step."""
    run(session, f"{CENTRE} RUN 10 STEPS; REPARTITION posts USING qttree INTO 4 SLOTS;")
    assert routing(session)["state"] == "in force"
    run(session, "PLAY posts AT MAX;")
    for _ in range(200):
        if session.connection.progress().step >= STEPS:
            break
    run(session, "PAUSE posts;")
    assert routing(session)["since step"] == 11
    found = [row for row in updates(session) if row["step"] <= STEPS]
    assert found == [row for row in usual(folder, f"{CENTRE} RUN;") if row["step"] <= STEPS]


# --- streams and places -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", SPATIAL)
@pytest.mark.parametrize(
    "places",
    [
        [(4.0, 4.0)],
        [(4.0, 4.0)] * 30 + [(1.0, 8.0)],
        [(x / 7, 3.0) for x in range(70)],
        [(0.0, 0.0)] * 3 + [(1e6 + x, 1e6) for x in range(40)],
    ],
    ids=["point", "nearly-a-point", "line", "outliers"],
)
def test_places_that_space_cannot_spread(
    folder: Path, strategy: str, places: list[tuple[float, float]]
) -> None:
    """Cases 44 to 46: one point, a line without height, and bounds that are far too large."""
    posts(folder / "posts.csv", places)
    script = f"{CENTRE} RUN 10 STEPS;"
    with local_session(folder / "home", 3, 100, published=True) as session:
        run(session, CREATE.format(folder=folder))
        change = f"REPARTITION posts USING {strategy} INTO 4 SLOTS; RUN 10 STEPS; REBALANCE posts;"
        compared(folder, session, f"{script} RUN 10 STEPS; RUN;", f"{script} {change} RUN;")
        if len(places) == 1:
            assert run(session, "REBALANCE posts;") == ["posts: dealt by hash: nothing to move"] or run(
                session, "REBALANCE posts;"
            ) == ["posts: nothing to gain (max/mean 1.00)"]


def test_a_change_before_the_first_step_leaves_nothing_to_look_for_under_the_first_grid(folder: Path) -> None:
    with local_session(folder / "home", 3, 100, published=True) as session:
        change = "REPARTITION posts USING agrid;"
        run(session, CREATE.format(folder=folder) + CENTRE + change + "RUN 20 STEPS;")
        text = "EXPLAIN SELECT TOPK(body, 1) FROM posts INSIDE (2, 2, 3, 3) SYNC 10 s;"
        assert "routings" not in explained(session, text)
        run(session, "REPARTITION posts USING quadtree; RUN 1 STEPS;")
        assert explained(session, text).endswith("under 2 routings whose records are kept")
        run(session, "RUN;")
        assert updates(session) == usual(folder, f"{CENTRE} RUN 20 STEPS; RUN 1 STEPS; RUN;")


def test_bounds_that_are_much_too_small(folder: Path) -> None:
    """Case 45: cells of a new routing are laid over where the records are."""
    create = CREATE.replace("PLANAR", "PLANAR BOUNDS (0, 0, 0.01, 0.01)")
    with local_session(folder / "home", 2, 100, published=True) as session:
        run(session, create.format(folder=folder) + f"{CENTRE} RUN 20 STEPS;")
        assert int(str(routing(session)["by hash"])) > 0, "cells that all records outside count to"
        run(session, "REPARTITION posts USING agrid INTO 2 SLOTS; RUN;")
        assert routing(session)["by hash"] == 0 and float(str(routing(session)["max/mean"])) < 1.2
        assert updates(session) == usual(folder, f"{CENTRE} RUN 20 STEPS; RUN;")


@pytest.mark.parametrize("strategy", SPATIAL)
def test_a_stream_without_a_record(folder: Path, strategy: str) -> None:
    """Case 47: nothing moves."""
    file = few_taxis(folder)
    posts(folder / "posts.csv", [])
    with local_session(folder / "home", 2, 100, published=True) as session:
        run(session, CREATE.format(folder=folder) + MOVING.format(file=file) + "RUN 2 STEPS;")
        said, _ = run(session, f"REPARTITION posts USING {strategy} INTO 4 SLOTS;")
        assert said.startswith(f"posts: {strategy} over 4 slots, version 2")
        assert run(session, "REBALANCE posts;") == ["posts: nothing to gain (max/mean 1.00)"]
        run(session, "RUN;")
        assert answer(session, "SELECT COUNT(*) FROM posts;") == [{"count": 0}]


def test_places_at_the_ends_of_the_world(folder: Path) -> None:
    """Case 49: circles reach over the 180th meridian and the poles."""
    places = [(x, y) for x in (-180.0, -179.9, 0.0, 179.9, 180.0) for y in (-90.0, -89.9, 0.0, 89.9, 90.0)]
    posts(folder / "posts.csv", places)
    create = CREATE.replace(" PLANAR", "").format(folder=folder)
    script = (
        "REGISTER QUERY over AS SELECT id FROM posts INSIDE CIRCLE(179.95, 0, 100 km);"
        "REGISTER QUERY pole AS SELECT id FROM posts INSIDE CIRCLE(20, 89.95, 50 km);"
        "REGISTER QUERY near AS SELECT id, DISTANCE FROM posts NEAREST 7 TO (-180, 0); RUN 10 STEPS;"
    )
    found = []
    for name, change in (("a", ""), ("b", "REPARTITION posts USING agrid INTO 8 SLOTS;")):
        with local_session(folder / name, 3 if change else 1, 100, published=True) as session:
            run(session, create + script + change + "RUN 30 STEPS;")
            nearest = answer(session, "SELECT id FROM posts NEAREST 9 TO (179.99, 0);")
            inside = answer(session, "SELECT id FROM posts INSIDE CIRCLE(-179.99, 0, 20 km);")
            found.append((updates(session), nearest, inside))
    assert found[0] == found[1]
    assert found[0][2]


# --- snapshots --------------------------------------------------------------------------------------------


def test_snapshots_look_at_the_slots_that_may_hold_something(session: Session, folder: Path) -> None:
    """Case 56: slots that records are on by an older routing are looked at for as long as they are kept."""
    texts = [
        "SELECT id FROM posts INSIDE (3, 3, 4, 4);",
        "SELECT COUNT(*) FROM posts INSIDE CIRCLE(5, 5, 1);",
        "SELECT id, DISTANCE FROM posts NEAREST 5 TO (4, 4);",
        "SELECT id FROM posts WHERE body CONTAINS 'jam' NEAREST 200 TO (4, 4);",
    ]
    with local_session(folder / "one", 1, 100, published=True) as plain:
        run(plain, CREATE.format(folder=folder))
        for number in range(8):
            change = ("", "REPARTITION posts USING agrid INTO 8 SLOTS;", "REPARTITION posts USING grid;")[
                number % 3
            ]
            run(session, f"{change} RUN 9 STEPS;")
            run(plain, "RUN 9 STEPS;")
            for text in texts:
                assert answer(session, text) == answer(plain, text)
    run(session, "REPARTITION posts USING agrid INTO 8 SLOTS; RUN 1 STEPS;")
    assert explained(session, f"EXPLAIN {texts[0]}").endswith("routings whose records are kept")
    run(session, "RUN 25 STEPS;")
    touched, word, of, *why = explained(session, f"EXPLAIN {texts[0]}").split()
    assert (word, of, " ".join(why)) == ("of", "8:", "those whose cells the region touches")
    assert 1 <= int(touched) < 8
    asked, _, _, *why = explained(session, f"EXPLAIN {texts[2]}").split()
    assert " ".join(why) == "those that may have objects as near as the first that were found"
    assert 1 <= int(asked) < 8
    assert explained(session, f"EXPLAIN {texts[3]}") == "8 of 8: the nearest may be on any"
    nowhere = "0 of 3: those that may have objects in the region of the 1 whose cells it touches"
    counts = [f"SELECT COUNT(*) FROM posts INSIDE ({x}, 4.001, {x + 0.001}, 4.002);" for x in range(2, 7)]
    passed_over = [text for text in counts if explained(session, f"EXPLAIN {text}") == nowhere]
    assert passed_over
    assert all(list(found.values()) == [0] for text in passed_over for found in answer(session, text))
    assert explained(session, "EXPLAIN SELECT id FROM posts;") == "8 of 8: there is no region"


def few_taxis(folder: Path) -> Path:
    """Write five taxis that stand still, one record a step each."""
    file = folder / "taxis.csv"
    lines = [f"{at},{at},{at},{1_718_409_300 + step}" for step in range(STEPS) for at in range(5)]
    file.write_text("\n".join(["oid,x,y,ts", *lines]) + "\n")
    return file


# --- the end of an older routing --------------------------------------------------------------------------


def known(session: Session) -> list[int]:
    """Return how many queries each slot knows."""
    assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
    return [
        sum(kind.count(state, 1) for kind in KINDS.values()) for state in session.connection.engine.states()
    ]


def squares(select: str = "id", more: str = "") -> str:
    """Return a query over each of the squares, named by its number."""
    return " ".join(
        f"REGISTER QUERY q{number} AS SELECT {select} FROM posts INSIDE {square} {more};"
        for number, square in enumerate(SQUARES)
    )


@pytest.mark.parametrize(
    "queries",
    [
        squares(),
        squares("COUNT(*)"),
        squares("COUNT(*)", "SYNC 7 s"),
        squares("body", "WHERE body CONTAINS 'jam'"),
    ],
    ids=["ranges", "counts", "refreshes", "words"],
)
def test_slots_forget_queries_when_the_events_of_an_older_routing_have_expired(
    folder: Path, session: Session, queries: str
) -> None:
    """Case 57."""
    begin, tail = f"{queries} RUN 10 STEPS;", "RUN 30 STEPS;"
    change, again = (
        "REPARTITION posts USING agrid INTO 3 SLOTS;",
        "REPARTITION posts USING grid INTO 3 SLOTS;",
    )
    run(session, f"{begin} {change} RUN 1 STEPS;")
    both = known(session)
    run(session, tail)
    once = known(session)
    assert sum(once) < sum(both)
    run(session, f"{again} {tail}")
    table = read_table(session.connection.db, stream_routes(session.connection.db, 1)[-1].seq)
    assert known(session) == table.slots_touching(np.array(SQUARES)).sum(axis=0).tolist()
    found = updates(session)
    assert found == usual(folder, f"{begin} RUN 1 STEPS; {tail} {tail}")


def test_what_slots_did_for_queries_that_they_forgot_counts(session: Session) -> None:
    run(session, f"{squares()} RUN 10 STEPS; REPARTITION posts USING agrid INTO 3 SLOTS; RUN 60 STEPS;")
    sent = sum(row["query"] == "q30" for row in updates(session))
    rows, _ = (outcome for outcome in session.outcomes("EXPLAIN ANALYZE q30;") if isinstance(outcome, Rows))
    assert dict(rows.rows)["updates so far"] == sent > 0


def test_a_paused_query_is_not_forgotten(folder: Path, session: Session) -> None:
    """It may have sent what it has to take back when it is resumed."""
    begin, rest = f"{squares()} RUN 10 STEPS; PAUSE QUERY q30;", "RUN 60 STEPS; RESUME QUERY q30; RUN;"
    change = "REPARTITION posts USING agrid INTO 3 SLOTS;"
    compared(folder, session, f"{begin} {rest}", f"{begin} {change} {rest}")
