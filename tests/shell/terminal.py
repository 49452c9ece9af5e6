"""A shell in a pseudo-terminal, driven by keys and read from its screen."""

from __future__ import annotations

import re
import sys
import time

import pexpect
import pyte

STQSH = (sys.executable, "-m", "stqsh")


class Terminal:
    """A shell in a terminal of 100 by 30 characters."""

    def __init__(self, environ: dict[str, str], *words: str) -> None:
        self.screen = pyte.HistoryScreen(100, 30, history=2000)
        self._stream = pyte.ByteStream(self.screen)
        command, *arguments = (*STQSH, *words)
        self.child = pexpect.spawn(command, arguments, env=environ, dimensions=(30, 100))
        self.screen.write_process_input = self.child.send  # answers what the program asks the terminal

    def type(self, text: str) -> None:
        self.child.send(text + "\r")

    def keys(self, text: str) -> None:
        """Press keys, without Enter."""
        self.child.send(text)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, pattern: str, seconds: float = 90) -> str:
        """The screen, once it shows the pattern."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text()):
            assert time.monotonic() < deadline, f"no {pattern!r} in\n{self.text()}"
            try:
                self._stream.feed(self.child.read_nonblocking(65536, timeout=0.2))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                assert re.search(pattern, self.text()), f"no {pattern!r} in\n{self.text()}"
        return self.text()
