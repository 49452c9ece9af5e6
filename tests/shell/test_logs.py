"""`stqsh logs` and `stqsh doctor`, from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from stqsh.session.control import ControlDb
from stqsh.session.home import SessionHome, open_home
from stqsh.shell.logs import last_lines

STQSH = (sys.executable, "-m", "stqsh")


@pytest.fixture
def home(tmp_path: Path) -> SessionHome:
    home = open_home("mine", root=tmp_path)
    ControlDb(home.path).close()
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


def test_a_log_is_followed_into_the_next_engines(home: SessionHome) -> None:
    home.engine_log.write_text("first\n")
    environ = {**os.environ, "STQSH_HOME": str(home.path.parent)}
    child = pexpect.spawn(STQSH[0], [*STQSH[1:], "logs", "-s", "mine", "--follow"], env=environ, timeout=20)
    child.expect("first")
    with home.engine_log.open("a") as log:
        log.write("second\n")
    child.expect("second")
    home.engine_log.rename(home.engine_log.with_suffix(".log.1"))
    home.engine_log.write_text("third\n")
    child.expect("third")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


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
