"""REPARTITION of live streams: the dealer finds who crosses and what comes twice, and no update changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from support.local import LocalConnection, local_session
from support.repartition import (
    POSTS,
    SNAPSHOTS,
    TAXIS,
    Dealt,
    dealt_in_all_ways,
    dealt_in_two_ways,
    routing,
    rows,
    run,
    updates,
)

from stqsh.client.api import Session
from stqsh.client.read.asked_slots import KeptTables
from stqsh.client.read.snapshots import SnapshotReader
from stqsh.client.run import RunHandle
from stqsh.core.snapshots.select import answer, whole
from stqsh.engine.config import TUNING
from stqsh.engine.delivery.balancer import Balancer
from stqsh.engine.ingest import dealer
from stqsh.engine.ingest.stream_preparer import DroppedStores, SessionFiles
from stqsh.engine.state.file_store import SlotMeta
from stqsh.errors import NotPublishedError
from stqsh.routing import strategies, text_splits
from stqsh.spec.query import AskSpec, SnapshotSpec
from stqsh.storage import stream_routes as stored_routes
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import get_meta, set_meta
from stqsh.storage.queries.forgotten import forget_rows
from stqsh.storage.rows import Progress
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import BALANCE_ERROR, all_routes, read_table, stream_routes

pytestmark = pytest.mark.slow

CREATE = """
CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, free BOOLEAN)
  KEY oid LOCATION (x, y) TIME ts FROM INSERTS TICK 1 s REPORT EVERY 8 s PLANAR;
"""
_, QUERIES, CHANGES, OTHERS = TAXIS
AT_ONCE = replace(TUNING, dropped_look_s=0.0)
BEGUN_US = 1_718_409_300_000_000


@dataclass
class Clock:
    """The clock of a test, which stands still until somebody moves it."""

    now_us: int = BEGUN_US

    def __call__(self) -> int:
        return self.now_us


@contextmanager
def standing_clock() -> Iterator[Clock]:
    """The clock by which sessions go, also to find out whether it was set: the test's own time is none."""
    clock = Clock()
    with (
        mock.patch("support.local.wall_clock_us", clock),
        mock.patch("stqsh.client.statements.insert.wall_clock_us", clock),
        mock.patch("stqsh.engine.operators.data_source._steady_us", clock),
    ):
        yield clock


class Taxis:
    """Taxis that drive, report now and then, sometimes too late, and sometimes go off."""

    def __init__(self, count: int = 60) -> None:
        self.chance = random.Random(11)
        self.places = [[self.chance.uniform(0, 10), self.chance.uniform(0, 10)] for _ in range(count)]

    def more(self) -> str:
        """The statement with the reports of a round: some keys report twice in it."""
        chance, found = self.chance, []
        for number, place in enumerate(self.places):
            for _ in range(chance.choice((0, 0, 1, 1, 2))):
                place[:] = (min(10.0, max(0.0, at + chance.gauss(0, 1.2))) for at in place)
                x, y = ("NULL", "NULL") if chance.random() < 0.05 else (f"{place[0]:.3f}", f"{place[1]:.3f}")
                ago = chance.choice((0, 1, 2, 3, 9))
                free = chance.choice(("TRUE", "FALSE"))
                found.append(f"('{number}', {x}, {y}, NOW - {ago} s, {free})")
        return f"INSERT INTO taxis VALUES {', '.join(found)};"


CREATE_POSTS = """
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts TEXT body FROM INSERTS TICK 1 s KEEP 9 s PLANAR;
"""
POST_SNAPSHOTS = [
    "SELECT id, body FROM posts INSIDE (2, 2, 6, 6);",
    "SELECT COUNT(*), TOPK(body, 2) FROM posts INSIDE CIRCLE(5, 5, 3);",
    "SELECT id FROM posts NEAREST 5 TO (7, 3);",
]


class Posts:
    """Posts around a spot that moves; some come again, from the same place or another one."""

    def __init__(self) -> None:
        self.chance, self.round, self.sent = random.Random(7), 0, list[int]()

    def more(self) -> str:
        """The statement with the posts of a round."""
        chance, found = self.chance, []
        self.round += 1
        for _ in range(30):
            key = len(self.sent)
            if self.sent and chance.random() < 0.3:
                key = chance.choice(self.sent[-60:])
            else:
                self.sent.append(key)
            x, y = (min(10.0, max(0.0, chance.gauss(2 + self.round / 5, 1.5))) for _ in "xy")
            body = chance.choice(("jam", "sun", "rain"))
            found.append(f"({key}, {x:.3f}, {y:.3f}, NOW - {chance.choice((0, 1, 3))} s, '{body}')")
        return f"INSERT INTO posts VALUES {', '.join(found)};"


