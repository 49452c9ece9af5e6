"""The live part of a terminal: scrolling lines, and one status line at the bottom.

It does not use the alternate screen, so earlier output stays. Lines that arrive faster than a terminal (and a
reader) can handle are sampled, and the screen shows how many were omitted.

The hidden cursor is at the beginning of the status line: if the terminal is made narrower and wraps the
line, the whole line is cleared from there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import IO, TextIO

from rich.cells import cell_len, set_cell_size

from stqsh.control_characters import escape_controls
from stqsh.shell.messages import take_notices
from stqsh.shell.terminal.capabilities import (
    CLEAR,
    DIM,
    HIDE_CURSOR,
    RESET,
    SHOW_CURSOR,
    encode_for_terminal,
    has_colour,
    is_interactive,
)
from stqsh.shell.writers.writer import Target
from stqsh.units import group_digits

BURST = 300
LINES_A_SECOND = 120
STATUS_EVERY_S = 0.2


class LineSampler:
    """Limits the number of displayed lines by a token bucket, and counts those omitted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._room = float(BURST)
        self._at = clock()
        self._left_out = 0

    def room(self) -> int:
        """Return how many lines may be shown now: `BURST` at once, then `LINES_A_SECOND`."""
        now = self._clock()
        self._room = min(float(BURST), self._room + (now - self._at) * LINES_A_SECOND)
        self._at = now
        return int(self._room)

    def take(self, shown: int, left_out: int = 0) -> None:
        """Record the number of displayed and of omitted lines."""
        self._room -= shown
        self._left_out += left_out

    def omission(self) -> str:
        """Return a line about the lines omitted since the last call, "" if there are none."""
        count, self._left_out = self._left_out, 0
        return f"… {group_digits(count)} more\n" if count else ""


class Screen:
    """Draws on `stream`, a terminal; if not `visible`, it shows only messages."""

    def __init__(
        self,
        stream: IO[bytes],
        *,
        colour: bool = False,
        visible: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._visible = visible
        self._stream = stream
        self._clock = clock
        self.colour = colour
        self._status = ""
        self._drawn_at = float("-inf")
        self.sample = LineSampler(clock)

    @property
    def width(self) -> int:
        """The terminal's current width in characters."""
        return shutil.get_terminal_size().columns

    @property
    def height(self) -> int:
        """The terminal's current height in lines."""
        return shutil.get_terminal_size().lines

    def target(self, *, one_query: bool) -> Target:
        """Return the target for tables on this screen."""
        return Target(self._stream, one_query, self.colour, self.width - 1)

    def lines(self, lines: list[str]) -> None:
        """Show lines above the status line."""
        if not lines:
            return
        omission = _dimmed(self.sample.omission(), self.colour)
        self._write(CLEAR + omission + "\n".join([*lines, ""]) + self._status_text())

    def message(self, text: str) -> None:
        """Show a message, which may quote names and values, above the status line."""
        self._above(escape_controls(text))

    def status(self, text: str, *, now: bool = False) -> None:
        """Replace the status line; at most a few times a second unless `now` is set.

        The text may quote names and values.
        """
        time_now = self._clock()
        if not self._visible or not (now or time_now - self._drawn_at >= STATUS_EVERY_S):
            return
        for notice in take_notices():
            self._above(notice)  # already escaped, because it may begin with a bell
        self._drawn_at, self._status = time_now, escape_controls(text, keep="")
        omission = self.sample.omission() if self.sample.room() > 0 else ""
        self._write(CLEAR + _dimmed(omission, self.colour) + self._status_text())

    def close(self) -> None:
        """Clear the status line, and show how many lines were omitted."""
        if not self._visible:
            return
        cursor, self._status = SHOW_CURSOR if self._status else "", ""
        self._write(CLEAR + _dimmed(self.sample.omission(), self.colour) + cursor)

    def pause(self) -> None:
        """Clear the status line while something else uses the terminal."""
        cursor, self._status = SHOW_CURSOR if self._status else "", ""
        self._write(CLEAR + cursor)

    def _above(self, text: str) -> None:
        self._write(f"{CLEAR if self._visible else ''}{text}\n{self._status_text()}")

    def _status_text(self) -> str:
        shown = set_cell_size(self._status, self.width - 1).rstrip() if self._status else ""
        return f"{HIDE_CURSOR}{_dimmed(shown, self.colour)}\r" if shown else ""

    def _write(self, text: str) -> None:
        self._stream.write(encode_for_terminal(text))
        self._stream.flush()


def _dimmed(text: str, colour: bool) -> str:
    return f"{DIM}{text}{RESET}" if colour and text else text


def open_screen(stream: TextIO) -> Screen:
    """Return a screen on a standard stream, with a status line if that is an interactive terminal."""
    return Screen(stream.buffer, colour=has_colour(stream), visible=is_interactive(stream))


def fitted(parts: Sequence[tuple[int, str]], width: int) -> str:
    """Join the parts of a status line; if they do not fit, drop those with the least weight.

    Args:
        parts: The weight and text of each part; empty texts are ignored.
        width: The maximum number of characters.
    """
    kept = [part for part in parts if part[1]]
    while len(kept) > 1 and cell_len("  ".join(text for _, text in kept)) > width:
        kept.remove(min(kept, key=lambda part: part[0]))
    return "  ".join(text for _, text in kept)
