"""A stream without an end: what it leaves on disk is let go, and the answers stay, also after a kill."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stqsh.client.api import Session, connect
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Answer, SnapshotMark
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.storage.engine_info import read_engine
from stqsh.storage.update_log.files import read_base

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = """
SET updates.keep = '100 kB';
CREATE MOVING STREAM m FROM GENERATOR 'network' (objects => 3000, report_every => 1 s)
  TICK 1 s REPORT EVERY 1 min;
REGISTER QUERY q AS SELECT oid FROM m INSIDE (10.0, 50.0, 10.1, 50.05);
REGISTER QUERY near AS SELECT oid FROM m NEAREST 5 TO (10.07, 50.04);
PLAY m AT MAX;
"""


def execute(session: Session, text: str) -> list[object]:
    return list(session.execute(text))


def wait(session: Session, what: str, is_so: Callable[[], bool]) -> None:
    """Wait for something that the engine does, starting the engine where it is gone."""
    until = time.monotonic() + 250
    while not is_so():
        assert time.monotonic() < until, what
        session.start_engine()
        time.sleep(0.1)


def wait_until_more_is_gone(session: Session) -> None:
    folded, gone = read_base(session.connection.db).batch, gone_segments(session)
    wait(session, "the log is folded", lambda: read_base(session.connection.db).batch > folded)
    wait(session, "segments go", lambda: gone_segments(session) > gone)


def gone_segments(session: Session) -> int:
    (stream,) = session.streams()
    manifest = read_manifest(session.home.stream(stream.id))
    return 0 if manifest is None else manifest.gone_segments


def members(session: Session, query: str) -> list[str]:
    """The answer of a query as TAIL begins with it."""
    (tail,) = execute(session, f"TAIL {query};")
    assert isinstance(tail, Subscription)
    keys: list[str] = []
    for item in tail:
        if isinstance(item, SnapshotMark) and item.edge == "end":
            break
        if not isinstance(item, SnapshotMark):
            keys += item.table.column("key").to_pylist()
    return sorted(keys)


def selected(session: Session, select: str) -> list[str]:
    (found,) = execute(session, select)
    assert isinstance(found, Answer)
    return sorted(found.table.column(0).to_pylist())


def test_log_and_store_stay_small_and_the_answer_is_right_after_a_kill(tmp_path: Path) -> None:
    with connect(home=tmp_path, temporary=True, autoplay=False) as session:
        execute(session, SCRIPT)
        wait_until_more_is_gone(session)
        engine = read_engine(session.home)
        assert engine is not None
        os.kill(engine.pid, signal.SIGKILL)
        wait_until_more_is_gone(session)
        execute(session, "PAUSE m;")
        execute(session, "RUN 1 STEP;")
        inside = selected(session, "SELECT oid FROM m INSIDE (10.0, 50.0, 10.1, 50.05);")
        assert inside and members(session, "q") == inside
        assert members(session, "near") == selected(session, "SELECT oid FROM m NEAREST 5 TO (10.07, 50.04);")
