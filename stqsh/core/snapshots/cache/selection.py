"""Choose which views to keep: candidates, domination, and greedy selection (STAR section 4.1.1).

Costs are multiples of the cost of reading one event. The benefit of a view is the cost that it would have
saved past questions, minus the cost of building and extending it (equations 1 and 2). The views with the
greatest benefit per byte are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stqsh.arrays import Array
from stqsh.core.snapshots.cache.cells import CellBox, CellGrid, CellNode
from stqsh.core.snapshots.cache.covering import ROW_COST, VIEW_COST, event_cost, is_within
from stqsh.core.snapshots.cache.questions import Shape
from stqsh.core.snapshots.cache.views import Size

_MOST = 48
"""The most candidates whose size is estimated from a sample: the most promising ones."""

_NODES = 12
"""The most nodes that a question suggests: the largest nodes that its region covers."""


@dataclass(frozen=True)
class Asked:
    """A past question.

    Attributes:
        shape: the shape of the question.
        covered: the cells that the region covers.
        share: the share of the events in the question's time.
        weight: the cost of an event for the question, see `event_cost`.
    """

    shape: Shape
    covered: CellBox
    share: float
    weight: float


@dataclass(frozen=True)
class ViewCandidate:
    """A view that may be kept."""

    shape: Shape
    node: CellNode


@dataclass(frozen=True)
class Chosen:
    """A view to keep, with its expected rows and its benefit."""

    candidate: ViewCandidate
    size: Size
    benefit: float


@dataclass(frozen=True)
class Situation:
    """The data about events that the selection needs.

    Attributes:
        grid: the cells.
        count: returns the number of events of a node.
        measure: returns the size of a candidate.
        arrivals: the share of the events that arrived after the first of the questions.
        types: the types of the stream's columns.
        kept: the views that exist.
    """

    grid: CellGrid
    count: Callable[[CellNode], int]
    measure: Callable[[ViewCandidate], Size]
    arrivals: float
    types: dict[str, str]
    kept: frozenset[ViewCandidate]


def choose(history: Sequence[Asked], budget: float, situation: Situation) -> list[Chosen]:
    """Choose the views to keep within a budget of bytes."""
    if budget <= 0 or not history:
        return []
    some = candidates(history, situation)
    if not some:
        return []
    weights = np.array([asked.weight for asked in history])
    counts = np.array([situation.count(one.node) for one in some], np.float64)
    able = usable(history, some, situation.grid)
    promise = able * (weights * [asked.share for asked in history])[:, None] * counts
    costs = _upkeep(some, counts, situation)
    best = np.argsort(costs - promise.sum(axis=0), kind="stable")[:_MOST]
    best = best[promise[:, best].sum(axis=0) > costs[best]]
    some = [some[i] for i in best]
    sizes = [situation.measure(one) for one in some]
    rows = np.array([size.rows for size in sizes])
    gains = np.maximum(promise[:, best] - able[:, best] * (VIEW_COST + ROW_COST * rows), 0.0)
    return greedy(some, sizes, gains, costs[best], budget)


def candidates(history: Sequence[Asked], situation: Situation) -> list[ViewCandidate]:
    """Return the views that past questions suggest and the views that exist, without repeats."""
    found = dict.fromkeys(situation.kept)
    for asked in history:
        if asked.shape.is_count:
            continue
        nodes = covered_nodes(situation.grid, asked.covered)
        for shape in {asked.shape.as_view, asked.shape.widened(situation.types)}:
            found |= dict.fromkeys(ViewCandidate(shape, node) for node in nodes)
    return sorted(found, key=lambda one: (one.node, repr(one.shape)))


def covered_nodes(grid: CellGrid, covered: CellBox) -> list[CellNode]:
    """Return the largest nodes that make up a box of cells, from the paper's `n_q` downwards."""
    found, level = list[CellNode](), [CellNode(0, 0, 0)]
    while level and len(found) < _NODES:
        below = list[CellNode]()
        for node in level:
            box = grid.box_of(node)
            if is_within(box, covered):
                found.append(node)
            elif node.level < grid.depth and not _are_apart(box, covered):
                below += node.children
        level = below
    return found[:_NODES]


