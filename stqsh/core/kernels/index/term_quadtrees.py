"""A quad tree of queries for each term: the frequency-aware index of Tornado section 3.2 (FAST), in arrays.

A query hangs under one of its terms, in the cells that its box touches. Every tree begins as one list over
all places, and a list that grows too long is handed to four children, cell by cell; so trees are deep only
where many queries hang close together under one term, and a box that is large for the children stays with
the parent, in a list of its own. FAST's pyramid has the terms within its cells; here each term has its
pyramid, so that a probe finds it by the term's code and never hashes.

Points outside the grid count to its border cells, as do boxes, hence an answer never depends on where it
lies.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.kernels.index.static_rects import GridFrame, band
from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel

DEPTH = 9
"""Levels below the root; the finest has 512 x 512 cells."""

LONGEST = 8
"""A list of boxes that may go further down is split when it would outgrow this. Measured with 10 thousand to
1 million queries: 16 costs a tenth of the events a second and spares a tenth of the memory, 32 twice that."""

SPLIT_ROOM = 256
"""Entries that a split takes at most: a child may get what its parent had and, as splits do not cascade, one
for each level, 17 in all, for which it needs stretches of 1, 2, … 32 entries."""

# The columns of a node: where each of its two lists begins, how long it is, and the power of two that is its
# room (-1: none); then the first of its four children, 0 for none.
STAY, DOWN, CHILD, WIDTH = 0, 3, 6, 8
CHECKED, ANY, MORE, SHIFT = 1, 2, 4, 3

Box: TypeAlias = tuple[Float, Float, Float, Float]


class TermQuadtrees(NamedTuple):
    """The trees, and the pool of their lists' entries.

    root: int32 (terms,), the root of each term's tree, 0 for none. nodes: int32 (nodes, WIDTH). boxes:
    float64 (entries, 4), x1, y1, x2, y2. rest: int32 (entries, 2), terms that have to be there beside the one
    under which the query hangs, or that one again; of a query that asks for any of its terms those before it,
    which must not be there, or -1. tag: int32 (entries,), the query's row << SHIFT, and the bits CHECKED:
    pairs that stay are wanted too, ANY: one term is enough, MORE: not all of the terms fit in `rest`. used:
    int64 (2 + 32,), nodes and entries in use, and the head + 1 of a chain, by `tag`, of free stretches of
    each power of two.
    """

    root: Array
    nodes: Array
    boxes: Array
    rest: Array
    tag: Array
    used: Array


class TermEntry(NamedTuple):
    """An entry to be: see `TermQuadtrees`."""

    box: Box
    rest: tuple[Int, Int]
    tag: Int


@kernel
def reach(box: Box, lattice: GridFrame) -> tuple[Int, Int, Int, Int, Int]:
    """The first and last column and row of the finest cells that a box touches, and how deep it may go: to
    the finest level whose cells are not smaller, so that it touches four of them at most.
    """
    x1, y1, x2, y2 = box
    (c1, r1), (c2, r2) = spot(x1, y1, lattice), spot(x2, y2, lattice)
    up = 0
    while max(c2 - c1, r2 - r1) >> up:
        up += 1
    return c1, c2, r1, r2, DEPTH - up


@kernel
def spot(x: Float, y: Float, lattice: GridFrame) -> tuple[Int, Int]:
    """The column and row of the finest cell that a point counts to."""
    side = lattice.side
    return band(x, lattice.x0, lattice.per_x, side), band(y, lattice.y0, lattice.per_y, side)


@kernel
def below(child: Int, column: Int, row: Int) -> Int:
    """The one of four children where a column and row of their level are, 0 where there are none."""
    return np.int64(child) + 2 * (row & 1) + (column & 1) if child else np.int64(0)


@kernel
def touches(cover: tuple[Int, Int, Int, Int, Int], level: Int, column: Int, row: Int) -> Flag:
    """Whether what `reach` gave touches a cell of a level."""
    up = DEPTH - level
    columns = (cover[0] >> up) <= column <= (cover[1] >> up)
    return columns and (cover[2] >> up) <= row <= (cover[3] >> up)


@kernel
def new_nodes(forest: TermQuadtrees, count: Int) -> Int:
    """The first of `count` new nodes with empty lists."""
    first = forest.used[0]
    for node in range(first, first + count):
        forest.nodes[node] = 0
        forest.nodes[node, STAY + 2] = forest.nodes[node, DOWN + 2] = -1
    forest.used[0] = first + count
    return first


@kernel
def _stretch(forest: TermQuadtrees, power: Int) -> Int:
    """A free stretch of 2 ** power entries."""
    head = forest.used[2 + power]
    if head:
        forest.used[2 + power] = forest.tag[head - 1]
        return head - 1
    begin = forest.used[1]
    forest.used[1] = begin + (1 << power)
    return begin


@kernel
def _release(forest: TermQuadtrees, begin: Int, power: Int) -> None:
    forest.tag[begin] = forest.used[2 + power]
    forest.used[2 + power] = begin + 1


@kernel
def copy_entry(forest: TermQuadtrees, source: Int, target: Int) -> None:
    """Copy an entry over another."""
    for i in range(4):
        forest.boxes[target, i] = forest.boxes[source, i]
    forest.rest[target, 0], forest.rest[target, 1] = forest.rest[source, 0], forest.rest[source, 1]
    forest.tag[target] = forest.tag[source]


@kernel
def growth(forest: TermQuadtrees, node: Int, kind: Int) -> Int:
    """How many more entries the pool may have to hold for one more in a list."""
    count, power = forest.nodes[node, kind + 1], forest.nodes[node, kind + 2]
    if kind == DOWN and count >= LONGEST:
        return np.int64(SPLIT_ROOM)
    return np.int64(0) if power >= 0 and count < (1 << power) else np.int64(1) << (power + 1)


@kernel
def _slot(forest: TermQuadtrees, node: Int, kind: Int) -> Int:
    """The place of one more entry at the end of a list; the list moves where it has no room."""
    begin, count, power = (
        forest.nodes[node, kind],
        forest.nodes[node, kind + 1],
        np.int64(forest.nodes[node, kind + 2]),
    )
    if power < 0 or count == (1 << power):
        to = _stretch(forest, power + 1)
        for i in range(count):
            copy_entry(forest, begin + i, to + i)
        if power >= 0:
            _release(forest, begin, power)
        begin = to
        forest.nodes[node, kind], forest.nodes[node, kind + 2] = to, power + 1
    forest.nodes[node, kind + 1] = count + 1
    return begin + count


@kernel
def _put(forest: TermQuadtrees, node: Int, kind: Int, post: TermEntry) -> None:
    at = _slot(forest, node, kind)
    x1, y1, x2, y2 = post.box
    forest.boxes[at, 0], forest.boxes[at, 1] = x1, y1
    forest.boxes[at, 2], forest.boxes[at, 3] = x2, y2
    forest.rest[at, 0], forest.rest[at, 1] = post.rest
    forest.tag[at] = post.tag


@kernel
def _hand_down(
    forest: TermQuadtrees, where: tuple[Int, Int, Int, Int], post: TermEntry, lattice: GridFrame
) -> None:
    """Give an entry to those children of a node that it touches; where: node, level, column, row."""
    node, level, column, row = where
    cover, child = reach(post.box, lattice), forest.nodes[node, CHILD]
    for quarter in range(4):
        if touches(cover, level + 1, 2 * column + (quarter & 1), 2 * row + (quarter >> 1)):
            _put(forest, child + quarter, DOWN if cover[4] > level + 1 else STAY, post)


@kernel
def _split(forest: TermQuadtrees, where: tuple[Int, Int, Int, Int], lattice: GridFrame) -> None:
    """Give a node four children, and them its list of boxes that may go down."""
    node = where[0]
    child = new_nodes(forest, 4)
    begin, count, power = forest.nodes[node, DOWN], forest.nodes[node, DOWN + 1], forest.nodes[node, DOWN + 2]
    forest.nodes[node, CHILD] = child
    forest.nodes[node, DOWN + 1], forest.nodes[node, DOWN + 2] = 0, -1
    for at in range(begin, begin + count):
        box = forest.boxes[at, 0], forest.boxes[at, 1], forest.boxes[at, 2], forest.boxes[at, 3]
        post = TermEntry(box, (forest.rest[at, 0], forest.rest[at, 1]), forest.tag[at])
        _hand_down(forest, where, post, lattice)
    _release(forest, begin, np.int64(power))


@kernel
def targets(
    forest: TermQuadtrees, root: Int, cover: tuple[Int, Int, Int, Int, Int], out: Array
) -> tuple[Int, Int]:
    """Where an entry belongs in a tree: rows (node, level, column, row) of `out`, int64 (>= 4 * DEPTH, 4).

    Returns how many, at most four, and how many entries the pool may have to gain.
    """
    found, needed, top = 0, np.int64(0), 1
    # Found nodes lie at the front of `out`, those still to be looked at behind the fourth row.
    stack = out[4:]
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, 0, 0, 0
    while top:
        top -= 1
        node, level, column, row = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        child = forest.nodes[node, CHILD]
        if not child or cover[4] <= level:
            out[found, 0], out[found, 1], out[found, 2], out[found, 3] = node, level, column, row
            needed += growth(forest, node, DOWN if cover[4] > level else STAY)
            found += 1
            continue
        for quarter in range(4):
            c, r = 2 * column + (quarter & 1), 2 * row + (quarter >> 1)
            if touches(cover, level + 1, c, r):
                stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = child + quarter, level + 1, c, r
                top += 1
    return found, needed


@kernel
def hang(forest: TermQuadtrees, where: Array, post: TermEntry, deepest: Int, lattice: GridFrame) -> None:
    """Put an entry into the lists of the nodes that `targets` found; the pool has room for it."""
    for i in range(len(where)):
        node, level, column, row = where[i, 0], where[i, 1], where[i, 2], where[i, 3]
        kind = DOWN if deepest > level else STAY
        if kind == DOWN and forest.nodes[node, DOWN + 1] >= LONGEST:
            _split(forest, (node, level, column, row), lattice)
            _hand_down(forest, (node, level, column, row), post, lattice)
        else:
            _put(forest, node, kind, post)
