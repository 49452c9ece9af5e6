"""Draw a scene on a canvas: slots, objects, regions, answers, focal objects, the selected object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.shell.map.terminal.canvas import Canvas
from stqsh.shell.map.terminal.map_projection import Box, MapProjection, box_of, joined, ticks
from stqsh.shell.map.terminal.palette import FOCAL, LETTERS, MARKS, SEVERAL, Palette
from stqsh.shell.map.terminal.shading import cells_within, label_regions, shade_regions

if TYPE_CHECKING:
    from stqsh.client.map.region_outlines import RegionOutline
    from stqsh.client.map.region_shades import ShadedRegion
    from stqsh.client.map.scene import DrawnQuery, Scene

TICKS_ACROSS, TICKS_DOWN = 6, 4
_GRATICULE_DOTS = 160
_HALF_WORLD = 180.0
_ROOMY_ROWS = 3
"""The minimum height, in rows, of an outline with room for a name."""


@dataclass
class MapOptionsShown:
    """The user's choice of what is drawn.

    Attributes:
        slots: Whether objects have the colours of their slots.
        regions: Whether regions are drawn.
        graticule: Whether lines of round coordinates are drawn.
        density: Whether shades replace dots; `auto` does so if there are more objects than dots.
        hidden: The numbers of the queries that are not drawn.
        picked: The key of the selected object.
    """

    slots: bool = False
    regions: bool = True
    graticule: bool = False
    density: Literal["auto", "on", "off"] = "auto"
    hidden: set[int] = field(default_factory=set)
    picked: Any = None


def extent(scene: Scene) -> Box | None:
    """Return the box of all objects and of the queries' regions, or else of the named regions."""
    places = scene.places.boxes()
    boxes = [box_of(places[:, [0, 2]].ravel(), places[:, [1, 3]].ravel())]
    boxes += [_box_of_outline(drawn.outline) for drawn in scene.drawn]
    boxes += [_box_of_outline(region.outline) for region in _shaded(scene.drawn)]
    found = joined([box for box in boxes if box is not None])
    named = (_box_of_outline(area) for area in scene.areas)
    return found or joined([box for box in named if box is not None])


def draw(
    canvas: Canvas,
    scene: Scene,
    projection: MapProjection,
    look: MapOptionsShown,
    palette: Palette,
    trail: Sequence[tuple[float, float]] = (),
) -> int:
    """Draw a scene, and the trail of the followed object; return the number of visible objects."""
    across, down = projection.dots(scene.places.x, scene.places.y)
    if look.graticule:
        _draw_graticule(canvas, projection, palette)
    if look.slots:
        _draw_cells(canvas, scene, projection, palette)
    visible = _draw_objects(canvas, scene, projection, (across, down), look, palette)
    shown = [(number, drawn) for number, drawn in enumerate(scene.drawn) if number not in look.hidden]
    if look.regions:
        _draw_regions(canvas, scene, shown, projection, palette)
    for number, drawn in shown:
        _draw_shapes(canvas, scene, drawn.members, projection, palette.of(number))
    for number, drawn in shown:
        _draw_answer(canvas, drawn, (across, down), LETTERS[number], palette.of(number, "bold"))
    for number, drawn in shown:
        _draw_centre(canvas, drawn, projection, palette.of(number, "bold"))
    _draw_trail(canvas, trail, projection, palette)
    _draw_picked(canvas, scene, (across, down), look, palette)
    if look.regions:
        _draw_labels(canvas, scene, shown, projection, palette)
    return visible


def _draw_regions(
    canvas: Canvas,
    scene: Scene,
    shown: list[tuple[int, DrawnQuery]],
    projection: MapProjection,
    palette: Palette,
) -> None:
    """Draw the outlines of named regions and of queries, and the shades of aggregates."""
    for number, drawn in shown:
        shade_regions(canvas, drawn.shades, projection, palette.of(number))
    for area in scene.areas:
        _draw_outline(canvas, area, projection, palette.dim)
    for number, drawn in shown:
        for outline in (drawn.outline, *(region.outline for region in _shaded([drawn]))):
            _draw_outline(canvas, outline, projection, palette.of(number))


