"""The settings of routings: what they change, what is said of them, and that no update depends on them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import local_session
from support.repartition import POSTS, Dealt, drive, routing, run, write_posts

from stqsh.client.api import Session
from stqsh.client.results import Rows, Script
from stqsh.errors import StqshError
from stqsh.settings import LOADS, SIDES
from stqsh.sources.routing_plans import current_table
from stqsh.storage.catalogue import live_streams
from stqsh.storage.stream_routes import stream_routes

_STRATEGIES = ("object", "grid", "agrid", "quadtree", "qttree")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write_posts(tmp_path)
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        run(session, POSTS.create.format(folder=tmp_path))
        yield session


def _side(session: Session) -> int:
    connection = session.connection
    [stream] = live_streams(connection.db)
    table = current_table(connection.home, connection.db, stream)
    assert table is not None
    return table.cells.side


def test_a_stream_is_laid_out_by_the_settings_and_says_so(session: Session) -> None:
    run(session, "RUN 20 STEPS; SET routing.cells = 1024; SET routing.leaves = 16;")
    run(session, "SET routing.load = records; REPARTITION posts USING qttree INTO 4 SLOTS;")
    assert _side(session) == 1024
    shown = routing(session)
    assert 64 <= int(str(shown["leaves"])) <= 66
    laid = "routing.cells = 1024, routing.load = records, routing.leaves = 16"
    assert str(shown["last change"]).startswith(f"REPARTITION with {laid}: max/mean ")
    # REBALANCE changes the table that there is.
    run(session, "SET routing.cells = 64; RUN 60 STEPS; REBALANCE posts USING fg;")
    assert _side(session) == 1024 and laid in str(routing(session)["last change"])


def test_the_same_strategy_with_other_settings_is_another_routing(session: Session) -> None:
    text = "REPARTITION posts USING agrid INTO 3 SLOTS;"
    run(session, f"RUN 20 STEPS; {text}")
    assert run(session, text) == ["posts: already agrid over 3 slots"]
    run(session, "SET routing.leaves = 3; SET routing.similar = 0.1;")
    assert run(session, text) == ["posts: already agrid over 3 slots"], "an agrid has no use for them"
    for setting in ("routing.cells = 64", "routing.load = pairs"):
        assert len(run(session, f"SET {setting}; {text}")) > 1
        assert run(session, text)[-1] == "posts: already agrid over 3 slots"
    assert _side(session) == 64


def test_dump_has_the_settings_by_which_a_stream_was_laid_out(session: Session) -> None:
    run(session, "RUN 20 STEPS; SET routing.cells = 64; REPARTITION posts USING grid INTO 4 SLOTS;")
    [script] = [one for one in session.outcomes("DUMP;") if isinstance(one, Script)]
    assert script.text.startswith("SET routing.cells = 64;\n")
    assert script.text.endswith('REPARTITION "posts" USING grid INTO 4 SLOTS;\n')
    run(session, "SET routing.cells = 512;")
    [script] = [one for one in session.outcomes("DUMP;") if isinstance(one, Script)]
    assert script.text.endswith(
        'SET routing.cells = 64;\nREPARTITION "posts" USING grid INTO 4 SLOTS;\nSET routing.cells = 512;\n'
    )


def test_fewer_recent_records_are_looked_at(session: Session) -> None:
    run(session, "RUN 20 STEPS; SET routing.recent = 50; REPARTITION posts USING agrid INTO 3 SLOTS;")
    slots = [one for one in session.execute("SHOW ROUTING;") if isinstance(one, Rows)][1]
    column = slots.columns.index("recent records")
    assert sum(row[column] for row in slots.rows) == 50


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("routing.cells = 100", "routing.cells is '100', expected one of 16, 32, 64, 128, 256, 512, 1024"),
        ("routing.leaves = 65", "routing.leaves is '65', expected a whole number from 1 to 64"),
        (
            "routing.load = visits",
            "routing.load is 'visits', expected one of cost, records, pairs, star, sstd",
        ),
        ("routing.similar = 2", "routing.similar is '2', expected a number from 0 to 1"),
        ("routing.recent = 0", "routing.recent is '0', expected a whole number of at least 1"),
    ],
)
def test_a_value_that_a_setting_cannot_have_is_an_error(
    session: Session, setting: str, expected: str
) -> None:
    with pytest.raises(StqshError, match=expected):
        run(session, f"SET {setting};")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_updates_are_the_same_by_all_settings(tmp_path: Path, seed: int) -> None:
    write_posts(tmp_path)
    chance = random.Random(seed)

    def change() -> str:
        """Return a change of the routing by drawn settings."""
        settings = [
            f"routing.cells = {chance.choice(SIDES)}",
            f"routing.load = {chance.choice(LOADS)}",
            f"routing.leaves = {chance.randint(1, 64)}",
            f"routing.recent = {chance.choice([1, 30, 200_000])}",
            f"routing.similar = {chance.choice([0, 0.5, 1])}",
            f"routing.package = {chance.choice([1, 3, 20_000])}",
            f"routing.text_leaves = {chance.choice(['true', 'false'])}",
        ]
        sets = " ".join(f"SET {one};" for one in chance.sample(settings, chance.randint(1, 7)))
        strategy, slots = chance.choice(_STRATEGIES), chance.randint(1, 20)
        return f"{sets} REPARTITION posts USING {strategy} INTO {slots} SLOTS; REBALANCE posts;"

    script = POSTS.create + POSTS.queries
    usual = drive(tmp_path, "usual", Dealt(1), script, [""] * 5)
    changes = [change() for _ in range(5)]
    assert drive(tmp_path, "changing", Dealt(3), script, changes) == usual
    assert usual, changes


def test_each_change_by_hand_keeps_what_it_was_laid_out_by(session: Session) -> None:
    run(session, "SET routing.cells = 128; RUN 10 STEPS; REPARTITION posts USING quadtree INTO 3 SLOTS;")
    run(session, "SET routing.cells = 256; REPARTITION posts USING object; REPARTITION posts USING quadtree;")
    layouts = [route.entry.layout for route in stream_routes(session.connection.db, 1)]
    assert layouts == ["routing.cells = 128", "", ""]
