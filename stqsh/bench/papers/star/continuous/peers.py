"""The indexes that the paper compares with: OpIndex and RP-trees, as it changes them for its predicates."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.probes import probe_op_index, probe_rp_trees
from stqsh.bench.papers.star.continuous.standing import (
    Pairs,
    Standing,
    is_placed,
    starts,
    topics_of,
    with_sought_topics,
)
from stqsh.bench.papers.star.continuous.tables import TOPIC, Intervals, Posted, RTrees

_FANOUT = 16


class OpIndex(Standing):
    """OpIndex (Zhang et al., 2014): lists by pivot, then by attribute and operator, and counts of what holds.

    The pivot is the topic where there is one, as fewer queries have that, or else x. A range is two
    intervals, and keywords are checked last, both as STAR's comparison has it. Lists are sorted by lower
    bounds, and read no further back than their longest interval, which favours them.
    """

    name = "OpIndex"
    probe = staticmethod(probe_op_index)

    def built(self, rows: Array) -> Intervals:
        """Return the lists of rows."""
        sought = self.sought
        placed, about = is_placed(sought), sought.topic >= 0
        pivots = [rows[about[rows]], rows[placed[rows] & ~about[rows]]]
        lists = [_sorted(sought.topic[pivots[0]].astype(np.float64), None, pivots[0])]
        for pivot in pivots:
            mine = pivot[placed[pivot]]
            for axis in (0, 1):
                lists.append(_sorted(sought.box[mine, axis], sought.box[mine, 2 + axis], mine))
        low, high, row = (np.concatenate(columns) for columns in zip(*lists, strict=True))
        longest = [np.max(b - a, initial=0.0) for a, b, _ in lists]
        return Intervals(
            np.cumsum([0, *(len(one) for one, _, _ in lists)]),
            np.array([TOPIC, 1, 2, 1, 2]),
            # Differences are rounded, so the look back goes a little further.
            np.array(longest) * (1 + 1e-9) + 1e-9,
            low,
            high,
            row,
            (about + 2 * placed).astype(np.int8),
            rows[~placed[rows] & ~about[rows]],
        )


def _sorted(low: Array, high: Array | None, rows: Array) -> tuple[Array, Array, Array]:
    order = np.argsort(low, kind="stable")
    return low[order], (low if high is None else high)[order], rows[order]


class RPTrees(Standing):
    """RP-trees (Zhao et al., 2017): an R-tree of the ranges in each pivot's list; keywords come last."""

    name = "RP-trees"
    probe = staticmethod(probe_rp_trees)

    def built(self, rows: Array) -> RTrees:
        """Return the trees and lists of rows."""
        sought = self.sought
        placed, about = is_placed(sought)[rows], sought.topic[rows] >= 0
        trees, first, count, depth, cover, entries = [], list[Array](), [], [], list[Array](), list[Array]()
        for mine in (rows[placed & about], rows[placed & ~about]):
            if not len(mine):
                continue
            done, nodes = sum(map(len, entries)), sum(map(len, first))
            order, levels = packed(sought.box[mine])
            entries.append(mine[order])
            for level, boxes in enumerate(levels):
                below = done if level == 0 else nodes - len(levels[level - 1])
                size = len(mine) if level == 0 else len(levels[level - 1])
                at = np.arange(0, size, _FANOUT)
                first.append(below + at)
                count.append(np.minimum(_FANOUT, size - at))
                depth.append(np.full(len(at), level))
                cover.append(boxes)
                nodes += len(at)
            trees.append(nodes - 1)
        row = np.concatenate([rows[:0], *entries])
        alone = rows[about & ~placed]
        alone = alone[np.argsort(sought.topic[alone], kind="stable")]
        none = np.empty(0, np.int64)
        return RTrees(
            np.array(trees, np.int64),
            np.concatenate([none, *first]),
            np.concatenate([none, *count]),
            np.concatenate([none, *depth]),
            np.concatenate([np.empty((0, 4)), *cover]),
            sought.box[row],
            row,
            starts(sought.topic[alone], topics_of(sought) + 1),
            alone,
            rows[~placed & ~about],
        )

    def match(self, posts: Posted) -> Pairs:
        """Return the rows that stand and whose predicates records satisfy."""
        return super().match(with_sought_topics(posts, self.sought))


def packed(boxes: Array) -> tuple[Array, list[Array]]:
    """Return the order of boxes, float64 (n, 4), in a packed R-tree, and the covers of its levels' nodes.

    Boxes are sorted by x, cut into strips, and sorted by y in each (Leutenegger et al., 1997).
    """
    count = len(boxes)
    strip = _FANOUT * int(np.ceil(np.sqrt(-(-count // _FANOUT))))
    by_x = np.argsort(boxes[:, 0] + boxes[:, 2], kind="stable")
    order = by_x[np.lexsort(((boxes[:, 1] + boxes[:, 3])[by_x], np.arange(count) // strip))]
    levels, below = list[Array](), boxes[order]
    while not levels or len(levels[-1]) > 1:
        at = np.arange(0, len(below), _FANOUT)
        low, high = np.minimum.reduceat(below[:, :2], at), np.maximum.reduceat(below[:, 2:], at)
        below = np.hstack([low, high])
        levels.append(below)
    return order, levels
