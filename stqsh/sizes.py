"""Sizes in bytes as people write them: `64 MB`, `2g`, `512 kB`; by powers of 1024."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_NAMES = {"": "B", "k": "kB", "m": "MB", "g": "GB", "t": "TB"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)


def size_bytes(text: str) -> int:
    """The bytes of a size. Raises `ValueError` for a text that has no unit, or is none."""
    match = _SIZE.fullmatch(text.strip())
    size = round(float(match[1]) * _UNITS[match[2].lower()]) if match and (match[2] or match[3]) else 0
    if size < 1:
        raise ValueError("a size such as '64 MB'")
    return size


def size_text(size: float) -> str:
    """A number of bytes with its unit, such as `64 MB`, to a hundredth."""
    letter = next((letter for letter, unit in reversed(_UNITS.items()) if size >= unit), "")
    text = f"{size / _UNITS[letter]:.2f}".rstrip("0").rstrip(".")
    return f"{text} {_NAMES[letter]}"
