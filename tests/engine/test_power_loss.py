"""After a power failure at any point: with durability `disk` every delivered update is there, and no other.

The run is that of an engine on one machine without Spark: its files are written by hand where Spark writes
them, everything else by the code of the engine, in the engine's order. Covered are statements and their
numbers, Spark's offsets and commits, a slot's head, logs and snapshots, update files with payloads beside
them, folding, and progress; and, by itself, the making of a replay store.
"""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.power_loss import Disk, recorded
from support.update_logs import batch_table, part

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import EngineSettings
from stqsh.engine.ingest.store_repair import check_store
from stqsh.engine.launch.audit import AuditError, audit_home
from stqsh.engine.spark.spark_internals import last_commit, read_offset, settle_batch
from stqsh.engine.state.file_store import FileStore, SlotMeta, StaleBatchError
from stqsh.engine.state.payload_files import PayloadFolders, open_writer
from stqsh.errors import HomeError
from stqsh.fs import DURABILITY, force, settle
from stqsh.sources.replay_store.manifest import MANIFEST
from stqsh.sources.replay_store.segments import TICK
from stqsh.sources.replay_store.store import StoreWriter, open_store
from stqsh.spec.chunk import Chunk, from_table, to_table
from stqsh.spec.log import RunToEnd
from stqsh.spec.offset import Offset
from stqsh.storage.blobs import home_blobs
from stqsh.storage.control_log import ControlDb, append, last_seq
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import BatchEffects, read_progress, record_batch
from stqsh.storage.rows import Progress
from stqsh.storage.update_log.compaction import fold_log
from stqsh.storage.update_log.reader import UpdateLog
from stqsh.storage.update_log.writer import write_batch

BATCHES, FOLDED = 5, (3, 1)
SETTINGS = EngineSettings(Path(), slots=1)


def key_of(_stream: int) -> str:
    return "oid"


def spark_writes(path: Path, content: str) -> None:
    """Write a file as Spark does: under another name, never forced."""
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text(content)
    hidden.replace(path)


def run(home: SessionHome) -> None:
    """Run batches, each of which takes in a statement and makes an update; fold the log after one of them."""
    control = ControlDb(home.path, create=True)
    for folder in ("updates", "checkpoint/offsets", "checkpoint/commits"):
        (home.path / folder).mkdir(parents=True)
    spool = PayloadFolders(home.path, home.path / "transit", 1)
    for batch in range(BATCHES):
        seq = append(control, RunToEnd()).seq
        control.force()  # as the planner does before an offset names new rows
        offset = json.dumps(replace(Offset(), seq=seq).to_json())
        spark_writes(home.checkpoint / "offsets" / str(batch), f"v1\n{{}}\n{offset}")
        settle_batch(home_blobs(home.checkpoint), batch)
        step = batch + 1
        table = batch_table(step, step, part([(step, 7, 1, 0, (f"k{batch}", 0.5))]))
        keep(home, batch, from_table(table))
        settle(home.state)
        with open_writer(spool, "evaluate-0") as writer:
            chunks = [writer.put(chunk) for chunk in from_table(table)]
        logged = write_batch(home.updates, batch, to_table(chunks))
        record_batch(control, Progress(batch, step, seq=seq), BatchEffects(logged=logged))
        spark_writes(home.checkpoint / "commits" / str(batch), "v1\n{}")
        if batch == FOLDED[0]:
            fold_log(control, FOLDED[1], key_of, lambda _: nullcontext(True))
    control.close()


def keep(home: SessionHome, batch: int, chunks: list[Chunk]) -> None:
    """Store a slot's batch: a snapshot in place of its log with each third one."""
    store = slot(home, batch)
    version = store.read_meta().version + 1
    if version % 3:
        store.append(version, chunks)
    else:
        store.replace(version, [b"after %d" % version])
    store.write_meta(SlotMeta(version))


def slot(home: SessionHome, batch: int) -> FileStore:
    return FileStore.beside_head(home_blobs(home.path), "evaluate-0", batch, batch - 1)


