"""The questions of STAR's table 1: constraints, groupings, and the sets Q_S1 and Q_S2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from stqsh.bench.papers.star.world import GROUPINGS, POSTS, TOPICS, Posts
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.syntax.parse import parse
from stqsh.spec.query import SnapshotSpec

COMBINATIONS = tuple(some for size in range(1, 6) for some in combinations(GROUPINGS, size))
"""All 31 combinations of attributes."""

_CONSTRAINTS = ("range", "keywords", "time", "topic")
_SIDES = (0.0005, 0.001, 0.002)
_MINUTES = (10, 20, 30)
_PIVOT = 0.7
_CELLS = 10


@dataclass(frozen=True)
class Workload:
    """A set of questions.

    Attributes:
        kind: S1, groupings at random, or S2, where 0.7 of the questions in a cell of 10 x 10 use one of them.
        aggregate: `COUNT(*)` or `TOPK(body, 10)`.
        constraints: how many of range, keywords, time and topic a question has, 1 to 4; 0: a range of `side`.
        side: the side of ranges as a share of the area's; None: those of table 1.
        is_ranged: whether a range is one of the constraints of each question.
    """

    kind: str
    aggregate: str
    constraints: int
    side: float | None = None
    is_ranged: bool = False

    @property
    def name(self) -> str:
        """The name in tables, as the paper's figures have it."""
        return f"Q_{self.kind}-{'TopK' if self.aggregate.startswith('TOPK') else 'Count'}"

    def texts(self, posts: Posts, count: int, seed: int) -> Iterator[str]:
        """Yield questions."""
        draw = np.random.default_rng(seed)
        pivots = np.random.default_rng(1).integers(0, len(COMBINATIONS), (_CELLS, _CELLS))
        for _ in range(count):
            post = int(draw.integers(0, len(posts)))
            chosen = draw.permutation(_CONSTRAINTS)[: self.constraints].tolist() or ["range"]
            if self.is_ranged and "range" not in chosen:
                chosen[0] = "range"
            column, row = np.clip((posts.places[post] * _CELLS).astype(int), 0, _CELLS - 1).tolist()
            number = int(draw.integers(0, len(COMBINATIONS)))
            if self.kind == "S2" and draw.random() < _PIVOT:
                number = int(pivots[row, column])
            yield self._text(posts, post, chosen, COMBINATIONS[number], draw)

    def _text(
        self, posts: Posts, post: int, chosen: list[str], by: tuple[str, ...], draw: np.random.Generator
    ) -> str:
        conditions = {
            "keywords": f"body CONTAINS '{posts.words(post, int(draw.integers(1, 4)))}'",
            "time": f"ts > NOW - {draw.choice(_MINUTES)} min",
            "topic": f"topic = {draw.integers(0, TOPICS)}",
        }
        where = " AND ".join(text for name, text in conditions.items() if name in chosen)
        region = ""
        if "range" in chosen:
            side = float(draw.choice(_SIDES)) if self.side is None else self.side
            x, y = (posts.places[post] if self.side is None else draw.random(2) * (1 - side)).tolist()
            region = f" INSIDE ({x!r}, {y!r}, {x + side!r}, {y + side!r})"
        groups = ", ".join(by)
        return (
            f"SELECT {groups}, {self.aggregate} FROM posts{' WHERE ' if where else ''}{where}{region}"
            f" GROUP BY {groups};"
        )


def bound(text: str) -> SnapshotSpec:
    """Return a question as the binder makes it."""
    [statement] = parse(text)
    spec: SnapshotSpec = bind(statement, Catalogue({"posts": POSTS})).spec
    return spec
