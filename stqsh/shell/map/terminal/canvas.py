"""A canvas of characters: each has eight Braille dots, or a single mark in plain ASCII.

All drawing is vectorized: points and lines are arrays, and are drawn into arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stqsh.arrays import Array
from stqsh.control_characters import escape_controls

Pieces = list[tuple[str, str]]
"""Pieces of a line: style and text."""

_BRAILLE = 0x2800
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
"""The bit of a dot by its row and column within a character."""
SHADES = {True: " ░▒▓█", False: " .:*#"}
"""The shades from nothing to the darkest, in Braille or not."""
_MARKS = {True: "·", False: "."}
_DENSE = 16
"""The minimum number of objects in a character with the darkest shade."""
_MOST_DOTS = 400_000
"""The maximum number of dots of all lines drawn in one call; more would take too long."""

DOTS = {True: (2, 4), False: (1, 1)}
"""The dots of a character across and down, in Braille or not."""


@dataclass(frozen=True, slots=True)
class DotGrid:
    """The size of a canvas in characters and in dots; `braille` or plain ASCII."""

    columns: int
    rows: int
    braille: bool = True

    @property
    def dots_across(self) -> int:
        """Dots in a row of characters."""
        return DOTS[self.braille][0] * self.columns

    @property
    def dots_down(self) -> int:
        """Dots in a column of characters."""
        return DOTS[self.braille][1] * self.rows

    @property
    def dots_each(self) -> int:
        """Dots in a character."""
        wide, high = DOTS[self.braille]
        return wide * high

    @property
    def tall(self) -> float:
        """Ratio of a dot's height to its width; characters are twice as high as wide."""
        return 1.0 if self.braille else 2.0

    def cells(self, across: Array, down: Array) -> tuple[Array, Array, Array]:
        """Find the characters of points in dots, float64 (n,).

        Returns:
            Columns and rows of those on the canvas, and their positions among the points, int64 (m,) each.
        """
        inside = (across >= 0) & (across < self.dots_across) & (down >= 0) & (down < self.dots_down)
        at = np.flatnonzero(inside)
        wide, high = DOTS[self.braille]
        return across[at].astype(np.int64) // wide, down[at].astype(np.int64) // high, at

    def counts(self, across: Array, down: Array) -> Array:
        """Count the points, float64 (n,), in each character; int64 (rows, columns)."""
        columns, rows, _ = self.cells(across, down)
        counts = np.bincount(rows * self.columns + columns, minlength=self.rows * self.columns)
        return counts.reshape(self.rows, self.columns)


