"""Small structures that kernels exchange: positions, places, boxes and windows of cells."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.core.kernels.jit import Float, Int


class IndexRange(NamedTuple):
    """The positions begin <= i < end of an array."""

    begin: Int
    end: Int


class Point(NamedTuple):
    """A point; NaN for none."""

    x: Float
    y: Float


class Box(NamedTuple):
    """A closed rectangle; NaN for none."""

    x1: Float
    y1: Float
    x2: Float
    y2: Float


class CellWindow(NamedTuple):
    """The first and last column, and the first and last row, of a rectangle of cells."""

    left: Int
    right: Int
    bottom: Int
    top: Int
