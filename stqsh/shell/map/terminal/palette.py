"""What a map is drawn with: the terminal's own colours by scheme, letters of queries, boxes and marks."""

from __future__ import annotations

from dataclasses import dataclass

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SEVERAL = "&"
"""In the place of a letter where objects of several answers are."""
FOCAL = "@"

_HUES = {
    "dark": ("brightgreen", "brightmagenta", "brightyellow", "brightcyan", "brightred", "brightblue"),
    "light": ("green", "magenta", "blue", "cyan", "red", "yellow"),
    "none": (),
}


@dataclass(frozen=True, slots=True)
class Palette:
    """The styles of a scheme (dark, light, none), as prompt_toolkit spells them."""

    scheme: str

    @property
    def is_plain(self) -> bool:
        """Whether there are no colours, and all has to be told by characters."""
        return not _HUES[self.scheme]

    def of(self, number: int, extra: str = "") -> str:
        """The colour of the query, or slot, of that number; there are six, then they come again."""
        hues = _HUES[self.scheme]
        hue = f"ansi{hues[number % len(hues)]}" if hues else ""
        return f"{hue} {extra}".strip()

    @property
    def dim(self) -> str:
        """What stands back: frames, regions that nobody asks about."""
        return "" if self.is_plain else "ansibrightblack"

    @property
    def picked(self) -> str:
        """The object that was picked."""
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
"""By whether the terminal has more than ASCII."""
