"""Full-screen views (WATCH, MAP, scrolling back): prompt_toolkit controls the terminal, a view draws lines.

While a view is open, nothing else writes to the terminal. It uses the alternate screen, follows each change
of the terminal's size, and prints its last frame when it closes, so that the last content is not lost.

A view draws from its own data and never waits: slow work belongs in a separate thread. `draw` raises that
thread's errors, which ends the view.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText, StyleAndTextTuples, fragment_list_width
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.mouse_events import MouseEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.shortcuts import print_formatted_text
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from stqsh.control_characters import escape_controls
from stqsh.shell.terminal.capabilities import replace_undrawable
from stqsh.shell.terminal.colours import colour_depth, scheme_name
from stqsh.shell.terminal.interrupts import run_interruptibly

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

Line: TypeAlias = StyleAndTextTuples
"""Pieces of text with their style classes, such as `("class:dim", "step 12")`."""

_SHAPES = {"title": "bold", "focus": "bold reverse", "dim": "", "new": "bold", "gone": "", "bar": ""}
_COLOURS = {
    "dark": {"dim": "ansibrightblack", "new": "bold ansigreen", "gone": "ansired", "bar": "ansicyan"},
    "light": {"dim": "ansibrightblack", "new": "bold ansigreen", "gone": "ansired", "bar": "ansiblue"},
    "none": {},
}
"""The classes that all views share; without colours, new rows are bold and the focus is reversed."""


_SIZE_S = 0.2
"""How often the terminal's size is polled: Ctrl-C's handler replaces the signal that reports a change."""

Mouse: TypeAlias = Callable[[MouseEvent], object]


class FullscreenView(Protocol):
    """Fills the screen with lines."""

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines of the screen; lines that exceed its size are cut off. An error ends the view."""

    def last(self, width: int, height: int) -> list[Line]:
        """Return the lines that stay on the terminal after the view, without key hints."""


@dataclass
class TextEntry:
    """A line of text that is typed within a view, such as a filter.

    While it is open it receives all keys: Enter accepts the text, Escape and Ctrl-C discard it.

    Attributes:
        prompt: The text before the entry.
        taken: Called with the text on Enter.
        text: The typed text.
        is_open: Whether it receives the keys.
    """

    prompt: str
    taken: Callable[[str], None]
    text: str = ""
    is_open: bool = False

    def open(self, text: str = "") -> None:
        """Open the entry with a text."""
        self.text, self.is_open = text, True

    def press(self, key: str, data: str = "") -> None:
        """Handle a key, named as in prompt_toolkit."""
        if key in ("c-m", "c-j", "enter"):
            self.is_open = False
            self.taken(self.text.strip())
        elif key in ("escape", "c-c", "<sigint>"):
            self.is_open = False
        elif key in ("c-h", "backspace"):
            self.text = self.text[:-1]
        elif key == "c-u":
            self.text = ""
        elif key == "<bracketed-paste>" or (len(key) == 1 and key.isprintable()):
            self.text += "".join(char for char in data or key if char.isprintable())

    @property
    def shown(self) -> str:
        """The prompt and the text, with a bar for the cursor."""
        return f"{self.prompt}{self.text}▏"