def look(home: SessionHome) -> int:
    """Check what is left of a home and return the last batch that it remembers.

    Raises:
        AuditError, DamagedFileError, HomeError: what is lost is told.
    """
    control = ControlDb(home.path, create=True)
    try:
        audit_home(home, control, SETTINGS)
        progress = read_progress(control)
        found = [table for (table,) in UpdateLog(control, key_of).read(-1, progress.batch)]
        keys = [key for table in found for key in table.table["key"].to_pylist()]
        assert keys == [f"k{batch}" for batch in range(progress.batch + 1)]
        assert last_seq(control) >= progress.seq
        for offset in (home.checkpoint / "offsets").glob("[0-9]*"):
            named = Offset.from_json(json.loads(read_offset(home_blobs(home.checkpoint), int(offset.name))))
            assert named.names <= last_seq(control), "a number will be given again"
        store = slot(home, last_commit(home_blobs(home.checkpoint)) + 1)
        version = store.read_meta().version
        assert store.read_snapshot() == ([b"after %d" % (version - version % 3)] if version >= 3 else [])
        assert len(list(store.read_log())) == version % 3
        return progress.batch
    finally:
        control.close()


def ran(folder: Path, durability: str, monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setenv(DURABILITY, durability)
    home = folder / "home"
    (home / "updates").parent.mkdir()
    os.sync()
    with recorded(home, monkeypatch) as disk:
        run(SessionHome(home))
    return disk


@pytest.mark.parametrize("eager", [False, True])
def test_with_disk_every_cut_leaves_a_session_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager: bool
) -> None:
    disk = ran(tmp_path, "disk", monkeypatch)
    commits = [number for number, event in enumerate(disk.events, start=1) if event == "commit"]
    assert len(disk.events) > 100
    delivered = -1
    for cut in range(commits[0], len(disk.events) + 1):
        home = SessionHome(tmp_path / f"cut-{cut}")
        disk.cut(cut, home.path, eager=eager)
        last = look(home)
        assert last >= delivered, f"batch {delivered} was told, and is lost after {disk.events[cut - 1]}"
        delivered = last
    assert delivered == BATCHES - 1


@pytest.mark.parametrize("eager", [False, True])
def test_without_it_what_is_lost_is_told_or_the_rest_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager: bool
) -> None:
    disk = ran(tmp_path, "process", monkeypatch)
    told = 0
    for cut in range(1, len(disk.events) + 1, 3):
        home = SessionHome(tmp_path / f"cut-{cut}")
        disk.cut(cut, home.path, eager=eager)
        (home.path / "updates").mkdir(exist_ok=True)
        try:
            look(home)
        except (AuditError, DamagedFileError, HomeError, StaleBatchError) as error:
            assert error.hint and "\n" not in error.message
            told += 1
    assert told > 0


@pytest.mark.parametrize("eager", [False, True])
def test_a_replay_store_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager: bool
) -> None:
    monkeypatch.setenv(DURABILITY, "disk")
    home = SessionHome(tmp_path / "home")
    home.stream(1).parent.mkdir(parents=True)
    rows = pa.RecordBatch.from_pydict({"oid": ["a", "b", "c"], TICK: [1, 2, 2]})
    with recorded(home.path, monkeypatch) as disk:
        force(home.path)
        writer = StoreWriter(home.stream(1), [["oid", "STRING"]])
        for start in range(3):
            writer.append(rows.slice(start, 1))
            writer.flush()
        writer.publish()
    found = []
    for cut in range(1, len(disk.events) + 1):
        left = SessionHome(tmp_path / f"cut-{cut}")
        disk.cut(cut, left.path, eager=eager)
        found.append((left.stream(1) / MANIFEST).exists())
        if found[-1]:
            assert check_store(left.stream(1)).rows == 3
            assert open_store(left.stream(1)).read(0, 3).equals(rows)
    assert found == sorted(found) and not found[0] and found[-1]
