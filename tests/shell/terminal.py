"""A shell in a pseudo-terminal, driven by keys and read from its screen."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte

from stqsh.client.engine_process import stop_engine
from stqsh.storage.home import SessionHome

STQSH = (sys.executable, "-m", "stqsh")


@contextmanager
def environment(home: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell with a home, whose session "mine" is stopped afterwards."""
    values = {**os.environ, "STQSH_HOME": str(home), "TERM": "xterm-256color"}
    values.pop("NO_COLOR", None)
    try:
        yield values
    finally:
        stop_engine(SessionHome(home / "mine"))


def exit_status(child: pexpect.spawn) -> int | None:
    """Wait until a program that is about to leave has ended; return its exit status.

    `child.close()` alone gives it a tenth of a second, and then ends it by a signal.
    """
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    status: int | None = child.exitstatus
    return status


def kill(child: pexpect.spawn) -> None:
    """End a program at once, and wait until it has ended."""
    child.kill(signal.SIGKILL)
    child.wait()
    child.close()


class Terminal:
    """A shell in a terminal of 100 by 30 characters, or of another size (columns, rows)."""

    def __init__(
        self,
        environ: dict[str, str],
        *words: str,
        size: tuple[int, int] = (100, 30),
        program: Sequence[str] = STQSH,
    ) -> None:
        columns, rows = size
        self.screen = pyte.HistoryScreen(columns, rows, history=2000)
        self._stream = pyte.ByteStream(self.screen)
        command, *arguments = (*program, *words)
        # Who runs tests in several processes gives each a size of its own; a terminal is asked for its size.
        environ = {name: value for name, value in environ.items() if name not in ("COLUMNS", "LINES")}
        self.child = pexpect.spawn(command, arguments, env=environ, dimensions=(rows, columns), use_poll=True)
        self.screen.write_process_input = self.child.send  # answers what the program asks the terminal

    def type(self, text: str) -> None:
        self.child.send(text + "\r")

    def keys(self, text: str) -> None:
        """Press keys, without Enter."""
        self.child.send(text)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def so_far(self) -> str:
        """What has left the screen at its top, and what is on it."""
        gone = ("".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top)
        return "\n".join([*(line.rstrip() for line in gone), self.text()])

    def wait(self, pattern: str, seconds: float = 200) -> str:
        """The screen, once it shows the pattern."""
        return self.until(lambda text: re.search(pattern, text) is not None, repr(pattern), seconds)

    def wait_so_far(self, pattern: str, seconds: float = 200) -> str:
        """All that came, once the pattern is in it: a line may come together with all that drives it off."""
        self.until(lambda _: re.search(pattern, self.so_far()) is not None, repr(pattern), seconds)
        return self.so_far()

    def until(self, holds: Callable[[str], bool], what: str, seconds: float = 200) -> str:
        """The screen, once something holds of it, which `what` names."""
        deadline = time.monotonic() + seconds
        while not holds(self.text()):
            assert time.monotonic() < deadline, f"no {what} in\n{self.text()}"
            try:
                self._stream.feed(self.child.read_nonblocking(65536, timeout=0.2))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                assert holds(self.text()), f"no {what} in\n{self.text()}"
        return self.text()

    def settle(self, quiet: float = 0.7, most: float = 3.0) -> None:
        """Read until nothing comes for a while, `most` seconds at the longest: a clock may tick on."""
        deadline = time.monotonic() + most
        while time.monotonic() < deadline:
            try:
                self._stream.feed(self.child.read_nonblocking(65536, timeout=quiet))
            except (pexpect.TIMEOUT, pexpect.EOF):
                return
