"""Ctrl-C: the first one requests the end of a statement or full-screen view, the second ends the process.

Python runs signal handlers in its main thread, between two bytecode instructions; native code (a locked
database, a large file) may delay that for a long time. In that case a thread of this module ends the shell;
the session and its engine are other processes, and continue.

prompt_toolkit reads Ctrl-C as a key, which a view that is stuck never handles. `run_interruptibly` therefore
makes the terminal send a signal for it.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from stqsh.shell.exit_codes import INTERRUPTED
from stqsh.shell.messages import fold, print_message
from stqsh.shell.terminal.capabilities import (
    CLEAR,
    CLEAR_LINE,
    RESET,
    SHOW_CURSOR,
    is_interactive,
    terminal_width,
)

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

_current: list[InterruptCounter] = []
"""The counters of open `force_on_second_interrupt` blocks, the innermost last."""
GRACE_S = 1.0
"""How long Python may take to handle a second Ctrl-C itself."""
FAREWELL = "left by force; the session, its queries and streams go on"
_RESET_TERMINAL = "\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?1049l" + SHOW_CURSOR + RESET
"""Control codes to restore a terminal: no mouse, no bracketed paste, normal screen, cursor, no colours."""
_LOCAL, _KEYS = 3, 6
"""Indexes into the attributes that termios reports for a terminal."""
_DISABLED = b"\0"


@contextmanager
def force_on_second_interrupt(farewell: str) -> Iterator[None]:
    """End the process with `farewell` at a second Ctrl-C if the first one was not handled.

    Does nothing outside the main thread, because only the main thread may handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    counter = InterruptCounter(farewell)
    before = signal.signal(signal.SIGINT, counter.answered)
    _current.append(counter)
    try:
        yield
    finally:
        _current.remove(counter)
        counter.close()
        signal.signal(signal.SIGINT, before)


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C while another program, such as a pager or an editor, uses the terminal."""
    # Install a handler instead of SIG_IGN, which the other program would inherit.
    before, wakeup = signal.signal(signal.SIGINT, lambda *_: None), signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, before)


def run_interruptibly(app: Application[None]) -> None:
    """Run a full-screen program until it ends; a second, unhandled Ctrl-C ends the process."""
    if threading.current_thread() is not threading.main_thread():
        app.run()
        return
    with nullcontext() if _current else force_on_second_interrupt(FAREWELL):
        _run(app, _current[-1])


class InterruptCounter:
    """Counts received and handled interrupts.

    Attributes:
        restore: Makes the terminal usable again before the process is ended; None for the default.
    """

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
        """Record that all interrupts so far have been handled."""
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


def _run(app: Application[None], counter: InterruptCounter) -> None:
    """Run a program; each Ctrl-C is passed to its loop, and counts as handled once the loop has done so."""
    fd = app.input.fileno()
    attributes = termios.tcgetattr(fd) if os.isatty(fd) else None
    before = signal.signal(signal.SIGINT, lambda *_: _interrupt(app, counter))
    counter.restore = lambda: _restore(fd, attributes)
    app.before_render += _once(lambda: _send_signals(fd, counter))
    try:
        app.run(handle_sigint=False)
    except SystemExit:  # a signal that comes while the first frame is drawn finds nothing else that restores
        _restore(fd, attributes)
        raise
    finally:
        counter.restore = None
        counter.heard()
        counter.listen()
        signal.signal(signal.SIGINT, before)


def _once(action: Callable[[], None]) -> Callable[[Any], None]:
    """Return an event handler that acts only the first time."""
    waiting = [action]

    def handler(_: Any) -> None:
        if waiting:
            waiting.pop()()

    return handler


def _send_signals(fd: int, counter: InterruptCounter) -> None:
    """Make the terminal send a signal for Ctrl-C, and for no other key; called once the loop has started."""
    counter.listen()
    with suppress(termios.error):  # not a terminal, as in tests
        attributes = termios.tcgetattr(fd)
        attributes[_LOCAL] |= termios.ISIG
        for key in (termios.VQUIT, termios.VSUSP):
            attributes[_KEYS][key] = _DISABLED
        termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _interrupt(app: Application[None], counter: InterruptCounter) -> None:
    def handle() -> None:
        app.key_processor.send_sigint()
        counter.heard()

    if app.loop is not None and not app.is_done:
        app.loop.call_soon_threadsafe(handle)


def _restore(fd: int, attributes: list[Any] | None) -> None:
    """Restore the terminal to its state before the program."""
    if attributes is not None:
        os.write(sys.stdout.fileno(), _RESET_TERMINAL.encode())
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
