"""Files of a session: only its user can read them, whatever the umask of the client is."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.killing import processes_of

from stqsh.client.api import Session, connect
from stqsh.client.run import RunHandle
from stqsh.engine.config import EngineSettings
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import has_process, read_engine
from stqsh.storage.home import open_home

SCRIPT = """
CREATE MOVING STREAM m FROM GENERATOR 'network' (objects => 300, report_every => 1 s)
  TICK 1 s REPORT EVERY 1 min;
REGISTER QUERY q AS SELECT oid FROM m INSIDE (10.0, 50.0, 10.1, 50.05);
RUN 20 STEPS;
"""


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    paths = [folder, *folder.rglob("*")]
    return [str(path.relative_to(folder)) for path in paths if path.lstat().st_mode & 0o077]


@pytest.mark.usefixtures("open_umask")
def test_what_a_client_writes_is_private(tmp_path: Path) -> None:
    with connect(home=tmp_path, autoplay=False) as session:
        session.connection.start = lambda home: pytest.fail("no engine is needed")
        list(session.execute("SET updates.keep = '1 MB';"))
        home = session.home
        assert (home.path / "control.db-wal").exists()
        assert readable_by_others(home.path) == []
    assert open_home(root=tmp_path).path == home.path
    ControlDb(home.path, create=True).close()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("open_umask")
def test_a_session_is_private_and_goes_on_after_its_java_process_was_killed(tmp_path: Path) -> None:
    with connect(home=tmp_path, temporary=True, autoplay=False) as session:
        for _ in session.outcomes(SCRIPT):
            pass
        scratch = EngineSettings(session.home.path).scratch
        assert scratch.is_dir()
        assert readable_by_others(session.home.path) == []
        # A link's own mode says nothing.
        assert [name for name in readable_by_others(scratch) if not (scratch / name).is_symlink()] == []
        run_over_a_crash(session)


def run_over_a_crash(session: Session) -> None:
    """Kill Java while a client waits for a run: the engine comes back, and the run ends as if nothing was."""
    (java,) = processes_of(session)["jvm"]
    running = next(o for o in session.outcomes("RUN 20 STEPS;") if isinstance(o, RunHandle))
    java.kill()
    running.wait()
    assert session.progress().step == 40
    deadline = time.monotonic() + 60
    while (again := read_engine(session.home)) is None or not (again.restarts and has_process(again)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert again.restarted == "1 time, last: Spark's Java process died"
    (status,) = session.execute("SHOW STATUS;")
    assert ("restarts", again.restarted) in status.rows  # type: ignore[union-attr]
