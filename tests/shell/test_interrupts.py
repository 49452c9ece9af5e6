"""Ctrl-C while a statement is at work: what it says, and the second one, which forces."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pexpect
import pytest

from shell.terminal import exit_status, kill
from stqsh.lang.syntax.parse import parse
from stqsh.shell.repl.executor import InterruptNotice
from stqsh.shell.repl.session_thread import import_in_thread
from stqsh.shell.terminal.interrupts import force_on_second_interrupt, ignore_interrupts
from stqsh.spec.log import SnapshotAsked, StreamPaused
from stqsh.spec.query import Members, SnapshotSpec
from stqsh.spec.region import EVERYWHERE
from stqsh.storage.control_log import ControlDb, append

STUCK = """
import sqlite3, sys
from stqsh.shell.terminal.interrupts import force_on_second_interrupt
database = sqlite3.connect(sys.argv[1], timeout=120)
with force_on_second_interrupt("left by force; the session goes on"):
    print("asking", flush=True)
    database.execute("BEGIN EXCLUSIVE")
"""
"""Waits in a library's code for a lock that somebody else holds: Python hears no signal there."""


def interrupted(tmp_path: Path, text: str, begun: int) -> tuple[InterruptNotice, ControlDb]:
    db = ControlDb(tmp_path, create=True)
    session: Any = SimpleNamespace(connection=SimpleNamespace(db=db))
    told = InterruptNotice(session)
    told.begin(list(parse(text)), begun)
    return told, db


@pytest.fixture(autouse=True)
def _hears_interrupts() -> Iterator[None]:
    """As in a shell: Spark, where an earlier test had it in this process, leaves its own handler behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_it_says_of_a_statement_that_nothing_was_done_and_what_is_not_run(tmp_path: Path) -> None:
    told, db = interrupted(tmp_path, "SELECT COUNT(*) FROM a; RUN; SHOW STATUS;", 1)
    spec = SnapshotSpec(stream_id=1, kind="range", members=Members(region=EVERYWHERE))
    append(db, SnapshotAsked(spec))  # a question that went by way of the log changes nothing
    assert told.text() == (
        "interrupted: SELECT COUNT(*) FROM a … is not done; the 2 statements after it are not run; "
        "queries and streams go on"
    )


def test_it_says_of_a_statement_that_it_is_done(tmp_path: Path) -> None:
    told, db = interrupted(tmp_path, "SHOW STATUS; PAUSE taxis;", 2)
    append(db, StreamPaused(1), "PAUSE taxis;")
    assert told.text() == "interrupted: PAUSE taxis … is done; queries and streams go on"


def test_an_import_is_not_interrupted_but_its_caller_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slowly_imported.py").write_text("import time\ntime.sleep(0.5)\nis_whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            import_in_thread("slowly_imported")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sys.modules.pop("slowly_imported").is_whole


def test_one_that_is_heard_is_an_interrupt_as_ever_however_many_there_were_before() -> None:
    with force_on_second_interrupt("left by force"):
        for _ in range(4):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
        with ignore_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "interrupts" not in {thread.name for thread in threading.enumerate()}


def wait_until_asleep(pid: int) -> None:
    """Return when a process has done nothing but wait for a while."""
    looks = 0
    while looks < 10:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        looks = looks + 1 if state == "S" else 0
        time.sleep(0.02)


def interrupt_until(child: pexpect.spawn, text: str) -> None:
    """Type an interrupt, which is not enough, and more of them until the text is there.

    A terminal forgets what is typed behind an interrupt that it has not passed on yet, and on a busy machine
    that takes a while.
    """
    child.sendintr()
    for number in range(100):
        if child.expect_exact([text, pexpect.TIMEOUT], timeout=0.3) == 0:
            assert number > 0, "one interrupt was enough"
            return
        child.sendintr()
    pytest.fail(f"no {text!r} in {child.before}")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at a process by /proc")
def test_the_second_gets_out_of_what_hears_none(tmp_path: Path) -> None:
    path = tmp_path / "locked.db"
    with sqlite3.connect(path, isolation_level=None) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN EXCLUSIVE")
        child = pexpect.spawn(sys.executable, ["-c", STUCK, str(path)], timeout=30)
        child.expect("asking")
        wait_until_asleep(child.pid)  # until it waits for the lock; too early an interrupt ends it at once
        interrupt_until(child, "left by force; the session goes on")
        assert exit_status(child) == 130
    database.close()


VIEW = """
import sys, time
from prompt_toolkit.key_binding import KeyBindings
from stqsh.shell.exit_codes import exit_on_signals
from stqsh.shell.terminal.fullscreen import Fullscreen
from stqsh.shell.terminal.interrupts import force_on_second_interrupt

