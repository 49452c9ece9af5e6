"""The capabilities of a terminal: cursor movement, colours, width, character set; and control codes.

Data in pipes and files is always UTF-8; the character set only matters for text drawn on the terminal.
"""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from contextlib import suppress
from typing import TextIO

BOLD, DIM, GREEN, RED, CYAN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[36m"
BOLD_RED, RESET = "\x1b[1;31m", "\x1b[0m"
CLEAR = "\r\x1b[J"
"""Clears from the beginning of the cursor's line to the end of the screen."""
CLEAR_LINE = "\r\x1b[K"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

_DUMB = ("dumb", "unknown")
_LINES = {"─": "-", "━": "=", "│": "|", "…": "~", "—": "-", "▏": "|", "·": "."}
_BARS = dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True))
_ARROWS = {"↑": "^", "↓": "v", "←": "<", "→": ">", "▸": ">"}
_ASCII = str.maketrans(_LINES | _BARS | _ARROWS)


def is_interactive(stream: object) -> bool:
    """Return whether `stream` is a terminal that can move its cursor and clear.

    A dumb terminal (`TERM=dumb`, as in an editor's shell) shows the control codes for these as text.
    """
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return bool(is_terminal) and os.environ.get("TERM") not in _DUMB


def has_colour(stream: object) -> bool:
    """Return whether output to `stream` may be in colour: an interactive terminal, and no NO_COLOR."""
    return is_interactive(stream) and not os.environ.get("NO_COLOR")


def terminal_width(stream: TextIO) -> int | None:
    """Return the number of columns of a stream's terminal; None if it is not a terminal."""
    if not stream.isatty():
        return None
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or None
    return None


def table_width() -> int | None:
    """Return the maximum number of columns of a table on standard output; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def terminal_charset() -> str:
    """Return the character set in the locale's environment variables; UTF-8 by default."""
    named = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    locale, _, charset = named.partition("@")[0].partition(".")
    if not charset:
        return "ascii" if locale in ("C", "POSIX") else "utf-8"
    try:
        return codecs.lookup(charset).name
    except LookupError:
        return "utf-8"


def encode_for_terminal(text: str) -> bytes:
    """Encode a drawn text in the terminal's character set.

    Lines and bars become ASCII if the set lacks them; any other missing character becomes `?`.
    """
    charset = terminal_charset()
    return text.encode() if charset == "utf-8" else _encode(text, charset)


def replace_undrawable(text: str) -> str:
    """Return the text with characters that the terminal lacks replaced, as by `encode_for_terminal`."""
    charset = terminal_charset()
    return text if charset == "utf-8" else _encode(text, charset).decode(charset)


def _encode(text: str, charset: str) -> bytes:
    return text.translate(_ASCII).encode(charset, errors="replace")
