"""REPARTITION of a moving stream without an end: its dealer finds who crosses, and no update changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.local import local_session
from support.repartition import Dealt, dealt_in_two_ways, routing, rows, run, updates

from stqsh.client.api import Session
from stqsh.sources.replay_store.manifest import read_manifest

pytestmark = pytest.mark.slow

CREATE = """
CREATE MOVING STREAM cars FROM GENERATOR 'network' (objects => 150, report_every => 2 s, seed => 3)
  TICK 1 s REPORT EVERY 6 s;
"""
QUERIES = """
REGISTER QUERY west AS SELECT oid FROM cars INSIDE (10.0, 50.0, 10.05, 50.05);
REGISTER QUERY around WITH (changes => true)
  AS SELECT oid, DISTANCE FROM cars INSIDE CIRCLE(10.06, 50.03, 2 km);
REGISTER QUERY near AS SELECT oid, DISTANCE FROM cars NEAREST 4 TO (10.05, 50.02);
REGISTER QUERY with_14 AS SELECT oid FROM cars NEAREST 3 TO 'car-14';
REGISTER QUERY lasting WITH (dwell => 2 s) AS SELECT oid FROM cars INSIDE (10.03, 50.0, 10.1, 50.04);
REGISTER QUERY halted AS SELECT oid FROM cars INSIDE (10.02, 50.01, 10.07, 50.04);
REGISTER QUERY count AS SELECT COUNT(*), MAX(lon) FROM cars INSIDE (10.02, 50.01, 10.08, 50.05);
REGISTER QUERY each AS SELECT COUNT(*) FROM cars INSIDE (10.0, 50.0, 10.07, 50.05) SYNC 5 s;
"""
CHANGES = [
    "REPARTITION cars USING grid INTO 5 SLOTS; PAUSE QUERY halted;",
    "REPARTITION cars USING agrid; PAUSE QUERY count;",
    "REPARTITION cars USING object INTO 2 SLOTS; RESUME QUERY halted;",
    "REPARTITION cars USING qttree INTO 7 SLOTS; RESUME QUERY count; DROP QUERY lasting;",
    "REBALANCE cars; REGISTER QUERY later AS SELECT oid FROM cars INSIDE (10.0, 50.0, 10.1, 50.03);",
]
SNAPSHOTS = [
    "SELECT oid, lon, lat FROM cars INSIDE (10.0, 50.0, 10.06, 50.03);",
    "SELECT COUNT(*), AVG(lon) FROM cars;",
    "SELECT oid FROM cars NEAREST 5 TO 'car-10';",
]


def without_routing(text: str) -> str:
    return " ".join(f"{part};" for part in text.split(";") if "QUERY" in part)


def drive(folder: Path, dealt: Dealt, statements: list[str]) -> tuple[list[object], list[object]]:
    """Run batches of several steps, with a statement after each run; return updates and snapshots."""
    asked: list[object] = []
    with local_session(
        folder,
        dealt.slots,
        400,
        mishaps={3, 7},
        published=True,
        spool_bytes=dealt.spool_bytes,
        on_cluster=dealt.on_cluster,
    ) as session:
        run(session, CREATE + QUERIES)
        for number, text in enumerate([*statements, ""]):
            run(session, f"RUN 17 STEPS; {text}")
            asked += [rows(session, text) for text in SNAPSHOTS]
            dealt.restart(session, arena=number % 2 == 0)
        run(session, "RUN 17 STEPS;")
        return [*updates(session)], asked


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], list[object]]:
    """What is told and answered under the routing by object on one slot."""
    statements = [without_routing(text) for text in CHANGES]
    return drive(tmp_path_factory.mktemp("usual") / "home", Dealt(1), statements)


@dealt_in_two_ways
def test_updates_and_snapshots_are_the_same_under_every_routing(
    tmp_path: Path, usual: tuple[list[object], list[object]], dealt: Dealt
) -> None:
    names = {line.split()[2] for line in QUERIES.splitlines() if line.startswith("REG")} | {"later"}
    assert {row["query"] for row in usual[0]} == names  # type: ignore[index]
    assert drive(tmp_path / "changing", dealt, CHANGES) == usual


def test_it_says_what_stands_and_rows_that_were_dealt_go(tmp_path: Path) -> None:
    with local_session(tmp_path / "home", 3, 400, published=True) as session:
        run(session, CREATE + "RUN 9 STEPS;")
        [said, _] = run(session, "REPARTITION cars USING agrid INTO 8 SLOTS;")
        assert said == "cars: agrid over 8 slots, version 2, 8 packages, moving"
        run(session, "RUN 600 STEPS; SET balance = auto; REBALANCE cars; RUN 600 STEPS;")
        shown = routing(session)
        assert (shown["strategy"], shown["slots"]) == ("agrid", 8)
        assert float(str(shown["max/mean"])) < 2
        assert gone_rows(session) > 0


def gone_rows(session: Session) -> int:
    manifest = read_manifest(session.home.stream(session.streams()[0].id))
    return 0 if manifest is None else manifest.gone_rows
