"""Streams whose routing changes: posts and taxis, their queries, and what is done to them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message, Rows, WaitNotice
from stqsh.client.run import RunHandle
from stqsh.storage.update_log.reader import UpdateLog
from support.local import SPOOL_BYTES, LocalConnection, local_session

STEPS = 120


class Routed(NamedTuple):
    """A stream whose routing changes.

    Attributes:
        create: creates it from a file of a folder.
        queries: registers its queries.
        changes: the statements that change its routing, and what else happens then, after each 20 steps.
        others: what else happens, for a run under one routing.
    """

    create: str
    queries: str
    changes: list[str]
    others: list[str]


POSTS = Routed(
    create="""
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts TEXT body
  FROM FILE '{folder}/posts.csv' TICK 1 s KEEP 20 s PLANAR;
""",
    queries="""
REGISTER QUERY corner AS SELECT id FROM posts INSIDE (0, 0, 3, 3);
REGISTER QUERY middle AS SELECT id, body FROM posts INSIDE (4, 4, 6, 6) WHERE body CONTAINS 'jam';
REGISTER QUERY busy AS SELECT COUNT(*), TOPK(body, 2) FROM posts INSIDE (2, 2, 9, 9);
REGISTER QUERY each AS SELECT COUNT(*) FROM posts INSIDE (5, 0, 9, 4) SYNC 7 s;
REGISTER QUERY brief FOR 35 s AS SELECT id FROM posts INSIDE (1, 1, 8, 8);
REGISTER QUERY fresh SINCE NOW AS SELECT id FROM posts INSIDE (6, 6, 9, 9);
REGISTER QUERY near AS SELECT id FROM posts NEAREST 3 TO (5, 5);
""",
    changes=[
        "REPARTITION posts USING agrid INTO 3 SLOTS;",
        "SET index.tree_queries = 2; SET index.queries = chtree; PAUSE QUERY corner;"
        "REPARTITION posts USING quadtree INTO 7 SLOTS; REBALANCE posts;",
        "REPARTITION posts USING object INTO 1 SLOTS; SET index.queries = auto; RESUME QUERY corner;",
        "REPARTITION posts USING qttree INTO 17 SLOTS; DROP QUERY middle;",
        "REPARTITION posts USING grid INTO 1 SLOTS; REPARTITION posts USING grid INTO 2 SLOTS;",
    ],
    others=["", "PAUSE QUERY corner;", "RESUME QUERY corner;", "DROP QUERY middle;", ""],
)
_ALIKE = [
    "PAUSE QUERY near_11;",
    "PAUSE QUERY first; RESUME QUERY halted;",
    "RESUME QUERY near_11; RESUME QUERY first;",
    "PAUSE QUERY near_11; PAUSE QUERY lasting;",
    "RESUME QUERY lasting; PAUSE QUERY halted; RESUME QUERY halted;",
]
"""What else happens to taxis at the same times under all routings."""
TAXIS = Routed(
    create="""
CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, free BOOLEAN)
  KEY oid LOCATION (x, y) TIME ts FROM FILE '{folder}/taxis.csv' TICK 1 s REPORT EVERY 8 s PLANAR;
""",
    queries="""