class Canvas:
    """Draws on a grid of characters; later drawings cover earlier ones."""

    def __init__(self, columns: int, rows: int, *, braille: bool = True) -> None:
        self.grid = DotGrid(columns, rows, braille)
        self._bits = np.zeros((rows, columns), np.uint8)
        self._chars = np.zeros((rows, columns), np.uint32)
        self._styles = np.zeros((rows, columns), np.int16)
        self._names: list[str] = [""]

    def points(self, across: Array, down: Array, style: str | Array, names: list[str] | None = None) -> None:
        """Draw a dot at each point, float64 (n,), in one style, or each in the style `names[style[i]]`."""
        columns, rows, at = self.grid.cells(across, down)
        if self.grid.braille:
            bits = _BITS[down[at].astype(np.int64) % 4, across[at].astype(np.int64) % 2]
            np.bitwise_or.at(self._bits, (rows, columns), bits)
        else:
            self._chars[rows, columns] = ord(_MARKS[False])
        self._paint(columns, rows, style if isinstance(style, str) else style[at], names)

    def shade(self, across: Array, down: Array, style: str) -> None:
        """Shade each character by the logarithm of the number of points, float64 (n,), in it."""
        grid = self.grid.counts(across, down)
        occupied = grid > 0
        share = np.log(np.maximum(grid, 1)) / np.log(max(_DENSE, int(grid.max(initial=0))))
        levels = np.where(occupied, 1 + np.rint(3 * share), 0).astype(np.int64)
        shades = np.array([ord(char) for char in SHADES[self.grid.braille]], np.uint32)
        self._chars = np.where(occupied, shades[levels], self._chars)
        self._styles[occupied] = self._number(style)

    def fill(self, chosen: Array, level: int, style: str) -> None:
        """Shade the chosen characters, bool (rows, columns), that are blank."""
        blank = chosen & (self._bits == 0) & (self._chars == 0)
        self._chars[blank] = ord(SHADES[self.grid.braille][level])
        self._styles[blank] = self._number(style)

    def lines(self, segments: Array, style: str) -> None:
        """Draw lines in dots, float64 (n, 4), each from x1, y1 to x2, y2."""
        clipped = _clipped(segments, self.grid.dots_across, self.grid.dots_down)
        if not len(clipped):
            return
        across, down, of = _along(clipped)
        columns, rows, at = self.grid.cells(across, down)
        if self.grid.braille:
            self.points(across, down, style)
            self._chars[rows, columns] = 0  # lines replace shades
            return
        self._chars[rows, columns] = _strokes(clipped)[of[at]]
        self._paint(columns, rows, style)

    def letters(self, across: Array, down: Array, text: str, style: str, *, several: str = "") -> None:
        """Write a letter at each point, float64 (n,); write `several` if there already is another letter."""
        columns, rows, _ = self.grid.cells(across, down)
        taken = np.full(len(columns), ord(text), np.uint32)
        if several:
            there = self._chars[rows, columns]
            letter = ((there >= ord("A")) & (there <= ord("Z"))) | ((there >= ord("a")) & (there <= ord("z")))
            taken[(letter & (there != ord(text))) | (there == ord(several))] = ord(several)
        self._chars[rows, columns] = taken
        self._paint(columns, rows, style)

    def text(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text, with control characters escaped; the part beyond the canvas is cut off."""
        text = escape_controls(text, keep="")
        if not 0 <= row < self.grid.rows:
            return
        first, last = max(0, column), min(self.grid.columns, column + len(text))
        if first < last:
            codes = [ord(char) for char in text[first - column : last - column]]
            self._chars[row, first:last] = codes
            self._styles[row, first:last] = self._number(style)

    def is_free(self, column: int, row: int, length: int) -> bool:
        """Return whether a range of characters in a row is on the canvas and has no text."""
        if not (0 <= row < self.grid.rows and column >= 0 and column + length <= self.grid.columns):
            return False
        return not self._chars[row, column : column + length].any()

    def rendered(self) -> list[Pieces]:
        """Return the rows, each as pieces of one style."""
        codes = np.where(self._bits > 0, self._bits.astype(np.uint32) + _BRAILLE, ord(" "))
        codes = np.where(self._chars > 0, self._chars, codes).astype("<u4")
        styles = np.where(codes == ord(" "), 0, self._styles)
        return [self._row(codes[row], styles[row]) for row in range(self.grid.rows)]

    def _row(self, codes: Array, styles: Array) -> Pieces:
        text = codes.tobytes().decode("utf-32-le")
        edges = [0, *(np.flatnonzero(np.diff(styles)) + 1).tolist(), len(text)]
        return [
            (self._names[int(styles[first])], text[first:last])
            for first, last in pairwise(edges)
            if last > first
        ]

    def _paint(self, columns: Array, rows: Array, style: str | Array, names: list[str] | None = None) -> None:
        if isinstance(style, str):
            self._styles[rows, columns] = self._number(style)
            return
        numbers = np.array([self._number(name) for name in names or []], np.int16)
        self._styles[rows, columns] = numbers[style]

    def _number(self, style: str) -> int:
        if style not in self._names:
            self._names.append(style)
        return self._names.index(style)


def _clipped(segments: Array, width: int, height: int) -> Array:
    """Clip lines, float64 (n, 4), to the canvas and one dot around it (Liang and Barsky)."""
    x1, y1, x2, y2 = segments.T
    dx, dy = x2 - x1, y2 - y1
    begin, end = np.zeros(len(x1)), np.ones(len(x1))
    inside = np.isfinite(segments).all(axis=1)
    for along, room in ((-dx, x1 + 1), (dx, width + 1 - x1), (-dy, y1 + 1), (dy, height + 1 - y1)):
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            share = room / along
        begin = np.where(along < 0, np.maximum(begin, share), begin)
        end = np.where(along > 0, np.minimum(end, share), end)
        inside &= (along != 0) | (room >= 0)
    inside &= begin <= end
    x1, y1, dx, dy, begin, end = (values[inside] for values in (x1, y1, dx, dy, begin, end))
    return np.column_stack([x1 + begin * dx, y1 + begin * dy, x1 + end * dx, y1 + end * dy])


def _along(segments: Array) -> tuple[Array, Array, Array]:
    """Return points along lines, at distances below one dot.

    Returns:
        across, down: Float64 (m,), in dots.
        of: The line of each point, int64 (m,).
    """
    x1, y1, x2, y2 = segments.T
    counts = np.ceil(np.maximum(np.abs(x2 - x1), np.abs(y2 - y1))).astype(np.int64) + 2
    counts = np.maximum(2, counts * min(1.0, _MOST_DOTS / counts.sum())).astype(np.int64)
    of = np.repeat(np.arange(len(segments)), counts)
    position = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = position / (counts[of] - 1)
    return x1[of] + share * (x2 - x1)[of], y1[of] + share * (y2 - y1)[of], of


def _strokes(segments: Array) -> Array:
    """Return the ASCII character nearest to the slope of each line, as code points."""
    x1, y1, x2, y2 = segments.T
    dx, dy = x2 - x1, 2 * (y2 - y1)  # a character is twice as high as wide
    flat, steep = np.abs(dy) < 0.5 * np.abs(dx), np.abs(dx) < 0.5 * np.abs(dy)
    slanted = np.where(dx * dy > 0, ord("\\"), ord("/"))
    return np.where(flat, ord("-"), np.where(steep, ord("|"), slanted)).astype(np.uint32)
