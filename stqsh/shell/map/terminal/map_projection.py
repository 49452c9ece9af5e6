"""The projection from places to the dots of a canvas and back: the part of the world that is shown.

Degrees are drawn as if the earth were flat around the centre: a degree of longitude is shorter than one of
latitude by the ratio at the centre. That is accurate enough for a town, and the usual view of a country.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from stqsh.arrays import Array

Box = tuple[float, float, float, float]

METRES_A_DEGREE = math.radians(6371008.8)
"""Metres per degree along a meridian, on the sphere of language.md, "Semantics"."""

_MARGIN = 1.06
"""The ratio of the initially visible part of the world to the box of its content."""
_SMALLEST = {True: 1e-9, False: 1e-8}
_LARGEST = {True: 1e12, False: 40.0}
"""The zoom limits, in units per dot, planar or not: a millimetre in degrees, more than the whole earth."""
_FLATTEST = 0.05
"""The minimum width of a degree of longitude, which is zero at the poles."""


@dataclass(frozen=True, slots=True)
class MapProjection:
    """The visible part: the place in the centre, the height of a dot in units of y, the size in dots.

    `tall` is the ratio of a dot's height to its width: 1 for Braille dots, 2 if a character is one dot.
    """

    x: float
    y: float
    scale: float
    width: int
    height: int
    tall: float = 1.0
    planar: bool = False

    @property
    def across(self) -> float:
        """The width of a dot in units of x."""
        flat = 1.0 if self.planar else max(_FLATTEST, math.cos(math.radians(self.y)))
        return self.scale / self.tall / flat

    @property
    def box(self) -> Box:
        """The visible part of the world: x1, y1, x2, y2."""
        side, up = self.across * self.width / 2, self.scale * self.height / 2
        return self.x - side, self.y - up, self.x + side, self.y + up

    def dots(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return the columns and rows of places, float64 (n,); (0, 0) is top left."""
        columns = (x - self.x) / self.across + self.width / 2
        rows = (self.y - y) / self.scale + self.height / 2
        return columns, rows

    def place(self, column: float, row: float) -> tuple[float, float]:
        """Return the place at a point of the canvas, in dots."""
        x = self.x + (column - self.width / 2) * self.across
        return x, self.y - (row - self.height / 2) * self.scale

    def zoomed(self, factor: float) -> MapProjection:
        """Return the projection magnified by a factor, within limits; the centre stays."""
        scale = min(max(self.scale / factor, _SMALLEST[self.planar]), _LARGEST[self.planar])
        return replace(self, scale=scale)

    def panned(self, right: float, up: float) -> MapProjection:
        """Return the projection moved to the right and up, as shares of the visible part."""
        y = self.y + up * self.scale * self.height
        y = y if self.planar else min(max(y, -90.0), 90.0)
        return replace(self, x=self.x + right * self.across * self.width, y=y)

    def centred(self, x: float, y: float) -> MapProjection:
        """Return the projection around another place."""
        return replace(self, x=x, y=y)

    def sized(self, width: int, height: int) -> MapProjection:
        """Return the projection on a canvas of another size, with the same scale."""
        return replace(self, width=max(1, width), height=max(1, height))

    def length(self, dots: float) -> float:
        """Return the length of some dots across: in metres, or in the plane's units."""
        return dots * self.scale / self.tall * (1.0 if self.planar else METRES_A_DEGREE)


def fitted(box: Box | None, projection: MapProjection) -> MapProjection:
    """Return the projection that fits a box of the world to its canvas; None is the whole earth."""
    x1, y1, x2, y2 = box or ((-1.0, -1.0, 1.0, 1.0) if projection.planar else (-180.0, -85.0, 180.0, 85.0))
    centred = projection.centred((x1 + x2) / 2, (y1 + y2) / 2)
    least = (abs(x1) + abs(x2)) * 1e-6 + 1e-4  # of a single place
    wide, high = max(x2 - x1, least), max(y2 - y1, least)
    flat = centred.scale / centred.across  # across = scale / flat, whatever the scale is
    scale = max(wide * flat / projection.width, high / projection.height) * _MARGIN
    return replace(centred, scale=scale).zoomed(1.0)


def box_of(x: Array, y: Array) -> Box | None:
    """Return the box of places, float64 (n,), without outliers if there are many places; None for none."""
    if not len(x):
        return None
    if len(x) < 10_000:
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())
    (x1, x2), (y1, y2) = (np.quantile(values, (0.0005, 0.9995)) for values in (x, y))
    return float(x1), float(y1), float(x2), float(y2)


def joined(boxes: list[Box]) -> Box | None:
    """Return the box that holds all boxes; None for none."""
    if not boxes:
        return None
    x1, y1, x2, y2 = zip(*boxes, strict=True)
    return min(x1), min(y1), max(x2), max(y2)


def nice(rough: float) -> float:
    """Return the largest of 1, 2, 5, 10, 20, 50 … (and their fractions) that does not exceed a number."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next((step * power for step in (5.0, 2.0) if step * power <= rough), power)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` equidistant round numbers between two numbers, inclusive."""
    rough = (high - low) / max(1, most)
    step = nice(rough)
    while step < rough * 0.999999:
        step = nice(step * 2.6)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_text(value: float, step: float) -> str:
    """Return a coordinate with enough decimals to distinguish it from the next one, `step` away."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    text = f"{value:.{decimals}f}"
    return "0" if float(text) == 0 else text