def _draw_labels(
    canvas: Canvas,
    scene: Scene,
    shown: list[tuple[int, DrawnQuery]],
    projection: MapProjection,
    palette: Palette,
) -> None:
    """Write the names of regions and queries, and the values of shaded regions."""
    for number, drawn in shown:
        label = f"{LETTERS[number]} {drawn.query.name}"
        _draw_label(canvas, drawn.outline, projection, label, palette.of(number))
        label_regions(canvas, drawn.shades, projection, palette.of(number, "bold"))
    for area in scene.areas:
        _draw_label(canvas, area, projection, area.name, palette.dim)


def _shaded(queries: Sequence[DrawnQuery]) -> list[ShadedRegion]:
    """Return the regions that queries shade."""
    return [region for drawn in queries if drawn.shades for region in drawn.shades.regions]


def _box_of_outline(outline: RegionOutline) -> Box | None:
    if not outline.rings:
        return None
    corners = np.concatenate(outline.rings)
    (x1, y1), (x2, y2) = corners.min(axis=0), corners.max(axis=0)
    return float(x1), float(y1), float(x2), float(y2)


def _draw_graticule(canvas: Canvas, projection: MapProjection, palette: Palette) -> None:
    """Draw dotted lines of round coordinates."""
    x1, y1, x2, y2 = projection.box
    steps = np.linspace(0, 1, _GRATICULE_DOTS)
    for x in ticks(x1, x2, TICKS_ACROSS):
        line = projection.dots(np.full(len(steps), x), y1 + steps * (y2 - y1))
        canvas.points(line[0], line[1], palette.dim)
    for y in ticks(y1, y2, TICKS_DOWN):
        line = projection.dots(x1 + steps * (x2 - x1), np.full(len(steps), y))
        canvas.points(line[0], line[1], palette.dim)


def _draw_cells(canvas: Canvas, scene: Scene, projection: MapProjection, palette: Palette) -> None:
    """Draw the borders between the parts of the plane that belong to different slots."""
    if scene.cells is None:
        return
    x1, y1, x2, y2 = scene.cells.bounds
    owners = scene.cells.owners
    rows, columns = owners.shape
    xs, ys = np.linspace(x1, x2, columns + 1), np.linspace(y1, y2, rows + 1)
    row, column = np.nonzero(owners[:, 1:] != owners[:, :-1])
    upright = np.column_stack([xs[column + 1], ys[row], xs[column + 1], ys[row + 1]])
    row, column = np.nonzero(owners[1:] != owners[:-1])
    level = np.column_stack([xs[column], ys[row + 1], xs[column + 1], ys[row + 1]])
    border = np.array([(x1, y1, x2, y1), (x2, y1, x2, y2), (x2, y2, x1, y2), (x1, y2, x1, y1)])
    canvas.lines(_in_dots(np.concatenate([upright, level, border]), projection), palette.dim)


def _draw_objects(
    canvas: Canvas,
    scene: Scene,
    projection: MapProjection,
    at: tuple[Array, Array],
    look: MapOptionsShown,
    palette: Palette,
) -> int:
    """Draw objects as dots and shapes, shades, or in their slots' colours; return how many are visible."""
    across, down = at
    counts = canvas.grid.counts(across, down)
    visible, occupied = int(counts.sum()), int((counts > 0).sum())
    if look.slots:
        _draw_slots(canvas, scene, projection, at, palette)
    elif look.density == "on" or (look.density == "auto" and visible > occupied * canvas.grid.dots_each):
        canvas.shade(across, down, "")
    else:
        _draw_shapes(canvas, scene, np.arange(len(across)), projection, "")
        canvas.points(across, down, "")
    return visible if scene.places.shapes is None else int(scene.places.within(projection.box).sum())


def _draw_shapes(canvas: Canvas, scene: Scene, objects: Array, projection: MapProjection, style: str) -> None:
    """Draw the edges of some objects' shapes."""
    canvas.lines(_in_dots(scene.places.edges(objects), projection), style)


def _draw_slots(
    canvas: Canvas, scene: Scene, projection: MapProjection, at: tuple[Array, Array], palette: Palette
) -> None:
    """Draw objects in the colours of their slots, or as digits if there are no colours."""
    across, down = at
    for slot in np.unique(scene.places.slot[scene.places.slot >= 0]).tolist():
        mine = scene.places.slot == slot
        _draw_shapes(canvas, scene, np.flatnonzero(mine), projection, palette.of(slot))
        if palette.is_plain or not canvas.grid.braille:
            canvas.letters(across[mine], down[mine], str(slot % 10), palette.of(slot))
        else:
            canvas.points(across[mine], down[mine], palette.of(slot))
    unknown = scene.places.slot < 0
    canvas.points(across[unknown], down[unknown], "")


