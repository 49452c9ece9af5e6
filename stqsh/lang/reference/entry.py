"""What an entry of the manual holds."""

from __future__ import annotations

from typing import NamedTuple


class ReferenceEntry(NamedTuple):
    """A statement, or a part of one: how it is written, what it does, an example, and what it costs.

    name: the words that a statement begins with. example: one statement that runs on the sample data, after
    the examples before it. cost: what it costs the engine or the user, in a sentence or two. more: what else
    there is to know, in lines.
    """

    name: str
    syntax: str
    help: str
    example: str
    cost: str
    more: str = ""
