"""The parent of the engine: what it restarts, how often, what it tells, and how it stops."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stqsh.client.engine_process import ensure_engine, stop_engine, wait_until_ready
from stqsh.engine.config import CRASHED, EngineTuning
from stqsh.engine.launch.parent import Restarts
from stqsh.errors import EngineDeadError
from stqsh.storage import processes
from stqsh.storage.engine_info import EngineInfo, is_alive, read_engine
from stqsh.storage.home import SessionHome, open_home

TOY = """
    import argparse, pathlib, sys, time, os, signal
    from stqsh.engine.launch.heartbeat import Heartbeat, Origin
    from stqsh.storage.home import SessionHome
    parser = argparse.ArgumentParser()
    for name, kind in (("home", pathlib.Path), ("parent", int), ("restarts", int), ("last-crash", str)):
        parser.add_argument("--" + name, type=kind, default=kind())
    given = parser.parse_args()
    home = SessionHome(given.home)
    starts = len((home.path / "starts").read_text()) if (home.path / "starts").exists() else 0
    (home.path / "starts").write_text("x" * (starts + 1))
    origin = Origin(given.parent, given.restarts, given.last_crash)
    lost = lambda why: os.kill(os.getpid(), signal.SIGTERM)
    heart = Heartbeat(home, origin, lost)
    signal.signal(signal.SIGTERM, lambda *_: (heart.tell("stopping"), os._exit(0)))
    heart.start()
    %s
