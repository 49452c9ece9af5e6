"""Continuous queries of STAR's table 1, and the predicates and results that equal ones share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.tables import Posted, Predicates, lists_of
from stqsh.bench.papers.star.workload import COMBINATIONS
from stqsh.bench.papers.star.world import TOPICS

SIDES = (0.0005, 0.001, 0.002)
WINDOWS, SYNCS = (10, 20, 30), (1, 5, 10)
"""Minutes."""

_PIVOT, _CELLS, _KEYWORDS = 0.7, 10, 3


class Cubes(NamedTuple):
    """Results that are kept.

    Attributes:
        start: int64 (predicates + 1,); the results of predicate p are those from start[p] on.
        grouping: a number of `COMBINATIONS`, int32 (cubes,).
        window: minutes, int32 (cubes,); 0 for all time.
        sync: minutes, int32 (cubes,).
    """

    start: Array
    grouping: Array
    window: Array
    sync: Array


@dataclass(frozen=True)
class Questions:
    """Queries.

    Attributes:
        predicates: what they ask for.
        cubes: their results.
        cube: the result of each query, int64 (queries,).
    """

    predicates: Predicates
    cubes: Cubes
    cube: Array


@dataclass(frozen=True)
class ContinuousWorkload:
    """A set of queries.

    Attributes:
        kind: C1, groupings at random, or C2, where 0.7 of those in a cell of 10 x 10 use one of them.
        constraints: how many of range, keywords, time and topic each has, 1 to 4.
        side: the side of ranges as a share of the area's; None for those of table 1.
        ranged: whether each has a range.
    """

    kind: str
    constraints: int
    side: float | None = None
    ranged: bool = False

    def draw(self, posts: Posted, count: int, seed: int) -> Questions:
        """Draw queries around posts, each with results of its own."""
        draw = np.random.default_rng(seed)
        about = draw.integers(0, len(posts.x), count)
        ranks = draw.random((count, 4)).argsort(axis=1)
        if self.ranged:
            ranks[:, 1:][ranks[:, 1:] == 0] = ranks[:, 0][ranks[:, 0] > 0]
            ranks[:, 0] = 0
        placed, said, timed, topical = (ranks < self.constraints).T
        corner = np.column_stack([posts.x[about], posts.y[about]])
        side = draw.choice(SIDES, count) if self.side is None else np.full(count, self.side)
        box = np.where(
            placed[:, None], np.hstack([corner, corner + side[:, None]]), [-np.inf] * 2 + [np.inf] * 2
        )
        topic = np.where(topical, draw.integers(0, TOPICS, count), -1).astype(np.int32)
        start, terms = _keywords(posts, about, np.where(said, draw.integers(1, _KEYWORDS + 1, count), 0))
        predicates = Predicates(box, topic, start, terms, np.ones(count, np.bool_))
        cubes = Cubes(
            np.arange(count + 1),
            self._groupings(corner, draw),
            np.where(timed, draw.choice(WINDOWS, count), 0).astype(np.int32),
            draw.choice(SYNCS, count).astype(np.int32),
        )
        return Questions(predicates, cubes, np.arange(count))

    def _groupings(self, corner: Array, draw: np.random.Generator) -> Array:
        """Return what each query groups by, int32 (n,)."""
        grouping = draw.integers(0, len(COMBINATIONS), len(corner))
        if self.kind == "C2":
            pivots = np.random.default_rng(1).integers(0, len(COMBINATIONS), (_CELLS, _CELLS))
            column, row = np.clip((corner * _CELLS).astype(int), 0, _CELLS - 1).T
            grouping = np.where(draw.random(len(corner)) < _PIVOT, pivots[row, column], grouping)
        return grouping.astype(np.int32)


def _keywords(posts: Posted, about: Array, counts: Array) -> tuple[Array, Array]:
    """Return the first terms of posts, this many of each, ascending: starts and terms, int32."""
    counts = np.minimum(counts, np.diff(posts.start)[about])
    start = np.append(0, np.cumsum(counts))
    within = np.arange(start[-1]) - np.repeat(start[:-1], counts)
    terms = posts.terms[np.repeat(posts.start[about], counts) + within]
    order = np.lexsort((terms, np.repeat(np.arange(len(counts)), counts)))
    return start.astype(np.int32), terms[order].astype(np.int32)


def shared(questions: Questions) -> Questions:
    """Return the same queries with one row for equal predicates, and one result for equal questions."""
    asked, cubes = questions.predicates, questions.cubes
    length = int(np.diff(asked.start).max(initial=0))
    words = np.full((len(asked.topic), length), -1, np.int64)
    row = np.repeat(np.arange(len(asked.topic)), np.diff(asked.start))
    words[row, np.arange(len(row)) - np.repeat(asked.start[:-1], np.diff(asked.start))] = asked.terms
    what = np.column_stack([asked.box.view(np.int64), asked.topic, words])
    _, first, predicate = np.unique(what, axis=0, return_index=True, return_inverse=True)
    predicate = predicate.reshape(-1)[np.repeat(np.arange(len(asked.topic)), np.diff(cubes.start))]
    whole = np.column_stack([predicate, cubes.grouping, cubes.window, cubes.sync])
    _, one, cube = np.unique(whole, axis=0, return_index=True, return_inverse=True)
    start = np.searchsorted(predicate[one], np.arange(len(first) + 1))
    kept = Cubes(start, cubes.grouping[one], cubes.window[one], cubes.sync[one])
    return Questions(rows_of(asked, first), kept, cube.reshape(-1)[questions.cube])


def rows_of(asked: Predicates, rows: Array) -> Predicates:
    """Return some rows of predicates."""
    start, at = lists_of(asked.start, rows)
    return Predicates(
        asked.box[rows], asked.topic[rows], start.astype(np.int32), asked.terms[at], asked.active[rows]
    )
