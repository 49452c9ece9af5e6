"""Whether the terminal shows UTF-8, and what is drawn on one that does not.

Data in pipes and files is UTF-8 whatever the terminal is; this is only for what is drawn for eyes.
"""

from __future__ import annotations

import codecs
import os

_LINES = {"─": "-", "━": "=", "│": "|", "…": "~", "—": "-", "▏": "|", "·": "."}
_BARS = dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True))
_ARROWS = {"↑": "^", "↓": "v", "←": "<", "→": ">", "▸": ">"}
_ASCII = str.maketrans(_LINES | _BARS | _ARROWS)


def charset() -> str:
    """The terminal's character set by the locale's variables; UTF-8 where they say nothing (or nonsense)."""
    said = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    locale, _, named = said.partition("@")[0].partition(".")
    if not named:
        return "ascii" if locale in ("C", "POSIX") else "utf-8"
    try:
        return codecs.lookup(named).name
    except LookupError:
        return "utf-8"


def drawn_bytes(text: str) -> bytes:
    """A drawn text in the terminal's characters: lines in ASCII where it has no others, `?` for the rest."""
    name = charset()
    return text.encode() if name == "utf-8" else _replaced(text, name)


def drawn_text(text: str) -> str:
    """The same as text, for whoever encodes it."""
    name = charset()
    return text if name == "utf-8" else _replaced(text, name).decode(name)


def _replaced(text: str, name: str) -> bytes:
    return text.translate(_ASCII).encode(name, errors="replace")
