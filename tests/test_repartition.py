"""REPARTITION and REBALANCE: what they say, that updates stay the same, and what is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import LocalLink, local_session

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message, Rows, Script, WaitNotice
from stqsh.client.run import RunHandle
from stqsh.engine.delivery import balancer
from stqsh.engine.delivery.balancer import Balancer
from stqsh.errors import StqshError
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import stream_routes
from stqsh.storage.update_log.reader import UpdateLog

STEPS = 120
CREATE = """
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts TEXT body
  FROM FILE '{folder}/posts.csv' TICK 1 s KEEP 20 s PLANAR;
"""
QUERIES = """
REGISTER QUERY corner AS SELECT id FROM posts INSIDE (0, 0, 3, 3);
REGISTER QUERY middle AS SELECT id, body FROM posts INSIDE (4, 4, 6, 6) WHERE body CONTAINS 'jam';
REGISTER QUERY busy AS SELECT COUNT(*), TOPK(body, 2) FROM posts INSIDE (2, 2, 9, 9);
REGISTER QUERY each AS SELECT COUNT(*) FROM posts INSIDE (5, 0, 9, 4) SYNC 7 s;
REGISTER QUERY brief FOR 35 s AS SELECT id FROM posts INSIDE (1, 1, 8, 8);
REGISTER QUERY fresh SINCE NOW AS SELECT id FROM posts INSIDE (6, 6, 9, 9);
REGISTER QUERY near AS SELECT id FROM posts NEAREST 3 TO (5, 5);
"""
CHANGES = [
    "REPARTITION posts USING agrid INTO 3 SLOTS;",
    "PAUSE QUERY corner; REPARTITION posts USING quadtree INTO 7 SLOTS; REBALANCE posts;",
    "REPARTITION posts USING object INTO 1 SLOTS; RESUME QUERY corner;",
    "REPARTITION posts USING qttree INTO 64 SLOTS; DROP QUERY middle;",
    "REPARTITION posts USING grid INTO 1 SLOTS; REPARTITION posts USING grid INTO 2 SLOTS;",
]
OTHERS = ["", "PAUSE QUERY corner;", "RESUME QUERY corner;", "DROP QUERY middle;", ""]


def write_posts(folder: Path) -> None:
    """Write posts of two minutes, most of them around a spot that moves."""
    chance, lines = random.Random(7), ["id,x,y,ts,body"]
    for key in range(1200):
        second = key * STEPS // 1200
        centre = 2 + 6 * second / STEPS
        x, y = (chance.gauss(centre, 0.4) if chance.random() < 0.8 else chance.uniform(0, 10) for _ in "xy")
        lines.append(
            f"{key},{x:.3f},{y:.3f},{1_718_409_300 + second},{chance.choice(['jam', 'sun', 'rain'])}"
        )
    (folder / "posts.csv").write_text("\n".join(lines) + "\n")


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


def run(session: Session, text: str) -> list[str]:
    """Run statements; return what they say."""
    said = []
    for outcome in session.execute(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()
        elif isinstance(outcome, Message) and not isinstance(outcome, WaitNotice):
            said.append(outcome.text)
    return said


def updates(session: Session) -> list[dict[str, object]]:
    link = session.link
    log = UpdateLog(link.db, link.book.key_of)
    names = link.book
    names.refresh()
    found = [row for tables in log.read(-1, link.progress().batch) for one in tables for row in rows_of(one)]
    for row in found:
        row["query"] = names.names[row["query"]]
    return sorted(found, key=lambda row: (row["step"], row["query"], row["op"], str(row["key"])))


def rows_of(one: object) -> list[dict[str, object]]:
    return one.table.to_pylist()  # type: ignore[attr-defined, no-any-return]


def routing(session: Session) -> dict[str, object]:
    (rows, *_) = [outcome for outcome in session.execute("SHOW ROUTING;") if isinstance(outcome, Rows)]
    return dict(zip(rows.columns, rows.rows[0], strict=True))


def drive(
    folder: Path,
    name: str,
    slots: int,
    statements: list[str],
    restarts: bool,
    spool_bytes: int = 16_384,
    script: str = CREATE + QUERIES,
) -> list[object]:
    """Run a script and a statement after every 20 steps; return the updates.

    Payloads of `spool_bytes` are named in the slots' logs, and made again from the replay store.
    """
    with local_session(
        folder / name, slots, 100, mishaps={3, 7}, published=True, spool_bytes=spool_bytes
    ) as session:
        run(session, script.format(folder=folder))
        for number, text in enumerate(statements):
            run(session, f"RUN 20 STEPS; {text}")
            if restarts:
                assert isinstance(session.link, LocalLink)
                assert session.link.engine is not None
                session.link.engine.restart(arena=number % 2 == 0)
        run(session, "RUN;")
        return list(updates(session))


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_updates_are_the_same_under_every_routing(folder: Path, slots: int) -> None:
    usual = drive(folder, "usual", 1, OTHERS, restarts=False)
    assert {row["query"] for row in usual} >= {"corner", "middle", "busy", "each", "brief", "fresh", "near"}
    assert drive(folder, "changing", slots, CHANGES, restarts=False) == usual
    assert drive(folder, "killed", slots, CHANGES, restarts=True) == usual
    assert drive(folder, "spooled", slots, CHANGES, restarts=True, spool_bytes=1) == usual


def test_it_says_what_was_decided_and_what_stands(session: Session) -> None:
    run(session, "RUN 10 STEPS;")
    said, balance = run(session, "REPARTITION posts USING qttree INTO 8 SLOTS;")
    assert re.fullmatch(r"posts: qttree over 8 slots, version 2, \d+ packages, moving", said)
    assert re.fullmatch(r"posts: max/mean \d\.\d\d, \d\.\d\d expected", balance)
    assert run(session, "REPARTITION posts USING qttree INTO 8 SLOTS;") == [
        "posts: already qttree over 8 slots"
    ]
    shown = routing(session)
    assert (shown["strategy"], shown["version"], shown["slots"], shown["since step"]) == ("qttree", 2, 8, 11)
    assert shown["state"] == "in force"
    run(session, "RUN 1 STEPS;")
    assert routing(session)["since step"] == 11


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
    (script,) = [outcome for outcome in session.execute("DUMP;") if isinstance(outcome, Script)]
    assert script.text.endswith('REPARTITION "posts" USING agrid INTO 3 SLOTS;\n')


def test_a_snapshot_is_complete_after_any_number_of_changes(session: Session) -> None:
    whole, found = [], []
    for text in CHANGES:
        run(session, f"RUN 4 STEPS; {text.replace('DROP QUERY middle;', '')}" if "QUERY" not in text else "")
        (answer,) = [one for one in session.execute("SELECT COUNT(*) FROM posts;") if isinstance(one, Answer)]
        found.append(answer.table.to_pylist()[0]["count"])
        whole.append(session.link.progress().step * 10)
    assert found == whole


def test_fewer_slots_by_hash_hold_all_that_later_queries_ask_for(folder: Path) -> None:
    with local_session(folder / "home", 5, 100, published=True) as session:
        run(session, CREATE.format(folder=folder))
        run(session, "RUN 5 STEPS; REPARTITION posts USING object INTO 1 SLOTS; RUN 60 STEPS;")
        run(session, "REGISTER QUERY late AS SELECT id FROM posts INSIDE (0, 0, 9, 9); RUN 30 STEPS;")
        (answer,) = [
            outcome
            for outcome in session.execute("SELECT id FROM posts INSIDE (0, 0, 9, 9);")
            if isinstance(outcome, Answer)
        ]
        (late,) = session.queries()
        assert late.size == answer.table.num_rows > 100


@pytest.mark.parametrize("how", ["auto", "greedy"])
def test_an_uneven_stream_is_balanced_by_itself(
    session: Session, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancer, "LOOK_EVERY", 1 << 30)  # looks are the test's
    link = session.link
    run(session, "RUN 10 STEPS; REPARTITION posts USING grid INTO 6 SLOTS; RUN 60 STEPS;")
    watching = Balancer(link.home, link.db, lambda: session_settings(link.db))
    run(session, f"SET balance = {how}; SET balance.above = 1.1;")
    before = float(str(routing(session)["max/mean"]))
    for _ in range(20):
        watching.look()
    changes = stream_routes(link.db, 1)
    assert [route.entry.is_automatic for route in changes] == [False, True], "no second while one is pending"
    shown = routing(session)
    assert float(str(shown["max/mean"])) < before
    assert str(shown["last change"]).startswith("balance, ")
    run(session, "RUN 5 STEPS;")
    assert routing(session)["state"] == "in force"


def test_a_balancer_that_fails_is_told_and_the_engine_goes_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of balance")

    link = session.link
    run(session, "RUN 1 STEPS;")
    monkeypatch.setattr(balancer, "recent_input", fail)
    run(session, "SET balance = auto;")
    Balancer(link.home, link.db, lambda: session_settings(link.db)).look()
    (_, *others) = [one for one in session.execute("SHOW ROUTING;") if isinstance(one, Rows)]
    assert others[-1].rows == (("failed", "RuntimeError: out of balance"),)
    run(session, "RUN 5 STEPS;")
    assert link.progress().step == 6
