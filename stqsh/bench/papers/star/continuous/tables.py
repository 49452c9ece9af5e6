"""The arrays of predicates, of records, and of the indexes that are compared here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array

TOPIC = 0
"""The attribute of predicates topic = value."""

NODES = 64
"""More nodes than a walk down an R-tree has open, for each of its levels."""


class Predicates(NamedTuple):
    """Conjunctions of predicates, one row each.

    Attributes:
        box: x1, y1, x2, y2, float64 (n, 4); infinite for none.
        topic: int32 (n,), -1 for none.
        start: int32 (n + 1,); row i's terms are those from start[i] on.
        terms: int32, distinct within a row.
        active: whether the row stands, bool (n,).
    """

    box: Array
    topic: Array
    start: Array
    terms: Array
    active: Array


class Posted(NamedTuple):
    """Records: x, y float64, topic int32, (n,) each; and terms, from start[i] on, int32."""

    x: Array
    y: Array
    topic: Array
    start: Array
    terms: Array


def lists_of(start: Array, rows: Array) -> tuple[Array, Array]:
    """Return where the lists of some rows begin, end to end, int64 (rows + 1,), and where their items are.

    The list of row i has the items from start[i] to start[i + 1].
    """
    counts = np.diff(start)[rows]
    begin = np.append(0, np.cumsum(counts))
    return begin, np.repeat(start[rows] - begin[:-1], counts) + np.arange(begin[-1])


class Room(NamedTuple):
    """Room for pairs, int32, and for a mark on each term, int32, which is the last record that has it."""

    record: Array
    row: Array
    marks: Array


class Intervals(NamedTuple):
    """OpIndex: lists of intervals, one for each pivot and attribute, end to end.

    Attributes:
        first: int64 (lists + 1,).
        attribute: TOPIC, or 1 for x and 2 for y, int64 (lists,).
        longest: the length of the longest interval, float64 (lists,).
        low: float64, ascending within a list.
        high: float64.
        row: int32.
        needed: how many intervals a row has, int8 (rows,).
        rest: the rows without any, int32.
    """

    first: Array
    attribute: Array
    longest: Array
    low: Array
    high: Array
    row: Array
    needed: Array
    rest: Array


class RTrees(NamedTuple):
    """RP-trees: an R-tree of the ranges of each pivot's list, and lists of what has no range.

    Attributes:
        root: int64 (trees,).
        first: the first child of each node, or the first entry, int64 (nodes,).
        counts: how many there are, int64 (nodes,).
        depth: 0 where children are entries, int64 (nodes,).
        cover: float64 (nodes, 4).
        box: float64 (entries, 4).
        row: int32 (entries,).
        topic_start: int64 (topics + 1,).
        by_topic: the rows with a topic and no range, int32.
        rest: the rows with neither, int32.
    """

    root: Array
    first: Array
    counts: Array
    depth: Array
    cover: Array
    box: Array
    row: Array
    topic_start: Array
    by_topic: Array
    rest: Array