def run_steps(session: Session, clock: Clock, steps: int) -> None:
    """Let steps pass in one batch, with all records that are there."""
    for outcome in session.outcomes(f"RUN {steps} STEPS;"):
        if isinstance(outcome, RunHandle):
            session.connection.progress()
            clock.now_us += steps * 1_000_000
            outcome.wait()


class LiveStream(NamedTuple):
    """A stream whose records are inserted: what creates it, what is asked of it, and who reports."""

    script: str
    snapshots: list[str]
    source: Callable[[], Taxis | Posts]


def drive(
    folder: Path, dealt: Dealt, live: LiveStream, statements: list[str]
) -> tuple[list[dict[str, object]], list[object]]:
    """Run rounds of reports, with a statement after every fourth; return updates and snapshots."""
    asked: list[object] = []
    with (
        standing_clock() as clock,
        local_session(
            folder,
            dealt.slots,
            mishaps={3, 7, 20},
            published=True,
            spool_bytes=dealt.spool_bytes,
            on_cluster=dealt.on_cluster,
        ) as session,
    ):
        source = live.source()
        run(session, live.script)
        for number in range(4 * len(statements) + 8):
            run(session, source.more() if number % 5 else "")
            run_steps(session, clock, 1 + number % 3)
            asked += [rows(session, text) for text in live.snapshots]
            if number % 4 == 3 and number // 4 < len(statements):
                run(session, statements[number // 4])
            if number % 3 == 1:
                dealt.restart(session, arena=number % 2 == 1)
        return updates(session), asked


LIVE_TAXIS = LiveStream(CREATE + QUERIES, SNAPSHOTS, Taxis)
LIVE_POSTS = LiveStream(CREATE_POSTS + POSTS.queries, POST_SNAPSHOTS, Posts)
Seen = tuple[list[dict[str, object]], list[object]]
"""Updates and answers."""


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What is told and answered of taxis under the routing by object on one slot."""
    return drive(tmp_path_factory.mktemp("usual") / "home", Dealt(1), LIVE_TAXIS, OTHERS)


@dealt_in_all_ways
def test_updates_and_snapshots_are_the_same_under_every_routing(
    tmp_path: Path, usual: Seen, dealt: Dealt
) -> None:
    names = {line.split()[2] for line in QUERIES.splitlines() if line}
    assert {row["query"] for row in usual[0]} == names
    assert drive(tmp_path / "home", dealt, LIVE_TAXIS, CHANGES) == usual


@pytest.fixture(scope="module")
def usual_posts(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What is told and answered of posts under the routing by object on one slot."""
    return drive(tmp_path_factory.mktemp("posts") / "home", Dealt(1), LIVE_POSTS, POSTS.others)


@dealt_in_two_ways
def test_events_are_the_same_under_every_routing(tmp_path: Path, usual_posts: Seen, dealt: Dealt) -> None:
    assert drive(tmp_path / "home", dealt, LIVE_POSTS, POSTS.changes) == usual_posts


@pytest.mark.parametrize("live", [CREATE, CREATE_POSTS], ids=["taxis", "posts"])
def test_queries_reach_records_from_ahead_of_the_clock_wherever_they_were_dealt(
    tmp_path: Path, live: str
) -> None:
    name, key, other = ("posts", "id", "'jam'") if "EVENT" in live else ("taxis", "oid", "TRUE")
    keys = [f"'{at}'" if name == "taxis" else f"{at}" for at in range(100)]
    ahead = ", ".join(f"({keys[at]}, {at % 10}, {at // 10}, NOW + 60 s, {other})" for at in range(100))
    found = f"AS SELECT {key} FROM {name} INSIDE (1, 1, 3, 3);"
    with standing_clock() as clock, local_session(tmp_path, slots=2, published=True) as session:
        run(session, live)
        run(session, f"INSERT INTO {name} VALUES {ahead};")
        run_steps(session, clock, 1)
        run(session, f"REGISTER QUERY older {found}")
        run_steps(session, clock, 1)
        run(session, f"REPARTITION {name} USING grid INTO 2 SLOTS;")
        for _ in range(10):
            run_steps(session, clock, 3)
        run(session, f"REGISTER QUERY newer {found}")
        run_steps(session, clock, 1)
        assert len(rows(session, found.removeprefix("AS "))) == 9
        for _ in range(4):
            run_steps(session, clock, 15)
        told = Counter((row["query"], row["op"]) for row in updates(session))
    assert told == dict.fromkeys([("older", 1), ("older", -1), ("newer", 1), ("newer", -1)], 9)


def test_a_record_from_far_ahead_keeps_no_routing_of_another_stream(tmp_path: Path) -> None:
    with standing_clock() as clock, local_session(tmp_path, slots=2, published=True) as session:
        run(session, CREATE + CREATE_POSTS)
        run(session, "INSERT INTO taxis VALUES ('1', 1, 1, NOW + 3650 days, TRUE);")
        run(session, "INSERT INTO posts VALUES (1, 1, 1, NOW, 'jam');")
        run_steps(session, clock, 1)
        run(session, "REPARTITION taxis USING grid; REPARTITION posts USING grid;")
        run_steps(session, clock, 1)
        db, progress = session.connection.db, session.connection.progress()
        tables = KeptTables(session.connection.home, db)
        kept = {
            row.spec.name: len(tables.of(row.spec, progress.step + 3600, progress.tick_us))
            for row in live_streams(db)
        }
        assert kept == {"taxis": 2, "posts": 1}


LIVE_WORDS = LiveStream(
    CREATE_POSTS
    + POSTS.queries
    + "".join(
        f"REGISTER QUERY {word}{at} AS SELECT id FROM posts INSIDE (0, 0, {10 - at / 10}, 10)"
        f" WHERE body CONTAINS '{word}';"
        for word in ("jam", "sun", "rain")
        for at in range(12)
    ),
    [*POST_SNAPSHOTS, "SELECT id FROM posts INSIDE (2, 2, 8, 8) WHERE body CONTAINS ANY 'jam fog';"],
    Posts,
)
BY_TEXTS = [f"SET routing.text_leaves = true; {change}" for change in POSTS.changes]
BY_TEXTS[0] = BY_TEXTS[0].replace("agrid", "qttree")


@pytest.fixture(scope="module")
def usual_words(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What is told and answered of posts for words under the routing by object on one slot."""
    return drive(tmp_path_factory.mktemp("words") / "home", Dealt(1), LIVE_WORDS, POSTS.others)


@dealt_in_two_ways
def test_events_are_the_same_under_leaves_that_are_split_by_texts(
    tmp_path: Path, usual_words: Seen, dealt: Dealt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_splits, "_LEAST_RECORDS", 8)
    split: list[object] = []
    made = text_splits.text_leaves_of
    monkeypatch.setattr(strategies, "text_leaves_of", lambda splits: split.append(splits) or made(splits))
    assert drive(tmp_path / "home", dealt, LIVE_WORDS, BY_TEXTS) == usual_words
    assert any(split)


def test_events_are_laid_out_by_where_the_last_ones_are(tmp_path: Path) -> None:
    with standing_clock() as clock, local_session(tmp_path / "home", 3, published=True) as session:
        run(session, CREATE_POSTS)
        corner = ", ".join(f"({key}, {key % 7 / 9}, {key % 5 / 9}, NOW, 'jam')" for key in range(60))
        run(session, f"INSERT INTO posts VALUES {corner}, (99, 10, 10, NOW, 'sun');")
        run_steps(session, clock, 1)
        run(session, "REPARTITION posts USING agrid INTO 4 SLOTS;")
        run_steps(session, clock, 1)
        assert float(str(routing(session)["max/mean"])) < 1.5
        again = corner.replace("'jam'", "'rain'")
        more = ", ".join(f"({key}, {key % 7 / 9}, {key % 5 / 9}, NOW, 'sun')" for key in range(100, 160))
        before = events_by_slot(session)
        run(session, f"INSERT INTO posts VALUES {again}, {more};")
        run_steps(session, clock, 1)
        assert rows(session, "SELECT COUNT(*) FROM posts;") == [{"count": 121}]
        came = np.subtract(events_by_slot(session), before)
        assert came.sum() == 60 and came.min() > 5


def events_by_slot(session: Session) -> list[int]:
    assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
    return [len(state.array("s1/objects/ts")) for state in session.connection.engine.states()]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Session, Clock]]:
    """A session with taxis of which each has reported, after ten steps."""
    with standing_clock() as clock, local_session(tmp_path / "home", 3, published=True) as session:
        run(session, CREATE)
        taxis = Taxis()
        for _ in range(5):
            run(session, taxis.more())
            run_steps(session, clock, 2)
        yield session, clock


def test_objects_cross_and_are_forgotten_once_they_are_silent(
    tmp_path: Path, usual: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dealer, "_SPARE", -1000)
    assert drive(tmp_path / "home", Dealt(3), LIVE_TAXIS, CHANGES) == usual


def test_it_says_what_was_decided_and_what_stands(live: tuple[Session, Clock]) -> None:
    session, clock = live
    run(session, "REGISTER QUERY corner AS SELECT oid FROM taxis INSIDE (0, 0, 3, 3);")
    said, balance = run(session, "REPARTITION taxis USING qttree INTO 8 SLOTS;")
    assert said.startswith("taxis: qttree over 8 slots, version 2, ")
    assert balance.startswith("taxis: max/mean 1.")
    run_steps(session, clock, 3)
    shown = routing(session)
    assert (shown["strategy"], shown["version"], shown["slots"], shown["since step"]) == ("qttree", 2, 8, 11)
    assert float(str(shown["max/mean"])) < 2


def test_each_object_is_on_the_slot_of_its_place(live: tuple[Session, Clock]) -> None:
    session, clock = live
    assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
    stream = live_streams(session.connection.db)[0].id
    run(session, "REPARTITION taxis USING agrid;")
    taxis = Taxis()
    for _ in range(12):
        run(session, taxis.more())
        run_steps(session, clock, 1)
    table = read_table(session.connection.db, stream_routes(session.connection.db, stream)[-1].seq)
    seen = 0
    for number, state in enumerate(session.connection.engine.states()):
        x, y, known = (state.array(f"s{stream}/objects/{name}") for name in ("x", "y", "known"))
        there = known & ~np.isnan(x)
        slots = table.slots_of(x[there], y[there], np.zeros(there.sum(), np.uint64))
        assert slots.tolist() == [number] * len(slots)
        seen += len(slots)
    assert seen > 40


def test_a_dropped_stream_takes_its_dealer_with_it(live: tuple[Session, Clock]) -> None:
    session, clock = live
    run(session, CREATE.replace("STREAM taxis", "STREAM others"))
    run(session, "REPARTITION taxis USING grid;")
    run_steps(session, clock, 1)
    state = session.home.state
    assert [*state.glob("deal*-*")]
    kept = DroppedStores(SessionFiles.of(session.home, session.connection.db, AT_ONCE))
    run(session, "DROP STREAM taxis;")
    kept.find()
    for _ in range(3):
        run_steps(session, clock, 1)
        kept.remove()
    assert not [*state.glob("deal*")]
    assert not [path for folder in session.home.arena.folders for path in folder.glob("deal*")]


@pytest.mark.parametrize(
    ("live", "on_cluster"),
    [(CREATE, False), (CREATE_POSTS, False), (CREATE, True)],
    ids=["taxis", "posts", "cluster"],
)
def test_routings_that_nothing_needs_are_forgotten(
    tmp_path: Path, live: str, on_cluster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Posts() if "EVENT" in live else Taxis()
    name = live.split()[3]
    with (
        standing_clock() as clock,
        local_session(tmp_path, slots=2, published=True, on_cluster=on_cluster) as session,
    ):
        connection = session.connection
        assert isinstance(connection, LocalConnection) and connection.engine is not None
        run(session, live)
        monkeypatch.setattr(SlotMeta, "wants_snapshot", lambda meta, tuning: meta.version % 7 == 0)
        watching = Balancer(session.home, connection.db, lambda: session_settings(connection.db))
        run(session, "SET balance = auto; SET balance.above = 1.01; SET balance.every = 1000000000;")
        found = []
        for number in range(24):
            if number == 12:  # the engine is killed after the tables are deleted, and before their rows are
                monkeypatch.setattr(stored_routes, "forget_rows", no_rows)
            run(session, source.more())
            run(session, f"REPARTITION {name} USING {('agrid', 'qttree')[number % 2]} INTO 4 SLOTS;")
            try:
                run_steps(session, clock, 4)
            except KilledError:
                assert len(tables_in(session)) < len(all_routes(connection.db)[1])
                monkeypatch.setattr(stored_routes, "forget_rows", forget_rows)
                connection.engine.restart(arena=True)
                clock.now_us += 4_000_000
                run_steps(session, clock, 1)
            watching.look()
            found.append(len(all_routes(connection.db)[1]))
            assert set(tables_in(session)) <= set(all_routes(connection.db)[1])
        assert max(found) < 12, found
        assert int(str(routing(session)["version"])) > 24
        run(session, live.replace(f"STREAM {name}", "STREAM others"))
        monkeypatch.setattr(SlotMeta, "wants_snapshot", lambda meta, tuning: False)
        run(session, source.more())
        run_steps(session, clock, 1)  # logs name the last routing
        run(session, f"DROP STREAM {name};")
        dropped = DroppedStores(SessionFiles.of(session.home, connection.db, AT_ONCE))
        dropped.find()
        for _ in range(4):
            run_steps(session, clock, 1)
            dropped.remove()  # its dealer's logs, which refer to the last routing
        assert not all_routes(connection.db) and not tables_in(session)
        connection.engine.restart(arena=True)  # no dealer needs the routing to be rebuilt
        stored_routes.published_table.cache_clear()
        run_steps(session, clock, 1)
        run(session, "REPARTITION others USING grid;")
        run_steps(session, clock, 2)
        assert len(tables_in(session)) == 1


class KilledError(Exception):
    """The engine is killed."""


def no_rows(*_: object) -> None:
    raise KilledError


def tables_in(session: Session) -> list[int]:
    """The numbers of the routings whose tables are published."""
    return sorted(int(path.stem) for path in (session.home.path / "routes").glob("*.table"))


def test_a_stream_is_repartitioned_before_its_first_record(tmp_path: Path) -> None:
    found = []
    for name, text in (("usual", ""), ("changing", "REPARTITION taxis USING grid INTO 5 SLOTS;")):
        with standing_clock() as clock, local_session(tmp_path / name, 3, published=True) as session:
            run(session, f"{CREATE} {QUERIES} {text}")
            taxis = Taxis()
            for _ in range(8):
                run(session, taxis.more())
                run_steps(session, clock, 2)
            found.append(updates(session))
    assert found[0] and found[0] == found[1]


@pytest.mark.parametrize("asked", [False, True], ids=["here", "on other hosts"])
def test_an_uneven_stream_is_balanced_by_itself(live: tuple[Session, Clock], asked: bool) -> None:
    session, clock = live
    run(session, "SET balance.every = 1000000000;")  # looks are the test's
    run(session, "REPARTITION taxis USING grid INTO 3 SLOTS; SET balance = auto; SET balance.above = 1.1;")
    corner = ", ".join(f"('{key}', {key % 7 / 9}, {key % 5 / 9}, NOW, TRUE)" for key in range(60))
    run(session, f"INSERT INTO taxis VALUES {corner};")
    run_steps(session, clock, 1)
    before = float(str(routing(session)["max/mean"]))
    watching = Balancer(session.home, session.connection.db, lambda: session_settings(session.connection.db))
    if asked:
        busy = iter([True, False] * 30)
        watching.ask = partial(answered, session, busy)
        set_meta(session.connection.db, "state", "spark/1")
    told = set()
    for _ in range(40):
        watching.look()
        told.add(get_meta(session.connection.db, BALANCE_ERROR) or "")
    unknown = "the places of taxis's objects are not known: the slots are busy"
    assert told == ({"", unknown} if asked else {""})
    elsewhere = routing(session)
    set_meta(session.connection.db, "state", "files/1")
    shown = routing(session)
    if asked:
        assert elsewhere == shown | dict.fromkeys(("max/mean", "slots a query", "cost by strategy"))
        set_meta(session.connection.db, "state", "spark/1")
        with mock.patch.object(SnapshotReader, "located", partial(located, session)):
            assert routing(session) == shown
    assert float(str(shown["max/mean"])) < before
    assert str(shown["last change"]).startswith("balance, ")


def answered(session: Session, busy: Iterator[bool], spec: SnapshotSpec) -> pa.Table:
    """Answer a snapshot as slots on other hosts do, every second time."""
    if next(busy):
        raise NotPublishedError("the slots are busy")
    return whole(located(session, spec)[0], spec)


def located(session: Session, spec: SnapshotSpec, least: int = 0) -> tuple[list[pa.RecordBatch], Progress]:
    """Return the slots' shares of an answer as they come from other hosts, and the step."""
    assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
    shares = [answer(state, AskSpec(ask=0, spec=spec)) for state in session.connection.engine.states()]
    return [share for share in shares if share is not None], session.connection.progress()
