"""JSON texts that are one line for every reader, whatever it takes for the end of a line."""

from __future__ import annotations

import re
from typing import Any

import orjson

_UNSAFE = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
"""DEL, the C1 controls with U+0085, and U+2028 and U+2029, in UTF-8."""


def dumps(value: Any, option: int = 0) -> bytes:
    r"""Return a value as JSON, with all control characters and line separators escaped.

    The serialiser itself escapes those below U+0020 only.

    >>> dumps("one\u2028two").decode()
    '"one\\u2028two"'
    """
    return escape(orjson.dumps(value, option=option))


def escape(text: bytes) -> bytes:
    """Escape the control characters and line separators that a JSON text may have in its strings."""
    if text.isascii() and b"\x7f" not in text:
        return text
    return _UNSAFE.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), text)
