"""Ctrl-C during a statement: the first asks it to end, the second ends the process.

Python runs signal handlers in its main thread, between two of its own instructions; native code (a locked
database, a large file) may delay that for long. A thread of this module then ends the shell: the session and
its engine are other processes, and continue.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from stqsh.shell.exit_codes import INTERRUPTED
from stqsh.shell.messages import fold, print_message
from stqsh.shell.terminal.capabilities import CLEAR, CLEAR_LINE, SHOW_CURSOR, is_interactive, terminal_width

_current: list[InterruptCounter] = []
"""The watches of `force_on_second_interrupt` blocks that are open, the innermost last."""
GRACE_S = 1.0
"""Time that Python has to answer a second Ctrl-C itself."""


@contextmanager
def force_on_second_interrupt(farewell: str) -> Iterator[None]:
    """Let a second Ctrl-C end the process with `farewell` where the first is not answered.

    Does nothing outside the main thread, as only that one may handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = InterruptCounter(farewell)
    before = signal.signal(signal.SIGINT, watch.answered)
    _current.append(watch)
    try:
        yield
    finally:
        _current.remove(watch)
        watch.close()
        signal.signal(signal.SIGINT, before)


def is_watching() -> bool:
    """Whether a `force_on_second_interrupt` block is open."""
    return bool(_current)


@contextmanager
def hand_over_interrupts(
    interrupted: Callable[[], None], restore: Callable[[], None]
) -> Iterator[InterruptCounter]:
    """Hand Ctrl-C to a full-screen program; for the main thread, within `force_on_second_interrupt`.

    Each Ctrl-C calls `interrupted` from a signal handler; the program calls `heard` once it has reacted. A
    second one that is not heard ends the process, after `restore` has reset the terminal.
    """
    watch = _current[-1]
    before = signal.signal(signal.SIGINT, lambda *_: interrupted())
    watch.restore = restore
    try:
        yield watch
    finally:
        watch.restore = None
        watch.heard()
        watch.listen()
        signal.signal(signal.SIGINT, before)


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Leave Ctrl-C to another program on the terminal, such as a pager or an editor."""
    # A handler, and not SIG_IGN, which the program would inherit.
    before, wakeup = signal.signal(signal.SIGINT, lambda *_: None), signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, before)


class InterruptCounter:
    """Counts interrupts received and interrupts answered. `restore` makes the terminal usable again."""

    def __init__(self, farewell: str) -> None:
        self._farewell = farewell
        self._came = self._answered = 0
        self.restore: Callable[[], None] | None = None
        self._over = threading.Event()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._look, name="interrupts", daemon=True)
        self._thread.start()

    def answered(self, number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt` in the main thread, as Python's own handler does."""
        self._answered += 1
        raise KeyboardInterrupt

    def heard(self) -> None:
        """Note that every interrupt so far has been answered."""
        self._answered = self._came

    def listen(self) -> None:
        """Receive signals again after another owner of the wakeup fd, such as an asyncio loop."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def close(self) -> None:
        """End the thread, and restore the wakeup fd."""
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        self._over.set()
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _look(self) -> None:
        """Read a byte for each signal until the pipe is closed."""
        while numbers := os.read(self._read, 64):
            self._came += numbers.count(signal.SIGINT)
            if self._came - self._answered >= 2:
                self._force(self._answered)

    def _force(self, answered: int) -> None:
        if self._over.wait(GRACE_S) or self._answered > answered:
            self._came = self._answered
            return
        if self.restore is not None:
            self.restore()
        elif is_interactive(sys.stdout):
            os.write(sys.stdout.fileno(), (CLEAR + SHOW_CURSOR).encode())  # a status line hides the cursor
        print_message(f"\n{self._farewell}")
        os._exit(INTERRUPTED)


def overwrite_echo(text: str) -> str:
    """Return the text so that it overwrites the `^C` that the terminal echoed."""
    text = fold(text, terminal_width(sys.stdout))
    return f"{CLEAR_LINE}{text}" if is_interactive(sys.stdout) else text
