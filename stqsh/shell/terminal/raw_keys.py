"""The keys pressed while a live view scrolls: read without waiting and without echo.

Ctrl-C remains a signal, so that it always works. prompt_toolkit's parser converts the terminal's input to
keys. Before Ctrl-Z stops the program, the terminal is restored, including its cursor.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import IO, Any, NamedTuple, Self

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from stqsh.shell.terminal.capabilities import SHOW_CURSOR, is_interactive

_ESCAPE_S = 0.05
"""How long to wait after an Escape for the rest of a key sequence."""


class PressedKey(NamedTuple):
    """A key with prompt_toolkit's name (`a`, `up`, `c-m`), and its text."""

    key: str
    data: str


class RawKeys:
    """Reads the keys of a terminal, as a context manager; returns none if `stream` is not a terminal.

    A background job does not touch the terminal.
    """

    def __init__(self, stream: IO[Any] | None = None) -> None:
        self._stream = sys.stdin if stream is None else stream
        self._found: list[PressedKey] = []
        self._parser = Vt100Parser(self._take)
        self._before: list[Any] | None = None
        self._signals: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if not self.there:
            return self
        self._before = termios.tcgetattr(self._stream)
        self._silence()
        if threading.current_thread() is threading.main_thread():
            self._signals[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._continued)
            if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:  # else nobody continues the program
                self._signals[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stopped)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            return
        for number, before in self._signals.items():
            signal.signal(number, before)
        if _in_foreground(self._stream):
            termios.tcsetattr(self._stream, termios.TCSADRAIN, self._before)
        self._before, self._signals = None, {}

    @property
    def there(self) -> bool:
        """Whether keys can be read."""
        return _in_foreground(self._stream)

    def pressed(self, wait_s: float) -> list[PressedKey]:
        """Return the keys pressed since the last call, waiting up to `wait_s` seconds for one."""
        if self._before is None:
            time.sleep(wait_s)
            return []
        if self._ready(wait_s):
            self._read()
            while not self._found and self._ready(_ESCAPE_S):
                self._read()
            self._parser.flush()  # a single Escape is a key
        found, self._found = self._found, []
        return found

    def _take(self, press: KeyPress) -> None:
        self._found.append(PressedKey(str(getattr(press.key, "value", press.key)), press.data))

    def _ready(self, wait_s: float) -> bool:
        return bool(select.select([self._stream], [], [], wait_s)[0]) and _in_foreground(self._stream)

    def _read(self) -> None:
        data = os.read(self._stream.fileno(), 4096)
        if not data:
            raise KeyboardInterrupt  # the terminal is closed
        self._parser.feed(data.decode(errors="ignore"))

    def _silence(self) -> None:
        """Make keys available immediately, without echo."""
        if _in_foreground(self._stream):
            wanted = termios.tcgetattr(self._stream)
            wanted[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(self._stream, termios.TCSADRAIN, wanted)

    def _stopped(self, number: int, frame: FrameType | None) -> None:
        """Restore the terminal, and stop as without this handler; reinstall the handler afterwards."""
        del frame
        if _in_foreground(self._stream) and self._before is not None:
            termios.tcsetattr(self._stream, termios.TCSADRAIN, self._before)
            if is_interactive(sys.stdout):
                os.write(sys.stdout.fileno(), SHOW_CURSOR.encode())  # a status line hides it
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._stopped)
        self._silence()

    def _continued(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._silence()


def _in_foreground(stream: IO[Any]) -> bool:
    """Return whether a stream is a terminal that this program may read and set."""
    with suppress(OSError, ValueError):
        return stream.isatty() and os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    return False
