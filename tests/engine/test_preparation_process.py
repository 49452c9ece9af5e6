"""Large streams and tables are prepared by processes of their own, which end with the engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.specs import stream_spec

from stqsh.engine.config import EngineTuning
from stqsh.engine.ingest.preparation import PreparationProcesses, is_large
from stqsh.engine.ingest.stream_preparer import SessionFiles, StreamPreparer
from stqsh.sources.replay_store.store import open_store
from stqsh.spec.stream import FileSourceSpec, StreamSpec
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb, to_text
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import stream_statuses

LARGE = EngineTuning(process_bytes=100, prepare_look_s=0.01)
COLUMNS = (("oid", "STRING"), ("x", "DOUBLE"), ("y", "DOUBLE"), ("ts", "TIMESTAMP"))


def spec(number: int, files: Path) -> StreamSpec:
    source = FileSourceSpec(str(files))
    return stream_spec(id=number, name=f"s{number}", columns=COLUMNS, source=source)


@pytest.fixture
def control(tmp_path: Path) -> ControlDb:
    """A session with a large stream 1 and a small stream 2."""
    lines = [f"o{n % 9},{n / 100},1,2008-02-02T15:00:{n % 60:02}Z" for n in range(500)]
    (tmp_path / "large.csv").write_text("\n".join(["oid,x,y,ts", *lines]))
    (tmp_path / "small.csv").write_text("oid,x,y,ts\na,1,1,2008-02-02T15:00:00Z\n")
    control = ControlDb(tmp_path, create=True)
    with control.transaction() as connection:
        for number, name in enumerate(["large", "small"], start=1):
            row = (number, f"s{number}", to_text(spec(number, tmp_path / f"{name}.csv")))
            connection.execute("INSERT INTO streams (id, name, spec) VALUES (?, ?, ?)", row)
    return control


@pytest.fixture
def processes(control: ControlDb, tmp_path: Path) -> Iterator[PreparationProcesses]:
    found = PreparationProcesses(SessionHome(tmp_path), control)
    yield found
    found.stop()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def state(control: ControlDb, number: int) -> str | None:
    status = stream_statuses(control).get(number)
    return status.state if status else None


def pid_of(processes: PreparationProcesses, number: int) -> int:
    process = processes._running[number].process
    assert process is not None
    return process.pid


def test_only_files_with_much_text_are_large(control: ControlDb, tmp_path: Path) -> None:
    large, small = live_streams(control)
    assert is_large(large, LARGE) and not is_large(small, LARGE)
    assert not is_large(large)
    (tmp_path / "large.csv").unlink()
    assert not is_large(large, LARGE)


def test_a_large_stream_is_prepared_while_the_next_one_is_ready(control: ControlDb, tmp_path: Path) -> None:
    preparer = StreamPreparer(SessionFiles.of(SessionHome(tmp_path), control, LARGE))
    preparer.start()
    try:
        until(lambda: state(control, 2) == "ready")
        assert state(control, 1) != "ready"
        until(lambda: state(control, 1) == "ready")
    finally:
        preparer.stop()
    assert open_store(SessionHome(tmp_path).stream(1)).rows == 500
    assert stream_statuses(control)[1].seal


def test_a_killed_preparation_is_tried_once_more_and_then_told(
    control: ControlDb, processes: PreparationProcesses
) -> None:
    processes.add(live_streams(control)[0])
    for _ in range(2):
        assert 1 in processes
        pid = pid_of(processes, 1)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        processes.look()
    assert 1 not in processes
    status = stream_statuses(control)[1]
    assert status.state == "failed"
    assert status.message == (
        "the process that prepares it was killed (SIGKILL) 2 times; is there enough memory?"
    )


def test_the_process_of_a_dropped_stream_is_ended(
    control: ControlDb, processes: PreparationProcesses
) -> None:
    processes.add(live_streams(control)[0])
    pid = pid_of(processes, 1)
    processes.keep({2})
    assert 1 not in processes
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_no_process_outlives_the_engine(control: ControlDb, tmp_path: Path) -> None:
    """The stand-in for an engine starts a preparation that waits for ever, and is killed."""
    os.mkfifo(tmp_path / "endless.csv")
    with control.transaction() as connection:
        text = to_text(spec(1, tmp_path / "endless.csv"))
        connection.execute("UPDATE streams SET spec = ? WHERE id = 1", (text,))
    code = (
        "import sys, time; from pathlib import Path\n"
        "from stqsh.engine.ingest.preparation import PreparationProcesses\n"
        "from stqsh.storage.catalogue import live_streams\n"
        "from stqsh.storage.control_log import ControlDb\n"
        "from stqsh.storage.home import SessionHome\n"
        "home = SessionHome(Path(sys.argv[1])); control = ControlDb(home.path, create=True)\n"
        "processes = PreparationProcesses(home, control); processes.add(live_streams(control)[0])\n"
        "print(processes._running[1].process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        until(lambda: state(control, 1) is not None)
        engine.kill()
    until(lambda: not Path(f"/proc/{pid}").exists())
