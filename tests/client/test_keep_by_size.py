"""KEEP with a size, as a user sees it: the oldest go, whatever the slots and the batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from support.local import LocalConnection, local_session
from support.oracle.fold import Room

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message, Rows, Script
from stqsh.client.run import RunHandle
from stqsh.units import format_instant, format_size

BEGIN = 1_750_000_000
CREATE = """
CREATE EVENT STREAM posts (id STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts FROM FILE '{folder}/posts.csv' PLANAR TICK 1 s ORDER BY ARRIVAL KEEP {keep};
REGISTER QUERY here AS SELECT id FROM posts INSIDE (0, 0, 5, 5);
REGISTER QUERY counted AS SELECT COUNT(*) AS n, MIN(ts) AS first FROM posts SYNC 7 s;
REGISTER QUERY window AS SELECT COUNT(*) AS n FROM posts WINDOW 60 s SLIDE 10 s;
REGISTER QUERY newest AS SELECT id FROM posts ORDER BY ts LIMIT 3;
"""
LIMIT = 2 << 10


def written(folder: Path) -> tuple[list[tuple[int, str, int]], Room]:
    """Write events, some late and some with keys that come again.

    Returns those that count, as (step, key, second), and what is kept of them in the end.
    """
    rng = random.Random(5)
    lines, found, room = ["id,x,y,ts,body"], list[tuple[int, str, int]](), Room(LIMIT)
    latest, now, kept = 0, 1, dict[str, int]()
    for second in sorted(rng.randrange(300) for _ in range(400)):
        at, key = max(0, second - rng.choice([0, 0, 0, 20, 90])), f"{rng.randrange(80)}"
        body = "é" * rng.randrange(40)
        lines.append(f"{key},{rng.randrange(10)},{rng.randrange(10)},{BEGIN + at},{body}")
        latest = max(latest, at) if found else at
        step = latest - found[0][2] + 1 if found else 1
        if step > now:
            room.let_go(BEGIN + (found[0][2] if found else at) + now - 1)
            now = step
        if key in kept and (room.floor is None or kept[key] >= room.floor):
            continue
        kept[key] = BEGIN + at
        room.take(BEGIN + at, 24 + len(key) + len(body.encode()))
        found.append((step, key, at))
    (folder / "posts.csv").write_text("\n".join(lines) + "\n")
    room.let_go(BEGIN + found[0][2] + now - 1)
    return found, room


def run_all(session: Session, text: str) -> list[Any]:
    outcomes = []
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()
        outcomes.append(outcome)
    return outcomes


def items(session: Session, text: str) -> dict[str, Any]:
    """The values of the last table of a statement that has items."""
    tables = [one for one in run_all(session, text) if isinstance(one, Rows) and one.columns[0] == "item"]
    return dict(tables[-1].rows)


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    [answer] = [one for one in run_all(session, text) if isinstance(one, Answer)]
    return [tuple(row.values()) for row in answer.table.to_pylist()]


def test_what_is_kept_is_the_same_for_all_slots_and_batches_and_shown(tmp_path: Path) -> None:
    (events, room), seen = written(tmp_path), []
    for slots, records, again in ((1, 400_000, False), (3, 40, True), (2, 7, True)):
        home = tmp_path / f"{slots}"
        with local_session(home, slots, records, published=True) as session:
            messages = run_all(session, CREATE.format(folder=tmp_path, keep="2 kB"))
            texts = [one.text for one in messages if isinstance(one, Message)]
            assert "posts keeps 2 kB: if the window of 1 min has more, what is kept decides" in texts[3]
            for _ in range(4):
                run_all(session, "RUN 40 STEPS;")
                if again:
                    assert isinstance(session.connection, LocalConnection)
                    assert session.connection.engine is not None
                    session.connection.engine.restart(arena=False)
            run_all(session, "RUN;")
            assert room.floor is not None
            kept = sorted(key for _, key, at in events if BEGIN + at >= room.floor)
            assert rows(session, "SELECT id FROM posts;") == [(key,) for key in kept]
            size = sum(size for _, size in room.events)
            assert LIMIT // 2 < size <= LIMIT
            told = items(session, "DESCRIBE posts;")
            assert told["keep"] == "2 kB"
            since = format_instant(room.floor * 1_000_000)
            assert told["kept"] == f"{format_size(size)} of 2 kB kept, since {since}"
            [streams] = [one for one in run_all(session, "SHOW STREAMS;") if isinstance(one, Rows)]
            assert told["kept"] in streams.rows[0][-1]
            [script] = [one for one in run_all(session, "DUMP;") if isinstance(one, Script)]
            assert "KEEP 2 kB;" in script.text
            queries = ("here", "counted", "window", "newest")
            seen.append([rows(session, f"SELECT * FROM {name};") for name in queries])
    assert seen[0] == seen[1] == seen[2]
