"""Derived attributes, such as the region of a place, through a session's statements."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.local import local_session
from support.running import run_script

from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import SnapshotMark
from stqsh.errors import StqshError

SCRIPT = Path(__file__).parents[1] / "scripts" / "regions.stq"
NUMBER = "REGISTER QUERY number AS SELECT COUNT(*) AS n FROM things;"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path, slots=2) as session:
        run_script(session, SCRIPT.read_text(encoding="utf-8") + NUMBER, SCRIPT)
        yield session


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("REGION(zones) = 'west'", [1, 4, 2, 1]),
        ("zone = 'west' AND cornered", [1]),
        ("loc INSIDE zones['east']", [3]),
        ("loc INSIDE CIRCLE(2, 1, 0.1)", [1]),
        ("REGION(zones) IS NULL", [1, 3, 4]),
    ],
)
def test_a_tail_asks_for_the_region_of_what_it_shows(
    session: Session, condition: str, keys: list[int]
) -> None:
    [tail] = session.execute(f"TAIL found FROM START WHERE {condition};")
    assert isinstance(tail, Subscription)
    tail.until_idle = True
    shown = [one.table.column("key").to_pylist() for one in tail if not isinstance(one, SnapshotMark)]
    assert [key for some in shown for key in some] == keys


@pytest.mark.parametrize("condition", ["REGION(zones) = 'west'", "loc INSIDE corner"])
def test_rows_of_an_aggregate_have_no_region(session: Session, condition: str) -> None:
    with pytest.raises(StqshError, match="the rows of an aggregate have no location"):
        list(session.execute(f"TAIL number WHERE {condition};"))


def test_regions_that_a_select_list_shows_are_in_use(session: Session) -> None:
    text = "REGISTER QUERY shown AS SELECT id, REGION(zones) AS zone FROM things;"
    drops = "DROP QUERY found; DROP QUERY east; DROP QUERY west;"
    list(session.execute(text + drops))
    with pytest.raises(StqshError, match="zones has 1 query: shown"):
        list(session.execute("DROP REGIONS zones;"))
    list(session.execute("DROP QUERY shown; DROP REGIONS zones;"))


CREATE = """
CREATE REGIONS zones FROM FILE '{data}/zones.geojson' NAME zone;
CREATE TABLE drivers (id BIGINT, name STRING, stars BIGINT) FROM FILE '{data}/drivers.csv' KEY id;
CREATE MOVING STREAM cars (id BIGINT, x DOUBLE, y DOUBLE, t TIMESTAMP, word STRING)
  KEY id LOCATION (x, y) TIME t FROM FILE '{folder}/cars.csv' PLANAR REPORT EVERY 3 s;
"""
STEPS = 8
SELECTS = [
    "REGION(zones) AS zone, COUNT(*) AS n FROM cars NEAREST 5 TO (3, 2) GROUP BY zone",
    "COUNT(DISTINCT REGION(zones)) AS zones, MAX(REGION(zones)) AS last FROM cars NEAREST 4 TO 3",
    "D.name, COUNT(*) AS n, SUM(D.stars) AS stars FROM cars C, drivers D WHERE C.id = D.id "
    "NEAREST 3 TO (1, 1) GROUP BY D.name",
    "loc INSIDE zones['east'] AS east, COUNT(*) AS n, MIN(word) AS word FROM cars NEAREST 6 TO (4, 1) "
    "GROUP BY east",
    "COUNT(*) AS n, AVG(DISTANCE) AS mean, MAX(DISTANCE) AS most FROM cars NEAREST 4 TO (2, 2)",
    "SUM(DISTANCE) AS total, MIN(DISTANCE / 2) AS half FROM cars NEAREST 3 TO 5",
    "AVG(DISTANCE) AS mean, COUNT(DISTINCT DISTANCE) AS n FROM cars INSIDE CIRCLE(3, 2, 2)",
    "AVG(DISTANCE) AS mean, COUNT(DISTINCT DISTANCE) AS n FROM cars INSIDE CIRCLE(4, 1, 3)",
    "DISTANCE > 1 AS far, COUNT(*) AS n, SUM(LENGTH(word)) AS letters FROM cars INSIDE CIRCLE(2, 2, 3) "
    "GROUP BY far",
    "HOUR(t) AS hour, REGION(zones) AS zone, MAX(DISTANCE) AS most FROM cars WHERE REGION(zones) IS NOT NULL "
    "INSIDE CIRCLE(3, 2, 4) GROUP BY hour, zone HAVING COUNT(*) > 1",
]


def write_cars(folder: Path, begin: int = 100) -> None:
    chance = random.Random(3)
    lines = [
        f"{car},{chance.randint(0, 24) / 4},{chance.randint(0, 16) / 4},{begin + second},{'ab' * (car % 4)}"
        for second in range(STEPS)
        for car in range(12)
        if chance.random() < 0.6
    ]
    lines += [f"{car},,,{begin + STEPS - 1},a" for car in (12, 13)]
    (folder / "cars.csv").write_text("\n".join(["id,x,y,t,word", *lines]) + "\n")


@cache
def printed(slots: int, records: int, mishaps: tuple[int, ...]) -> bytes:
    """Register all queries, and print what they send, and after each step what their SELECTs answer."""
    with TemporaryDirectory() as name, local_session(Path(name), slots, records, mishaps) as session:
        return run_script(session, script(Path(name)), SCRIPT)


def script(folder: Path, begin: int = 100) -> str:
    """A script over cars that report from a second on."""
    write_cars(folder, begin)
    asked = "".join(f"SELECT {select};\n" for select in SELECTS)
    queries = "".join(f"REGISTER QUERY q{i} AS SELECT {select};\n" for i, select in enumerate(SELECTS))
    text = CREATE.format(data=SCRIPT.parent / "data", folder=folder) + queries
    return text + f"RUN 1 STEPS;\n{asked}" * STEPS


@pytest.mark.parametrize("number", range(len(SELECTS)))
def test_folded_updates_are_what_a_snapshot_answers(number: int) -> None:
    held: dict[str, object] = {}
    rows: list[object] = []
    first, many = 3 + len(SELECTS) + 1, len(SELECTS) + 1
    compared, turn = 0, None
    lines = [json.loads(line) for line in printed(2, 400_000, ()).splitlines()]
    for line in [*lines, {"statement": None}]:
        at = line.get("statement")
        if turn is not None and at != turn:
            assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, held.values()))
            compared, rows, turn = compared + 1, [], None
        if line.get("query") == f"q{number}":
            key = json.dumps(line["key"])
            if line["op"] == "+":
                assert key not in held
                held[key] = line["row"]
            else:
                assert held.pop(key) == line["row"]
        elif at is not None and (at - first) % many == number + 1:
            rows, turn = [*rows, line["row"]], at
    assert compared == STEPS


@pytest.mark.slow
@pytest.mark.parametrize(("slots", "records", "mishaps"), [(1, 400_000, ()), (3, 1, ()), (7, 20, (1, 2, 4))])
def test_neither_slots_nor_cuts_nor_mishaps_change_a_byte(
    slots: int, records: int, mishaps: tuple[int, ...]
) -> None:
    assert printed(slots, records, mishaps) == printed(2, 400_000, ())