@dataclass
class Fullscreen:
    """A view on the whole terminal until the user leaves it by `q`, Ctrl-C or a key of the view.

    Attributes:
        view: Draws the lines, after each key and every `every_s` seconds.
        keys: The view's own keys, disabled while `entry` is open.
        entry: The view's text entry.
        scheme: The setting shell.scheme.
        every_s: The time between two drawings, in seconds.
        mouse: Handles mouse events; returns `NotImplemented` for those that change nothing.
        is_over: Returns whether the view ends by itself; called at each drawing.
    """

    view: FullscreenView
    keys: KeyBindings
    entry: TextEntry | None = None
    scheme: str = "auto"
    every_s: float = 0.25
    mouse: Mouse | None = None
    is_over: Callable[[], bool] = bool
    _error: Exception | None = field(default=None, init=False)

    def run(self) -> None:
        """Show the view until the user leaves it; its last frame stays. Raises what `draw` raised."""
        style = Style.from_dict(_SHAPES | _COLOURS[scheme_name(self.scheme)])
        output = create_output()
        app: Application[None] = Application(
            Layout(Window(_Control(self._text, self.mouse), wrap_lines=False)),
            style=style,
            mouse_support=self.mouse is not None,
            terminal_size_polling_interval=_SIZE_S,
            key_bindings=merge_key_bindings([self._own_keys(), self._bound_keys()]),
            full_screen=True,
            refresh_interval=self.every_s,
            color_depth=colour_depth(),
            output=output,
        )
        app.ttimeoutlen = app.timeoutlen = 0.05  # Escape takes effect immediately
        run_interruptibly(app)
        if self._error is not None:
            raise self._error
        _leave_frame(self.view, style, output)

    @property
    def _is_typing(self) -> bool:
        return self.entry is not None and self.entry.is_open

    def _text(self) -> FormattedText:
        size = get_app().output.get_size()
        if self.is_over():
            leave()
        try:
            lines = self.view.draw(size.columns, size.rows)
        except Exception as error:  # `run` raises it once the terminal is restored
            self._error = error
            leave()
            return FormattedText([])
        return joined(lines, size.columns, size.rows)

    def _own_keys(self) -> KeyBindings:
        """Return the keys of all views."""
        keys, free = KeyBindings(), Condition(lambda: not self._is_typing)

        @keys.add("q", filter=free)
        @keys.add("c-c", filter=free)
        @keys.add("c-d", filter=free)
        @keys.add("<sigint>", filter=free)
        def _(event: KeyPressEvent) -> None:
            leave()

        @keys.add("<any>", filter=~free, eager=True)
        @keys.add("escape", filter=~free, eager=True)
        @keys.add("c-c", filter=~free, eager=True)
        @keys.add("<sigint>", filter=~free, eager=True)
        @keys.add("enter", filter=~free, eager=True)
        @keys.add("backspace", filter=~free, eager=True)
        def _(event: KeyPressEvent) -> None:
            press = event.key_sequence[-1]
            assert self.entry is not None, "the filter says so"
            self.entry.press(press.key, press.data)

        return keys

    def _bound_keys(self) -> KeyBindings:
        """Return the view's keys, disabled while the text entry is open."""
        keys, free = KeyBindings(), Condition(lambda: not self._is_typing)
        for binding in self.keys.bindings:
            keys.add(*binding.keys, filter=free & binding.filter)(binding.handler)
        return keys


class _Control(FormattedTextControl):
    """Text that passes all its mouse events to one handler."""

    def __init__(self, text: Callable[[], FormattedText], mouse: Mouse | None) -> None:
        super().__init__(text, show_cursor=False)
        self._mouse = mouse

    def mouse_handler(self, mouse_event: MouseEvent) -> NotImplementedOrNone:
        """Pass the event on; return `NotImplemented` if it changed nothing, so that nothing is redrawn."""
        if self._mouse is None or self._mouse(mouse_event) is NotImplemented:
            return NotImplemented
        return None


def leave() -> None:
    """Close the open view; called by a view's own keys."""
    app = get_app()
    if app.is_running and not app.is_done:
        app.exit()


def cut(line: Line, width: int) -> Line:
    """Cut a line to `width` characters; one that is too long ends with `…`."""
    if fragment_list_width(line) <= width:
        return line
    kept: Line = []
    room = width - 1
    for style, text, *_ in line:
        fitting = text if len(text) * 2 <= room else _fitting(text, room)
        kept.append((style, fitting))
        room -= sum(map(get_cwidth, fitting))
        if len(fitting) < len(text) or room <= 0:
            break
    return [*kept, ("class:dim", "…")]


def joined(lines: list[Line], width: int, height: int) -> FormattedText:
    """Join lines into one text of a given size, in characters that the terminal supports.

    Control characters, which names and values may contain, are escaped.
    """
    shown: Line = []
    for number, line in enumerate(lines[:height]):
        if number:
            shown.append(("", "\n"))
        escaped: Line = [(style, escape_controls(text, keep="")) for style, text, *_ in line]
        shown += [(style, replace_undrawable(text)) for style, text, *_ in cut(escaped, width)]
    return FormattedText(shown)


def _fitting(text: str, room: int) -> str:
    taken = 0
    for place, char in enumerate(text):
        taken += get_cwidth(char)
        if taken > room:
            return text[:place]
    return text


def _leave_frame(view: FullscreenView, style: Style, output: Output) -> None:
    """Print the last frame on the normal screen."""
    size = shutil.get_terminal_size()
    lines = view.last(size.columns, size.lines - 1)
    if lines:
        text = joined(lines, size.columns - 1, size.lines - 1)
        print_formatted_text(text, style=style, output=output, color_depth=colour_depth())
