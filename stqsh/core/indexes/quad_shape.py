"""Quad-trees over the unit square whose shape is decided once, by a set of ranges (STAR section 5.1).

The shape is the first of each node's four children, int32 (nodes,), -1 for a leaf; node 0 is the root.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array

_FULL, _DEEPEST = 16, 10

_WORTH = 2.0
"""The most ranges that the children of a leaf may have together, for each of its own."""


def grow_quad(boxes: Array) -> Array:
    """Return the shape that ranges x1, y1, x2, y2, float64 (n, 4), give a quad-tree."""
    child, _, _ = _spread(np.full(1, -1, np.int32), boxes, is_growing=True)
    return child


def quad_leaves(child: Array, boxes: Array) -> tuple[Array, Array]:
    """Return pairs of ranges, by number ascending, and the leaves that they touch, int64 (pairs,) each."""
    _, entry, node = _spread(child, boxes, is_growing=False)
    return entry, node


def _spread(child: Array, boxes: Array, *, is_growing: bool) -> tuple[Array, Array, Array]:
    """Send ranges down, level by level; split leaves that hold too many, if the tree is growing."""
    entry, node = np.arange(len(boxes)), np.zeros(len(boxes), np.int64)
    corner = np.zeros((len(boxes), 2))
    done = [(entry[:0], node[:0])]
    for level in range(_DEEPEST):
        half = 0.5 ** (level + 1)
        if is_growing:
            held = np.bincount(node, minlength=len(child))
            parts_of = _touches(boxes[entry], corner + half).sum(axis=0).prod(axis=1)
            spread = np.bincount(node, parts_of, minlength=len(child))
            full = np.flatnonzero((held > _FULL) & (spread <= _WORTH * held))
            child[full] = len(child) + 4 * np.arange(len(full))
            child = np.concatenate([child, np.full(4 * len(full), -1, np.int32)])
        down = child[node] >= 0
        done.append((entry[~down], node[~down]))
        entry, node, corner = entry[down], child[node[down]].astype(np.int64), corner[down]
        touches = _touches(boxes[entry], corner + half)
        some = [touches[i][:, 0] & touches[j][:, 1] for j in (0, 1) for i in (0, 1)]
        entry = np.concatenate([entry[one] for one in some])
        parts = [
            (node[one] + k, corner[one] + half * np.array([k & 1, k >> 1])) for k, one in enumerate(some)
        ]
        node, corner = (np.concatenate(column) for column in zip(*parts, strict=True))
    done.append((entry, node))
    entry, node = (np.concatenate(column) for column in zip(*done, strict=True))
    order = np.argsort(entry, kind="stable")
    return child, entry[order], node[order]


def _touches(boxes: Array, middle: Array) -> Array:
    """Return whether ranges touch the lower and the upper half of their nodes, by axis, bool (2, n, 2)."""
    return np.stack([boxes[:, :2] < middle, boxes[:, 2:] >= middle])
