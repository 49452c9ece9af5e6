"""The screen of a map: a title, the map in a frame with coordinates, a legend and a scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stqsh.control_characters import escape_controls
from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.canvas import Canvas, Pieces
from stqsh.shell.map.terminal.drawing import TICKS_ACROSS, TICKS_DOWN, MapOptionsShown, draw, position_of
from stqsh.shell.map.terminal.map_projection import MapProjection, nice, tick_text, ticks
from stqsh.shell.map.terminal.palette import FOCAL, LETTERS, MARKS, Palette
from stqsh.shell.map.terminal.shading import scale_text
from stqsh.shell.status import status_text
from stqsh.units import format_instant, group_digits

if TYPE_CHECKING:
    from stqsh.client.map.scene import DrawnQuery, Scene

AROUND = 5
"""Lines of a screen outside the map: the title, two of the frame, the legend, the scale."""
_LEAST = 3
_BAR = 16
"""The maximum width of the scale bar, in characters."""
_PANEL = 0.45
"""The maximum share of the map that a record may cover."""
HELP = (
    "arrows h j k l   move           + -   zoom in, zoom out",
    "0 f              show all       t     follow the focal object, or the selected one",
    "n N              select next    / Enter  select by key, select in the centre   Esc  none",
    "1 … 9            hide a query   s r g d   slots, regions, graticule, density",
    "space            pause          q Ctrl-C   leave",
    "mouse            drag moves, wheel zooms, click selects; Shift selects text",
)


@dataclass
class MapPicture:
    """The contents of a map's screen.

    Attributes:
        scene: The objects, queries and regions.
        camera: The visible part of the world.
        look: The visible layers and queries.
        palette: The colours.
        braille: Whether the terminal can show more than ASCII.
        record: The record of the selected object, None while it is unknown.
        alive: The state of the engine and the streams; None derives it from the scene.
        notice: A message for the user.
        helping: Whether the list of keys is shown.
        keys: The reminder of the most important keys.
    """

    scene: Scene
    camera: Camera
    look: MapOptionsShown
    palette: Palette
    braille: bool = True
    record: Mapping[str, object] | None = None
    alive: str | None = None
    notice: str = ""
    helping: bool = False
    keys: str = ""

    def lines(self, width: int, height: int) -> list[Pieces]:
        """Return the screen: at most `height` lines of `width` characters, control characters escaped."""
        canvas = Canvas(max(_LEAST, width - 2), max(_LEAST, height - AROUND), braille=self.braille)
        projection = self.camera.aim(self.scene, canvas.grid)
        visible = draw(canvas, self.scene, projection, self.look, self.palette, self.camera.trail)
        self._write_ticks(canvas, projection)
        self._write_panels(canvas, projection)
        return [
            _escaped(self._title(visible)),
            *self._framed(canvas, projection),
            self._legend(width),
            _escaped(self._foot(projection)),
        ]

    def _title(self, visible: int) -> Pieces:
        scene = self.scene
        drawn, there = len(scene.places), scene.places.there
        count = (
            group_digits(drawn) if visible == drawn else f"{group_digits(visible)} of {group_digits(drawn)}"
        )
        objects = "object" if drawn == 1 else "objects"
        sample = f" (a sample of {group_digits(there)})" if drawn < there else ""
        alive = self.alive or status_text(scene.progress)
        if scene.places.step > scene.progress.step:
            alive += f"  places of step {scene.places.step}"
        if self.notice:
            alive = f"step {group_digits(scene.places.step)}  {self.notice}"
        return [("bold", f"{scene.stream.name}  {count} {objects}{sample}  {alive}")]

    def _framed(self, canvas: Canvas, projection: MapProjection) -> list[Pieces]:
        marks, dim = MARKS[self.braille], self.palette.dim
        first, second, third, fourth = iter(marks.corners)
        rows = set(_rows_of_ticks(canvas, projection))
        body: list[Pieces] = [
            [(dim, marks.tick_left if row in rows else marks.down), *pieces, (dim, marks.down)]
            for row, pieces in enumerate(canvas.rendered())
        ]
        top = first + marks.across * canvas.grid.columns + second
        below = third + "".join(self._lower_edge(canvas, projection)) + fourth
        return [[(dim, top)], *body, [(dim, below)]]

    def _lower_edge(self, canvas: Canvas, projection: MapProjection) -> list[str]:
        """Return the lower line of the frame, with ticks and coordinates where they fit."""
        marks = MARKS[self.braille]
        edge = [marks.across] * canvas.grid.columns
        x1, _, x2, _ = projection.box
        values = ticks(x1, x2, max(1, min(TICKS_ACROSS, canvas.grid.columns // 12)))
        step = values[1] - values[0] if len(values) > 1 else x2 - x1
        for value in values:
            column = int((value - x1) / (x2 - x1) * canvas.grid.columns)
            text = marks.tick_below + tick_text(value, step)
            if column + len(text) < canvas.grid.columns:
                edge[column : column + len(text)] = text
        return edge

    def _write_ticks(self, canvas: Canvas, projection: MapProjection) -> None:
        """Write the coordinates of the left side, within the frame."""
        rows = _rows_of_ticks(canvas, projection)
        step = _step(list(rows.values()), projection)
        for row, value in rows.items():
            canvas.text(0, row, tick_text(value, step), self.palette.dim)

    def _write_panels(self, canvas: Canvas, projection: MapProjection) -> None:
        """Write the record of the selected object, and the list of keys, over the map."""
        if self.look.picked is not None:
            self._write_record(canvas, projection)
        if self.helping:
            _write_box(canvas, list(HELP if self.braille else map(_plain, HELP)), 1.0, right=False)

    def _write_record(self, canvas: Canvas, projection: MapProjection) -> None:
        """Write the record of the selected object on the side opposite to the object."""
        number = position_of(self.scene, self.look.picked)
        right = number is None or bool(self.scene.places.x[number] <= projection.x)
        _write_box(canvas, record_lines(self.look.picked, self.record), _PANEL, right=right)

    def _legend(self, width: int) -> Pieces:
        """Return the letter, name and answer size of each query, as many as fit."""
        pieces: Pieces = []
        room, total = width - 8, len(self.scene.drawn)
        for number, drawn in enumerate(self.scene.drawn):
            entry = _escaped(self._entry(number, drawn))
            length = sum(len(text) for _, text in entry)
            if length > room:
                rest = total - number + self.scene.left_out
                return [*pieces, ("", f"+{rest} more")]
            pieces += entry
            room -= length
        if self.scene.left_out:
            pieces.append(("", f"+{self.scene.left_out} more"))
        if self.look.slots:
            slots = sorted({*self.scene.places.slot.tolist()} - {-1})
            pieces += [(self.palette.dim, "slots "), *((self.palette.of(one), f"{one} ") for one in slots)]
        return pieces or [(self.palette.dim, "no queries over this stream")]

    def _entry(self, number: int, drawn: DrawnQuery) -> Pieces:
        style, letter = self.palette.of(number, "bold"), LETTERS[number]
        if number in self.look.hidden:
            return [(self.palette.dim, f"({letter} {drawn.query.name})  ")]
        name = f" {drawn.query.name} {group_digits(drawn.size)}"
        if drawn.outline.focal is not None:
            name += f" {FOCAL}{drawn.outline.focal}" + ("" if drawn.focal is not None else " (not there)")
        if drawn.shades is not None:
            name += f" {scale_text(drawn.shades, braille=self.braille)}"
        return [(style, letter), ("", name + ("  " if drawn.query.state == "active" else " paused  "))]

    def _foot(self, projection: MapProjection) -> Pieces:
        bar, text = scale_bar(projection, 2 if self.braille else 1)
        marks = MARKS[self.braille]
        ruler = marks.ends[0] + marks.across * max(0, bar - 2) + marks.ends[1]
        follows = f"  follows {self.camera.follow}" if self.camera.follow is not None else ""
        return [("", f"{ruler} {text}{follows}"), (self.palette.dim, f"  {self.keys}" if self.keys else "")]


def record_lines(key: Any, record: Mapping[str, object] | None) -> list[str]:
    """Return a record as lines of name and value."""
    if record is None:
        return [f"{key}", "not there"]
    wide = max(map(len, record))
    return [f"{name.ljust(wide)}  {_value(value)}" for name, value in record.items()]


def _value(value: object) -> str:
    if isinstance(value, datetime):
        return str(format_instant(round(value.replace(tzinfo=value.tzinfo or UTC).timestamp() * 1e6)))
    if isinstance(value, float):
        return f"{value:.10g}"
    return "" if value is None else str(value)


def scale_bar(projection: MapProjection, dots_each: int) -> tuple[int, str]:
    """Return the width of a round length in characters, and the length: in metres, kilometres or units."""
    length = nice(projection.length(_BAR * dots_each))
    characters = max(2, round(length / projection.length(dots_each)))
    if projection.planar:
        return characters, f"{length:g}"
    return characters, f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"


def _rows_of_ticks(canvas: Canvas, projection: MapProjection) -> dict[int, float]:
    """Return the rows of characters at round values of y, with these values."""
    _, y1, _, y2 = projection.box
    values = ticks(y1, y2, max(1, min(TICKS_DOWN, canvas.grid.rows // 4)))
    rows = {int((y2 - value) / (y2 - y1) * canvas.grid.rows): value for value in values}
    return {row: value for row, value in rows.items() if 0 <= row < canvas.grid.rows}


def _step(values: list[float], projection: MapProjection) -> float:
    _, y1, _, y2 = projection.box
    return abs(values[1] - values[0]) if len(values) > 1 else y2 - y1


def _escaped(pieces: Pieces) -> Pieces:
    """Escape the control characters that names and keys may hold."""
    return [(style, escape_controls(text, keep="")) for style, text in pieces]


def _plain(text: str) -> str:
    return text.replace("…", "-")


def _write_box(canvas: Canvas, lines: list[str], most: float, *, right: bool) -> None:
    """Write lines in an upper corner; `most` is the maximum share of the width that they cover."""
    room = max(12, int(canvas.grid.columns * most))
    shown = [f" {escape_controls(line, keep='')} "[:room] for line in lines[: canvas.grid.rows]]
    wide = max(map(len, shown))
    for row, line in enumerate(shown):
        canvas.text(canvas.grid.columns - wide if right else 0, row, line.ljust(wide), "reverse")
