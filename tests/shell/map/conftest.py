"""A town that is played by hand: a session whose engine is this process, and programs that look at it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.local import local_session

from shell.terminal import STQSH
from stqsh.client.api import Session
from stqsh.client.map.scene import MapFeed
from stqsh.storage.engine_info import EngineInfo, write_engine

ROOT = Path(__file__).parents[3]


@dataclass
class Town:
    """The session of sample_data/demo.stq, published for all to see."""

    session: Session
    environ: dict[str, str]

    @property
    def step(self) -> int:
        """The step at which it is."""
        return self.session.progress().step

    def size(self, query: str) -> int:
        """How many are in the answer of a query."""
        return next(one.size for one in self.session.queries() if one.name == query)

    def run(self, steps: int) -> None:
        """Go on for some steps."""
        self.beat()
        list(self.session.execute(f"RUN {steps} STEPS;"))

    def beat(self, state: str = "ready") -> None:
        """Say that the engine lives."""
        write_engine(self.session.home, EngineInfo.now(os.getpid(), state))  # type: ignore[arg-type]

    def feed(self, text: str = "MAP taxis;") -> MapFeed:
        [feed] = self.session.execute(text)
        assert isinstance(feed, MapFeed)
        return feed

    @contextmanager
    def mapped(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`stqsh map` with some words, in a process of its own that is interrupted at the end."""
        command = [*STQSH, "map", "--session", "local", *words]
        process = subprocess.Popen(command, env=self.environ, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """One town for all tests of a module: it only goes on."""
    script, folder = ROOT / "sample_data" / "demo.stq", tmp_path_factory.mktemp("town")
    environ = {**os.environ, "STQSH_HOME": str(folder), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "COLORFGBG"):
        environ.pop(name, None)
    with local_session(folder, slots=2, published=True) as session:
        made = Town(session, environ)
        made.beat()
        text = script.read_text(encoding="utf-8").partition("RUN FOR")[0]
        list(session.execute(text, file=str(script)))
        made.run(34)
        yield made


def first_line(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """The first match in what a process says on standard error."""
    assert process.stderr is not None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = re.search(pattern, process.stderr.readline())
        if found:
            return found
    raise AssertionError(f"nothing like {pattern}")
