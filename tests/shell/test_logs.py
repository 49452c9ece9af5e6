"""`stqsh logs` and `stqsh doctor`, from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from shell.terminal import exit_status
from stqsh.cli.logs import last_lines, whole_lines
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome, open_home

STQSH = (sys.executable, "-m", "stqsh")


@pytest.fixture
def home(tmp_path: Path) -> SessionHome:
    home = open_home("mine", root=tmp_path)
    ControlDb(home.path, create=True).close()
    return home


def stqsh(home: SessionHome, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "STQSH_HOME": str(home.path.parent)}
    return subprocess.run([*STQSH, *words], env=environ, capture_output=True, text=True, check=False)


def test_the_last_lines_of_a_log(home: SessionHome) -> None:
    home.engine_log.write_text("".join(f"line {n}\n" for n in range(10_000)))
    done = stqsh(home, "logs", "--session", "mine", "-n", "2")
    assert (done.returncode, done.stdout) == (0, "line 9998\nline 9999\n")
    assert str(home.engine_log) in done.stderr
    assert last_lines(home.engine_log, 0) == []


def test_a_log_may_come_as_json(home: SessionHome) -> None:
    home.engine_log.write_text(
        "WARNING: modules\n"
        "2026-11-21 22:36:47,487 INFO stqsh.engine: Spark is up after 42.1 s\n"
        "2026-11-21 22:38:48.415 ERROR Executor: Exception in task 1.0\n"
        "Traceback: größer\n"
    )
    done = subprocess.run(
        [*STQSH, "logs", "--session", "mine", "--json"],
        env={**os.environ, "STQSH_HOME": str(home.path.parent), "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=True,
    )
    none, up, *failed = map(json.loads, done.stdout.splitlines())
    assert none == {"at": None, "level": None, "source": None, "text": "WARNING: modules"}
    assert up["at"] == "2026-11-21T22:36:47.487Z" and up["source"] == "stqsh.engine"
    assert [(one["level"], one["source"]) for one in failed] == [("ERROR", "Executor")] * 2
    assert [one["text"] for one in failed] == ["Exception in task 1.0", "Traceback: größer"]


def test_a_log_reaches_a_terminal_without_control_characters(home: SessionHome) -> None:
    home.engine_log.write_text("one\x1b]0;title\x07\x9b1m\u2028two\nlast\n", encoding="utf-8")
    assert last_lines(home.engine_log, 2) == ["one\x1b]0;title\x07\x9b1m\u2028two", "last"]
    assert stqsh(home, "logs", "-s", "mine").stdout == home.engine_log.read_text(encoding="utf-8")
    as_json = stqsh(home, "logs", "-s", "mine", "--json").stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]", as_json)
    assert json.loads(as_json.split("\n")[0])["text"] == "one\x1b]0;title\x07\x9b1m\u2028two"
    environ = {**os.environ, "STQSH_HOME": str(home.path.parent)}
    child = pexpect.spawn(STQSH[0], [*STQSH[1:], "logs", "-s", "mine"], env=environ, timeout=100)
    child.expect_exact(r"one\x1b]0;title\x07\x9b1m\u2028two")
    child.expect_exact("last")
    assert exit_status(child) == 0


def test_what_comes_in_pieces_is_cut_into_lines() -> None:
    assert list(whole_lines(["a\nb", "c\n", "\nd"])) == ["a", "bc", ""]


def test_a_log_is_followed_into_the_next_engines(home: SessionHome) -> None:
    home.engine_log.write_text("first\n")
    environ = {**os.environ, "STQSH_HOME": str(home.path.parent)}
    child = pexpect.spawn(STQSH[0], [*STQSH[1:], "logs", "-s", "mine", "--follow"], env=environ, timeout=100)
    child.expect("first")
    with home.engine_log.open("a") as log:
        log.write("second\n")
    child.expect("second")
    home.engine_log.rename(home.engine_log.with_suffix(".log.1"))
    home.engine_log.write_text("third\n")
    child.expect("third")
    child.sendintr()
    assert exit_status(child) == 130


def test_no_log_and_no_session_say_what_there_is(home: SessionHome) -> None:
    assert "no engine was started" in stqsh(home, "logs", "--session", "mine").stderr
    done = stqsh(home, "logs", "--session", "other")
    assert "there is no session 'other'" in done.stderr
    assert "mine" in done.stderr
    assert done.returncode != 0


def test_the_doctor_is_on_the_command_line(home: SessionHome) -> None:
    done = stqsh(home, "doctor")
    assert done.returncode == 0, done.stdout
    assert "Java" in done.stdout
