"""Results for notebooks and prompts: a table, and a map as an inline SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from stqsh.client.map.land import land_rings
from stqsh.control_characters import escape_controls

MOST_ROWS = 20
"""The maximum number of rows that are shown."""
MOST_POINTS = 2_000
"""The maximum number of places that a map draws; of more, it draws every second, third, … place."""
_WIDTH, _HEIGHT = 640, 400
_WIDEST = 40
_PADDING = 0.08
_LEAST_SPAN = 1e-4
_MARGIN = 0.02
"""How far land extends beyond the edges, as a share of the drawing's size, so that the cut is not visible."""
_STYLE = "background:#dce8f0;border:1px solid #b5c4ce;max-width:100%;height:auto"


def text_table(table: pa.Table) -> str:
    """Return the first rows of a table as text in columns, with the number of all rows."""
    shown = [list(map(_cell, column)) for column in table.slice(0, MOST_ROWS).to_pydict().values()]
    columns = [[escape_controls(name), *cells] for name, cells in zip(table.column_names, shown, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    return "\n".join([*lines, f"({_count(table)})"])


def page(table: pa.Table, text: str, location: tuple[str, str] | None, *, is_planar: bool) -> str:
    """Return a result as HTML: its messages, a table, and a map if it has places."""
    parts = [f"<pre>{html.escape(text)}</pre>"] if text else []
    if table.num_columns:
        parts.append(_html_table(table))
    if location is not None:
        x, y = (table.column(name).to_numpy().astype(np.float64) for name in location)
        placed = np.isfinite(x) & np.isfinite(y)
        if placed.any():
            parts.append(svg_map(x[placed], y[placed], is_planar=is_planar))
    return f"<div>{''.join(parts)}</div>"


def svg_map(x: NDArray[np.float64], y: NDArray[np.float64], *, is_planar: bool) -> str:
    """Return places, float64 (n,) each, as an SVG; unless planar, over the outline of the world's land."""
    step = -(-len(x) // MOST_POINTS)
    frame = _Frame(x, y, is_planar=is_planar)
    dots = "".join(
        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3"/>' for px, py in frame.at(x[::step], y[::step])
    )
    land = "" if is_planar else "".join(frame.path(ring[:, 0], ring[:, 1]) for ring in frame.land())
    shown = len(x[::step])
    says = f"{shown:,} of {len(x):,} places" if step > 1 else f"{shown:,} place{'s' if shown > 1 else ''}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" style="{_STYLE}">'
        f'<path d="{land}" fill="#f4f1e8" stroke="#b9b3a2" fill-rule="evenodd"/>'
        f'<g fill="#c0392b" fill-opacity="0.8">{dots}</g>'
        f'<text x="8" y="{_HEIGHT - 8}" font-size="12" fill="#445">{says}; {frame.text()}</text></svg>'
    )


class _Frame:
    """The part of the plane or the world that a map shows; degrees are drawn as long as they are there."""

    def __init__(self, x: NDArray[np.float64], y: NDArray[np.float64], *, is_planar: bool) -> None:
        self.middle = (float(x.min() + x.max()) / 2, float(y.min() + y.max()) / 2)
        self.narrow = 1.0 if is_planar else max(0.05, math.cos(math.radians(self.middle[1])))
        wide = max(_LEAST_SPAN, float(np.ptp(x)) * self.narrow)
        high = max(_LEAST_SPAN, float(np.ptp(y)))
        self.scale = min(_WIDTH / wide, _HEIGHT / high) * (1 - 2 * _PADDING)
        self._bounds = float(x.min()), float(y.min()), float(x.max()), float(y.max())

    def at(self, x: Any, y: Any) -> Iterator[tuple[float, float]]:
        """Yield the places on the drawing."""
        px = _WIDTH / 2 + (x - self.middle[0]) * self.narrow * self.scale
        py = _HEIGHT / 2 - (y - self.middle[1]) * self.scale
        return zip(px.tolist(), py.tolist(), strict=True)

    def path(self, x: Any, y: Any) -> str:
        """Return a closed path."""
        return f"M{'L'.join(f'{px:.1f} {py:.1f}' for px, py in self.at(x, y))}Z"

    def land(self) -> Iterator[NDArray[np.float64]]:
        """Yield the rings of land cut to the drawing."""
        across, up = _WIDTH / self.scale / self.narrow, _HEIGHT / self.scale
        west, south = self.middle[0] - across / 2 - _MARGIN * across, self.middle[1] - up / 2 - _MARGIN * up
        corners = west, south, west + (1 + 2 * _MARGIN) * across, south + (1 + 2 * _MARGIN) * up
        shapes = shapely.polygons([shapely.linearrings(ring) for ring in land_rings()])
        for part in shapely.get_parts(shapely.clip_by_rect(shapes, *corners)):
            if not shapely.is_empty(part):
                yield shapely.get_coordinates(shapely.get_exterior_ring(part))

    def text(self) -> str:
        """Return the extent of the places in words."""
        west, south, east, north = (f"{edge:.6g}" for edge in self._bounds)
        return f"{west} to {east}, {south} to {north}"


def _html_table(table: pa.Table) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
    columns = [list(map(_cell, column)) for column in table.slice(0, MOST_ROWS).to_pydict().values()]
    rows = (_html_row(row) for row in zip(*columns, strict=True))
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table><p>{_count(table)}</p>"
    )


def _html_row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.10g}"
    text = escape_controls(str(value))
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _count(table: pa.Table) -> str:
    rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
    return rows if table.num_rows <= MOST_ROWS else f"{rows}, {MOST_ROWS} shown"
