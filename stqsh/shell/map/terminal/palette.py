"""The colours, letters and characters of a map, by the terminal's colour scheme."""

from __future__ import annotations

from dataclasses import dataclass

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SEVERAL = "&"
"""The mark at objects of several answers."""
FOCAL = "@"

_HUES = {
    "dark": ("brightgreen", "brightmagenta", "brightyellow", "brightcyan", "brightred", "brightblue"),
    "light": ("green", "magenta", "blue", "cyan", "red", "yellow"),
    "none": (),
}


@dataclass(frozen=True, slots=True)
class Palette:
    """The styles of a scheme (dark, light, none), in prompt_toolkit's notation."""

    scheme: str

    @property
    def is_plain(self) -> bool:
        """Whether there are no colours, so that characters have to distinguish everything."""
        return not _HUES[self.scheme]

    def of(self, number: int, extra: str = "") -> str:
        """Return the colour of the query or slot with a number; six colours repeat."""
        hues = _HUES[self.scheme]
        hue = f"ansi{hues[number % len(hues)]}" if hues else ""
        return f"{hue} {extra}".strip()

    @property
    def dim(self) -> str:
        """The style of frames, and of regions that no query uses."""
        return "" if self.is_plain else "ansibrightblack"

    @property
    def picked(self) -> str:
        """The style of the selected object."""
        return "bold reverse"


@dataclass(frozen=True, slots=True)
class FrameMarks:
    """The characters of frames."""

    across: str
    down: str
    corners: str
    tick_below: str
    tick_left: str
    ends: str
    picked: str


MARKS = {
    True: FrameMarks("─", "│", "┌┐└┘", "┴", "├", "├┤", "◉"),
    False: FrameMarks("-", "|", "++++", "+", "+", "||", "O"),
}
"""Frame characters by whether the terminal can show more than ASCII."""
