"""Keep keys that are typed before another program uses the terminal, for the next prompt."""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

_LOCAL, _CONTROL = 3, 6
"""Indexes into the attributes that termios reports for a terminal."""


@contextmanager
def kept_type_ahead() -> Iterator[None]:
    """Read the keys typed so far, and pass them to the next prompt afterwards.

    Otherwise a pager would read them as its own.
    """
    keys = typed_keys(sys.stdin)
    try:
        yield
    finally:
        if keys:
            store_typeahead(get_app_session().input, keys)


def typed_keys(stream: IO[Any]) -> list[KeyPress]:
    """Read and return the pending keys of a terminal; none from anything else."""
    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    parser.feed(_waiting(stream).decode(errors="ignore"))
    parser.flush()
    return keys


def _waiting(stream: IO[Any]) -> bytes:
    found = b""
    with suppress(OSError, ValueError, termios.error):
        file = stream.fileno()
        if not stream.isatty() or os.tcgetpgrp(file) != os.getpgrp():
            return found
        before = termios.tcgetattr(file)
        # An unfinished line can only be read in non-canonical mode.
        now = [*before[:_CONTROL], list(before[_CONTROL])]
        now[_LOCAL] &= ~termios.ICANON
        now[_CONTROL][termios.VMIN], now[_CONTROL][termios.VTIME] = 0, 0
        termios.tcsetattr(file, termios.TCSANOW, now)
        try:
            while select.select([file], [], [], 0)[0] and (data := os.read(file, 4096)):
                found += data
        finally:
            termios.tcsetattr(file, termios.TCSANOW, before)
    return found
