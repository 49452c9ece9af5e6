"""The watchdog: what counts as hanging, and what is ended, one thing after the other."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from support.killing import processes_of
from support.local import local_session
from support.running import Together, log_so_far, run_script
from support.seeded import moving_script

from stqsh.client.api import Session, connect
from stqsh.client.engine_process import ensure_engine
from stqsh.client.run import RunHandle
from stqsh.engine.config import EngineTuning
from stqsh.engine.launch.watchdog import _DAEMON, LocalParts, Watchdog
from stqsh.storage.engine_info import read_engine

TUNING = EngineTuning(hung_batch_s=60, hung_batch_times=20, hung_idle_s=10, hung_busy_times=3)


class Parts:
    """Pretended processes: how much they have worked, and what was done to them."""

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.worked, self.elsewhere = 0.0, elsewhere
        self.done: list[str] = []

    def worked_s(self) -> float:
        return self.worked

    def print_stacks(self) -> None:
        self.done.append("stacks")

    def end(self, strike: int) -> str:
        if self.elsewhere:
            return LocalParts(lambda: None).end(strike)
        self.done.append(f"end {strike}")
        return "ended"


class Watched:
    """A watchdog with a clock of its own, at which it looks every second."""

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.now, self.parts = 0.0, Parts(elsewhere=elsewhere)
        self.dog = Watchdog(self.parts, TUNING, lambda: self.now)

    def pass_s(self, seconds: int, share: float = 0.0) -> list[str]:
        """Let seconds pass in which workers use a share of a core; what was done."""
        self.parts.done.clear()
        for _ in range(seconds):
            self.now += 1
            self.parts.worked += share
            self.dog.look()
        return list(self.parts.done)


def test_idle_workers_are_ended_after_a_minute_then_more_and_more_rarely() -> None:
    watched = Watched()
    with watched.dog.batch(1):
        assert watched.pass_s(59) == []
        assert watched.pass_s(3) == ["stacks", "end 1"]
        assert watched.pass_s(117) == []
        assert watched.pass_s(3) == ["stacks", "end 2"]
        assert watched.pass_s(250) == ["stacks", "end 3"]
    assert watched.pass_s(1000) == []


def test_busy_workers_are_logged_once_and_ended_only_after_a_multiple() -> None:
    watched = Watched()
    with watched.dog.batch(1):
        assert watched.pass_s(61, share=0.9) == ["stacks"]
        assert watched.pass_s(118, share=0.9) == []
        assert watched.pass_s(3, share=0.9) == ["end 1"]


def test_workers_are_left_alone_if_their_batch_ends_while_its_stacks_are_printed() -> None:
    watched = Watched()
    with ExitStack() as batch:
        batch.enter_context(watched.dog.batch(1))
        watched.parts.print_stacks = batch.close  # type: ignore[method-assign]
        assert watched.pass_s(300) == []


def test_workers_that_stop_working_are_ended_soon() -> None:
    watched = Watched()
    with watched.dog.batch(1):
        assert watched.pass_s(100, share=0.9) == ["stacks"]
        assert watched.pass_s(9) == []
        assert watched.pass_s(2) == ["end 1"]


def test_a_batch_after_a_long_one_may_take_long() -> None:
    watched = Watched()
    with watched.dog.batch(1):
        watched.pass_s(30, share=1.0)
    with watched.dog.batch(2):
        assert watched.pass_s(599) == []
        assert watched.pass_s(3) == ["stacks", "end 1"]


def test_a_long_batch_on_a_cluster_is_logged_and_nothing_is_said_to_be_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(elsewhere=True)
    with watched.dog.batch(1):
        assert watched.pass_s(190) == ["stacks", "stacks"]
    assert [record.getMessage() for record in caplog.records] == [
        f"batch 1 has taken {seconds} s: the stacks of all threads follow" for seconds in (60, 180)
    ]
    with watched.dog.batch(2):
        assert watched.pass_s(3700) == [], "it may take twenty times as long as the one before"


def test_what_is_ended_is_counted() -> None:
    with subprocess.Popen(_JAVA, stdout=subprocess.PIPE) as java:
        assert java.stdout is not None
        daemon, worker = (int(java.stdout.readline()) for _ in "dw")
        parts = LocalParts(lambda: java.pid)
        assert parts.end(1) == f"1 Python process is ended ({worker})"
        assert parts.end(2) == f"1 Python process is ended ({daemon})"
        assert parts.end(3) == "Spark's Java process is ended"
        java.wait()
        assert parts.end(4) == ""


_CHILD = (
    "import subprocess, sys, time; one = subprocess.Popen([sys.executable, *sys.argv[2:]]);"
    " print(one.pid, flush=True); time.sleep(60)"
)
_JAVA = [sys.executable, "-c", _CHILD, "", "-c", _CHILD, _DAEMON, "-c", "import time; time.sleep(60)"]
"""Stands in for Spark's Java process: its child has a daemon's command line, and a worker."""
ENGINE = (
    "import dataclasses, os; from stqsh.engine import config;"
    "config.TUNING = dataclasses.replace(config.TUNING, hung_batch_s=4.0, hung_batch_times=0.0,"
    " hung_idle_s=2.0, watch_look_s=0.2);"
    "from stqsh.engine.launch.main import main; os._exit(main())"
)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc")
def test_workers_that_stand_still_are_ended_and_the_updates_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_ENGINE_MAX_RECORDS_PER_BATCH", "80")
    script = Together([moving_script(21)], [1])
    file = script.write(tmp_path)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        session.connection.start = partial(ensure_engine, command=(sys.executable, "-c", ENGINE))
        for _ in session.outcomes(text, file=str(file)):
            pass
        session.start_engine()
        info = read_engine(session.home)
        assert info is not None
        running = next(o for o in session.outcomes("RUN;") if isinstance(o, RunHandle))
        for delay_s in (0.05, 0.4):
            await_batches(session, 2)
            time.sleep(delay_s)
            stop_workers(session)
        running.wait()
        output = log_so_far(session, running)
        log = session.home.engine_log.read_text(errors="replace")
        assert read_engine(session.home).pid == info.pid, "the engine itself went on"  # type: ignore[union-attr]
    assert "hangs after" in log
    assert "Python processes are ended" in log
    assert "Full thread dump" in log, "Java's stacks"
    assert 'File "' in log, "Python's stacks"
    with local_session(tmp_path / "reference") as session:
        assert output == run_script(session, file.read_text(encoding="utf-8"), file)


def await_batches(session: Session, count: int) -> None:
    """Wait for so many more batches."""
    deadline, before = time.monotonic() + 120, session.progress().batch
    while session.progress().batch < before + count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stop_workers(session: Session) -> None:
    """Make all workers stand still for good."""
    for worker in processes_of(session)["worker"]:
        worker.suspend()
