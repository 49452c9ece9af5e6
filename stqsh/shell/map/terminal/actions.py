"""The actions of a map's keys: where it looks, what it shows, which object is selected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.drawing import MapOptionsShown, position_of
from stqsh.shell.map.terminal.loader import MapLoader
from stqsh.shell.map.terminal.selection import in_the_middle, next_one, with_key

if TYPE_CHECKING:
    from stqsh.client.map.scene import Scene

_AFTER: dict[str, Literal["auto", "on", "off"]] = {"auto": "on", "on": "off", "off": "auto"}


@dataclass
class MapActions:
    """The user's choices on a map.

    Attributes:
        loader: Loads the scenes.
        camera: What part of the world is shown.
        look: Which layers and queries are shown.
        still: The scene of a paused map.
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
        """Select the next object, or the one before."""
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
        """Follow the selected object, else the focal objects in turn, and then none."""
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
    """Return the keys of a map, as prompt_toolkit names them, with their actions."""
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
