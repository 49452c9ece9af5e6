"""Queries registered together: what they share is kept once, and of each its name and its numbers.

A pattern is the spec of one of them without what differs; see `stqsh.lang.alike`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from stqsh.lang.printing.values import identifier, number
from stqsh.session.records import Spec


@dataclass(frozen=True, slots=True)
class Pattern:
    """What queries that were registered together share.

    `spec` is a QuerySpec; of each of them, name, id, text and the `holes` of its region are others. `words`
    stand around the numbers in the text of the SELECT, `between` after the name in that of the statement.
    """

    spec: Mapping[str, Any]
    holes: tuple[str, ...]
    words: tuple[str, ...]
    between: str

    @staticmethod
    def from_json(text: str | bytes) -> Pattern:
        """Read what `to_json` made."""
        told = orjson.loads(text)
        return Pattern(told["spec"], tuple(told["holes"]), tuple(told["words"]), told["between"])

    def to_json(self) -> bytes:
        """The pattern as the log keeps it."""
        told = {"spec": self.spec, "holes": self.holes, "words": self.words, "between": self.between}
        return orjson.dumps(told)

    def spec_of(self, id_: int, name: str, numbers: Sequence[float]) -> Spec:
        """The QuerySpec of one of the queries, by its numbers as they were typed."""
        changed = {"text": self.text(numbers), "region": self.region(numbers), "name": name, "id": id_}
        return {**self.spec, **changed}

    def region(self, numbers: Sequence[float]) -> Spec:
        """The region of one of the queries: of a rectangle's corners the lower one comes first."""
        region = {**self.spec["region"], **dict(zip(self.holes, numbers, strict=True))}
        if region["type"] == "rect":
            region["x1"], region["x2"] = sorted((region["x1"], region["x2"]))
            region["y1"], region["y2"] = sorted((region["y1"], region["y2"]))
        return region

    def text(self, numbers: Sequence[float]) -> str:
        """The text of the SELECT of one of the queries."""
        first, *rest = self.words
        return first + "".join(f"{number(value)}{word}" for value, word in zip(numbers, rest, strict=True))

    def statement(self, name: str, text: str) -> str:
        """The statement that registers one of the queries, by its name and the text of its SELECT."""
        return f"REGISTER QUERY {identifier(name)}{self.between}{text};"

    def unpacked(self, packed: bytes) -> tuple[float, ...]:
        """The numbers of one of the queries, as the catalogue keeps them: doubles, one after the other."""
        return struct.unpack(f"={len(self.holes)}d", packed)
