"""MAP on a terminal: the map fills the screen until the user leaves it; its last frame is kept."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings

from stqsh.shell.map.terminal.actions import MapActions, MapMouse, key_actions
from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.canvas import DOTS
from stqsh.shell.map.terminal.drawing import MapOptionsShown
from stqsh.shell.map.terminal.frame import MapPicture
from stqsh.shell.map.terminal.loader import MapLoader
from stqsh.shell.map.terminal.palette import Palette
from stqsh.shell.status import READY, engine_text
from stqsh.shell.terminal.capabilities import encode_for_terminal, terminal_charset
from stqsh.shell.terminal.colours import scheme_name
from stqsh.shell.terminal.fullscreen import Fullscreen, Line, TextEntry

if TYPE_CHECKING:
    from stqsh.client.map.scene import MapFeed

KEYS = "arrows + - 0  / find  n next  t follow  ? keys  q leaves"
WIDTH, HEIGHT = 80, 24
"""The size of a map that is not on a terminal, unless COLUMNS and LINES set another."""
MOST_PRINTED = 1_000_000


def show_map(feed: MapFeed, scheme: str = "auto", is_over: Callable[[], bool] = bool) -> str:
    """Show a map until the user leaves it, or until it is over; return the message for the user.

    Raises:
        StqshError: The session cannot be read.
    """
    loader = MapLoader(feed)
    view = MapView(MapActions(loader), Palette(scheme_name(scheme)), has_braille())
    dots = DOTS[view.braille]
    screen = Fullscreen(view, view.bindings(), view.entry, scheme, mouse=MapMouse(view.actions, *dots))
    screen.is_over = is_over
    loader.start()
    try:
        screen.run()
    finally:
        loader.stop()
    engine = engine_text(feed.connection.home)
    return f"left the map of {feed.stream.name}; {'it goes on' if engine == READY else engine}"


def print_map(feed: MapFeed) -> None:
    """Print one frame as text. Raises `StqshError` if the session cannot be read."""
    scene = feed.look(MOST_PRINTED)
    assert scene is not None, "the first look sees something"
    size = shutil.get_terminal_size((WIDTH, HEIGHT))
    picture = MapPicture(scene, Camera(), MapOptionsShown(), Palette("none"), has_braille())
    lines = ("".join(text for _, text in line).rstrip() for line in picture.lines(size.columns, size.lines))
    sys.stdout.buffer.write(encode_for_terminal("\n".join(lines) + "\n"))
    sys.stdout.flush()


def has_braille() -> bool:
    """Return whether the terminal can show more than ASCII."""
    return terminal_charset() == "utf-8"


@dataclass
class MapView:
    """A `FullscreenView` of the latest scene, with the user's choices."""

    actions: MapActions
    palette: Palette
    braille: bool = True
    entry: TextEntry = field(init=False)

    def __post_init__(self) -> None:
        self.entry = TextEntry("/", self.actions.find)

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines of the screen. Raises the error that ended the loader."""
        if self.actions.loader.error is not None:
            raise self.actions.loader.error
        lines = self._lines(width, height, KEYS)
        if self.entry.is_open:
            lines[-1] = [("", self.entry.shown)]
        return lines

    def last(self, width: int, height: int) -> list[Line]:
        """Return the map without the list of keys, one column narrower than the terminal."""
        self.actions.helping, self.actions.notice = False, ""
        return self._lines(width - 1, height, "") if self.actions.scene is not None else []

    def bindings(self) -> KeyBindings:
        """Return the keys of a map."""
        keys = KeyBindings()
        for names, action in {**key_actions(self.actions), "/": self.entry.open}.items():
            for name in names.split():
                keys.add(name)(lambda _, action=action: self._press(action))
        return keys

    def _lines(self, width: int, height: int, keys: str) -> list[Line]:
        actions, loader = self.actions, self.actions.loader
        if actions.scene is None:
            return [[("", f"{loader.alive}  looking at the objects…  q leaves".strip())]]
        key, record = loader.record
        picture = MapPicture(actions.scene, actions.camera, actions.look, self.palette, self.braille)
        picture.record = record if key == actions.look.picked else None
        picture.alive, picture.helping, picture.keys = loader.alive, actions.helping, keys
        picture.notice = "paused; space continues" if actions.still is not None else actions.notice
        return [[*pieces] for pieces in picture.lines(width, height)]

    def _press(self, action: Callable[[], None]) -> None:
        self.actions.notice = ""
        action()
