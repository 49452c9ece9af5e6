"""Shaded regions: a darker shade is a value nearer to the maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stqsh.arrays import Array
from stqsh.shell.map.terminal.canvas import DOTS, SHADES, Canvas, DotGrid
from stqsh.shell.map.terminal.map_projection import MapProjection
from stqsh.units import number_text

if TYPE_CHECKING:
    from stqsh.client.map.region_outlines import Rings
    from stqsh.client.map.region_shades import RegionShades

_LEVELS = 4


def shade_regions(canvas: Canvas, shades: RegionShades | None, projection: MapProjection, style: str) -> None:
    """Fill the regions where nothing else is drawn."""
    for region in shades.regions if shades else ():
        canvas.fill(cells_within(canvas.grid, region.outline.rings, projection), level(region.share), style)


def label_regions(canvas: Canvas, shades: RegionShades | None, projection: MapProjection, style: str) -> None:
    """Write each region's name and value in its middle; in narrow regions only the value, or nothing."""
    for region in shades.regions if shades else ():
        if not region.outline.rings:
            continue
        corners = np.concatenate(region.outline.rings)
        low, high = corners.min(axis=0), corners.max(axis=0)
        across, down = projection.dots(np.array([low[0], high[0]]), np.array([low[1], high[1]]))
        wide, tall = DOTS[canvas.grid.braille]
        room, value = int((across[1] - across[0]) / wide), number_text(region.value)
        text = next((one for one in (f"{region.outline.name} {value}", value) if len(one) < room), "")
        canvas.text(int(across.mean() / wide - len(text) / 2), int(down.mean() / tall), text, style)


def scale_text(shades: RegionShades, *, braille: bool) -> str:
    """Return the legend of the shades, such as `count 0 ░▒▓█ 52`."""
    if not shades.regions:
        return f"{shades.column} -"
    least, most = number_text(shades.least), number_text(shades.most)
    return f"{shades.column} {least} {SHADES[braille].strip()} {most}"


def level(share: float) -> int:
    """Return the shade, 1 to 4, for a position on the scale, 0 to 1."""
    return 1 + min(_LEVELS - 1, int(share * _LEVELS))


def cells_within(grid: DotGrid, rings: Rings, projection: MapProjection) -> Array:
    """Return which characters have their middle within rings, by the even-odd rule.

    Returns:
        bool (rows, columns).
    """
    # Scanline fill: in each row, a point is inside a ring if an odd number of the ring's edges cross the row
    # to its left. The half-open test `cuts` counts a corner on the row once. XOR of the rings makes holes.
    # The cost is the number of rows times that of corners.
    wide, tall = DOTS[grid.braille]
    inside = np.zeros((grid.rows, grid.columns), np.bool_)
    middles = (np.arange(grid.columns) + 0.5) * wide
    heights = (np.arange(grid.rows) + 0.5) * tall
    for ring in rings:
        across, down = projection.dots(ring[:, 0], ring[:, 1])
        for row, height in enumerate(heights):
            cuts = (down[:-1] <= height) != (down[1:] <= height)
            share = (height - down[:-1][cuts]) / (down[1:] - down[:-1])[cuts]
            at = np.sort(across[:-1][cuts] + share * (across[1:] - across[:-1])[cuts])
            inside[row] ^= np.searchsorted(at, middles) % 2 == 1
    return inside