REGISTER QUERY corner AS SELECT oid, x FROM taxis INSIDE (0, 0, 4, 4) WHERE free;
REGISTER QUERY around AS SELECT oid, DISTANCE FROM taxis INSIDE CIRCLE(5, 5, 2);
REGISTER QUERY moved WITH (changes => true) AS SELECT oid, x, DISTANCE FROM taxis INSIDE CIRCLE(5, 5, 3);
REGISTER QUERY freed WITH (changes => true) AS SELECT free FROM taxis INSIDE RECT(6, 6) AROUND '7';
REGISTER QUERY with_7 AS SELECT oid FROM taxis INSIDE RECT(5, 5) AROUND '7';
REGISTER QUERY near AS SELECT oid, DISTANCE FROM taxis WHERE free NEAREST 3 TO (5, 5);
REGISTER QUERY near_9 AS SELECT oid FROM taxis NEAREST 4 TO '9';
REGISTER QUERY count AS SELECT COUNT(*), MAX(x) FROM taxis INSIDE (2, 2, 9, 9);
REGISTER QUERY each AS SELECT free, COUNT(*) FROM taxis GROUP BY free SYNC 7 s;
REGISTER QUERY brief FOR 35 s AS SELECT oid FROM taxis INSIDE (1, 1, 8, 8);
REGISTER QUERY lasting WITH (dwell => 2 s) AS SELECT oid, x FROM taxis INSIDE (2, 2, 8, 8);
REGISTER QUERY halted AS SELECT oid, y FROM taxis INSIDE CIRCLE(4, 4, 4);
REGISTER QUERY near_11 AS SELECT oid, DISTANCE FROM taxis NEAREST 3 TO '11';
REGISTER QUERY first AS SELECT oid, x FROM taxis INSIDE (0, 0, 7, 7) ORDER BY x LIMIT 3;
REGISTER QUERY late AS SELECT oid FROM taxis WHERE ts > NOW - 3 s;
""",
    changes=[
        one + also
        for one, also in zip(
            [
                "PAUSE QUERY halted; REPARTITION taxis USING agrid INTO 3 SLOTS;",
                "PAUSE QUERY count; REPARTITION taxis USING quadtree INTO 7 SLOTS; REBALANCE taxis;",
                "REPARTITION taxis USING object INTO 1 SLOTS; RESUME QUERY count;",
                "REPARTITION taxis USING qttree INTO 17 SLOTS; DROP QUERY around;",
                "REPARTITION taxis USING grid INTO 1 SLOTS; REPARTITION taxis USING grid INTO 2 SLOTS;",
            ],
            _ALIKE,
            strict=True,
        )
    ],
    others=[
        one + also
        for one, also in zip(
            ["PAUSE QUERY halted;", "PAUSE QUERY count;", "RESUME QUERY count;", "DROP QUERY around;", ""],
            _ALIKE,
            strict=True,
        )
    ],
)
SNAPSHOTS = [
    "SELECT * FROM taxis WHERE oid = '7';",
    "SELECT oid, x, y, free FROM taxis INSIDE (0, 0, 6, 6);",
    "SELECT oid, DISTANCE FROM taxis NEAREST 5 TO (5, 5);",
    "SELECT oid FROM taxis INSIDE RECT(20, 20) AROUND '9';",
    "SELECT COUNT(*), AVG(x) FROM taxis;",
]
"""Questions about the taxis."""


class Dealt(NamedTuple):
    """How a stream is run.

    Attributes:
        slots: how many slots there are at first.
        restarts: whether the engine restarts now and then.
        on_cluster: whether operators are those of a cluster.
        spool_bytes: payloads of this size are named in the slots' logs, and made again from the replay store.
    """

    slots: int
    restarts: bool = False
    spool_bytes: int = SPOOL_BYTES
    on_cluster: bool = False

    def restart(self, session: Session, *, arena: bool) -> None:
        """Restart the engine, if it is to; with `arena` its shared memory is lost."""
        if self.restarts:
            assert isinstance(session.connection, LocalConnection) and session.connection.engine is not None
            session.connection.engine.restart(arena=arena)


_WAYS = {
    "one slot": Dealt(1),
    "killed": Dealt(2, restarts=True),
    "spooled": Dealt(5, restarts=True, spool_bytes=1),
    "cluster": Dealt(3, restarts=True, spool_bytes=1, on_cluster=True),
}
dealt_in_all_ways = pytest.mark.parametrize("dealt", _WAYS.values(), ids=_WAYS)
dealt_in_two_ways = pytest.mark.parametrize(
    "dealt", [_WAYS[name] for name in ("spooled", "cluster")], ids=["spooled", "cluster"]
)
"""For variants of what another test deals in all ways: slots that restart and name all payloads.

What a variant adds is not in the code that numbers of slots, or payloads that are not named, go through.
"""


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


def write_taxis(folder: Path) -> None:
    """Write 60 taxis that drive for two minutes, report now and then, and sometimes go off."""
    chance, lines = random.Random(11), ["oid,x,y,ts,free"]
    places = [[chance.uniform(0, 10), chance.uniform(0, 10)] for _ in range(60)]
    for second in range(STEPS):
        for number, place in enumerate(places):
            place[0], place[1] = (min(10.0, max(0.0, at + chance.gauss(0, 0.6))) for at in place)
            if chance.random() < 0.3:
                x, y = ("", "") if chance.random() < 0.03 else (f"{place[0]:.3f}", f"{place[1]:.3f}")
                ts = 1_718_409_300 + second
                lines.append(f"{number},{x},{y},{ts},{chance.choice(['true', 'false'])}")
    (folder / "taxis.csv").write_text("\n".join(lines) + "\n")


def run(session: Session, text: str) -> list[str]:
    """Run statements; return what they say."""
    said = []
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()
        elif isinstance(outcome, Message) and not isinstance(outcome, WaitNotice):
            said.append(outcome.text)
    return said


def rows(session: Session, text: str) -> list[dict[str, object]]:
    """Return the rows of a SELECT's answer."""
    (answer,) = [outcome for outcome in session.outcomes(text) if isinstance(outcome, Answer)]
    found: list[dict[str, object]] = answer.table.to_pylist()
    return found


def updates(session: Session) -> list[dict[str, object]]:
    """Return all updates in one order, with the names of their queries."""
    connection = session.connection
    log = UpdateLog(connection.db, connection.book.key_of)
    names = connection.book
    names.refresh()
    found = [
        row
        for tables in log.read(-1, connection.progress().batch)
        for one in tables
        for row in one.table.to_pylist()
    ]
    for row in found:
        row["query"] = names.names[row["query"]]
    return sorted(found, key=lambda row: (row["step"], row["query"], row["op"], str(row["key"])))


def routing(session: Session) -> dict[str, object]:
    """Return the row of the first stream of SHOW ROUTING."""
    (rows, *_) = [outcome for outcome in session.outcomes("SHOW ROUTING;") if isinstance(outcome, Rows)]
    return dict(zip(rows.columns, rows.rows[0], strict=True))


def drive(
    folder: Path, name: str, dealt: Dealt, script: str, statements: list[str], storage: str = ""
) -> list[dict[str, object]]:
    """Run a script and a statement after every 20 steps; return the updates."""
    with local_session(
        folder / name,
        dealt.slots,
        100,
        mishaps={3, 7},
        published=True,
        spool_bytes=dealt.spool_bytes,
        on_cluster=dealt.on_cluster,
        storage=storage,
    ) as session:
        run(session, script.format(folder=folder))
        for number, text in enumerate(statements):
            run(session, f"RUN 20 STEPS; {text}")
            dealt.restart(session, arena=number % 2 == 0)
        run(session, "RUN;")
        return updates(session)
