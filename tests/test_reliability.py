"""What many sessions leave behind, and what becomes of readers and homes that stand still."""

from __future__ import annotations

import io
import shutil
import subprocess
import threading
from functools import partial
from itertools import islice
from pathlib import Path

import psutil
import pytest
from support.killing import STQSH, processes_of
from support.local import local_session
from support.running import run_script
from support.seeded import moving_script

from stqsh.client.api import Session, connect
from stqsh.client.results import Updates
from stqsh.client.run import RunHandle
from stqsh.engine.config import EngineSettings
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import Target
from stqsh.storage.catalogue import NameBook
from stqsh.storage.update_log import leases
from stqsh.storage.update_log.compaction import fold_log

SESSIONS = 100
"""Temporary ones, and as many times the same one."""
LOOK = "SHOW STREAMS; SHOW SETTINGS; SHOW STATUS; DUMP;"
"""Statements that need no engine."""


def held() -> tuple[int, int, int]:
    """How many files, threads and children this process has."""
    me = psutil.Process()
    return me.num_fds(), threading.active_count(), len(me.children())


def lives(process: psutil.Process) -> bool:
    """Whether a process runs; one that has ended may wait for its new parent to notice."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def use(session: Session) -> None:
    for _ in session.outcomes(LOOK):
        pass


def test_two_hundred_sessions_leave_nothing(tmp_path: Path) -> None:
    with connect(temporary=True, home=tmp_path, autoplay=False) as session:
        use(session)  # what a process loads once
    before = held()
    for _ in range(SESSIONS):
        with connect(temporary=True, home=tmp_path, autoplay=False) as session:
            use(session)
        with connect("kept", home=tmp_path, autoplay=False) as session:
            use(session)
    assert held() == before
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["kept"]
    assert len(list((tmp_path / "kept").rglob("*"))) < 20


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sessions_with_engines_leave_no_process_and_no_file(tmp_path: Path) -> None:
    last = list[psutil.Process]()
    for _ in range(3):
        with connect(temporary=True, home=tmp_path, autoplay=False) as session:
            session.start_engine()
            processes = [process for kind in processes_of(session).values() for process in kind]
            arena, scratch = session.home.arena.folder, EngineSettings(session.home.path).scratch
            assert arena.exists() and scratch.exists()
        # One that was killed a moment ago may still be freeing its memory.
        psutil.wait_procs(filter(lives, last + processes), timeout=10)
        assert not [process for process in last + processes if lives(process)]
        assert not arena.exists() and not scratch.exists()
        last = processes
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


@pytest.mark.slow
def test_a_reader_that_stands_still_gets_all_though_the_log_is_folded_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_EVERY_S", 0.0)
    script = moving_script(4, objects=30, steps=60)
    file = script.write(tmp_path)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with local_session(tmp_path / "other", slots=2, max_records=10) as session:
        expected = run_script(session, text + "RUN;", file)
    with local_session(tmp_path / "home", slots=2, max_records=10) as session:
        for _ in session.outcomes(text, file=str(file)):
            pass
        running = next(o for o in session.outcomes("RUN;") if isinstance(o, RunHandle))
        reader, got = session.updates(until=running), []
        for updates in islice(reader, 20):
            got.append(updates)
        read = fold(session)
        assert read < session.progress().batch // 2  # the rest is kept for this reader
        got += reader
        assert fold(session) == session.progress().batch
        assert written(got) == expected


def fold(session: Session) -> int:
    """Fold as much of the update log as its readers allow; return the last batch that is folded."""
    db, home = session.connection.db, session.home
    up_to = leases.read_by_all(home, session.progress().batch)
    return fold_log(db, up_to, NameBook(db).key_of, partial(leases.all_read, home)).batch


def written(some: list[Updates]) -> bytes:
    """What the shell prints of these updates."""
    out = io.BytesIO()
    writer = open_writer("jsonl", Target(out))
    for updates in some:
        writer.updates(updates)
    return out.getvalue()


def in_a_namespace(commands: str) -> subprocess.CompletedProcess[str]:
    """Run shell commands where they may mount what they like."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", commands], check=False, capture_output=True, text=True
    )


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_read_only_home_is_refused_in_one_sentence(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=16m tmpfs {tmp_path} && mount -o remount,ro {tmp_path}"
    if in_a_namespace(mount).returncode:
        pytest.skip("only root may mount")
    words = " ".join(STQSH)
    done = in_a_namespace(f"{mount} && STQSH_HOME={tmp_path}/sessions {words} -c 'SHOW STREAMS;'")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"cannot use the session home {tmp_path}/sessions: read-only file system",
        "hint: give another place with STQSH_HOME or session.home_root in the profile",
    ]
