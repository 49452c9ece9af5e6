"""The actions of a map's keys and mouse: change the view, the layers, and the selected object.

A drag moves the map, the wheel zooms at the pointer, a click selects the nearest object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from prompt_toolkit.data_structures import Point
from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType

from stqsh.arrays import Array
from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.drawing import MapOptionsShown, position_of
from stqsh.shell.map.terminal.loader import MapLoader
from stqsh.shell.map.terminal.map_projection import MapProjection

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

    from stqsh.client.map.scene import Scene


_AFTER: dict[str, Literal["auto", "on", "off"]] = {"auto": "on", "on": "off", "off": "auto"}


@dataclass
class MapActions:
    """The user's choices on a map.

    Attributes:
        loader: Loads the scenes.
        camera: The visible part of the world.
        look: The visible layers and queries.
        still: The scene at which the map is paused.
        helping: Whether the list of keys is shown.
        notice: The message of the last key.
    """

    loader: MapLoader
    camera: Camera = field(default_factory=Camera)
    look: MapOptionsShown = field(default_factory=MapOptionsShown)
    still: Scene | None = None
    helping: bool = False
    notice: str = ""

    @property
    def scene(self) -> Scene | None:
        """The scene to draw; None before the first."""
        return self.still or self.loader.scene

    def hide(self, number: int) -> None:
        """Hide the query with a number, or show it again."""
        if self.scene is not None and number < len(self.scene.drawn):
            self.look.hidden ^= {number}

    def toggle(self, name: Literal["slots", "regions", "graticule"]) -> None:
        """Show a layer, or hide it again."""
        setattr(self.look, name, not getattr(self.look, name))

    def change_density(self) -> None:
        """Switch density shading between automatic, always and never."""
        self.look.density = _AFTER[self.look.density]
        self.notice = f"density {self.look.density}"

    def stand_still(self) -> None:
        """Pause the map at its current scene, or continue."""
        self.still = None if self.still is not None else self.loader.scene

    def help(self) -> None:
        """Show the keys, or hide them again."""
        self.helping = not self.helping

    def pick(self, number: int | None) -> None:
        """Select an object by its position in the scene; None selects none."""
        key: Any = None
        if number is not None and self.scene is not None:
            key = self.scene.places.keys[number].as_py()
            self.camera.look_at(self.scene, number)
        self.look.picked = key
        self.loader.pick(key)

    def next(self, step: int) -> None:
        """Select the next object, or the previous one."""
        scene, projection = self.scene, self.camera.projection
        if scene is not None and projection is not None:
            picked = position_of(scene, self.look.picked)
            self.pick(next_one(scene, projection, self.look.hidden, picked, step))

    def pick_in_the_middle(self) -> None:
        """Select the object nearest to the centre."""
        if self.scene is not None and self.camera.projection is not None:
            self.pick(in_the_middle(self.scene, self.camera.projection))

    def find(self, text: str) -> None:
        """Select an object by its key, or the beginning of it."""
        if self.scene is None or not text:
            return
        number = with_key(self.scene, text)
        if number is None:
            self.notice = f"no object {text} here"
        else:
            self.pick(number)

    def follow(self) -> None:
        """Follow the selected object, or else each focal object in turn, and then none."""
        if self.scene is None:
            return
        shown = [drawn for number, drawn in enumerate(self.scene.drawn) if number not in self.look.hidden]
        focal = dict.fromkeys(drawn.outline.focal for drawn in shown if drawn.focal is not None)
        choice = [self.look.picked] if self.look.picked is not None else [*focal]
        turn = [*choice, None]
        here = turn.index(self.camera.follow) if self.camera.follow in turn else -1
        self.camera.chase(turn[(here + 1) % len(turn)])
        if not choice:
            self.notice = "nothing to follow: pick an object with n or /"


def key_actions(actions: MapActions) -> dict[str, Callable[[], None]]:
    """Return the actions of a map by key, with prompt_toolkit's names of keys."""
    camera = actions.camera
    return {
        "left h": lambda: camera.pan(-1, 0),
        "right l": lambda: camera.pan(1, 0),
        "up k": lambda: camera.pan(0, 1),
        "down j": lambda: camera.pan(0, -1),
        "+ =": lambda: camera.zoom(1),
        "- _": lambda: camera.zoom(-1),
        "0 f": camera.fit,
        "n tab": lambda: actions.next(1),
        "N s-tab": lambda: actions.next(-1),
        "enter": actions.pick_in_the_middle,
        "escape": lambda: actions.pick(None),
        "t": actions.follow,
        "s": lambda: actions.toggle("slots"),
        "r": lambda: actions.toggle("regions"),
        "g": lambda: actions.toggle("graticule"),
        "d": actions.change_density,
        "space": actions.stand_still,
        "?": actions.help,
        **{str(number + 1): partial(actions.hide, number) for number in range(9)},
    }


def in_the_middle(scene: Scene, projection: MapProjection) -> int | None:
    """Return the index of the object nearest to the centre; None if none is visible."""
    return _nearest(scene, projection, np.flatnonzero(scene.places.within(projection.box)))


def nearest_to(scene: Scene, projection: MapProjection, dot: tuple[float, float], most: float) -> int | None:
    """Return the index of the object nearest to a dot; None if none is within `most` dots across.

    The distance of an object with an extent is that of its shape, 0 within it.
    """
    up = most / projection.tall
    west, north = projection.place(dot[0] - most, dot[1] - up)
    east, south = projection.place(dot[0] + most, dot[1] + up)
    near = np.flatnonzero(scene.places.within((west, south, east, north)))
    across, down = projection.dots(scene.places.x[near], scene.places.y[near])
    far = _far(projection, across, down, dot)
    if scene.places.shapes is not None:
        far = np.fmin(far, _far_from_shapes(projection, scene.places.shapes[near], dot))
    return int(near[np.argmin(far)]) if len(far) and far.min() <= most else None


