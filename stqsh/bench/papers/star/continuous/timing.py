"""Time what the indexes take to match records, and what it takes to keep up results, a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.ch_tree import ENDLESS, ChIndex
from stqsh.bench.papers.star.continuous.forest import Fast, Forest, RarestFirst
from stqsh.bench.papers.star.continuous.peers import OpIndex, RPTrees
from stqsh.bench.papers.star.continuous.posted import CountedCells, PostedRecords, cells_of, records_of
from stqsh.bench.papers.star.continuous.questions import ContinuousWorkload, Questions, shared
from stqsh.bench.papers.star.continuous.standing import Pairs, Standing, part
from stqsh.bench.papers.star.continuous.tables import Posted
from stqsh.bench.papers.star.continuous.upkeep import WAYS, Upkeep
from stqsh.bench.papers.star.world import Posts

Make = Callable[[Any, Posted, int], Standing]

INDEXES: tuple[Make, ...] = (
    OpIndex,
    RPTrees,
    ChIndex,
    partial(ChIndex, limit=ENDLESS),
    Fast,
    Forest,
    RarestFirst,
)

MINUTES, STEADY = 40, 30
"""The minutes of a run, and when the longest window is full; from then on times count."""

_SAMPLE, _ROUNDS = 2_000, 3
_PAIRS = 3_000_000
"""How many pairs a pass over the records of a match finds, more or less."""

_CHECKED, _AT_ONCE = 200, 1_000_000


@dataclass(frozen=True)
class Cost:
    """What a record costs, µs, and the bytes that are kept."""

    micros: float
    nbytes: int


@dataclass
class Stream:
    """Records that arrive.

    Attributes:
        posts: the posts.
    """

    posts: Posts
    _cells: dict[tuple[int, bool], CountedCells] = field(default_factory=dict)

    @cached_property
    def records(self) -> PostedRecords:
        """The posts as arrays."""
        return records_of(self.posts)

    @cached_property
    def sample(self) -> Posted:
        """Records that tell what is rare: the last ones, which stand for earlier ones."""
        return part(self.records.posted, max(0, len(self.posts) - _SAMPLE), len(self.posts))

    def draw(self, workload: ContinuousWorkload, count: int) -> Questions:
        """Draw queries around the records."""
        return workload.draw(self.records.posted, count, seed=5)

    def between(self, first: int, last: int) -> Posted:
        """Return the records first … last - 1."""
        return part(self.records.posted, first, last)

    def index(self, make: Make, questions: Questions) -> Standing:
        """Return an index that all rows of questions stand in."""
        found = make(questions.predicates, self.sample, self.records.terms)
        found.add(np.arange(len(questions.predicates.topic), dtype=np.int32))
        return found

    def cells(self, minute: int, *, with_terms: bool) -> CountedCells:
        """Return the cells of records of which this many come a minute."""
        if (minute, with_terms) not in self._cells:
            self._cells.clear()
            numbers = np.arange(MINUTES * minute) // minute
            self._cells[minute, with_terms] = cells_of(
                self.records, len(numbers), numbers, with_terms=with_terms
            )
        return self._cells[minute, with_terms]

    def found(self, questions: Questions) -> float:
        """Return how many rows of questions a record satisfies, on average."""
        some = self.between(0, _CHECKED)
        return len(self.index(Forest, questions).match(some).row) / len(some.x)


def match_costs(stream: Stream, questions: Questions) -> dict[str, Cost]:
    """Return what a match takes with each index, in turns, on the same records.

    Raises:
        ValueError: an index finds other pairs than a test of all of them.
    """
    some = stream.between(0, _CHECKED)
    wanted = stream.index(Standing, questions).match(some).sorted()
    indexes = [stream.index(make, questions) for make in INDEXES]
    for index in indexes:
        if not np.array_equal(index.match(some).sorted(), wanted):
            raise ValueError(f"{index.name} matches other records than a test of all queries")
    pairs = max(len(wanted) / len(some.x), 1.0)
    count = int(np.clip(_PAIRS / pairs, 128, min(1 << 14, len(stream.posts))))
    chunk = int(np.clip(_AT_ONCE / pairs, 16, 1 << 12))
    parts = [stream.between(at, min(at + chunk, count)) for at in range(0, count, chunk)]
    times: dict[str, list[float]] = {index.name: [] for index in indexes}
    for _ in range(_ROUNDS):
        for index in indexes:
            begun = process_time()
            for one in parts:
                index.match(one)
            times[index.name].append(process_time() - begun)
    return {index.name: Cost(1e6 * median(times[index.name]) / count, index.nbytes) for index in indexes}


def minute_of(pairs: float, updates: int, *, with_terms: bool, most: int) -> int:
    """Return how many records come a minute: a power of two, so that a run counts about this often."""
    counted = max(pairs, 0.01) * (15 if with_terms else 1)
    return 1 << int(np.clip(np.log2(updates / MINUTES / counted), 2, np.log2(most)))


def minutes_of(stream: Stream, questions: Questions, minute: int) -> list[Pairs]:
    """Return the pairs of each minute."""
    index, found = stream.index(RarestFirst, questions), []
    for first in range(0, MINUTES * minute, minute):
        pairs = index.match(stream.between(first, first + minute))
        found.append(Pairs((pairs.record + first).astype(np.int32), pairs.row.astype(np.int32)))
    return found


@dataclass(frozen=True)
class Kept:
    """What keeping up results costs in each way, and what all of them show for each query, uint64."""

    costs: dict[str, Cost]
    digests: Array


def upkeep_costs(stream: Stream, questions: Questions, minute: int, *, is_top: bool) -> Kept:
    """Return what keeping up results takes a record once windows are full, in each way.

    Raises:
        ValueError: the ways tell other results.
    """
    cells, pairs = stream.cells(minute, with_terms=is_top), minutes_of(stream, questions, minute)
    costs, digests = dict[str, Cost](), list[Array]()
    for way in WAYS:
        upkeep, begun = Upkeep(way, questions.cubes, cells, is_top), 0.0
        for number, some in enumerate(pairs):
            if number == STEADY:
                begun = process_time()
            upkeep.count(some)
            upkeep.close()
            upkeep.answer()
        seconds = process_time() - begun
        costs[way.name] = Cost(1e6 * seconds / (MINUTES - STEADY) / minute, upkeep.nbytes)
        digests.append(upkeep.digests[questions.cube])
        if not np.array_equal(digests[0], digests[-1]):
            raise ValueError(f"{way.name} tells other results than {WAYS[0].name}")
    return Kept(costs, digests[0])


def alone_and_shared(questions: Questions) -> tuple[Questions, Questions]:
    """Return queries as they are, and with equal predicates and results only once."""
    return questions, shared(questions)
