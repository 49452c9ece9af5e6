import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from stqsh.client import engine_process
from stqsh.client.api import Session
from stqsh.client.connection import ENGINE_LOOK_S, Connection
from stqsh.client.engine_process import check_alive, ensure_engine, stop_engine, wait_until_ready
from stqsh.client.results import Message
from stqsh.errors import EngineDeadError
from stqsh.profile import load_profile
from stqsh.storage import processes
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import EngineInfo, is_alive, read_engine, write_engine
from stqsh.storage.home import open_home, remove_home

ENGINE = textwrap.dedent("""
    import dataclasses, json, os, pathlib, sys, time
    from stqsh.storage.engine_info import EngineInfo
    home = pathlib.Path(sys.argv[-1])
    def say(state, message=""):
        info = dataclasses.asdict(EngineInfo.now(os.getpid(), state, message))
        (home / "new").write_text(json.dumps(info))
        (home / "new").replace(home / "engine.json")
    %s
""")
GOOD = ENGINE % 'time.sleep(0.2); say("ready"); time.sleep(60)'
FAILS = ENGINE % 'say("failed", "no Java runtime was found"); sys.exit(1)'
CRASHES = ENGINE % 'say("ready"); raise ValueError("the state is broken")'


@pytest.fixture
def home(tmp_path):
    opened = open_home("s", root=tmp_path)
    yield opened
    stop_engine(opened, timeout_s=1)


def command(code):
    return (sys.executable, "-c", code)


def test_an_engine_is_started_waited_for_found_again_and_stopped(home):
    told = []
    started = ensure_engine(home, command(GOOD))
    ready = wait_until_ready(home, told.append)
    assert ready.state == "ready" and ready.pid == started.pid and told[0] == "starting Spark… 0 s"
    assert ensure_engine(home, command(GOOD)).pid == started.pid
    assert stop_engine(home) is True and not is_alive(read_engine(home))
    assert stop_engine(home) is False
    with pytest.raises(EngineDeadError, match="not running any more"):
        check_alive(home)


def test_an_engine_that_was_stopped_has_no_last_words(home):
    ensure_engine(home, command(ENGINE % 'say("stopping")'))
    with pytest.raises(EngineDeadError) as caught:
        for _ in range(3000):
            check_alive(home)
            time.sleep(0.01)
    assert caught.value.text() == "the engine was stopped"


