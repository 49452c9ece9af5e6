"""Predicates that stand: what the indexes compared here have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.probes import probe_each
from stqsh.bench.papers.star.continuous.tables import Posted, Predicates, Room, lists_of

_LAZY = 64
"""The fewest dropped rows that are removed together, and the share of all that they have to be."""


class Pairs(NamedTuple):
    """Records and the rows whose predicates they satisfy, int32 (n,) each."""

    record: Array
    row: Array

    def sorted(self) -> Array:
        """Return the pairs as one number each, ascending."""
        codes: Array = (self.record.astype(np.int64) << 32) | self.row
        codes.sort()
        return codes


class Standing:
    """Rows of predicates, of which some stand; this one tests all of them.

    Dropped rows stay in an index, and are passed over, until enough of them have gathered.

    Attributes:
        name: the name in tables.
        sought: the rows.
        sample: records of the past.
        terms: how many terms there are.
    """

    name = "brute force"
    probe: ClassVar[Callable[..., tuple[int, int]]] = staticmethod(probe_each)

    def __init__(self, sought: Predicates, sample: Posted, terms: int) -> None:
        self.sought = sought._replace(active=np.zeros(len(sought.topic), np.bool_))
        self.sample, self.terms = sample, terms
        self.index: Any = 0
        self.rebuilt = 0
        self._dropped = 0
        self._room = Room(np.empty(1 << 16, np.int32), np.empty(1 << 16, np.int32), np.empty(0, np.int32))

    def add(self, rows: Array) -> None:
        """Let rows stand that never stood before."""
        self.sought.active[rows] = True
        self.enter(rows)

    def drop(self, rows: Array) -> None:
        """Let rows stand no longer."""
        self.sought.active[rows] = False
        self._dropped += len(rows)
        if self._dropped >= max(_LAZY, int(self.sought.active.sum()) // 4):
            self._dropped = 0
            self.rebuilt += 1
            self.clean()

    def enter(self, rows: Array) -> None:
        """Enter new rows into the index."""
        del rows
        self.clean()

    def clean(self) -> None:
        """Build the index of the rows that stand."""
        self.index = self.built(np.flatnonzero(self.sought.active).astype(np.int32))

    def built(self, rows: Array) -> Any:
        """Return an index of rows, int32."""
        del rows
        return 0

    def match(self, posts: Posted) -> Pairs:
        """Return the rows that stand and whose predicates records satisfy."""
        self._room = self._room._replace(marks=np.full(self.terms, -1, np.int32))
        done, used = 0, 0
        while True:
            done, used = self.probe(self.index, self.sought, posts, self._room, done, used)
            if done == len(posts.x):
                return Pairs(self._room.record[:used], self._room.row[:used])
            more = np.empty((2, 2 * len(self._room.row) + len(self.sought.topic)), np.int32)
            more[:, :used] = self._room.record[:used], self._room.row[:used]
            self._room = Room(more[0], more[1], self._room.marks)

    @property
    def nbytes(self) -> int:
        """The bytes of the index, without those of the rows themselves."""
        return sum(array.nbytes for array in self.index if isinstance(array, np.ndarray)) if self.index else 0


def is_placed(sought: Predicates) -> Array:
    """Return which rows have a rectangle, bool (n,)."""
    placed: Array = np.isfinite(sought.box[:, 0])
    return placed


def topics_of(sought: Predicates) -> int:
    """Return how many topics rows may ask for."""
    return 1 + int(sought.topic.max(initial=0))


def with_sought_topics(posts: Posted, sought: Predicates) -> Posted:
    """Return records with topics that rows may ask for; all others are the one after these."""
    return posts._replace(topic=np.minimum(posts.topic, topics_of(sought)))


def part(posts: Posted, first: int, last: int) -> Posted:
    """Return the records first … last - 1."""
    begin, end = posts.start[first], posts.start[last]
    x, y, topic = (column[first:last] for column in posts[:3])
    return Posted(
        x,
        y,
        topic,
        posts.start[first : last + 1] - begin,
        posts.terms[begin:end],
    )


def taken(posts: Posted, numbers: Array) -> Posted:
    """Return the records of some numbers."""
    start, at = lists_of(posts.start, numbers)
    return Posted(posts.x[numbers], posts.y[numbers], posts.topic[numbers], start, posts.terms[at])


def starts(numbers: Array, count: int) -> Array:
    """Return where each number 0 … count - 1 begins among sorted numbers, int64 (count + 1,)."""
    return np.searchsorted(numbers, np.arange(count + 1)).astype(np.int64)
