"""Escape control characters for display: data must not clear a terminal, recolour it or reverse text."""

from __future__ import annotations

import re

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 controls, line separators, direction controls, and surrogates.

A path has surrogates for bytes that are not UTF-8; no output could encode them.
"""

_UNSAFE_IN_JSON = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
"""DEL, the C1 controls with U+0085, and U+2028 and U+2029, in UTF-8; serialisers escape the others."""


def has_controls(text: str) -> bool:
    """Return whether a text holds control characters, line ends included."""
    return _CONTROLS.search(text) is not None


def escape_controls(text: str, keep: str = "\t\n") -> str:
    r"""Return a text with its control characters as escapes such as `\x1b`, except those in `keep`.

    >>> escape_controls("clear\x1b[2J")
    'clear\\x1b[2J'
    """

    def escape(control: re.Match[str]) -> str:
        return control[0] if control[0] in keep else control[0].encode("unicode_escape").decode()

    return _CONTROLS.sub(escape, text)


def escape_json(text: bytes) -> bytes:
    """Escape the control characters and line separators that a JSON text may have in its strings.

    Afterwards the text is a single line for every reader, whatever it treats as a line end.
    """
    if text.isascii() and b"\x7f" not in text:
        return text
    return _UNSAFE_IN_JSON.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), text)


def shorten(text: str, most: int) -> str:
    """Return a text of at most `most` characters, with an ellipsis in the middle of a longer one.

    >>> shorten("no file matches 'aaaaaaaaaaaaaaaaaaaa.csv'", 30)
    "no file matches…aaaaaaaaa.csv'"
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}…{text[len(text) - half + 1 :]}"
