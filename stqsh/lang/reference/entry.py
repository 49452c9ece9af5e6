"""An entry of the reference."""

from __future__ import annotations

from typing import NamedTuple


class ReferenceEntry(NamedTuple):
    """A statement, or a part of one: its syntax, meaning and cost, with an example.

    Attributes:
        name: The words that the statement begins with.
        syntax: Its syntax.
        help: Its meaning.
        example: One statement that runs on the sample data, after the examples before it.
        cost: What it costs the engine or the user, in a sentence or two.
        more: Further details, as lines.
    """

    name: str
    syntax: str
    help: str
    example: str
    cost: str
    more: str = ""
