"""Text as CONTAINS sees it."""

from __future__ import annotations

import unicodedata


def terms(text: str) -> set[str]:
    """The runs of Unicode letters and digits, each character lower-cased by itself."""
    marks = (c.lower() if unicodedata.category(c)[0] in "LN" else " " for c in text)
    return set("".join(marks).split())


def contains(text: str, asked: str, how: str) -> bool:
    """Whether all (any) of the asked terms occur."""
    return {"all": terms(asked) <= terms(text), "any": bool(terms(asked) & terms(text))}[how]