"""
READY = 'heart.tell("ready"); time.sleep(100)'


def parent_of(engine: str, tuning: str = "restart_wait_s=0.01") -> tuple[str, ...]:
    """The command of a parent whose engine runs this code."""
    toy = textwrap.dedent(TOY) % engine
    code = (
        "import sys; from pathlib import Path; from stqsh.engine.launch.parent import Parent;"
        "from stqsh.engine.config import EngineTuning;"
        f"command = ({sys.executable!r}, '-c', {toy!r});"
        f"sys.exit(Parent(Path(sys.argv[-1]), command, EngineTuning(restarts=3, {tuning})).run())"
    )
    return (sys.executable, "-c", code)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SessionHome]:
    opened = open_home("s", root=tmp_path)
    yield opened
    stop_engine(opened, timeout_s=2)


def until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told(home: SessionHome) -> EngineInfo:
    info = read_engine(home)
    assert info is not None
    return info


def restarted(home: SessionHome, times: int) -> EngineInfo:
    until(lambda: told(home).restarts == times and told(home).state == "ready")
    return told(home)


def starts(home: SessionHome) -> int:
    return len((home.path / "starts").read_text())


def test_a_killed_engine_comes_back_without_a_statement_and_says_why(home: SessionHome) -> None:
    ensure_engine(home, parent_of(READY))
    first = wait_until_ready(home)
    assert first.parent not in (0, first.pid)
    os.kill(first.pid, signal.SIGKILL)
    assert is_alive(read_engine(home))
    second = restarted(home, 1)
    assert second.parent == first.parent
    assert second.restarted == "1 time, last: it was killed (SIGKILL)"
    assert ensure_engine(home, ("/no/such/program",)).pid == second.pid


def test_the_parent_stops_in_order_when_asked(home: SessionHome) -> None:
    ensure_engine(home, parent_of(READY))
    info = wait_until_ready(home)
    assert stop_engine(home) is True
    assert told(home).state == "stopping" and starts(home) == 1
    assert not processes.exists(info.pid) and not processes.exists(info.parent)


def test_an_engine_whose_parent_is_killed_stops_and_the_next_statement_starts_both(
    home: SessionHome,
) -> None:
    ensure_engine(home, parent_of(READY))
    info = wait_until_ready(home)
    os.kill(info.parent, signal.SIGKILL)
    until(lambda: not processes.exists(info.parent))
    ensure_engine(home, parent_of(READY))
    again = wait_until_ready(home)
    assert again.pid != info.pid and again.parent != info.parent
    assert not processes.exists(info.pid)
    assert again.restarts == 0


@pytest.mark.parametrize("engine", [READY, f"signal.signal(signal.SIGTERM, signal.SIG_DFL); {READY}"])
@pytest.mark.parametrize("lose", [shutil.rmtree, lambda path: path.rename(path.with_name("elsewhere"))])
def test_an_engine_whose_session_is_deleted_or_moved_stops(
    home: SessionHome, engine: str, lose: Callable[[Path], object]
) -> None:
    ensure_engine(home, parent_of(engine))
    info = wait_until_ready(home)
    lose(home.path)
    until(lambda: not processes.exists(info.pid) and not processes.exists(info.parent))
    assert not home.path.exists()


def test_a_refusal_is_not_repeated(home: SessionHome) -> None:
    ensure_engine(home, parent_of('heart.tell("failed", "there is no Java"); sys.exit(1)'))
    with pytest.raises(EngineDeadError, match="there is no Java"):
        wait_until_ready(home)
    until(lambda: not is_alive(read_engine(home)))
    assert starts(home) == 1


def test_an_engine_that_crashes_again_and_again_is_given_up(home: SessionHome) -> None:
    ensure_engine(home, parent_of(f'heart.tell("starting", "Java died"); sys.exit({CRASHED})'))
    with pytest.raises(EngineDeadError, match=r"crashed 4 times without a batch in between.*: Java died"):
        wait_until_ready(home)
    assert starts(home) == 4


def test_the_parent_ends_with_an_engine_that_stops_by_itself(home: SessionHome) -> None:
    """As the engine of a temporary session does whose client is gone."""
    ensure_engine(home, parent_of('heart.tell("ready"); heart.tell("stopping"); sys.exit(0)'))
    until(lambda: not is_alive(read_engine(home)))
    assert starts(home) == 1 and told(home).state == "stopping"


def test_a_parent_that_waits_before_a_restart_stops_at_once(home: SessionHome) -> None:
    ensure_engine(
        home, parent_of(f'heart.tell("starting", "Java died"); sys.exit({CRASHED})', "restart_wait_s=50")
    )
    until(lambda: told(home).restarts == 2 and told(home).message == "restarting: Java died")
    begun = time.monotonic()
    assert stop_engine(home) is True
    assert time.monotonic() - begun < 40
    assert starts(home) == 2 and told(home).state == "stopping"


def test_a_silent_engine_is_killed_and_restarted(home: SessionHome) -> None:
    ensure_engine(home, parent_of(READY, "silence_look_s=2, silence_looks=3"))
    info = wait_until_ready(home)
    os.kill(info.pid, signal.SIGSTOP)
    assert restarted(home, 1).last_crash == "it hung"


def test_an_engine_on_a_full_disk_is_not_taken_for_a_silent_one(home: SessionHome) -> None:
    full = (
        "import errno; from stqsh.storage import engine_info;"
        "no_room = OSError(errno.ENOSPC, 'No space left on device');"
        "engine_info.atomic_write = lambda *_, **__: (_ for _ in ()).throw(no_room);"
    )
    ensure_engine(home, parent_of(full + READY, "silence_look_s=1, silence_looks=3"))
    info = wait_until_ready(home)
    time.sleep(5)
    assert starts(home) == 1
    assert (told(home).pid, told(home).state) == (info.pid, "ready")
    assert told(home).heartbeat_us > info.heartbeat_us


def test_a_parent_that_is_stopped_as_its_engine_ends_ends_in_order(home: SessionHome) -> None:
    code = (
        "import sys, time; from pathlib import Path; from stqsh.engine.launch.parent import Parent\n"
        "class Slow(Parent):\n"
        "    def _stop(self, *signal):\n"
        "        time.sleep(2)\n"  # in which the engine ends
        "        super()._stop(*signal)\n"
        "home, engine = Path(sys.argv[1]), (sys.executable, '-c', 'import time; time.sleep(1)')\n"
        "sys.exit(Slow(home, engine).run())"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(home.path)], stderr=subprocess.PIPE)
    until(lambda: list(processes.children_of(parent.pid)))
    parent.send_signal(signal.SIGTERM)
    _, said = parent.communicate(timeout=60)
    assert (parent.returncode, said) == (0, b"")


def test_what_a_crashed_engine_left_is_ended(home: SessionHome) -> None:
    spawn = (
        'import subprocess; child = subprocess.Popen(["sleep", "100"]);'
        '(home.path / "children").open("a").write(f"{child.pid} ");'
    )
    ensure_engine(home, parent_of(spawn + READY))
    os.kill(wait_until_ready(home).pid, signal.SIGKILL)
    restarted(home, 1)
    first, second = (int(pid) for pid in (home.path / "children").read_text().split())
    assert not processes.exists(first) and processes.exists(second)


def test_the_wait_doubles_and_batches_make_crashes_count_anew() -> None:
    restarts = Restarts(EngineTuning(restarts=5, restart_wait_s=1, restart_wait_most_s=6))
    assert [restarts.wait_s(0, 1) for _ in range(6)] == [0, 1, 2, 4, 6, None]
    assert restarts.count == 5
    restarts = Restarts(EngineTuning(restarts=1))
    waits = [restarts.wait_s(batches, lived) for batches, lived in ((5, 1), (2, 1), (1, 1000), (1, 1))]
    assert waits == [0, 0, 0, None]


def test_a_group_that_a_stranger_has_now_is_left_alone() -> None:
    leader = "import os, subprocess; print(subprocess.Popen(['sleep', '60'], stdout=2).pid, flush=True)"
    begun = processes.uptime_us()
    process = subprocess.Popen(
        [sys.executable, "-c", leader], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.wait()
    processes.kill_group(process.pid, begun - 60_000_000)
    assert processes.exists(child)
    processes.kill_group(process.pid, processes.uptime_us())
    until(lambda: not processes.exists(child))


def test_the_parent_is_small() -> None:
    code = (
        "import stqsh.engine.launch.parent, sys;"
        "large = {'numpy', 'pyspark', 'pyarrow', 'pandas', 'msgspec', 'yaml', 'sqlite3', 'numba'};"
        "assert not large & set(sys.modules), large & set(sys.modules);"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmRSS')).split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 30_000  # KiB


def test_the_engine_is_there_before_the_compiler() -> None:
    """Numba and pandas take seconds of processor time, and load while Spark starts."""
    code = "import stqsh.engine.launch.main, sys; print([m for m in ('numba', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