def next_one(
    scene: Scene, projection: MapProjection, hidden: set[int], picked: int | None, step: int
) -> int | None:
    """Return the index of the object after the selected one (step 1), or before it (-1).

    Cycle through the members of shown answers, or else all visible objects; start with the one nearest to the
    centre. None if none is visible.
    """
    seen = scene.places.within(projection.box)
    shown = [drawn for number, drawn in enumerate(scene.drawn) if number not in hidden]
    telling = [drawn.members for drawn in shown] + [
        np.array([drawn.focal]) for drawn in shown if drawn.focal is not None
    ]
    marked = np.unique(np.concatenate([*telling, np.empty(0, np.int64)])).astype(np.int64)
    choice = marked[seen[marked]] if seen[marked].any() else np.flatnonzero(seen)
    if picked is None or not len(choice):
        return _nearest(scene, projection, choice)
    here = int(np.searchsorted(choice, picked))
    is_here = here < len(choice) and choice[here] == picked
    return int(choice[(here + (step if is_here or step < 0 else 0)) % len(choice)])


def with_key(scene: Scene, text: str) -> int | None:
    """Return the index of the object with a key, or else of the first key with that prefix; else None."""
    keys = scene.places.keys.cast(pa.string())
    exact = pc.index(keys, text).as_py()
    if exact >= 0:
        return int(exact)
    begins: Any = pc.starts_with(keys, text)
    found = np.flatnonzero(begins.to_numpy(zero_copy_only=False))
    return min(found.tolist(), key=lambda at: str(keys[at].as_py()), default=None) if text else None


def _nearest(
    scene: Scene, projection: MapProjection, choice: Array, dot: tuple[float, float] | None = None
) -> int | None:
    """Return the position that is nearest to a dot, by default the centre."""
    if not len(choice):
        return None
    across, down = projection.dots(scene.places.x[choice], scene.places.y[choice])
    centre = projection.width / 2, projection.height / 2
    return int(choice[np.argmin(_far(projection, across, down, dot or centre))])


def _far(projection: MapProjection, across: Array, down: Array, dot: tuple[float, float]) -> Array:
    """Return the visual distances of dots, float64 (n,), from one dot; in dots across."""
    distances: Array = np.hypot(across - dot[0], (down - dot[1]) * projection.tall)
    return distances


def _far_from_shapes(projection: MapProjection, shapes: Array, dot: tuple[float, float]) -> Array:
    """Return the visual distances of shapes from one dot; NaN without a shape."""
    import shapely  # takes a while to load

    def on_screen(places: Array) -> Array:
        across, down = projection.dots(places[:, 0], places[:, 1])
        return np.column_stack([across, down * projection.tall])

    spot = shapely.Point(dot[0], dot[1] * projection.tall)
    distances: Array = shapely.distance(shapely.transform(shapes, on_screen), spot)
    return distances


LEFT, ABOVE = 1, 2
"""The offset of the map on the screen, in characters: the frame; the title and the frame."""
_NEAR = 3.0
"""The maximum distance between a click and the object that it selects, in lines."""
_WHEEL = {MouseEventType.SCROLL_UP: 1, MouseEventType.SCROLL_DOWN: -1}


@dataclass
class MapMouse:
    """Turns mouse events into actions; `across` and `down` are the dots of a character."""

    actions: MapActions
    across: int
    down: int
    _held: Point | None = field(default=None, init=False)
    _is_dragged: bool = field(default=False, init=False)

    def __call__(self, event: MouseEvent) -> NotImplementedOrNone:
        """Handle an event; return `NotImplemented` if it changes nothing, such as a plain move."""
        at, kind = event.position, event.event_type
        if kind in _WHEEL:
            self.actions.camera.zoom_at(_WHEEL[kind], *self._dot(at))
        elif kind is MouseEventType.MOUSE_DOWN and event.button is MouseButton.LEFT:
            self._held, self._is_dragged = at, False
        elif kind is MouseEventType.MOUSE_MOVE and self._held is not None:
            return self._drag(event)
        elif kind is MouseEventType.MOUSE_UP and self._held is not None:
            self._let_go(at)
        else:
            return NotImplemented
        return None

    def _drag(self, event: MouseEvent) -> NotImplementedOrNone:
        at, held = event.position, self._held
        if event.button is not MouseButton.LEFT:  # released outside the terminal
            self._held = None
        if self._held is None or held is None or at == held:
            return NotImplemented
        self.actions.camera.drag((at.x - held.x) * self.across, (at.y - held.y) * self.down)
        self._held, self._is_dragged = at, True
        return None

    def _let_go(self, at: Point) -> None:
        """End a drag, or select the object at a click."""
        scene, projection = self.actions.scene, self.actions.camera.projection
        if not self._is_dragged and scene is not None and projection is not None:
            number = nearest_to(scene, projection, self._dot(at), _NEAR * 2 * self.across)
            self.actions.pick(number)
        self._held = None

    def _dot(self, at: Point) -> tuple[float, float]:
        """Return the middle of a character of the screen in dots of the canvas."""
        return (at.x - LEFT + 0.5) * self.across, (at.y - ABOVE + 0.5) * self.down