def _are_apart(box: CellBox, other: CellBox) -> bool:
    return (
        box.last < other.first
        or other.last < box.first
        or box.high < other.low
        or other.high < box.low
        or other.is_empty
    )


def usable(history: Sequence[Asked], some: Sequence[ViewCandidate], grid: CellGrid) -> Array:
    """Return which candidates can answer which past questions, bool (questions, candidates)."""
    shapes = list({one.shape: None for one in some})
    asked = list({one.shape: None for one in history})
    fits = {(view, question): view.answers(question) for view in shapes for question in asked}
    boxes = np.array([grid.box_of(one.node) for one in some]).reshape(-1, 4)
    covered = np.array([one.covered for one in history]).reshape(-1, 4)
    inside = (covered[:, None, :2] <= boxes[:, :2]).all(axis=2) & (boxes[:, 2:] <= covered[:, None, 2:]).all(
        axis=2
    )
    able = np.array([[fits[one.shape, question.shape] for one in some] for question in history])
    together: Array = inside & able.reshape(inside.shape)
    return together


def _upkeep(some: Sequence[ViewCandidate], counts: Array, situation: Situation) -> Array:
    """Return the cost of building each view, unless it exists, and of extending it; float64 (n,)."""
    made = np.array([one not in situation.kept for one in some])
    weights = np.array([event_cost(one.shape) for one in some])
    upkeep: Array = weights * counts * (made + situation.arrivals)
    return upkeep


def greedy(
    some: Sequence[ViewCandidate], sizes: Sequence[Size], gains: Array, costs: Array, budget: float
) -> list[Chosen]:
    """Take candidates by benefit per byte until the budget is spent; skip dominated candidates.

    Args:
        some: the candidates.
        sizes: the sizes of the candidates.
        gains: how much cheaper each candidate makes each question, float64 (questions, candidates).
        costs: the cost of each candidate, float64 (candidates,).
        budget: bytes.
    """
    chosen, left = list[Chosen](), np.ones(len(some), np.bool_)
    space = np.array([max(size.nbytes, 1.0) for size in sizes])
    more, taken = gains.copy(), np.zeros_like(gains)
    while left.any():
        benefits = np.where(left & (space <= budget), more.sum(axis=0) - costs, 0.0)
        best = int(np.argmax(benefits / space))
        if benefits[best] <= 0:
            break
        chosen.append(Chosen(some[best], sizes[best], float(benefits[best])))
        budget -= space[best]
        left[best] = False
        taken[:, best] = more[:, best]
        left &= ~dominated(some, gains, costs, best)
        _take_off(some, gains, more, taken[:, best], best)
    return chosen


def dominated(some: Sequence[ViewCandidate], gains: Array, costs: Array, by: int) -> Array:
    """Return which candidates a chosen candidate dominates (definition 4.2), bool (n,).

    The chosen one answers everything that they answer, and keeping them in addition costs more than it saves.
    """
    view = some[by]
    same: Array = np.array([one.node == view.node and view.shape.answers(one.shape) for one in some])
    spared = np.maximum(gains - gains[:, [by]], 0.0).sum(axis=0)
    found: Array = same & (spared <= costs)
    return found


def _take_off(some: Sequence[ViewCandidate], gains: Array, more: Array, taken: Array, best: int) -> None:
    """Reduce the remaining gains of candidates by what a chosen candidate saves on the same events."""
    node = some[best].node
    for i, one in enumerate(some):
        if one.node.holds(node):
            more[:, i] = np.maximum(more[:, i] - taken, 0.0)
        elif node.holds(one.node):
            share = np.where(taken > 0, np.minimum(taken, gains[:, i]), 0.0)
            more[:, i] = np.maximum(more[:, i] - share, 0.0)
