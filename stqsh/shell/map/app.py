"""MAP on a terminal: the map fills the screen and lives until it is left; its last frame stays."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prompt_toolkit.key_binding import KeyBindings

from stqsh.shell.fullscreen import Entry, Fullscreen, Line
from stqsh.shell.map.camera import Camera
from stqsh.shell.map.drawing import Look, position_of
from stqsh.shell.map.frame import Picture
from stqsh.shell.map.keeper import Keeper
from stqsh.shell.map.palette import Palette
from stqsh.shell.map.picking import in_the_middle, next_one, with_key
from stqsh.shell.plain import charset, drawn_bytes
from stqsh.shell.scheme import scheme_name

if TYPE_CHECKING:
    from stqsh.session.maps.feed import MapFeed, Scene
    from stqsh.shell.prompt import Terminal

KEYS = "arrows + - 0  / find  n next  t follow  ? keys  q leaves"
WIDTH, HEIGHT = 80, 24
"""Of a map that is not on a terminal, unless COLUMNS and LINES say otherwise."""


def show_map(feed: MapFeed, scheme: str = "auto", terminal: Terminal | None = None) -> str:
    """Show a map until the user leaves it; what to say then. Raises what reading the session raises."""
    keeper = Keeper(feed)
    view = MapView(keeper, Palette(scheme_name(scheme)), has_braille())
    screen = Fullscreen(view, view.bindings(), view.entry, scheme)
    if terminal is not None:
        screen.terminal = terminal
    keeper.start()
    try:
        screen.run()
    finally:
        keeper.stop()
    return f"left the map of {feed.stream.name}; it goes on"


def print_map(feed: MapFeed) -> None:
    """Print one frame as text. Raises what reading the session raises."""
    scene = feed.look(MOST_PRINTED)
    assert scene is not None, "the first look sees something"
    size = shutil.get_terminal_size((WIDTH, HEIGHT))
    picture = Picture(scene, Camera(), Look(), Palette("none"), has_braille())
    lines = ("".join(text for _, text in line).rstrip() for line in picture.lines(size.columns, size.lines))
    sys.stdout.buffer.write(drawn_bytes("\n".join(lines) + "\n"))
    sys.stdout.flush()


MOST_PRINTED = 1_000_000


def has_braille() -> bool:
    """Whether the terminal has more characters than those of ASCII."""
    return charset() == "utf-8"


@dataclass
class MapView:
    """The state behind the screen: where the map looks, what the user has chosen, and the keys."""

    keeper: Keeper
    palette: Palette
    braille: bool = True
    camera: Camera = field(default_factory=Camera)
    look: Look = field(default_factory=Look)
    entry: Entry = field(init=False)
    _still: Scene | None = field(default=None, init=False)
    _helping: bool = field(default=False, init=False)
    _notice: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.entry = Entry("/", self._find)

    def draw(self, width: int, height: int) -> list[Line]:
        """The screen."""
        if self.keeper.error is not None:
            raise self.keeper.error
        lines = self._lines(width, height, KEYS)
        if self.entry.is_open:
            lines[-1] = [("", self.entry.shown)]
        return lines

    def last(self, width: int, height: int) -> list[Line]:
        """What stays: the map without the keys."""
        self._helping, self._notice = False, ""
        return self._lines(width - 1, height, "") if self._scene is not None else []

    def bindings(self) -> KeyBindings:
        """The keys of a map."""
        keys = KeyBindings()
        for names, action in self._actions().items():
            for name in names.split():
                keys.add(name)(lambda _, action=action: self._press(action))
        for number in range(1, 10):
            keys.add(str(number))(lambda _, number=number: self._press(lambda: self._hide(number - 1)))
        return keys

    def _actions(self) -> dict[str, Callable[[], None]]:
        return {
            "left h": lambda: self.camera.pan(-1, 0),
            "right l": lambda: self.camera.pan(1, 0),
            "up k": lambda: self.camera.pan(0, 1),
            "down j": lambda: self.camera.pan(0, -1),
            "+ =": lambda: self.camera.zoom(1),
            "- _": lambda: self.camera.zoom(-1),
            "0 f": self.camera.fit,
            "n tab": lambda: self._next(1),
            "N s-tab": lambda: self._next(-1),
            "enter": self._pick_in_the_middle,
            "escape": lambda: self._pick(None),
            "/": self.entry.open,
            "t": self._follow,
            "s": lambda: self._toggle("slots"),
            "r": lambda: self._toggle("regions"),
            "g": lambda: self._toggle("graticule"),
            "d": self._change_density,
            "space": self._stand_still,
            "?": self._help,
        }

    @property
    def _scene(self) -> Scene | None:
        return self._still or self.keeper.scene

    def _lines(self, width: int, height: int, keys: str) -> list[Line]:
        scene = self._scene
        if scene is None:
            return [[("", f"{self.keeper.alive}  looking at the objects…  q leaves".strip())]]
        key, record = self.keeper.record
        picture = Picture(scene, self.camera, self.look, self.palette, self.braille)
        picture.record = record if key == self.look.picked else None
        picture.alive, picture.helping, picture.keys = self.keeper.alive, self._helping, keys
        picture.notice = "stands still; space goes on" if self._still is not None else self._notice
        return [[*pieces] for pieces in picture.lines(width, height)]

    def _press(self, action: Callable[[], None]) -> None:
        self._notice = ""
        action()

    def _hide(self, number: int) -> None:
        if self._scene is not None and number < len(self._scene.drawn):
            self.look.hidden ^= {number}

    def _toggle(self, name: str) -> None:
        setattr(self.look, name, not getattr(self.look, name))

    def _change_density(self) -> None:
        self.look.density = {"auto": "on", "on": "off", "off": "auto"}[self.look.density]  # type: ignore[assignment]
        self._notice = f"density {self.look.density}"

    def _stand_still(self) -> None:
        self._still = None if self._still is not None else self.keeper.scene

    def _help(self) -> None:
        self._helping = not self._helping

    def _pick(self, number: int | None) -> None:
        scene = self._scene
        key: Any = None
        if number is not None and scene is not None:
            key = scene.places.keys[number].as_py()
            self.camera.look_at(scene, number)
        self.look.picked = key
        self.keeper.pick(key)

    def _next(self, step: int) -> None:
        scene, projection = self._scene, self.camera.projection
        if scene is not None and projection is not None:
            picked = position_of(scene, self.look.picked)
            self._pick(next_one(scene, projection, self.look.hidden, picked, step))

    def _pick_in_the_middle(self) -> None:
        if self._scene is not None and self.camera.projection is not None:
            self._pick(in_the_middle(self._scene, self.camera.projection))

    def _find(self, text: str) -> None:
        if self._scene is None or not text:
            return
        number = with_key(self._scene, text)
        if number is None:
            self._notice = f"no object {text} here"
        else:
            self._pick(number)

    def _follow(self) -> None:
        """Follow what is picked, else the focal objects in turn, and then none."""
        if self._scene is None:
            return
        focal = [
            drawn.outline.focal
            for number, drawn in enumerate(self._scene.drawn)
            if drawn.focal is not None and number not in self.look.hidden
        ]
        choice = [self.look.picked] if self.look.picked is not None else [*dict.fromkeys(focal)]
        turn = [*choice, None]
        here = turn.index(self.camera.follow) if self.camera.follow in turn else -1
        self.camera.chase(turn[(here + 1) % len(turn)])
        if not choice:
            self._notice = "nothing to follow: pick an object with n or /"
