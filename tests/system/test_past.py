"""Snapshots of the past: what is kept and what is archived, each event once, as a search of all says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.budget import share
from support.local import LocalConnection, local_session
from support.oracle.fold import Room

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message, Rows
from stqsh.client.run import RunHandle
from stqsh.errors import StqshError
from stqsh.storage.control_log import ControlDb

BEGIN = 1_718_409_300  # 23:55 UTC: a day ends within
WORDS = ("rain", "sun", "fish")
CREATE = """
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, n DOUBLE, word STRING)
  KEY id LOCATION (x, y) TIME ts TEXT word
  FROM FILE '{folder}/posts.csv' TICK 1 s KEEP {keep} ARCHIVE TO '{folder}/old' PLANAR ORDER BY ARRIVAL;
CREATE TABLE moods (word STRING, mood STRING) KEY word FROM FILE '{folder}/moods.csv';
CREATE REGION corner AS POLYGON ((0 0, 6 0, 6 6, 0 0));
REGISTER QUERY here AS SELECT id FROM posts INSIDE (0, 0, 5, 5);
"""


@dataclass(frozen=True)
class Event:
    step: int
    id: int
    x: float
    y: float
    at: int
    n: float | None
    word: str | None


def write_events(folder: Path, rng: random.Random, count: int, seconds: int) -> list[Event]:
    """Write events as they arrived, some late and some too late, and return them with their steps."""
    times = sorted(rng.randrange(seconds) for _ in range(count))
    lines, events, latest, first = ["id,x,y,ts,n,word"], list[Event](), 0, 0
    for key, second in enumerate(times):
        at = max(0, second - rng.choice([0, 0, 0, 5, 60, 300]))
        x, y, is_there = float(rng.randrange(10)), float(rng.randrange(10)), rng.random() < 0.95
        word = rng.choice([*WORDS, None])
        n = None if rng.random() < 0.1 else rng.choice([0.1, 0.25, 1e16, -3.0, rng.random()])
        if is_there:  # others are in no answer, and no time is known by them
            latest = max(latest, at)
            first = first if events else at
            events.append(Event(latest - first + 1, key, x, y, BEGIN + at, n, word))
        place = (x, y) if is_there else (None, None)
        shown = ("" if value is None else str(value) for value in (key, *place, BEGIN + at, n, word))
        lines.append(",".join(shown))
    (folder / "posts.csv").write_text("\n".join(lines) + "\n")
    (folder / "moods.csv").write_text("word,mood\nrain,sad\nsun,glad\n")
    return events


def run_all(session: Session, text: str) -> None:
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()


def rows_of(session: Session, text: str) -> list[tuple[Any, ...]]:
    [answer] = [outcome for outcome in session.outcomes(text) if isinstance(outcome, Answer)]
    return [tuple(row.values()) for row in answer.table.to_pylist()]


def written(second: int) -> str:
    return f"'{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}'"


def day_of(event: Event) -> str:
    return f"{datetime.fromtimestamp(event.at, UTC):%Y-%m-%d}"


def floor_of(events: list[Event], kilobytes: int | None) -> int:
    """The second since BEGIN before which events are gone because of their size."""
    room = Room(None if kilobytes is None else kilobytes << 10)
    for step in sorted({one.step for one in events}):
        for one in events:
            if one.step == step:
                room.take(one.at - BEGIN, 40 + len(one.word or ""))
        room.let_go(events[0].at - BEGIN + step - 1)
    return -(10**9) if room.floor is None else room.floor


Holds = Callable[[Event], bool]


def conditions(low: int, high: int, now: int) -> list[tuple[str, Holds]]:
    """Conditions that bound the time, and what they mean."""
    a, b, day = written(low), written(high), f"{datetime.fromtimestamp(high, UTC):%Y-%m-%d}"
    ago = now - low
    return [
        (f"ts BETWEEN {a} AND {b}", lambda one: low <= one.at <= high),
        (f"ts > {a}", lambda one: one.at > low),
        (f"{b} >= ts AND n > 0", lambda one: one.at <= high and one.n is not None and one.n > 0),
        (f"DATE(ts) = '{day}'", lambda one: day_of(one) == day),
        (f"DATE(ts) < '{day}' OR ts = {b}", lambda one: day_of(one) < day or one.at == high),
        (f"ts IN ({a}, {b})", lambda one: one.at in (low, high)),
        (f"ts > NOW - {ago} s AND ts <= {b}", lambda one: low < one.at <= high),
        ("YEAR(ts) = 2024", lambda one: True),
    ]


def total(values: Iterable[float | None]) -> float | None:
    known = [Fraction(value) for value in values if value is not None]
    return float(sum(known, Fraction())) if known else None


def check(session: Session, events: list[Event], where: str, holds: Holds, rng: random.Random) -> None:
    """Compare the answers to questions of each form with what a search of all events says."""
    found = [one for one in events if holds(one)]
    assert rows_of(session, f"SELECT id, n FROM posts WHERE {where};") == [(one.id, one.n) for one in found]
    assert rows_of(session, f"SELECT COUNT(*) FROM posts WHERE {where};") == [(len(found),)]
    box = [one for one in found if 2 <= one.x <= 7 and 1 <= one.y <= 8]
    text = "SELECT COUNT(*), SUM(n), MAX(n), COUNT(DISTINCT word) FROM posts INSIDE (2, 1, 7, 8)"
    known = [one.n for one in box if one.n is not None]
    words = {one.word for one in box if one.word is not None}
    assert rows_of(session, f"{text} WHERE {where};") == [
        (len(box), total(known), max(known, default=None), len(words))
    ]
    text = f"SELECT word, COUNT(*) AS c, SUM(n) AS s FROM posts WHERE {where} GROUP BY word ORDER BY word;"
    grouped = {word: [one.n for one in found if one.word == word] for word in sorted(WORDS)}
    grouped |= {None: [one.n for one in found if one.word is None]}  # type: ignore[dict-item]
    assert rows_of(session, text) == [(word, len(ns), total(ns)) for word, ns in grouped.items() if ns]
    text = f"SELECT id FROM posts WHERE {where} ORDER BY n DESC LIMIT 7;"
    ordered = sorted(found, key=lambda one: (one.n is None, -(one.n or 0), one.id))
    assert rows_of(session, text) == [(one.id,) for one in ordered[:7]]
    x, y = rng.randrange(10), rng.randrange(10)
    text = f"SELECT id FROM posts NEAREST 9 TO ({x}, {y}) WHERE {where};"
    near = sorted(found, key=lambda one: (math.dist((one.x, one.y), (x, y)), one.id))
    assert rows_of(session, text) == [(one.id,) for one in near[:9]]
    text = f"SELECT SUM(n) FROM posts NEAREST 9 TO ({x}, {y}) WHERE {where};"
    assert rows_of(session, text) == [(total(one.n for one in near[:9]),)]
    text = f"SELECT p.id, m.mood FROM posts p, moods m WHERE p.word = m.word AND ({where});"
    moods = {"rain": "sad", "sun": "glad"}
    if session.connection.db.query("SELECT 1 FROM meta WHERE key = 'slots'"):  # the slots' state is in files
        joined = [(one.id, moods[one.word]) for one in found if one.word in moods]
        assert rows_of(session, text) == joined
    text = f"SELECT id FROM posts WHERE loc INSIDE corner AND word CONTAINS 'Rain' AND ({where});"
    inside = [one for one in found if one.word == "rain" and 0 <= one.y <= one.x <= 6]
    assert rows_of(session, text) == [(one.id,) for one in inside]
    if found:
        key = rng.choice(found).id
        text = f"SELECT id FROM posts WHERE id = {key} AND ({where});"
        assert rows_of(session, text) == [(key,)]


@settings(share(5, least=3), phases=[Phase.reuse, Phase.generate])  # an example takes seconds
@given(
    st.integers(0, 1 << 32).map(random.Random),
    st.sampled_from([(60, None), (400, None), (100, 2), (None, 3), (None, 20)]),  # seconds, kB
    st.sampled_from([1, 3]),
    st.sampled_from([40, 300, 400_000]),
    st.booleans(),
)
def test_past_and_present_are_one(
    tmp_path_factory: pytest.TempPathFactory,
    rng: random.Random,
    keep: tuple[int | None, int | None],
    slots: int,
    records: int,
    published: bool,
) -> None:
    folder = tmp_path_factory.mktemp("past")
    events = write_events(folder, rng, rng.randrange(30, 900), seconds=800)
    last, step = events[-1].step, 0
    with local_session(folder / "home", slots, records, {2, 5}, published=published) as session:
        seconds, size = keep
        clause = [f"{seconds} s"] * (seconds is not None) + [f"{size} kB"] * (size is not None)
        run_all(session, CREATE.format(folder=folder, keep=", ".join(clause)))
        while step < last:
            step = min(last, step + rng.randrange(100, 600))
            run_all(session, f"RUN {step - session.connection.progress().step} STEPS;")
            known = [one for one in events if one.step <= step]
            low, high = sorted(BEGIN + rng.randrange(-20, 820) for _ in range(2))
            now = events[0].at + step - 1
            low = min(low, now)
            for where, holds in rng.sample(conditions(low, high, now), 1):
                check(session, known, where, holds, rng)
            since = max(floor_of(known, size), now - (seconds or 10**9) - BEGIN) + BEGIN
            kept = [one.id for one in known if one.at >= since]
            assert rows_of(session, "SELECT id FROM posts;") == [(key,) for key in kept]
            assert isinstance(session.connection, LocalConnection)
            assert session.connection.engine is not None
            session.connection.engine.restart(arena=not published and rng.random() < 0.5)


def texts_of(session: Session, text: str) -> tuple[list[str], dict[str, Any]]:
    """The messages of a statement, and the items of its EXPLAIN."""
    outcomes = list(session.outcomes(text))
    items = [dict(one.rows) for one in outcomes if isinstance(one, Rows) and one.columns[0] == "item"]
    return [one.text for one in outcomes if isinstance(one, Message)], items[0] if items else {}


@pytest.fixture
def ended(tmp_path: Path):
    """A session at its end, with its events and its folder."""
    events = write_events(tmp_path, random.Random(3), 900, 800)
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        run_all(session, CREATE.format(folder=tmp_path, keep="120 s") + "RUN;")
        yield session, events, tmp_path


def test_a_note_and_explain_say_what_is_read(ended: tuple[Session, list[Event], Path]) -> None:
    session, events, folder = ended
    files = sorted((folder / "old").rglob("*.parquet"))
    early = written(BEGIN + 60)
    [note], _ = texts_of(session, f"SELECT COUNT(*) FROM posts WHERE ts < {early};")
    assert note.startswith("the archive of posts was read: ")
    assert f" of {len(files)} files, with " in note
    _, items = texts_of(session, f"EXPLAIN SELECT COUNT(*) FROM posts WHERE ts < {early};")
    assert items["archive"].startswith(note.removeprefix("the archive of posts was read: "))
    assert items["kept"].startswith("not used")
    analysed = list(session.outcomes(f"EXPLAIN ANALYZE SELECT id FROM posts WHERE ts < {early};"))
    found = sum(one.at < BEGIN + 60 for one in events)
    operators = analysed[-1]
    assert isinstance(operators, Rows)
    by_name = {row[0]: row for row in operators.rows}
    assert by_name["answer"][2] == found
    assert by_name["read of the archive, and filter"][2] == found
    assert texts_of(session, "SELECT COUNT(*) FROM posts WHERE n > 0;")[0] == []
    _, items = texts_of(session, "EXPLAIN SELECT COUNT(*) FROM posts WHERE n > 0 OR ts > '2024-01-01';")
    assert items["archive"].startswith("not read: ")


def test_files_that_are_gone_or_damaged_are_told(ended: tuple[Session, list[Event], Path]) -> None:
    session, events, folder = ended
    ask = "SELECT SUM(n) FROM posts WHERE ts > '2024-01-01';"
    whole = rows_of(session, ask)
    path = sorted((folder / "old").rglob("*.parquet"))[1]
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(StqshError, match=rf"{path} of the archive of posts is gone"):
        rows_of(session, ask)
    late = max(event.at for event in events) - 10
    assert rows_of(session, f"SELECT COUNT(*) FROM posts WHERE ts > {written(late)};")[0][0] > 0
    path.write_bytes(content[:-9])
    with pytest.raises(StqshError, match=r"has [\d,]+ bytes instead of [\d,]+"):
        rows_of(session, ask)
    changed = bytearray(content)
    for place in range(4, len(content) // 2, 7):
        changed[place] ^= 0x5A
    path.write_bytes(changed)
    with pytest.raises(StqshError, match=r"of the archive of posts is damaged: "):
        rows_of(session, ask)
    path.write_bytes(content)
    assert rows_of(session, ask) == whole


def test_a_registered_query_says_that_it_sees_what_is_kept(
    ended: tuple[Session, list[Event], Path],
) -> None:
    session, _, _ = ended
    [said], _ = texts_of(session, "REGISTER QUERY since AS SELECT id FROM posts WHERE ts > '2024-06-01';")
    assert said.endswith("a SELECT sees archived ones as well")
    [said], _ = texts_of(session, "REGISTER QUERY late AS SELECT id FROM posts WHERE ts > NOW - 5 s;")
    assert "archived" not in said


def test_a_key_that_comes_again_is_another_event(tmp_path: Path) -> None:
    """A sensor reports once a minute from one place, and its events are kept for half of one."""
    lines = [f"7,1,1,{BEGIN + 60 * i},{i},rain" for i in range(30)]
    (tmp_path / "posts.csv").write_text("\n".join(["id,x,y,ts,n,word", *lines]) + "\n")
    (tmp_path / "moods.csv").write_text("word,mood\nrain,sad\n")
    for slots, records in ((1, 400_000), (3, 4)):
        folder = tmp_path / f"{slots}"
        create = CREATE.format(folder=tmp_path, keep="30 s").replace("/old'", f"/old{slots}'")
        with local_session(folder, slots, records, published=True) as session:
            run_all(session, create + "RUN;")
            past = "WHERE ts > '2024-01-01'"
            assert rows_of(session, f"SELECT n FROM posts {past};") == [(float(i),) for i in range(30)]
            assert rows_of(session, f"SELECT n FROM posts {past} AND id = 7 LIMIT 2;") == [(0.0,), (1.0,)]
            near = rows_of(session, f"SELECT n FROM posts NEAREST 3 TO (0, 0) {past};")
            assert near == [(0.0,), (1.0,), (2.0,)]
            assert rows_of(session, f"SELECT MAX(n) FROM posts NEAREST 3 TO (0, 0) {past};") == [(2.0,)]
            assert rows_of(session, "SELECT COUNT(*) FROM posts WHERE id = 7;") == [(1,)]


def test_archives_from_before_they_were_listed_are_read(ended: tuple[Session, list[Event], Path]) -> None:
    session, _, folder = ended
    control = session.connection.db
    with control.transaction() as connection:
        for table in ("archive_files", "query_streams", "streamed"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 12")
    ControlDb(control.path.parent).close()
    found = control.query("SELECT sum(events), max(is_counted) FROM archive_files")
    assert found == [
        (sum(pq.read_metadata(path).num_rows for path in (folder / "old").rglob("*.parquet")), 0)
    ]
