"""Damage records as the world does: cut, insert and double bytes."""

from __future__ import annotations

import random

BYTES = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"{",
    b"}",
    b"\\",
    b"\\ud800",
    b":",
    b"1e999",
    b"\nnull\n",
]


def damaged(text: bytes, draw: random.Random) -> bytes:
    """Cut, insert and double bytes in a few places."""
    for _ in range(draw.randrange(8)):
        place = draw.randrange(len(text) + 1)
        end = place + draw.randrange(30)
        cut = draw.random() < 0.3
        doubled = text[place:end] if draw.random() < 0.2 else draw.choice(BYTES)
        text = text[:place] + doubled + (text[end:] if cut else text[place:])
    return text