class View:
    def draw(self, width, height):
        if sys.argv[1] == "stuck":
            sys.stdout.write("drawing")
            sys.stdout.flush()
            time.sleep(100)
        return [[("", "drawn")]]

    def last(self, width, height):
        return [[("", "the last frame")]]

exit_on_signals()
with force_on_second_interrupt("left by force; the session goes on"):
    Fullscreen(View(), KeyBindings()).run()
    print("and on")
    time.sleep(100)
"""
"""A view that never comes to its keys, or one that does, and then a statement that takes long."""

ENDED_AT_ONCE = """
import os, signal
from prompt_toolkit.output.vt100 import Vt100_Output

flush = Vt100_Output.flush

def flush_and_end(output):
    is_first = "[?1049h" in "".join(output._buffer)
    flush(output)
    if is_first:
        os.kill(os.getpid(), signal.SIGTERM)

Vt100_Output.flush = flush_and_end
"""
"""The first frame is on the screen, and prompt_toolkit does not restore the terminal yet."""


def test_the_second_gets_out_of_a_view_that_is_stuck_and_leaves_the_terminal_as_it_was() -> None:
    child = pexpect.spawn(sys.executable, ["-c", VIEW, "stuck"], timeout=60)
    child.expect("drawing")
    interrupt_until(child, "\x1b[?1049l")
    child.expect("left by force; the session goes on")
    assert exit_status(child) == 130


def test_a_signal_that_ends_the_program_during_the_first_frame_leaves_the_terminal_as_it_was() -> None:
    child = pexpect.spawn(sys.executable, ["-c", ENDED_AT_ONCE + VIEW, "ended"])
    child.expect(re.escape("\x1b[?1049h"))
    child.expect(re.escape("\x1b[?1049l"))
    assert exit_status(child) == 128 + signal.SIGTERM


def test_the_first_leaves_a_view_and_what_comes_after_it_is_interrupted_as_ever() -> None:
    child = pexpect.spawn(sys.executable, ["-c", VIEW, "free"], timeout=60)
    child.expect("drawn")
    child.sendintr()
    child.expect("the last frame")
    child.expect("and on")
    time.sleep(0.3)
    child.sendintr()
    child.expect("KeyboardInterrupt")
    kill(child)


STOPPED = """
import sys
from stqsh.shell.terminal.capabilities import HIDE_CURSOR
from stqsh.shell.terminal.raw_keys import RawKeys

with RawKeys() as keys:
    print(HIDE_CURSOR + "begun", flush=True)
    for _ in range(2):
        while not (found := keys.pressed(0.1)):
            pass
        print("key", found[0].key, flush=True)
"""
"""A view that hides the cursor and waits for two keys."""


def test_a_view_that_is_stopped_shows_the_cursor_and_hears_keys_when_it_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "view.py"
    script.write_text(STOPPED)
    environ = {**os.environ, "PS1": "ready> ", "TERM": "xterm-256color"}
    child = pexpect.spawn("bash", ["--norc", "--noprofile", "-i"], env=environ, timeout=20)
    child.expect_exact("ready> ")
    child.sendline(f"{sys.executable} {script}")
    child.expect_exact("begun")
    for _ in range(2):  # it stops the second time too
        time.sleep(0.3)
        child.send("\x1a")
        child.expect_exact("\x1b[?25h")
        child.expect_exact("Stopped")
        child.expect_exact("ready> ")
        child.sendline("fg")
        child.expect_exact("view.py")
        time.sleep(0.3)
        child.send("k")
        child.expect_exact("key k")
    child.close(force=True)
