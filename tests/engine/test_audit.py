"""The audit before the engine starts: files that do not belong together are told, in one sentence."""

from __future__ import annotations

import json
import logging
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.update_logs import batch_table, part

from stqsh.engine.config import EngineSettings
from stqsh.engine.launch.audit import AuditError, audit_home, missing_updates
from stqsh.engine.spark.spark_internals import commit_file, last_commit, last_offset, offset_file
from stqsh.spec.log import RunToEnd
from stqsh.spec.offset import Offset
from stqsh.storage.blobs import home_blobs
from stqsh.storage.control_log import ControlDb, append
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import BatchEffects, record_batch
from stqsh.storage.rows import Progress
from stqsh.storage.update_log.writer import write_batch

BATCHES = 12


class Session:
    """A home as twelve batches leave it, of which the first nine had an update."""

    def __init__(self, path: Path) -> None:
        self.home, self.settings = SessionHome(path), EngineSettings(path, slots=2)
        self.control = ControlDb(path, create=True)
        for folder in ("updates", "checkpoint/offsets", "checkpoint/commits", "state"):
            (path / folder).mkdir(parents=True)
        for batch in range(BATCHES):
            self.batch(batch)

    def batch(self, batch: int) -> None:
        step, seq = batch + 1, append(self.control, RunToEnd()).seq
        self.offset(batch, replace(Offset(), seq=seq))
        for slot in range(2):
            (self.home.state / f"evaluate-{slot}").mkdir(exist_ok=True)
            (self.home.state / f"evaluate-{slot}" / "head").write_text("…")
        parts = [part([(step, 7, 1, 0, (f"k{batch}", 0.5))])] if batch < 9 else []
        logged = write_batch(self.home.updates, batch, batch_table(step, step, *parts))
        record_batch(self.control, Progress(batch, step), BatchEffects(logged=logged))
        (self.home.checkpoint / "commits" / str(batch)).write_text("v1\n{}")

    def offset(self, batch: int, offset: Offset) -> None:
        text = f"v1\n{{}}\n{json.dumps(offset.to_json())}"
        (self.home.checkpoint / "offsets" / str(batch)).write_text(text)

    def checksums(self) -> None:
        """Write Hadoop's checksums of all files of the checkpoint."""
        for file in self.home.checkpoint.glob("*/[0-9]*"):
            content = file.read_bytes()
            sums = [
                zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512)
            ]
            file.with_name(f".{file.name}.crc").write_bytes(b"".join([b"crc\0", b"\0\0\2\0", *sums]))

    def audit(self) -> None:
        audit_home(self.home, self.control, self.settings)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def test_a_new_home_and_each_state_that_a_crash_leaves_are_fine(session: Session, tmp_path: Path) -> None:
    session.audit()
    session.offset(BATCHES, replace(Offset(), seq=BATCHES))
    session.audit()  # planned
    record_batch(session.control, Progress(BATCHES, BATCHES + 1))
    session.audit()  # delivered, and not committed
    (tmp_path / "new" / "updates").mkdir(parents=True)
    new = SessionHome(tmp_path / "new")
    audit_home(new, ControlDb(new.path, create=True), session.settings)


def _without_log_rows(session: Session) -> None:
    with session.control.transaction() as connection:
        connection.execute("DELETE FROM log WHERE seq > 10")


def _older_progress(session: Session) -> None:
    with session.control.transaction() as connection:
        connection.execute("UPDATE progress SET batch = 7")


DAMAGES: dict[str, tuple[Callable[[Session], object], str]] = {
    "checkpoint": (
        lambda it: shutil.rmtree(it.home.checkpoint),
        "planned 0 batches and completed 0 batches, but 12 batches are recorded as delivered",
    ),
    "commits": (
        lambda it: shutil.rmtree(it.home.checkpoint / "commits"),
        "planned 12 batches and completed 0 batches",
    ),
    "offsets": (
        lambda it: shutil.rmtree(it.home.checkpoint / "offsets"),
        "planned 0 batches and completed 12 batches",
    ),
    "progress": (_older_progress, "but 8 batches are recorded as delivered"),
    "log": (_without_log_rows, "batch 11 has taken in 12 statements, but the log ends with 10"),
    "head": (
        lambda it: (it.home.state / "evaluate-1" / "head").unlink(),
        "state/evaluate-1/head is gone, which records what slot 1 holds",
    ),
    "state": (lambda it: shutil.rmtree(it.home.state), "state/evaluate-0/head is gone"),
    "an empty offset": (
        lambda it: (it.home.checkpoint / "offsets" / "11").write_text(""),
        "checkpoint/offsets/11 is damaged",
    ),
    "half an offset": (
        lambda it: (it.home.checkpoint / "offsets" / "11").write_text('v1\n{}\n{"seq": 1'),
        "checkpoint/offsets/11 is damaged",
    ),
    "another offset": (
        lambda it: (it.home.checkpoint / "offsets" / "11").write_text('v1\n{}\n{"seq": "x"}'),
        "checkpoint/offsets/11 is damaged",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_does_not_belong_together_is_told(session: Session, name: str) -> None:
    damage, said = DAMAGES[name]
    damage(session)
    with pytest.raises(AuditError) as raised:
        session.audit()
    assert raised.value.message.startswith("the session's files do not belong together: ")
    assert said in raised.value.message and "\n" not in raised.value.message
    assert raised.value.hint is not None and "DUMP" in raised.value.hint


@pytest.mark.parametrize("damage", [b"", b"v1", b"\xa5" * 29])
def test_what_spark_had_not_written_to_the_end_is_done_again(session: Session, damage: bytes) -> None:
    checkpoint, last = session.home.checkpoint, BATCHES - 1
    session.checksums()
    commit = checkpoint / commit_file(last)
    commit.write_bytes(damage)
    session.audit()
    assert not commit.exists() and last_commit(home_blobs(checkpoint)) == last - 1
    commit.write_text("v1\n{}")
    session.offset(BATCHES, Offset())
    session.checksums()
    offset = checkpoint / offset_file(BATCHES)
    offset.write_bytes(damage)
    session.audit()
    assert not offset.exists() and last_offset(home_blobs(checkpoint)) == last
    commit.write_bytes(damage)
    session.offset(BATCHES, Offset())
    with pytest.raises(AuditError, match=f"checkpoint/commits/{last} is damaged"):
        session.audit()  # batch 12 may have begun: batch 11 cannot be done again


def test_lost_updates_are_told_and_the_engine_starts(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    updates = session.home.updates
    assert missing_updates(session.home, session.control) == []
    (updates / "000000000003.arrow").unlink()
    (updates / "000000000005.arrow").unlink()
    with caplog.at_level(logging.ERROR, "stqsh.engine"):
        session.audit()
    assert missing_updates(session.home, session.control) == ["000000000003.arrow", "000000000005.arrow"]
    assert "2 files of the update log are gone" in caplog.text


def test_it_takes_milliseconds_for_thousands_of_batches(session: Session) -> None:
    for batch in range(BATCHES, 5000):
        (session.home.updates / f"{batch:012d}.arrow").touch()
    with session.control.transaction() as connection:
        connection.executemany(
            "INSERT INTO update_files VALUES (?, 0, NULL, 0)", [(batch,) for batch in range(BATCHES, 5000)]
        )
    took = []
    for _ in range(5):
        begun = time.thread_time()  # other tests may run beside it
        session.audit()
        took.append(time.thread_time() - begun)
    assert min(took) < 0.05
    print(f"audit: {min(took) * 1000:.1f} ms")
