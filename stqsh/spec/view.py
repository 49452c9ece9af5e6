"""Views: a name for the text of a SELECT."""

from __future__ import annotations

from msgspec import Struct


class ViewSpec(Struct, frozen=True):
    """A view.

    Attributes:
        name: its name.
        text: its SELECT as printed.
    """

    name: str
    text: str
