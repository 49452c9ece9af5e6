"""Sessions whose engine runs in this process and keeps its slots in files, stopped and opened again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from stqsh.client.api import Session
from stqsh.client.run import RunHandle
from stqsh.engine.launch.audit import audit_home
from stqsh.engine.launch.main import engine_settings
from stqsh.engine.launch.slot_rebuild import mend_slots
from stqsh.engine.spark.spark_internals import last_commit, read_offset
from stqsh.profile import load_profile
from stqsh.spec.offset import Offset
from stqsh.storage.blobs import home_blobs
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import Progress
from support.local import LocalConnection, LocalEngine
from support.running import Together, log_so_far

MAX_RECORDS = 60
"""Records of a batch at most, so that there are many batches."""


@dataclass
class BoundedConnection(LocalConnection):
    """A connection that does not wait for ever, because an idle engine in this process stays idle."""

    _idle: int = 0
    _last: int = -1

    def progress(self) -> Progress:
        progress = super().progress()
        self._idle = self._idle + 1 if progress.batch == self._last else 0
        self._last = progress.batch
        if self._idle > 50:
            raise TimeoutError("the session waits for ever")
        return progress


@contextmanager
def opened(home: SessionHome) -> Iterator[Session]:
    """Open a session where its files say that it is, with an engine in this process."""
    connection = BoundedConnection(home, ControlDb(home.path, create=True))
    engine = None
    try:
        settings = replace(engine_settings(home, connection.db), max_records=MAX_RECORDS)
        audit_home(home, connection.db, settings)
        mend_slots(home, connection.db, settings, lambda _: None, content=True)
        connection.engine = engine = LocalEngine(settings)
        done = last_commit(home_blobs(home.checkpoint))
        if done >= 0:
            engine.offset = Offset.from_json(orjson.loads(read_offset(home_blobs(home.checkpoint), done)))
            engine.number = done + 1
        with Session(home, load_profile(None, {}), autoplay=False, connection=connection) as session:
            yield session
    finally:
        if engine is not None:
            engine.leave()


def run(session: Session, text: str, file: Path | None = None) -> RunHandle:
    """Execute statements, and return the run that the last one starts."""
    *_, last = session.execute(text, file=str(file) if file else None)
    assert isinstance(last, RunHandle)
    return last


def run_half(home: SessionHome, script: Together, steps: int) -> None:
    """Run the first steps of a script in a new session."""
    file = script.write(home.path.parent)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with opened(home) as session:
        half = run(session, f"{text}RUN FOR {steps} s;", file)
        assert log_so_far(session, half)


def run_rest(home: SessionHome) -> bytes:
    """Run a stopped session to its end, and return all its updates from the start."""
    with opened(home) as session:
        return log_so_far(session, run(session, "RUN;"))
