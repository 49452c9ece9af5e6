r"""What a terminal shows of answers: the pager, `\G`, plain characters, `\e`, the init file, `\o`.

Typed at the real shell; the session behind it is made up, so that no engine starts.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte
import pytest

ROOT = Path(__file__).parents[2]
DRIVER = """
import sys
from pathlib import Path
from stqsh.client.results import Rows
from stqsh.shell.repl.app import Shell
from shell.test_shell import Session

long = Rows("x", ("n", "text"), tuple((n, "far " * 40 + "away") for n in range(1, 101)))
short = Rows("x", ("n", "text"), ((1, "here"),))
answers = {"SHOW STREAMS": long, "SHOW SLOTS": short, "SHOW SLOTS FORMAT csv": short}
sys.exit(Shell("mine", lambda: Session(Path(sys.argv[1]), answers), "table").run(init=True))
"""


class Screen:
    """A terminal of 100 by 30 characters with the shell in it."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._screen = pyte.Screen(100, 30)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.child = pexpect.spawn(
            sys.executable, ["-c", DRIVER, str(folder)], env=environ, cwd=folder, dimensions=(30, 100)
        )
        self._screen.write_process_input = self.child.send
        self.wait("stqsh>")

    def type(self, text: str) -> None:
        self.child.send(text + "\r")

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def wait(self, pattern: str, seconds: float = 100) -> str:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text()):
            assert time.monotonic() < deadline, f"no {pattern!r} in\n{self.text()}"
            try:
                data = self.child.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                continue
            self.raw += data
            self._stream.feed(data)
        return self.text()


def test_what_was_typed_before_the_pager_opened_is_at_the_next_prompt(shell: Callable[..., Screen]) -> None:
    screen = shell(STQSH_PAGER="less")
    screen.child.send("SHOW STREAMS;\rSHOW SLOTS;")  # the second one comes while the first is answered
    screen.wait("space goes on")
    screen.child.send("q")
    screen.wait(r"stqsh> SHOW SLOTS;")
    screen.type("")
    screen.wait("here")
    screen.type("\\q")


