"""Queries registered together: what they share is kept once, and of each its name and what differs.

A pattern is the spec of one of them without what differs; see `stqsh.lang.statement_shapes`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from stqsh.lang.printer.values import identifier, number
from stqsh.spec.query import QuerySpec, read_spec
from stqsh.spec.region import RectangleSpec, Region

FOCAL = "focal"
"""The hole that holds a key; it is the last one, and the others hold numbers."""
Key = str | int
Differing = Sequence[float | str]
"""What is in the holes of one query, as typed: numbers, and a key."""


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """What queries that were registered together share.

    `spec` is a QuerySpec; of each of them, name, id, text and the `holes` of its region are others: numbers,
    and as the last one, `FOCAL`, the key of the object that it moves with. `words` stand around them in the
    text of the SELECT, `between` after the name in that of the statement.
    """

    spec: QuerySpec
    holes: tuple[str, ...]
    words: tuple[str, ...]
    between: str

    @property
    def numbers(self) -> tuple[str, ...]:
        """The holes that hold numbers."""
        return tuple(hole for hole in self.holes if hole != FOCAL)

    @staticmethod
    def from_json(text: str | bytes) -> QueryTemplate:
        """Read what `to_json` made."""
        told = orjson.loads(text)
        return QueryTemplate(
            read_spec(orjson.dumps(told["spec"]), QuerySpec),
            tuple(told["holes"]),
            tuple(told["words"]),
            told["between"],
        )

    def to_json(self) -> bytes:
        """The pattern as the log keeps it."""
        told = {
            "spec": msgspec.to_builtins(self.spec),
            "holes": self.holes,
            "words": self.words,
            "between": self.between,
        }
        return orjson.dumps(told)

    def spec_of(self, id_: int, name: str, differing: Differing) -> QuerySpec:
        """The QuerySpec of one of the queries, by what is in its holes."""
        text, region = self.text(differing), self.region(differing)
        return replace(self.spec, text=text, region=region, name=name, id=id_)

    def region(self, differing: Differing) -> Region:
        """The region of one of the queries: of a rectangle's corners the lower one comes first."""
        own: dict[str, Any] = dict(zip(self.holes, differing, strict=True))
        if FOCAL in own:
            own[FOCAL] = self.key(own[FOCAL])
        region = replace(self.spec.region, **own)
        if not isinstance(region, RectangleSpec):
            return region
        (x1, x2), (y1, y2) = sorted((region.x1, region.x2)), sorted((region.y1, region.y2))
        return RectangleSpec(x1, y1, x2, y2)

    def key(self, typed: str) -> Key:
        """The key of a focal object as its column has it."""
        return int(typed) if isinstance(self.spec.region.focal_key, int) else typed

    def text(self, differing: Differing) -> str:
        """The text of the SELECT of one of the queries."""
        first, *rest = self.words
        return first + "".join(f"{_text(what)}{word}" for what, word in zip(differing, rest, strict=True))

    def statement(self, name: str, text: str) -> str:
        """The statement that registers one of the queries, by its name and the text of its SELECT."""
        return f"REGISTER QUERY {identifier(name)}{self.between}{text};"

    def unpacked(self, packed: bytes) -> Differing:
        """What is in one of the queries' holes, as the catalogue keeps it: doubles, then the key's text."""
        count = len(self.numbers)
        numbers = struct.unpack_from(f"={count}d", packed)
        return (*numbers, packed[8 * count :].decode()) if FOCAL in self.holes else numbers


def _text(what: float | str) -> str:
    return what.replace("'", "''") if isinstance(what, str) else number(what)
