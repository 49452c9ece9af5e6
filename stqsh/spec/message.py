"""The texts of alerts: `{name}` stands for a value of the update, `{{` and `}}` for braces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

HEAD_FIELDS = ("alert", "query", "key", "op", "why", "step", "at", "row")
"""The fields available in every text besides the columns of its query; `row` is the row in words."""

_PART = re.compile(r"(\{\{|\}\})|\{([^{}]*)\}|([{}])")


class MessagePart(NamedTuple):
    """A piece of a text: literal text, the name of a field, or an unmatched brace.

    `start` and `end` are its position in the original text.
    """

    kind: Literal["text", "field", "brace"]
    text: str
    start: int
    end: int


def message_parts(text: str) -> Iterator[MessagePart]:
    """Yield the pieces of a text.

    >>> [part.text for part in message_parts("{oid} is {{here}}")]
    ['oid', ' is ', '{', 'here', '}']
    """
    place = 0
    for found in _PART.finditer(text):
        if found.start() > place:
            yield MessagePart("text", text[place : found.start()], place, found.start())
        doubled, field, alone = found.groups()
        start, place = found.span()
        if doubled is not None:
            yield MessagePart("text", doubled[0], start, place)
        elif field is not None:
            yield MessagePart("field", field.strip(), start, place)
        else:
            yield MessagePart("brace", alone, start, place)
    if place < len(text):
        yield MessagePart("text", text[place:], place, len(text))
