"""A status line while a statement keeps the user waiting: which one, how long, what the session does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.shell.terminal.screen import Screen

SILENCE_S = 1.5
"""Time before the status line appears: most answers come sooner."""
_EVERY_S = 0.5
_WORDS = 4


class WaitIndicator:
    """Draws a status line where no answer comes for a while; used as a context manager.

    A thread draws it: between `begin` and `heard` it has the terminal to itself.

    Args:
        screen: Returns the screen, when it is first needed.
        alive: Returns what the session does.
    """

    def __init__(self, screen: Callable[[], Screen], alive: Callable[[], str]) -> None:
        self._screen, self._alive = screen, alive
        self._drawn: Screen | None = None
        self._asked: tuple[float, str] | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="patience", daemon=True)

    def __enter__(self) -> WaitIndicator:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line and stop the thread."""
        self.heard()
        self._over.set()
        self._thread.join()

    def begin(self, statement: str) -> None:
        """Note that a statement begins."""
        with self._lock:
            self._asked = time.monotonic(), " ".join(statement.split()[:_WORDS])

    def heard(self) -> None:
        """Note an outcome: clear the line, and draw none until the next statement begins."""
        with self._lock:
            self._asked = None
            if self._drawn is not None:
                self._drawn.close()
                self._drawn = None

    def _work(self) -> None:
        while not self._over.wait(_EVERY_S):
            with self._lock:
                if self._asked is not None and time.monotonic() - self._asked[0] >= SILENCE_S:
                    self._draw(*self._asked)

    def _draw(self, since: float, words: str) -> None:
        self._drawn = self._drawn or self._screen()
        waited = int(time.monotonic() - since)
        self._drawn.status(f"{words} …  {waited} s  Ctrl-C leaves  {self._alive()}", now=True)