def test_what_an_engine_writes_while_it_is_looked_at_counts(home, monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    starting = EngineInfo.now(ended.pid, "starting")
    write_engine(home, starting)

    def stop_meanwhile(info):
        write_engine(home, replace(starting, state="stopping"))
        return False

    monkeypatch.setattr(engine_process, "is_alive", stop_meanwhile)
    with pytest.raises(EngineDeadError, match="the engine was stopped"):
        check_alive(home)


def test_an_engine_that_ends_at_once_is_not_said_to_be_starting(home, monkeypatch):
    class EndsAtOnce(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.wait()

    monkeypatch.setattr(subprocess, "Popen", EndsAtOnce)
    assert ensure_engine(home, command(FAILS)).state == "failed"
    assert read_engine(home).message == "no Java runtime was found"


def test_what_an_engine_wrote_before_the_machine_was_started_again_is_not_taken_for_new(home):
    late = processes.uptime_us() + 3_600_000_000
    for boot in ("another", ""):
        write_engine(home, EngineInfo(1, late, late, "stopping", boot=boot))
        started = ensure_engine(home, command(GOOD))
        assert wait_until_ready(home).pid == started.pid
        assert stop_engine(home)


def test_an_engine_on_another_host_is_neither_dead_nor_stopped_here(home):
    now = processes.uptime_us()
    there = EngineInfo(os.getpid(), now, now, "ready", boot=processes.boot_id(), host="another")
    write_engine(home, there)
    assert not is_alive(there)  # by its pid, which is one of ours
    for act in (lambda: ensure_engine(home, command(GOOD)), lambda: stop_engine(home)):
        with pytest.raises(EngineDeadError, match="the engine of this session runs on the host another"):
            act()
    long_ago = time.time() - 60
    os.utime(home.engine_json, (long_ago, long_ago))  # the host is gone
    started = ensure_engine(home, command(GOOD))
    assert wait_until_ready(home).pid == started.pid
    assert stop_engine(home)


def test_nor_is_it_where_the_boots_of_a_machine_have_no_id(monkeypatch, home):
    monkeypatch.setattr(processes, "boot_id", lambda: "")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    late = processes.uptime_us() + 3_600_000_000
    write_engine(home, EngineInfo(ended.pid, late, late, "stopping"))
    assert ensure_engine(home, command("import time; time.sleep(60)")).state == "starting"


def test_the_log_of_a_temporary_session_outlives_it(tmp_path):
    home = open_home(root=tmp_path, temporary=True)
    ensure_engine(home, command(CRASHES))
    with pytest.raises(EngineDeadError) as caught:
        for _ in range(3000):
            check_alive(home)
            time.sleep(0.02)
    remove_home(home)
    kept = pathlib.Path(caught.value.hint.removeprefix("the engine's log is "))
    assert "ValueError: the state is broken" in kept.read_text()


def test_an_engine_that_does_not_heed_sigterm_is_killed(home):
    stubborn = ENGINE % 'import signal; signal.signal(15, signal.SIG_IGN); say("ready"); time.sleep(60)'
    ensure_engine(home, command(stubborn))
    wait_until_ready(home)
    assert stop_engine(home, timeout_s=0.2) is True and not is_alive(read_engine(home))


def test_a_failed_start_tells_its_own_reason(home):
    ensure_engine(home, command(FAILS))
    with pytest.raises(EngineDeadError, match="the engine failed: no Java runtime was found"):
        wait_until_ready(home)


def test_a_crash_tells_the_lines_of_the_log_that_matter(home):
    ensure_engine(home, command(CRASHES))
    with pytest.raises(EngineDeadError) as caught:
        for _ in range(3000):
            check_alive(home)
            time.sleep(0.02)
    assert "ValueError: the state is broken" in caught.value.message
    assert "Traceback" not in caught.value.message and "engine.log" in caught.value.hint


def test_a_killed_engine_is_said_to_be_killed_and_what_its_parts_said_of_that_is_not(home):
    noisy = ENGINE % 'print("BrokenPipeError: at the other end", flush=True); say("ready"); time.sleep(60)'
    started = ensure_engine(home, command(noisy))
    wait_until_ready(home)
    os.kill(started.pid, signal.SIGKILL)
    with pytest.raises(EngineDeadError) as caught:
        for _ in range(3000):
            check_alive(home)
            time.sleep(0.02)
    assert "it was killed (SIGKILL)" in caught.value.message
    assert "BrokenPipe" not in caught.value.message


def test_a_killed_engine_is_started_again_and_its_children_are_ended(home):
    parent = ENGINE % (
        'import subprocess; child = subprocess.Popen(["sleep", "60"]); '
        '(home / "child").write_text(str(child.pid)); say("ready"); time.sleep(60)'
    )
    first = ensure_engine(home, command(parent))
    wait_until_ready(home)
    child = int((home.path / "child").read_text())
    os.kill(first.pid, signal.SIGKILL)
    while processes.exists(first.pid):
        time.sleep(0.01)
    second = ensure_engine(home, command(GOOD))
    assert second.pid != first.pid and wait_until_ready(home).pid == second.pid
    assert not processes.exists(child)


def test_a_pid_that_another_process_has_now_is_not_taken_for_the_engine(home):
    other = subprocess.Popen(["sleep", "60"])
    before = replace(EngineInfo.now(other.pid, "ready"), heartbeat_us=processes.uptime_us() - 60_000_000)
    another_boot = replace(EngineInfo.now(other.pid, "ready"), boot="another")
    for info in (before, another_boot):
        write_engine(home, info)
        assert not is_alive(read_engine(home))
        stop_engine(home)
        assert other.poll() is None
    other.kill()
    other.wait()


def test_an_engine_that_hangs_is_reported(home, monkeypatch):
    write_engine(home, EngineInfo.now(os.getpid(), "ready"))
    assert check_alive(home).pid == os.getpid()
    monkeypatch.setattr(engine_process, "SILENT_S", -1)
    monkeypatch.setattr(engine_process, "_BEAT_S", 0.2)
    with pytest.raises(EngineDeadError, match="has not answered for 0 s"):
        check_alive(home)
    home.engine_json.unlink()


def test_a_machine_that_has_slept_does_not_make_its_engine_silent(home, monkeypatch):
    write_engine(home, EngineInfo.now(os.getpid(), "ready"))
    monkeypatch.setattr(engine_process, "SILENT_S", -1)
    monkeypatch.setattr(
        engine_process.time, "sleep", lambda _: write_engine(home, EngineInfo.now(os.getpid(), "ready"))
    )
    assert check_alive(home).state == "ready"
    home.engine_json.unlink()


@pytest.mark.parametrize("by_s", [-3600, 3600, -100_000_000, 100_000_000])
def test_an_engine_lives_on_when_the_clock_is_set(home, monkeypatch, by_s):
    started = ensure_engine(home, command(GOOD))
    ready = wait_until_ready(home)
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + by_s * 1_000_000_000)
    monkeypatch.setattr(time, "time", lambda: now / 1e9 + by_s)
    assert check_alive(home) == ready and is_alive(ready)
    assert ensure_engine(home, command(GOOD)).pid == started.pid
    assert stop_engine(home) and not processes.exists(started.pid)


def test_a_session_without_an_engine_says_so(home):
    assert read_engine(home) is None
    with pytest.raises(EngineDeadError, match="no engine was started"):
        check_alive(home)


def test_a_command_that_cannot_be_run_is_one_clear_line(home):
    with pytest.raises(EngineDeadError, match="the engine cannot be started"):
        ensure_engine(home, ("/no/such/program",))


def test_identities_outlive_pids():
    mine = processes.identity()
    assert processes.is_running(mine) and not processes.is_running(f"{os.getpid()}:1")
    child = subprocess.Popen(["true"])
    name = processes.identity(child.pid)
    child.wait()
    assert not processes.is_running(name)


def test_engine_json_is_replaced_whole(home):
    write_engine(home, EngineInfo(1, 2, 3, "starting", "é"))
    assert json.loads(home.engine_json.read_text("utf-8"))["message"] == "é"
    home.engine_json.unlink()


@pytest.mark.parametrize(
    ("left", "starts"), [("ready", True), ("starting", True), ("stopping", False), ("failed", False)]
)
@pytest.mark.parametrize("statement", ["SHOW STATUS;", "SELECT 1;"])
def test_any_statement_starts_an_engine_again_that_died_without_a_word(home, left, starts, statement):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    started = []

    def start(where):
        started.append(where)
        return ensure_engine(where, command(GOOD))

    connection = Connection(home, ControlDb(home.path, create=True), start=start)
    session = Session(home, load_profile(None, {}), autoplay=False, connection=connection)
    assert not started
    write_engine(home, EngineInfo.now(ended.pid, left))
    outcomes = session.execute(statement)
    assert started == [home] * starts
    said = "the engine had died after step 0; it is started again and goes on from there"
    assert sum(isinstance(one, Message) and one.text == said for one in outcomes) == starts
    time.sleep(2 * ENGINE_LOOK_S)
    session.execute(statement)
    assert started == [home] * starts
