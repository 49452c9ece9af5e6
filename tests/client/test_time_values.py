"""Times plus durations, and the seconds between two times, in every place where a value may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session
from support.running import run_script

from stqsh.client.api import Session
from stqsh.client.results import Answer

RIDES = """id,lon,lat,started,ended,kind
1,10,50,2025-01-01T00:00:00Z,2025-01-01T00:00:02.5Z,a
2,10,50,2025-01-01T00:00:04Z,2025-01-01T00:00:03Z,b
3,10,50,,2025-01-01T00:00:04Z,a
4,10,50,2025-01-01T00:00:05Z,2025-01-01T00:01:05Z,a
"""
DEFINITIONS = """
CREATE EVENT STREAM rides (id BIGINT, lon DOUBLE, lat DOUBLE, started TIMESTAMP, ended TIMESTAMP, kind STRING,
    took DOUBLE AS ended - started)
  KEY id LOCATION (lon, lat) TIME ended FROM FILE 'rides.csv' TICK 1 s;
"""
REGISTERED = """
REGISTER QUERY long AS SELECT id, ended - started AS s FROM rides WHERE ended - started > 2 s;
REGISTER QUERY kinds AS
  SELECT kind, SUM(ended - started) AS s, MAX(started + 1 min) AS t FROM rides GROUP BY kind;
REGISTER QUERY old AS SELECT id, NOW - ended AS s FROM rides WHERE NOW - ended >= 10;
REGISTER QUERY silent AS SELECT kind, MAX(ended) AS t FROM rides GROUP BY kind HAVING NOW - MAX(ended) > 30 s;
REGISTER QUERY slow AS SELECT id FROM rides ORDER BY ended - started DESC LIMIT 1;
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "rides.csv").write_text(RIDES)
    with local_session(tmp_path / "homes", slots=2) as session:
        session.execute(DEFINITIONS + REGISTERED, file=str(tmp_path / "script.stq"))
        yield session


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    *_, answer = session.execute(text)
    assert isinstance(answer, Answer)
    found: list[dict[str, Any]] = answer.table.to_pylist()
    return found


def second(number: float) -> datetime:
    return datetime.fromtimestamp(1_735_689_600 + number, UTC)


def test_snapshots_compute_with_times(session: Session) -> None:
    session.execute("RUN;")
    assert rows(session, "SELECT id, ended - started AS s, took FROM rides ORDER BY id") == [
        {"id": id, "s": s, "took": s} for id, s in [(1, 2.5), (2, -1.0), (3, None), (4, 60.0)]
    ]
    assert rows(session, "SELECT started + 30 s AS t, ended - '2025-01-01' AS s FROM rides WHERE id = 4") == [
        {"t": second(35), "s": 65.0}
    ]
    assert rows(session, "SELECT NOW AS n, AVG(NOW - ended) AS s FROM rides GROUP BY n") == [
        {"n": second(65), "s": (62.5 + 62 + 61) / 4}
    ]
    assert rows(session, "SELECT id FROM rides WHERE (NOW - ended) / 1 min > 1 AND NOW > '2025-01-01'") == [
        {"id": 1},
        {"id": 2},
        {"id": 3},
    ]


def test_answers_follow_differences_of_times(session: Session) -> None:
    session.execute("RUN;")
    for name, expected in {
        "long": [{"id": 1, "s": 2.5}, {"id": 4, "s": 60.0}],
        "kinds": [{"kind": "a", "s": 62.5, "t": second(65)}, {"kind": "b", "s": -1.0, "t": second(64)}],
        "silent": [{"kind": "b", "t": second(3)}],
        "slow": [{"id": 4}],
    }.items():
        assert rows(session, f"SELECT * FROM {name}") == expected, name
    assert [row["s"] for row in rows(session, "SELECT id, s FROM old ORDER BY id")] == [62.5, 62.0, 61.0]


def test_a_row_has_the_age_of_the_step_in_which_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "rides.csv").write_text(RIDES)
    with local_session(tmp_path / "homes", slots=2) as session:
        output = run_script(
            session, (DEFINITIONS + REGISTERED + "RUN;").replace("rides.csv", f"{tmp_path}/rides.csv")
        )
    sent = [json.loads(line) for line in output.splitlines()]
    assert [one["row"]["s"] for one in sent if one.get("query") == "old"] == [10.5, 10.0, 10.0]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT id FROM rides WHERE (NOW - ended) * 2 > 5 AND SECOND(NOW) % 3 = 0",
        "SELECT id FROM rides ORDER BY NOW - ended DESC LIMIT 1",
        "SELECT kind, AVG(NOW - ended) AS s FROM rides GROUP BY kind",
        "SELECT kind, NOW - MAX(ended) AS s FROM rides GROUP BY kind",
        "SELECT id FROM rides WHERE NOW - ended > id NEAREST 2 TO (10, 50)",
        "SELECT SECOND(NOW) % 7 AS s, COUNT(*) AS n FROM rides NEAREST 2 TO (10, 50) GROUP BY s",
    ],
)
def test_a_query_that_time_alone_changes_answers_as_its_snapshot(session: Session, select: str) -> None:
    session.execute(f"REGISTER QUERY q AS {select};")
    for _ in range(3):  # most steps of the last run bring no record
        session.execute("RUN FOR 4 s;")
        shown = [tuple(row.values()) for row in rows(session, "SELECT * FROM q;")]
        assert sorted(shown) == sorted(tuple(row.values()) for row in rows(session, f"{select};"))
