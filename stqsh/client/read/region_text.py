"""Regions of bound queries in words, for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from stqsh.storage.rows import Spec

_EARTH_KM = 6371.0088


def region_text(region: Spec) -> str:
    """A region as STQL writes it, near enough to read."""
    return _TEXTS[region["type"]](region) if region["type"] in _TEXTS else str(region["type"])


def box_text(box: Sequence[float]) -> str:
    """A box as two corners."""
    return f"({_numbers(box)})"


def area_text(box: Sequence[float], planar: bool) -> str:
    """The area of a box: in square units of the plane, or in square kilometres of the sphere."""
    x1, y1, x2, y2 = box
    if planar:
        return f"{(x2 - x1) * (y2 - y1):.4g} square units"
    low, high = (math.sin(math.radians(max(-90.0, min(90.0, y)))) for y in (y1, y2))
    return f"{_EARTH_KM**2 * math.radians(min(360.0, x2 - x1)) * (high - low):.4g} km²"


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _rect(region: Spec) -> str:
    return f"RECT({_numbers(region[name] for name in ('x1', 'y1', 'x2', 'y2'))})"


def _circle(region: Spec) -> str:
    return f"CIRCLE({_numbers((region['x'], region['y'], region['radius']))})"


def _polygon(region: Spec) -> str:
    corners, holes = sum(len(ring) - 1 for ring in region["rings"]), len(region["rings"]) - 1
    return f"POLYGON of {corners} corners" + (f", {holes} holes" if holes else "")


def _area(region: Spec) -> str:
    return str(region["name"]) + (f"[{region['member']!r}]" if region["member"] is not None else "")


def _nearest(region: Spec) -> str:
    to = repr(region["focal"]) if "focal" in region else f"({_numbers((region['x'], region['y']))})"
    return f"NEAREST {region['k']} TO {to}"


_TEXTS: dict[str, Callable[[Spec], str]] = {
    "all": lambda _: "everywhere",
    "rect": _rect,
    "circle": _circle,
    "polygon": _polygon,
    "area": _area,
    "moving_rect": lambda region: (
        f"RECT({_numbers((region['xdist'], region['ydist']))}) AROUND {region['focal']!r}"
    ),
    "moving_circle": lambda region: f"CIRCLE({region['radius']:g}) AROUND {region['focal']!r}",
    "nearest": _nearest,
}
