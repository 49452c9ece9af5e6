"""Quad-trees over the unit square whose shape does not change once it is decided."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array

_FULL, _DEEPEST = 16, 10

_WORTH = 2.0
"""The most ranges that the children of a leaf may have together, for each of its own."""


class Quad:
    """The shape that a set of ranges, float64 (n, 4), gives a quad-tree.

    Attributes:
        child: the first of each node's four children, int32 (nodes,), -1 for a leaf.
    """

    def __init__(self, boxes: Array) -> None:
        self.child = np.full(1, -1, np.int32)
        self._spread(boxes, is_growing=True)

    def leaves(self, boxes: Array) -> tuple[Array, Array]:
        """Return pairs of ranges, by number, and the leaves that they touch, int64 (pairs,)."""
        return self._spread(boxes, is_growing=False)

    def locate(self, x: Array, y: Array) -> Array:
        """Return the leaf of each place, int64 (n,)."""
        _, leaf = self.leaves(np.column_stack([x, y, x, y]))
        return leaf

    def _spread(self, boxes: Array, *, is_growing: bool) -> tuple[Array, Array]:
        """Send ranges down, level by level; split leaves that hold too many, if the tree is growing."""
        entry, node = np.arange(len(boxes)), np.zeros(len(boxes), np.int64)
        corner = np.zeros((len(boxes), 2))
        done = [(entry[:0], node[:0])]
        for level in range(_DEEPEST):
            half = 0.5 ** (level + 1)
            if is_growing:
                held = np.bincount(node, minlength=len(self.child))
                parts_of = _touches(boxes[entry], corner + half).sum(axis=0).prod(axis=1)
                spread = np.bincount(node, parts_of, minlength=len(self.child))
                full = np.flatnonzero((held > _FULL) & (spread <= _WORTH * held))
                self.child[full] = len(self.child) + 4 * np.arange(len(full))
                self.child = np.concatenate([self.child, np.full(4 * len(full), -1, np.int32)])
            down = self.child[node] >= 0
            done.append((entry[~down], node[~down]))
            entry, node, corner = entry[down], self.child[node[down]].astype(np.int64), corner[down]
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
        return entry[order], node[order]


def _touches(boxes: Array, middle: Array) -> Array:
    """Return whether ranges touch the lower and the upper half of their nodes, by axis, bool (2, n, 2)."""
    return np.stack([boxes[:, :2] < middle, boxes[:, 2:] >= middle])
