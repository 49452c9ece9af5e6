"""Measure the time from a keystroke to its echo in a terminal, with completion, at rest and under load."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import statistics
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.drive import Say, temporary_folder
from stqsh.bench.options import option
from stqsh.client.engine_process import stop_engine
from stqsh.storage.home import open_home, remove_home

COLUMNS = {
    "what": "while",
    "keys": "keys",
    "ms": "median ms",
    "p99": "p99 ms",
    "max": "max ms",
}
KEY = ("what",)
FIGURES: dict[str, Better] = {"ms": LESS, "p99": LESS}
STATEMENT = (
    "SELECT oid, kind, speed FROM cars WHERE status = 'free' AND speed BETWEEN a AND b "
    "INSIDE CIRCLE(x, y, r) AND kind LIKE 'taxi' ORDER BY speed DESC LIMIT n"
)
"""The statement that is typed; it has no digits, since the clock below the prompt shows digits, too."""

_SIZE = (30, 100)
_PROMPT = b"stqsh>"
_READY = b"engine ready"
_QUIET_S = 0.06
"""How long the terminal must be silent before the next key, so that a menu is not taken for an echo."""

_PATIENCE_S = 300.0
_KILL_LINE, _DRAW_ALL = b"\x15", b"\x0c"
_CARS = (
    "CREATE MOVING STREAM cars FROM GENERATOR 'network' (objects => {objects}) TICK 1 s REPORT EVERY 30 s; "
    "REGISTER QUERY free AS SELECT oid FROM cars WHERE status = 'free'; PLAY cars AT MAX;"
)


@dataclass(frozen=True)
class KeyEchoOptions:
    """What to type, and under what load; see the help of each option."""

    times: int = option(3, "How often a statement is typed.")
    objects: int = option(20_000, "Moving objects while the engine is at work.")


FULL = KeyEchoOptions()
QUICK = KeyEchoOptions(times=1)


def measure(options: KeyEchoOptions, say: Say) -> list[Row]:
    """Type a statement repeatedly while the engine is idle, then while it replays at full speed."""
    times, objects = options.times, options.objects
    with _shell() as terminal:
        say("waiting for the engine")
        terminal.wait_for_toolbar(_READY)
        say(f"typing a statement of {len(STATEMENT)} characters {times} times")
        rest = [ms for _ in range(times) for ms in _typed(terminal)]
        terminal.send(_CARS.format(objects=objects).encode() + b"\r")
        terminal.wait_for_toolbar(b"records/s")
        say(f"the same while {objects:,} objects are replayed at the engine's full speed")
        load = [ms for _ in range(times) for ms in _typed(terminal)]
    return [_row("the engine rests", rest), _row("it works as hard as it can", load)]


def _row(what: str, echoes: list[float]) -> Row:
    return {
        "what": what,
        "keys": len(echoes),
        "ms": echoes,
        "p99": statistics.quantiles(echoes, n=100)[98],
        "max": max(echoes),
    }


def _typed(terminal: PseudoTerminal) -> Iterator[float]:
    """Yield the milliseconds from each key of the statement to its echo."""
    for character in STATEMENT.encode():
        terminal.settle()
        begun = time.perf_counter()
        terminal.send(bytes([character]))
        terminal.wait(bytes([character]).strip())  # for a blank the terminal only moves the cursor
        yield 1000 * (time.perf_counter() - begun)
    terminal.send(_KILL_LINE)
    terminal.settle()


class PseudoTerminal:
    """The controlling end of a pseudo-terminal."""

    def __init__(self, master: int) -> None:
        self._master = master

    def send(self, keys: bytes) -> None:
        """Send keys."""
        os.write(self._master, keys)

    def wait(self, text: bytes) -> None:
        """Read until the text comes, or anything if it is empty. Raises `TimeoutError`."""
        seen, deadline = b"", time.monotonic() + _PATIENCE_S
        while not seen or text not in seen:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the shell does not show {text.decode()!r}")
            seen += self._read(1.0)

    def wait_for_toolbar(self, text: bytes) -> None:
        """Read until a text comes in the toolbar, redrawing it, as only its changes are drawn otherwise."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            self.send(_DRAW_ALL)
            time.sleep(0.5)
            if text in self._read(0.5):
                return
        raise TimeoutError(f"the shell does not show {text.decode()!r}")

    def settle(self) -> None:
        """Read until the terminal is silent, but for at most half a second: a clock may go on."""
        deadline = time.monotonic() + 0.5
        while self._read(_QUIET_S) and time.monotonic() < deadline:
            pass

    def _read(self, seconds: float) -> bytes:
        ready, _, _ = select.select([self._master], [], [], seconds)
        data = os.read(self._master, 65536) if ready else b""
        if b"\x1b[6n" in data:
            self.send(b"\x1b[1;1R")  # the cursor's place, as a terminal reports it
        return data


@contextmanager
def _shell() -> Iterator[PseudoTerminal]:
    """Run a shell in a pseudo-terminal with a home of its own; stop its engine afterwards."""

    with temporary_folder() as folder:
        pid, master = pty.fork()
        if pid == 0:
            os.environ.update(STQSH_HOME=str(folder), TERM="xterm-256color")
            os.execv(sys.executable, [sys.executable, "-m", "stqsh", "--no-init"])
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
        terminal = PseudoTerminal(master)
        try:
            terminal.wait(_PROMPT)
            yield terminal
        finally:
            os.write(master, _KILL_LINE + b"\\q\r")
            os.close(master)
            os.waitpid(pid, 0)
            home = open_home(root=folder)
            stop_engine(home)
            remove_home(home)
