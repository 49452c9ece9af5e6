"""The records of a dropped stream are removed once neither a batch nor a slot can need them again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.local import LocalConnection, local_session

from stqsh.checksums import DamagedFileError
from stqsh.client.api import Session
from stqsh.client.run import RunHandle
from stqsh.engine.config import TUNING
from stqsh.engine.ingest import stream_preparer
from stqsh.engine.ingest.stream_preparer import DroppedStores, SessionFiles
from stqsh.engine.state.file_store import first_logged_rows
from stqsh.storage.catalogue import live_streams

AT_ONCE = replace(TUNING, dropped_look_s=0.0)
CREATE = """
CREATE MOVING STREAM {name} (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM FILE '{folder}/{name}.csv' TICK 1 s PLANAR;
REGISTER QUERY of_{name} AS SELECT oid FROM {name} INSIDE (0, 0, 5, 5);
"""


def run(session: Session, text: str) -> None:
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()


@pytest.fixture
def script(tmp_path: Path) -> str:
    for name in ("stays", "goes"):
        rows = [f"{name},{second % 9},1,{1_600_000_000 + second}" for second in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["oid,x,y,ts", *rows]))
    return "".join(CREATE.format(name=name, folder=tmp_path) for name in ("stays", "goes"))


def stores(session: Session) -> set[int]:
    return {int(path.name) for path in (session.home.path / "streams").iterdir()}


def test_a_store_goes_two_batches_after_the_drop_unless_a_log_names_it(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_preparer, "first_logged_rows", lambda state: named)
    with local_session(tmp_path / "home", published=True) as session:
        run(session, script + "RUN 5 STEPS;")
        ids = {stream.name: stream.id for stream in live_streams(session.connection.db)}
        named = {ids["goes"]: 3}
        kept = DroppedStores(SessionFiles.of(session.home, session.connection.db, AT_ONCE))
        run(session, "DROP QUERY of_goes; DROP STREAM goes;")
        kept.find()
        for _ in range(3):
            run(session, "RUN 2 STEPS;")
            kept.remove()
        assert stores(session) == set(ids.values())
        named = {}
        kept.remove()
        assert stores(session) == {ids["stays"]}
        kept.find()
        run(session, "RUN;")
        kept.remove()
        assert stores(session) == {ids["stays"]}


def test_batches_that_may_be_repeated_keep_the_store(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_preparer, "first_logged_rows", lambda state: {})
    with local_session(tmp_path / "home") as session:
        run(session, script + "RUN 5 STEPS;")
        kept = DroppedStores(SessionFiles.of(session.home, session.connection.db, AT_ONCE))
        kept.remove()
        run(session, "DROP QUERY of_goes; DROP STREAM goes;")
        kept.find()
        kept.remove()  # the drop is not taken in
        run(session, "RUN 1 STEPS;")
        kept.remove()  # it is, by the last batch
        assert len(stores(session)) == 2
        run(session, "RUN 1 STEPS;")
        kept.remove()
        assert len(stores(session)) == 1


@pytest.mark.parametrize("spool_bytes", [1, 1 << 20])
def test_slots_are_built_up_again_after_a_drop_whether_their_logs_name_records_or_hold_them(
    spool_bytes: int, script: str, tmp_path: Path
) -> None:
    with local_session(tmp_path / "home", published=True, spool_bytes=spool_bytes) as session:
        connection = session.connection
        assert isinstance(connection, LocalConnection) and connection.engine is not None
        run(session, script + "RUN 5 STEPS;")
        goes = live_streams(connection.db)[1].id
        run(session, "DROP QUERY of_goes; DROP STREAM goes;")
        kept = DroppedStores(SessionFiles.of(session.home, connection.db, AT_ONCE))
        kept.find()
        for _ in range(4):
            run(session, "RUN 2 STEPS;")
            kept.remove()
        assert goes not in first_logged_rows(session.home.state), "the slots have written snapshots"
        assert len(stores(session)) == 1
        connection.engine.restart(arena=True)
        run(session, "RUN;")
        assert session.progress().step == 40


def test_a_damaged_head_keeps_all(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(state: Path) -> dict[int, int]:
        raise DamagedFileError("head", "is damaged")

    monkeypatch.setattr(stream_preparer, "first_logged_rows", damaged)
    with local_session(tmp_path / "home") as session:
        run(session, script + "RUN 5 STEPS; DROP QUERY of_goes; DROP STREAM goes;")
        kept = DroppedStores(SessionFiles.of(session.home, session.connection.db, AT_ONCE))
        kept.find()
        for _ in range(3):
            run(session, "RUN 2 STEPS;")
            kept.remove()
        assert len(stores(session)) == 2
