"""A quadtree of queries for each term: the frequency-aware index of Tornado section 3.2 (FAST), in arrays.

A query is indexed under one of its terms, in the cells that its box touches. Every tree begins as one list
for all places, and a list that grows too long is split among four children, cell by cell. So trees are deep
only where many queries are close together under one term. A box that is too large for the children stays at
the parent, in a separate list. FAST's pyramid has the terms within its cells; here each term has its own
pyramid, so a probe finds it by the term's code and never hashes. A probe visits at most ten nodes of a tree.

Points and boxes outside the grid belong to its border cells, so answers never depend on the grid's position.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.shapes import Box
from stqsh.core.kernels.index.static_rects import GridFrame, band
from stqsh.core.kernels.jit import Flag, Float, Int, kernel

DEPTH = 9
"""Levels below the root; the finest has 512 x 512 cells."""

LONGEST = 8
"""A list of boxes that may go further down is split when it would exceed this length. With 10 thousand to 1
million queries, 16 costs a tenth of the events per second and saves a tenth of the memory; 32 twice that."""

SPLIT_ROOM = 256
"""The most entries that a split needs. Splits do not cascade, so a child may get what its parent had and one
entry for each level, 17 in all, for which it needs blocks of 1, 2, … 32 entries."""

STAY, DOWN, CHILD, WIDTH = 0, 3, 6, 8
"""The columns of a node. STAY and DOWN are the start, length and capacity (a power of two, -1 for none) of
two lists: the boxes that stay here, and the boxes that may go further down. CHILD is the first of the four
children, 0 for none."""

CHECKED, ANY, MORE, SHIFT = 1, 2, 4, 3
"""The bits of a tag, see `TermQuadtrees`."""


class TermQuadtrees(NamedTuple):
    """The trees, and the pool of entries for their lists.

    Attributes:
        root: The root of each term's tree, int32 (terms,); 0 for none.
        nodes: int32 (nodes, WIDTH).
        boxes: x1, y1, x2, y2, float64 (entries, 4).
        rest: int32 (entries, 2). For a query that asks for all of its terms: other terms that must be
            present, or the tree's own term again. For a query that asks for any of them: the terms before the
            tree's own, which must be absent, or -1.
        tag: int32 (entries,): the query's row << SHIFT, and the bits CHECKED (pairs that stay are wanted,
            too), ANY (one term is enough) and MORE (`rest` does not hold all terms).
        used: int64 (2 + 32,): the numbers of nodes and entries in use; then for each power of two the head +
            1 of a chain of free blocks, linked by `tag`.
    """

    root: Array
    nodes: Array
    boxes: Array
    rest: Array
    tag: Array
    used: Array


class TermEntry(NamedTuple):
    """An entry to insert, see `TermQuadtrees`; `rest` is split into two fields."""

    box: Box
    first: Int
    second: Int
    tag: Int


class CellCover(NamedTuple):
    """The finest cells that a box touches, and the deepest level for the box."""

    left: Int
    right: Int
    bottom: Int
    top: Int
    deepest: Int


class NodeCell(NamedTuple):
    """A node, and the level, column and row of its cell."""

    node: Int
    level: Int
    column: Int
    row: Int


@kernel
def cover_cells(box: Box, frame: GridFrame) -> CellCover:
    """Return the finest cells that a box touches, and the deepest level for the box.

    That is the finest level whose cells are not smaller than the box, so the box touches at most four of
    them.
    """
    x1, y1, x2, y2 = box
    (c1, r1), (c2, r2) = finest_cell(x1, y1, frame), finest_cell(x2, y2, frame)
    up = 0
    while max(c2 - c1, r2 - r1) >> up:
        up += 1
    return CellCover(c1, c2, r1, r2, DEPTH - up)


@kernel
def finest_cell(x: Float, y: Float, frame: GridFrame) -> tuple[Int, Int]:
    """Return the column and row of the finest cell of a point."""
    side = frame.side
    return band(x, frame.x0, frame.per_x, side), band(y, frame.y0, frame.per_y, side)


@kernel
def child_at(child: Int, column: Int, row: Int) -> Int:
    """Return the child at a column and row of its level; 0 if there are no children."""
    return np.int64(child) + 2 * (row & 1) + (column & 1) if child else np.int64(0)


@kernel
def touches(cover: CellCover, level: Int, column: Int, row: Int) -> Flag:
    """Return whether a box touches a cell of a level."""
    up = DEPTH - level
    columns = (cover.left >> up) <= column <= (cover.right >> up)
    return columns and (cover.bottom >> up) <= row <= (cover.top >> up)


@kernel
def new_nodes(forest: TermQuadtrees, count: Int) -> Int:
    """Add `count` nodes with empty lists, and return the first."""
    first = forest.used[0]
    for node in range(first, first + count):
        forest.nodes[node] = 0
        forest.nodes[node, STAY + 2] = forest.nodes[node, DOWN + 2] = -1
    forest.used[0] = first + count
    return first


@kernel
def _allocate(forest: TermQuadtrees, power: Int) -> Int:
    """Return the start of a free block of 2 ** power entries."""
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
    """Overwrite an entry with another."""
    for i in range(4):
        forest.boxes[target, i] = forest.boxes[source, i]
    forest.rest[target, 0], forest.rest[target, 1] = forest.rest[source, 0], forest.rest[source, 1]
    forest.tag[target] = forest.tag[source]


@kernel
def growth(forest: TermQuadtrees, node: Int, kind: Int) -> Int:
    """Return how many more entries the pool may need if a list grows by one entry."""
    count, power = forest.nodes[node, kind + 1], forest.nodes[node, kind + 2]
    if kind == DOWN and count >= LONGEST:
        return np.int64(SPLIT_ROOM)
    return np.int64(0) if power >= 0 and count < (1 << power) else np.int64(1) << (power + 1)


@kernel
def _new_entry(forest: TermQuadtrees, node: Int, kind: Int) -> Int:
    """Return the position of a new entry at the end of a list; the list moves if it is full."""
    begin, count, power = (
        forest.nodes[node, kind],
        forest.nodes[node, kind + 1],
        np.int64(forest.nodes[node, kind + 2]),
    )
    if power < 0 or count == (1 << power):
        to = _allocate(forest, power + 1)
        for i in range(count):
            copy_entry(forest, begin + i, to + i)
        if power >= 0:
            _release(forest, begin, power)
        begin = to
        forest.nodes[node, kind], forest.nodes[node, kind + 2] = to, power + 1
    forest.nodes[node, kind + 1] = count + 1
    return begin + count


@kernel
def _append(forest: TermQuadtrees, node: Int, kind: Int, post: TermEntry) -> None:
    at = _new_entry(forest, node, kind)
    x1, y1, x2, y2 = post.box
    forest.boxes[at, 0], forest.boxes[at, 1] = x1, y1
    forest.boxes[at, 2], forest.boxes[at, 3] = x2, y2
    forest.rest[at, 0], forest.rest[at, 1] = post.first, post.second
    forest.tag[at] = post.tag


@kernel
def _push_down(forest: TermQuadtrees, cell: NodeCell, post: TermEntry, frame: GridFrame) -> None:
    """Append an entry to the children of a node that the entry touches."""
    node, level, column, row = cell
    cover, child = cover_cells(post.box, frame), forest.nodes[node, CHILD]
    for quarter in range(4):
        if touches(cover, level + 1, 2 * column + (quarter & 1), 2 * row + (quarter >> 1)):
            _append(forest, child + quarter, DOWN if cover.deepest > level + 1 else STAY, post)


@kernel
def _split(forest: TermQuadtrees, cell: NodeCell, frame: GridFrame) -> None:
    """Add four children to a node, and move its list of boxes that may go further down to them."""
    node = cell.node
    child = new_nodes(forest, 4)
    begin, count, power = forest.nodes[node, DOWN], forest.nodes[node, DOWN + 1], forest.nodes[node, DOWN + 2]
    forest.nodes[node, CHILD] = child
    forest.nodes[node, DOWN + 1], forest.nodes[node, DOWN + 2] = 0, -1
    for at in range(begin, begin + count):
        box = Box(forest.boxes[at, 0], forest.boxes[at, 1], forest.boxes[at, 2], forest.boxes[at, 3])
        post = TermEntry(box, forest.rest[at, 0], forest.rest[at, 1], forest.tag[at])
        _push_down(forest, cell, post, frame)
    _release(forest, begin, np.int64(power))


@kernel
def find_nodes(forest: TermQuadtrees, root: Int, cover: CellCover, out: Array) -> tuple[Int, Int]:
    """Find the nodes of a tree to which an entry belongs.

    Args:
        forest: The trees.
        root: The root of the tree.
        cover: The cells of the entry's box.
        out: int64 (>= 4 * DEPTH, 4), filled with rows of `NodeCell`.

    Returns:
        The number of nodes, at most four, and the number of entries that the pool may need.
    """
    found, needed, top = 0, np.int64(0), 1
    # The first four rows of `out` hold the nodes that were found; the nodes still to visit follow.
    stack = out[4:]
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, 0, 0, 0
    while top:
        top -= 1
        node, level, column, row = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        child = forest.nodes[node, CHILD]
        if not child or cover.deepest <= level:
            out[found, 0], out[found, 1], out[found, 2], out[found, 3] = node, level, column, row
            needed += growth(forest, node, DOWN if cover.deepest > level else STAY)
            found += 1
            continue
        for quarter in range(4):
            c, r = 2 * column + (quarter & 1), 2 * row + (quarter >> 1)
            if touches(cover, level + 1, c, r):
                stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = child + quarter, level + 1, c, r
                top += 1
    return found, needed


@kernel
def insert_entry(
    forest: TermQuadtrees, where: Array, post: TermEntry, deepest: Int, frame: GridFrame
) -> None:
    """Insert an entry into the lists of the nodes from `find_nodes`; the pool has space for it."""
    for i in range(len(where)):
        node, level, column, row = where[i, 0], where[i, 1], where[i, 2], where[i, 3]
        kind = DOWN if deepest > level else STAY
        if kind == DOWN and forest.nodes[node, DOWN + 1] >= LONGEST:
            _split(forest, NodeCell(node, level, column, row), frame)
            _push_down(forest, NodeCell(node, level, column, row), post, frame)
        else:
            _append(forest, node, kind, post)
