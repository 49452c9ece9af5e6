"""Standard input that is copied into a stream: nothing is lost between its end and that of the client."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stqsh.client import stdin_pump
from stqsh.client.stdin_pump import pump_stdin, wait_for_stdin
from stqsh.sources.live import line_spool
from stqsh.sources.live.line_spool import PART, SpoolSource


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Make standard input a pipe; what is written to the descriptor comes in."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


def test_a_client_waits_until_its_input_has_ended(writing: int, tmp_path: Path) -> None:
    pump_stdin(tmp_path)
    said: list[str] = []

    def write() -> None:
        os.write(writing, b"a\nb\nc")
        os.close(writing)

    later = threading.Timer(0.2, write)
    later.start()
    wait_for_stdin(said.append)
    state = SpoolSource(tmp_path).state()
    assert (state.ends, state.ended) == ({PART: 3}, True)
    assert said == ["standard input still feeds the session; its end or Ctrl-C ends this"]
    wait_for_stdin(said.append)
    assert len(said) == 1


def test_input_waits_while_the_disk_is_full(
    writing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = iter([True, True, False, False])
    monkeypatch.setattr(line_spool, "is_full", lambda _: next(full))
    monkeypatch.setattr(stdin_pump, "_FULL_S", 0.01)
    os.write(writing, b"a\n")
    os.close(writing)
    pump_stdin(tmp_path).join(10)
    assert SpoolSource(tmp_path).state().ends == {PART: 1}
    assert next(full, None) is None


def test_the_input_of_a_stream_that_is_dropped_ends_without_a_word(
    writing: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "spool"
    thread = pump_stdin(folder)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    os.write(writing, b"for nobody\n")
    os.close(writing)
    thread.join(10)
    assert not thread.is_alive()
    assert capsys.readouterr().err == ""


def test_a_stream_after_one_that_was_dropped_gets_all_that_comes(writing: int, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    thread = pump_stdin(first)
    os.write(writing, b"a\n")
    deadline = time.monotonic() + 20
    while SpoolSource(first).state().ends != {PART: 1} and time.monotonic() < deadline:
        time.sleep(0.01)
    shutil.rmtree(first)
    assert pump_stdin(second) is thread
    for _ in range(300):
        os.write(writing, b"b\n")
    os.close(writing)
    thread.join(10)
    state = SpoolSource(second).state()
    assert (state.ends, state.ended) == ({PART: 300}, True)


def test_input_that_does_not_block_is_waited_for(writing: int, tmp_path: Path) -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    thread = pump_stdin(tmp_path)
    time.sleep(0.1)
    os.write(writing, b"a\n")
    os.close(writing)
    thread.join(10)
    state = SpoolSource(tmp_path).state()
    assert (state.ends, state.ended) == ({PART: 1}, True)
