r"""`\watch`: repeat a statement that only reads; on a terminal it is redrawn in place."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING

from stqsh.client import results
from stqsh.shell.scripting.watch_interval import WatchInterval
from stqsh.shell.terminal.capabilities import (
    CLEAR,
    DIM,
    HIDE_CURSOR,
    RESET,
    SHOW_CURSOR,
    encode_for_terminal,
    has_colour,
    terminal_charset,
)
from stqsh.shell.terminal.raw_keys import RawKeys
from stqsh.shell.writers.opening import open_writer, write_data
from stqsh.shell.writers.writer import Target

if TYPE_CHECKING:
    from stqsh.client.results import Outcome

_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""Control codes for line wrapping: a wrapped line would take more lines than the cursor moves back."""
DRAWN = ("table", "vertical", "markdown")
"""The human-readable formats, which are redrawn in place on a terminal."""


def repeat_in_place(how: WatchInterval, title: str, lines: Callable[[], list[str]], stream: IO[bytes]) -> int:
    """Repeat a statement, redrawn in place on the terminal `stream`; the last answer stays. `q` ends it, too.

    Returns:
        The number of times it was shown.

    Raises:
        KeyboardInterrupt: The user leaves with Ctrl-C.
    """
    number, began, frame = 0, time.monotonic(), RedrawnFrame(stream, colour=has_colour(sys.stdout))
    with RawKeys() as keys:
        try:
            while how.count is None or number < how.count:
                number += 1
                hint = "q leaves" if keys.there else "Ctrl-C leaves"
                frame.draw(f"{title}  {how.words}  {number}  {time.strftime('%H:%M:%S')}  {hint}", lines())
                until = began + number * how.interval_s
                left = until - time.monotonic()
                while number != how.count:
                    # Check keys at least once, because a statement may take longer than the interval.
                    if any(press.key in ("q", "c-d") for press in keys.pressed(max(0.0, min(left, 0.2)))):
                        return number
                    if (left := until - time.monotonic()) <= 0:
                        break
        finally:
            frame.close()
    return number


class RedrawnFrame:
    """A frame that is redrawn in place; the hidden cursor is at its beginning, as in `screen`."""

    def __init__(self, stream: IO[bytes], *, colour: bool) -> None:
        self._stream = stream
        self._colour = colour
        self._height = 0

    def draw(self, title: str, lines: list[str]) -> None:
        """Draw a title and as many lines as fit."""
        width, height = shutil.get_terminal_size()
        room = height - 3
        if len(lines) > room:
            lines = [*lines[:room], f"… {len(lines) - room} more lines"]
        head = title if len(title) < width else title[: width - 2] + "…"
        shown = [f"{DIM}{head}{RESET}" if self._colour else head, *lines]
        self._height = len(shown)
        text = "\n".join(shown)
        self._write(f"{HIDE_CURSOR}{CLEAR}{_NO_WRAP}{text}\n{_WRAP}\x1b[{self._height}A\r")

    def close(self) -> None:
        """Leave the frame on the terminal, and the cursor below it."""
        if self._height:
            self._write(f"\x1b[{self._height}B\r{SHOW_CURSOR}")

    def _write(self, text: str) -> None:
        self._stream.write(encode_for_terminal(text))
        self._stream.flush()


def lines_of(outcomes: Iterable[Outcome], format_: str) -> list[str]:
    """Return the outcomes of read-only statements as lines for the terminal."""
    paper = io.BytesIO()
    width = shutil.get_terminal_size().columns - 1
    target = Target(paper, one_query=True, colour=has_colour(sys.stdout), width=width)
    writer = open_writer(format_, target)
    for outcome in outcomes:
        if isinstance(outcome, results.Message):
            target.draw(f"{outcome.text}\n")
        elif isinstance(outcome, results.Rows | results.Answer | results.Script):
            write_data(writer, outcome, 1)
    return paper.getvalue().decode(terminal_charset()).rstrip("\n").split("\n")
