"""The visible part of the world: everything, until the user moves the map or it follows an object."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stqsh.shell.map.terminal.canvas import DotGrid
from stqsh.shell.map.terminal.drawing import extent, position_of
from stqsh.shell.map.terminal.map_projection import MapProjection, fitted

if TYPE_CHECKING:
    from stqsh.client.map.scene import Scene

STEP = 0.15
"""The share of the visible part by which an arrow key moves."""
ZOOM = 1.5
_MOST_PLACES = 500
_LEFT, _SMALL = 0.02, 0.5
"""The limits of a map that shows everything: it is refitted once more than this share of the objects is out
of view, or a scale finer by this factor would suffice.
"""


@dataclass
class Camera:
    """The part of the world that is shown.

    Attributes:
        projection: The projection in use, None before the first picture.
        is_fitting: Whether everything is shown.
        follow: The key of an object that stays in the centre.
        trail: The places of that object since it has been followed, in order.
    """

    projection: MapProjection | None = None
    is_fitting: bool = True
    follow: Any = None
    trail: list[tuple[float, float]] = field(default_factory=list)

    def aim(self, scene: Scene, grid: DotGrid) -> MapProjection:
        """Return the projection of a scene for a canvas of a given size."""
        blank = MapProjection(0.0, 0.0, 1.0, grid.dots_across, grid.dots_down, grid.tall, scene.planar)
        before = self.projection
        is_new = before is None or (before.width, before.height) != (blank.width, blank.height)
        if before is None or (self.is_fitting and (is_new or _is_ill_fitted(scene, before))):
            self.projection = fitted(extent(scene), blank)
        elif is_new:
            self.projection = replace(before.sized(blank.width, blank.height), tall=blank.tall)
        number = position_of(scene, self.follow)
        if number is not None and self.projection is not None:
            x, y = float(scene.places.x[number]), float(scene.places.y[number])
            self.projection = self.projection.centred(x, y)
            if self.trail[-1:] != [(x, y)]:
                self.trail = [*self.trail[1 - _MOST_PLACES :], (x, y)]
        assert self.projection is not None, "it has been fitted"
        return self.projection

    def pan(self, right: int, up: int) -> None:
        """Move by a step, and stop following."""
        if self.projection is not None:
            self.is_fitting = False
            self._leave()
            self.projection = self.projection.panned(right * STEP, up * STEP)

    def zoom(self, steps: int) -> None:
        """Zoom in by some steps, or out by negative ones; the centre stays."""
        if self.projection is not None:
            self.is_fitting = False
            self.projection = self.projection.zoomed(ZOOM**steps)

    def drag(self, across: float, down: float) -> None:
        """Move the map by some dots, and stop following."""
        if self.projection is not None:
            self.is_fitting = False
            self._leave()
            held = self.projection
            self.projection = held.panned(-across / held.width, down / held.height)

    def zoom_at(self, steps: int, column: float, row: float) -> None:
        """Zoom around the place at a dot, which stays there; a followed object stays in the centre."""
        held = self.projection
        self.zoom(steps)
        if held is None or self.projection is None or self.follow is not None:
            return
        near = self.projection
        stays, now = held.place(column, row), near.place(column, row)
        self.projection = near.panned(
            (stays[0] - now[0]) / (near.across * near.width), (stays[1] - now[1]) / (near.scale * near.height)
        )

    def fit(self) -> None:
        """Show everything again."""
        self.projection, self.is_fitting = None, True
        self._leave()

    def chase(self, key: Any) -> None:
        """Keep an object in the centre; None stops following."""
        self.trail = self.trail if key == self.follow else []
        self.follow = key
        self.is_fitting = self.is_fitting and key is None

    def _leave(self) -> None:
        """Stop following."""
        self.follow, self.trail = None, []

    def look_at(self, scene: Scene, number: int) -> None:
        """Move an object into view without a change of scale."""
        x, y = scene.places.x[number : number + 1], scene.places.y[number : number + 1]
        if self.projection is None or scene.places.within(self.projection.box)[number]:
            return
        self.is_fitting = False
        self.projection = self.projection.centred(float(x[0]), float(y[0]))


def _is_ill_fitted(scene: Scene, projection: MapProjection) -> bool:
    """Return whether many objects are out of view, or all of them fill only a small part of the view."""
    inside = scene.places.within(projection.box)
    if len(inside) and float(inside.mean()) < 1 - _LEFT:
        return True
    best = fitted(extent(scene), projection)
    return best.scale < projection.scale * _SMALL
