"""What all systems get in `stqsh bench snapshot-peers`: the same objects, and the same questions in turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RANGE, COUNT, NEAREST = "range, 1 %", "count, 1 %", "kNN, k = 10"
GROUPS, ALL_GROUPS = "count and mean by topic, 1 %", "count and mean by topic, everywhere"
KINDS = (RANGE, COUNT, NEAREST, GROUPS, ALL_GROUPS)

Numbers: TypeAlias = "list[float]"
"""The answer to a question: keys of objects, or of each topic its number, its count and its mean."""

_CLOSE = 1e-9
"""By how much means may differ, relatively: other systems add numbers in the order in which they come."""


@dataclass(frozen=True)
class SnapshotQuestion:
    """A question of a kind, about a box or, for nearest neighbours, about its middle."""

    kind: str
    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def words(self) -> dict[str, Any]:
        """What the texts of a system may name in braces."""
        return {**vars(self), "x": (self.x1 + self.x2) / 2, "y": (self.y1 + self.y2) / 2}


@dataclass(frozen=True)
class SnapshotCase:
    """The sizes of the case.

    Attributes:
        asked: questions of each kind; two more come first, which are not measured.
        side: the side of a box; the area is a square of side 1.
    """

    objects: int
    asked: int
    topics: int = 10
    side: float = 0.1
    warming: int = 2

    def questions(self) -> list[SnapshotQuestion]:
        """Return all questions, those of a kind one after the other."""
        rng = np.random.default_rng(3)
        low = rng.random((len(KINDS), self.asked + self.warming, 2)) * (1 - self.side)
        return [
            SnapshotQuestion(kind, x, y, x + self.side, y + self.side)
            for kind, corners in zip(KINDS, low.tolist(), strict=True)
            for x, y in corners
        ]

    def write(self, folder: Path) -> None:
        """Write the objects as Parquet, and the questions as JSON."""
        rng = np.random.default_rng(1)
        x, y = rng.random((2, self.objects))
        columns: dict[str, Any] = {
            "oid": np.arange(self.objects),
            "topic": rng.integers(0, self.topics, self.objects),
            "x": x,
            "y": y,
            "ts": np.zeros(self.objects, "datetime64[us]"),
        }
        pq.write_table(pa.table(columns), folder / "objects.parquet", compression="none")
        questions = [[*vars(one).values()] for one in self.questions()]
        (folder / "questions.json").write_text(json.dumps(questions))

    def by_kind(self, milliseconds: Sequence[float]) -> dict[str, list[float]]:
        """Return the times of the measured questions of each kind, of those of all questions."""
        size = self.asked + self.warming
        starts = range(0, len(milliseconds), size)
        return {
            kind: list(milliseconds[start + self.warming : start + size])
            for kind, start in zip(KINDS, starts, strict=True)
        }


def check(
    name: str, questions: Sequence[SnapshotQuestion], wanted: Sequence[Numbers], found: Sequence[Numbers]
) -> None:
    """Compare the answers of a system with ours.

    Raises:
        ValueError: one of them differs.
    """
    for question, ours, theirs in zip(questions, wanted, found, strict=True):
        if len(ours) != len(theirs) or not np.allclose(ours, theirs, rtol=_CLOSE, atol=0):
            raise ValueError(f"{name} answers {question} otherwise: {theirs[:9]}, and stqsh {ours[:9]}")