def _draw_outline(canvas: Canvas, outline: RegionOutline, projection: MapProjection, style: str) -> None:
    for ring in outline.rings:
        canvas.lines(_in_dots(np.hstack([ring[:-1], ring[1:]]), projection), style)


def _in_dots(segments: Array, projection: MapProjection) -> Array:
    first, second = (projection.dots(segments[:, i], segments[:, i + 1]) for i in (0, 2))
    return np.column_stack([*first, *second])


def _draw_answer(canvas: Canvas, drawn: DrawnQuery, at: tuple[Array, Array], letter: str, style: str) -> None:
    across, down = at[0][drawn.members], at[1][drawn.members]
    canvas.letters(across, down, letter, style, several=SEVERAL)


def _draw_centre(canvas: Canvas, drawn: DrawnQuery, projection: MapProjection, style: str) -> None:
    """Draw the focal object, or the place to which distances are measured."""
    if drawn.outline.centre is None:
        return
    x, y = drawn.outline.centre
    across, down = projection.dots(np.array([x]), np.array([y]))
    canvas.letters(across, down, "+" if drawn.outline.focal is None else FOCAL, style)


def _draw_trail(
    canvas: Canvas, trail: Sequence[tuple[float, float]], projection: MapProjection, palette: Palette
) -> None:
    """Draw lines between successive places, except around the world."""
    if len(trail) < 2:
        return
    places = np.array(trail)
    ways = np.hstack([places[:-1], places[1:]])
    near = projection.planar | (np.abs(ways[:, 2] - ways[:, 0]) < _HALF_WORLD)
    canvas.lines(_in_dots(ways[near], projection), palette.picked)


def _draw_picked(
    canvas: Canvas, scene: Scene, at: tuple[Array, Array], look: MapOptionsShown, palette: Palette
) -> None:
    number = position_of(scene, look.picked)
    if number is not None:
        across, down = at[0][number : number + 1], at[1][number : number + 1]
        canvas.letters(across, down, MARKS[canvas.grid.braille].picked, palette.picked)


def position_of(scene: Scene, key: Any) -> int | None:
    """Return an object's index among the scene's places; None if it is not among them."""
    if key is None:
        return None
    found = scene.places.find(pa.array([key]))
    return int(found[0]) if len(found) else None


def _draw_label(
    canvas: Canvas, outline: RegionOutline, projection: MapProjection, label: str, style: str
) -> None:
    """Write the name inside an outline, or above it if it does not fit.

    Nothing is written if the name is much wider than the outline, or the place is occupied.
    """
    box = _box_of_outline(outline)
    if box is None:
        return
    across, down = projection.dots(np.array([box[0], box[2]]), np.array([box[3], box[1]]))
    columns, rows, at = canvas.grid.cells(across[:1], down[:1])
    wide = (across[1] - across[0]) * canvas.grid.columns / canvas.grid.dots_across
    tall = (down[1] - down[0]) * canvas.grid.rows / canvas.grid.dots_down
    if wide >= len(label) + 2 and tall >= _ROOMY_ROWS:
        place = _inner_place(canvas, cells_within(canvas.grid, outline.rings, projection), len(label))
        if place is not None:
            canvas.text(*place, label, style)
            return
    if not len(at) or wide < len(label) / 2:
        return
    column, row = int(columns[0]), int(rows[0])
    for above in (row - 1, row):
        if canvas.is_free(column, above, len(label)):
            canvas.text(column, above, label, style)
            return


def _inner_place(canvas: Canvas, inside: Array, length: int) -> tuple[int, int] | None:
    """Return the column and row of a name's first letter in an outline, as close to the middle as possible.

    `inside`, bool (rows, columns), marks the characters in the outline. One is left free on either side.
    """
    # Try rows from the middle outwards, and in each row the longest run of inner characters first.
    rows = np.flatnonzero(inside.any(axis=1))
    middle = rows.mean() if len(rows) else 0.0
    for row in sorted(rows.tolist(), key=lambda row: abs(row - middle)):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], inside[row].astype(np.int8), [0]))))
        for first, last in sorted(edges.reshape(-1, 2).tolist(), key=lambda run: run[0] - run[1]):
            column = (first + last - length) // 2
            if last - first >= length + 2 and canvas.is_free(column - 1, row, length + 2):
                return column, row
    return None
