"""A statement that keeps silent for long shows that the session is alive, and how long it has been asked."""

import io
import re
import time
from collections.abc import Callable

import pytest

from stqsh.shell.repl import executor
from stqsh.shell.repl.executor import WaitIndicator
from stqsh.shell.terminal.screen import Screen


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    monkeypatch.setattr(executor, "SILENCE_S", 0.05)
    monkeypatch.setattr(executor, "_EVERY_S", 0.01)
    return io.BytesIO()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_long_silence_is_explained_and_the_line_goes_with_the_answer(paper: io.BytesIO) -> None:
    with WaitIndicator(lambda: Screen(paper), lambda: "step 12") as waiting:
        waiting.begin("SELECT oid FROM taxis INSIDE (0, 0, 1, 1)")
        line = rb"SELECT oid FROM taxis \xe2\x80\xa6  \d+ s  Ctrl-C leaves  step 12"
        until(lambda: re.search(line, paper.getvalue()) is not None)
        waiting.heard()
        drawn = paper.getvalue()
        assert drawn.endswith(b"\x1b[?25h")  # the cursor is there again
        time.sleep(0.1)
        assert paper.getvalue() == drawn


def test_nothing_is_drawn_where_nothing_was_asked(paper: io.BytesIO) -> None:
    with WaitIndicator(lambda: Screen(paper), lambda: ""):
        time.sleep(0.1)
    assert paper.getvalue() == b""
