"""Measure the start: the time until the prompt shows, and until a session is ready."""

from __future__ import annotations

import os
import pty
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import stqsh
from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.drive import Say, temporary_folder
from stqsh.bench.options import option
from stqsh.client.engine_process import stop_engine
from stqsh.storage.home import open_home

COLUMNS = {"what": "from a cold start to", "seconds": "median s"}
KEY = ("what",)
FIGURES: dict[str, Better] = {"seconds": LESS}

_PROMPT = b"stqsh>"


@dataclass(frozen=True)
class StartOptions:
    """The number of starts."""

    times: int = option(7, "Starts to measure.")


FULL = StartOptions()
QUICK = StartOptions(3)


def measure(options: StartOptions, say: Say) -> list[Row]:
    """Start the shell and a session repeatedly, and return the seconds until each is ready.

    The first start of each warms the disk's cache and is not counted.
    """
    times = options.times + 1
    say(f"starting a session {times} times")
    sessions = [_session_s() for _ in range(times)][1:]
    say(f"starting the shell {times} times")
    prompts = [_prompt_s() for _ in range(times)][1:]
    return [
        {"what": "the prompt", "seconds": prompts},
        {"what": "a session that is ready", "seconds": sessions},
    ]


def _session_s() -> float:
    with stqsh.connect(temporary=True) as session:
        begun = time.perf_counter()
        session.start_engine()
        return time.perf_counter() - begun


def _prompt_s() -> float:
    """Start the shell in a pseudo-terminal, wait for its prompt, leave it, and stop its engine."""
    with temporary_folder() as home:
        begun = time.perf_counter()
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(STQSH_HOME=str(home), TERM="xterm-256color")
            os.execv(sys.executable, [sys.executable, "-m", "stqsh"])
        seen = b""
        while _PROMPT not in seen:
            seen += os.read(terminal, 4096)
        seconds = time.perf_counter() - begun
        os.write(terminal, b"\\q\r")
        os.waitpid(pid, 0)
        os.close(terminal)
        _stop(home)
        return seconds


def _stop(home: Path) -> None:
    stop_engine(open_home(root=home))
