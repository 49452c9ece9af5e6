"""Colour schemes of the prompt: for dark terminals, for light ones, and none.

They use only the terminal's sixteen colours, so that the user's palette applies.
"""

from __future__ import annotations

import os

from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

_SHAPES = {"prompt": "bold", "bottom-toolbar": "noreverse"}
_DARK = {
    "stql.keyword": "bold ansibrightcyan",
    "stql.string": "ansibrightgreen",
    "stql.number": "ansibrightyellow",
    "stql.comment": "italic ansibrightblack",
    "stql.command": "ansibrightmagenta",
    "continuation": "ansibrightblack",
    "auto-suggestion": "ansibrightblack",
    "bottom-toolbar": "noreverse ansibrightblack",
    "bottom-toolbar.failed": "noreverse bold ansibrightred",
}
_LIGHT = {
    "stql.keyword": "bold ansiblue",
    "stql.string": "ansigreen",
    "stql.number": "ansimagenta",
    "stql.comment": "italic ansibrightblack",
    "stql.command": "ansimagenta",
    "continuation": "ansibrightblack",
    "auto-suggestion": "ansibrightblack",
    "bottom-toolbar": "noreverse ansibrightblack",
    "bottom-toolbar.failed": "noreverse bold ansired",
}
STYLES = {
    "dark": Style.from_dict({**_SHAPES, **_DARK}),
    "light": Style.from_dict({**_SHAPES, **_LIGHT}),
    "none": Style.from_dict(_SHAPES),
}
"""The styles by name: the values of the setting shell.scheme other than `auto`."""

_BRIGHT = ("7", "15")
"""Values of COLORFGBG for a light background; other terminals do not set it, and most are dark."""


def colour_depth() -> ColorDepth | None:
    """Return the depth without colours if NO_COLOR is set, else None."""
    return ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None


def scheme_name(wanted: str) -> str:
    """Return the name of the colour scheme.

    Without colours (NO_COLOR, a dumb terminal) it is `none`; `auto` depends on the terminal's background.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return "none"
    if wanted in STYLES:
        return wanted
    return "light" if os.environ.get("COLORFGBG", "").rpartition(";")[2] in _BRIGHT else "dark"