def test_ctrl_z_puts_the_shell_into_the_background_and_fg_brings_it_back(tmp_path: Path) -> None:
    environ = {**os.environ, "STQSH_HOME": str(tmp_path / "home"), "PS1": "sh> ", "TERM": "xterm"}
    environ["PROMPT_TOOLKIT_NO_CPR"] = "1"
    words = ["--norc", "--noprofile", "-i"]
    child = pexpect.spawn("bash", words, env=environ, cwd=tmp_path, dimensions=(30, 100), encoding="utf-8")
    (tmp_path / "driver.py").write_text(DRIVER)
    child.sendline(f"PYTHONPATH={ROOT}:{ROOT}/tests {sys.executable} driver.py {tmp_path}")
    child.expect("stqsh>", timeout=100)
    child.send("\x1a")
    child.expect("Stopped", timeout=30)
    child.sendline("stty -a | tr -s ' ;' '\\n' | grep -xE -e '-?(icanon|echo)'")
    child.expect(r"[^-]icanon\r\necho\r\n", timeout=30)
    child.sendline("fg")
    child.expect("stqsh>", timeout=30)
    child.send("SHOW SLOTS;\r")
    child.expect("here", timeout=30)
    child.send("\\q\r")
    child.expect("sh> ", timeout=30)
    child.sendline("exit")
    child.expect(pexpect.EOF, timeout=30)
    child.close()


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Screen]:
    def opened(**environ: str) -> Screen:
        unset = {"NO_COLOR", "PAGER", "LESS", "STQSH_PAGER", "LC_ALL", "LC_CTYPE", "VISUAL"}
        values = {name: value for name, value in os.environ.items() if name not in unset}
        values |= {"STQSH_HOME": str(tmp_path / "home"), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        values |= {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
            "STQSH_INIT": str(tmp_path / "init.stq"),
        }
        return Screen(tmp_path, {**values, **environ})

    return opened


def test_a_long_answer_goes_through_the_pager_and_a_short_one_does_not(shell: Callable[..., Screen]) -> None:
    screen = shell(PAGER="grep -c far; echo paged")
    screen.type("SHOW SLOTS;")
    assert "paged" not in screen.wait(r"\(1 row\)")
    screen.type("SHOW STREAMS;")
    screen.wait(r"\n\d{3}\npaged")
    screen.type("\\pset pager off")
    screen.wait("pager is off")
    screen.type("SHOW STREAMS;")
    screen.wait(r"\(100 rows\)")


def test_an_answer_is_shown_without_a_pager_that_cannot_be_run(shell: Callable[..., Screen]) -> None:
    screen = shell(PAGER="nosuchpager --wide")
    screen.type("SHOW STREAMS;")
    screen.wait(r"\(100 rows\)\n(.*\n)?the pager nosuchpager --wide cannot be run; \\pset pager off")


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less_scrolls_sideways_leaves_what_it_showed_and_takes_ctrl_c(shell: Callable[..., Screen]) -> None:
    screen = shell()
    screen.type("SHOW STREAMS;")
    assert "away" not in screen.wait(r"\nspace goes on, .*q leaves")
    screen.child.send("\x1b)\x1b)")
    screen.wait("far far away")
    screen.child.sendintr()
    screen.child.send("q")
    screen.type("SHOW SLOTS;")
    assert "far" in screen.wait(r"\(1 row\)")


def test_upright_answers_end_with_a_backslash_g(shell: Callable[..., Screen]) -> None:
    screen = shell()
    screen.type("SHOW SLOTS \\G")
    screen.wait(r"-- 1 -+\nn     1\ntext  here\n\(1 row\)")


def test_a_terminal_without_utf8_or_colours_gets_neither(shell: Callable[..., Screen]) -> None:
    screen = shell(LC_ALL="C", NO_COLOR="1")
    screen.type("SHOW SLOTS;")
    screen.wait(r"n +text\n-+\n1 +here")
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", screen.raw)


def test_an_edited_statement_comes_to_the_prompt(shell: Callable[..., Screen], tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\ngrep -q SHOW "$1" && echo "SHOW SLOTS;" > "$1"\n')
    editor.chmod(0o755)
    screen = shell(EDITOR="./editor")
    screen.type("\\e")
    screen.wait(r"the editor .* ended with code 1; the statement is unchanged")
    screen.type("SHOW OTHER;")
    screen.wait("expected")
    screen.type("\\e")
    screen.wait("stqsh> SHOW SLOTS;")
    screen.child.send("\r")
    screen.wait(r"\(1 row\)")


def test_the_init_file_is_read_first(shell: Callable[..., Screen], tmp_path: Path) -> None:
    (tmp_path / "init.stq").write_text("\\timing on\n\\set what SLOTS\n\\bogus\n")
    screen = shell()
    screen.wait(r"hint: \\\? lists the commands")
    (tmp_path / "init.stq").write_text("\\timing on\n\\set what SLOTS\n")
    screen = shell()
    screen.wait("timing is on")
    screen.type("SHOW :what;")
    screen.wait(r"\(1 row\)\n\ntime: \d+\.\d+ s")


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_a_command_that_wants_the_terminal_does_not_hold_the_prompt(shell: Callable[..., Screen]) -> None:
    screen = shell()
    screen.type("\\o | less")
    screen.wait("results go to")
    screen.type("SHOW STREAMS;")
    screen.type("\\o")
    screen.wait("the command less wants the terminal")
    screen.type("SHOW SLOTS;")
    screen.wait(r"\(1 row\)")


def test_results_go_to_a_file_and_a_command(shell: Callable[..., Screen], tmp_path: Path) -> None:
    screen = shell()
    screen.type("\\o out.csv")
    screen.wait("results go to out.csv")
    screen.type("SHOW SLOTS;")
    screen.type("\\o | tr a-z A-Z")
    screen.wait("results go to \\| tr")
    screen.type("SHOW SLOTS FORMAT csv;")
    screen.type("\\o | exit 3")
    screen.wait("1,HERE")
    screen.type("\\o")
    screen.wait("the command exit 3 ended with 3")
    assert (tmp_path / "out.csv").read_text() == "n,text\n1,here\n"
    screen.type("\\o none/x.csv")
    screen.wait("cannot write none/x.csv: no such file or directory")
    screen.type("SHOW SLOTS;")
    screen.wait(r"\(1 row\)")
