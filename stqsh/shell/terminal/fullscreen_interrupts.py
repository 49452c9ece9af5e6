"""Ctrl-C while a full-screen program of our own runs: the first asks it to end, the second forces.

prompt_toolkit reads Ctrl-C as a key, which a program that is stuck never comes to. Here the terminal is told
to make a signal of it again, which the thread of `stqsh.shell.terminal.interrupts` hears whatever the program
does.
"""

from __future__ import annotations

import os
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from prompt_toolkit.application import Application

from stqsh.shell.terminal.capabilities import RESET, SHOW_CURSOR
from stqsh.shell.terminal.interrupts import (
    InterruptCounter,
    force_on_second_interrupt,
    hand_over_interrupts,
    is_watching,
)

FAREWELL = "left by force; the session, its queries and streams go on"
_AS_IT_WAS = "\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?1049l" + SHOW_CURSOR + RESET
"""No mouse, no bracketed paste, the usual screen, a cursor, no colours."""
_LOCAL, _KEYS = 3, 6
"""Places in what termios tells of a terminal."""
_DISABLED = b"\0"


def run_interruptibly(app: Application[None]) -> None:
    """Run a program until it leaves. A second Ctrl-C that it does not answer ends the process."""
    if threading.current_thread() is not threading.main_thread():
        app.run()
        return
    with nullcontext() if is_watching() else force_on_second_interrupt(FAREWELL):
        _run(app)


def _run(app: Application[None]) -> None:
    fd = app.input.fileno()
    before = termios.tcgetattr(fd) if os.isatty(fd) else None
    with hand_over_interrupts(lambda: _interrupt(app, watch), lambda: _restore(fd, before)) as watch:
        app.before_render += _once(lambda: _hear_signals(fd, watch))
        app.run(handle_sigint=False)


def _once(action: Callable[[], None]) -> Callable[[Any], None]:
    """An event's handler that acts the first time only."""
    waiting = [action]

    def handler(_: Any) -> None:
        if waiting:
            waiting.pop()()

    return handler


def _hear_signals(fd: int, watch: InterruptCounter) -> None:
    """In a loop that has begun: let the terminal make a signal of Ctrl-C, though of no other key."""
    watch.listen()
    with suppress(termios.error):  # not a terminal, as in tests
        attributes = termios.tcgetattr(fd)
        attributes[_LOCAL] |= termios.ISIG
        for key in (termios.VQUIT, termios.VSUSP):
            attributes[_KEYS][key] = _DISABLED
        termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _interrupt(app: Application[None], watch: InterruptCounter) -> None:
    """From the signal handler: what Ctrl-C does comes to the program's loop, and counts once it is done."""

    def taken() -> None:
        app.key_processor.send_sigint()
        watch.heard()

    if app.loop is not None and not app.is_done:
        app.loop.call_soon_threadsafe(taken)


def _restore(fd: int, attributes: list[Any] | None) -> None:
    """Leave the terminal as it was before the program."""
    if attributes is not None:
        os.write(sys.stdout.fileno(), _AS_IT_WAS.encode())
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
