"""Plan how to answer a question: with views of nodes, and with the events of cells (STAR section 4.1.3).

Each node is answered in the cheapest way: with its own view, with its children's views, or with its events.
Nodes that the region covers only in part are always answered with their events. All costs here are multiples
of the cost of reading one event, about 20 ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from stqsh.arrays import Array
from stqsh.core.conditions.region_test import RegionNow
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.snapshots.cache.cells import ROOT, CellBox, CellGrid, CellNode
from stqsh.core.snapshots.cache.margins import Margins, MarginUse
from stqsh.core.snapshots.cache.questions import Question, Shape
from stqsh.core.snapshots.cache.time_slots import TimeSlot, TimeSlots
from stqsh.core.snapshots.cache.views import View
from stqsh.core.snapshots.cache.word_lists import WordLists, WordUse
from stqsh.spec.expression import ContainsExpr, has_node

VIEW_COST = 7500.0
"""The cost of opening a view."""

ROW_COST = 10.0
"""The cost of one row of a view."""

CELLS_COST = 40_000.0
"""The cost of reading by cells once the cells are known."""

_PASSED = 1 / 18
"""The cost of skipping an event in a scan."""

_TESTED = 1 / 2
"""The cost, in a scan, of finding that an event is outside the question's time."""

_SCATTERED = 1 / 5
"""The extra cost of reading an event by its cell: neighbours in a cell are far apart in memory."""

TEXT_COST = 16.0
"""The cost of an event whose words are counted or searched."""


def event_cost(shape: Shape) -> float:
    """Return the cost of an event for a question; 1 if the question reads only numbers."""
    counts_words = any(one.function == "topk" for one in shape.measures)
    return TEXT_COST if counts_words or _seeks_words(shape) else 1.0


def _seeks_words(shape: Shape) -> bool:
    return any(has_node(one, ContainsExpr) for one in shape.conditions)


@dataclass(frozen=True)
class Times:
    """The time slots that a question needs: those that its time covers whole, and those covered in part."""

    whole: list[TimeSlot]
    part: list[TimeSlot]

    @staticmethod
    def of(slots: TimeSlots, question: Question) -> Times:
        """Return the time slots of a question."""
        found = list(slots.among(question.times))
        return Times([slot for slot, whole in found if whole], [slot for slot, whole in found if not whole])

    @property
    def all(self) -> list[TimeSlot]:
        """All of these time slots."""
        return [*self.whole, *self.part]

    def parted(self, words: WordUse | None) -> tuple[Times, Times]:
        """Return the time slots with word lists, and the others."""
        listed = () if words is None else words.found.keys()
        return (
            Times(*([slot for slot in some if slot.rows in listed] for some in (self.whole, self.part))),
            Times(*([slot for slot in some if slot.rows not in listed] for some in (self.whole, self.part))),
        )

    def count(self, span: tuple[int, int]) -> int:
        """Return the number of events in consecutive cells."""
        return sum(slot.count(span) for slot in self.all)


@dataclass(frozen=True)
class ViewUse:
    """A view that replaces the events of its node in some time slots.

    Attributes:
        spared: the number of events that need not be read.
        saved: the cost that this saves.
    """

    view: View
    slots: list[TimeSlot]
    spared: int
    saved: float


@dataclass(frozen=True)
class Runs:
    """Runs of consecutive cells: the first cell of each, and the cell after the last, int64 (runs,)."""

    begin: Array
    end: Array

    @staticmethod
    def of(cells: Array) -> Runs:
        """Return the runs of ascending cell numbers."""
        first = np.flatnonzero(np.diff(cells, prepend=-2) != 1)
        last = np.append(first[1:], len(cells)) - 1
        return Runs(cells[first], cells[last] + 1) if len(cells) else NO_RUNS


NO_RUNS = Runs(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class SnapshotPlan:
    """A plan to answer a question.

    Attributes:
        times: the time slots that the question needs.
        covered: the cells that the region covers.
        uses: the views to use.
        inside: the covered cells, without the cells of nodes that views answer.
        border: the cells that the region touches but does not cover.
        margins: the margins that replace border cells; None if there are none.
        words: the word lists that replace the texts of some time slots; None if there are none.
        weight: the cost of an event that no view answers.
    """

    times: Times
    covered: CellBox
    uses: list[ViewUse] = field(default_factory=list)
    inside: Runs = NO_RUNS
    border: Runs = NO_RUNS
    margins: MarginUse | None = None
    words: WordUse | None = None
    weight: float = 1.0

    def pays(self, slots: TimeSlots, events: int, shape: Shape) -> bool:
        """Return whether the plan is quicker than a scan, which also tests the events of other times."""
        runs = [self.border] if shape.is_count else [self.border, self.inside]
        listed, others = (_count(times.all, runs) for times in self.times.parted(self.words))
        read = others + (0 if self.words is None else round(self.words.share * listed))
        tested = TEXT_COST if _seeks_words(shape) else _TESTED
        saved = sum(use.saved for use in self.uses) + tested * (_count(slots.slots, runs) - read)
        read -= 0 if self.margins is None else int(self.margins.spared.sum())
        return saved + _PASSED * events > CELLS_COST + _SCATTERED * read

    @property
    def listed(self) -> int:
        """The number of events whose texts are replaced by word lists."""
        return self._count(self.times.parted(self.words)[0])

    @property
    def searched(self) -> int:
        """The number of events whose texts are searched, if there are phrases."""
        return self._count(self.times.parted(self.words)[1])

    def _count(self, times: Times) -> int:
        return _count(times.all, [self.border, self.inside])


def _count(slots: Sequence[TimeSlot], runs: Sequence[Runs]) -> int:
    """Return the number of events in runs of cells of time slots."""
    return sum(slot.count_runs(run.begin, run.end) for slot in slots for run in runs)


def cells_of_region(slots: TimeSlots, reach: RegionNow) -> tuple[CellBox, CellBox]:
    """Return the cells that a region touches, and the cells that it certainly covers."""
    touched = slots.grid.touched(reach.box)
    if reach.shape is not None:
        return touched, CellBox(0, 0, -1, -1)
    covered = slots.grid.covered(reach.box, slots.seen)
    return touched.joined(covered), covered  # cells beyond all places count as covered, though they are empty


def cover_of(
    slots: TimeSlots,
    question: Question,
    selection: SnapshotSelection,
    views: Iterable[View],
    margins: Margins,
    lists: WordLists,
) -> SnapshotPlan:
    """Return the cheapest way to answer a question with some views, margins and word lists."""
    times = Times.of(slots, question)
    touched, covered = cells_of_region(slots, selection.reach)
    grid = slots.grid
    words = lists.find(question.shape.phrases, times.all, selection.present)
    weight = _weight(question.shape, times, words)
    usable = _Usable(grid, times, question.shape, weight)
    for view in views:
        if is_within(grid.box_of(view.node), covered) and view.shape.answers(question.shape):
            usable.add(view)
    uses = usable.chosen()
    todo = _todo(touched, covered)
    for use in uses:
        box = grid.box_of(use.view.node)
        rows = slice(box.low - touched.low, box.high - touched.low + 1)
        todo[rows, box.first - touched.first : box.last - touched.first + 1] = 0
    inside, border = (_cells(grid, touched, todo == what) for what in (1, 2))
    found = margins.find(border, selection.reach.box, times.all) if margins else None
    return SnapshotPlan(times, covered, uses, Runs.of(inside), Runs.of(border), found, words, weight)


def _weight(shape: Shape, times: Times, words: WordUse | None) -> float:
    """Return the average cost of an event, where word lists replace the texts of some time slots."""
    cost = event_cost(shape)
    if words is None:
        return cost
    listed, others = (sum(slot.end - slot.begin for slot in some.all) for some in times.parted(words))
    return (others * cost + listed * words.share * event_cost(shape.without_phrases)) / (listed + others)


def is_within(box: CellBox, other: CellBox) -> bool:
    """Return whether all cells of a box are in the other box."""
    return (
        other.first <= box.first
        and box.last <= other.last
        and other.low <= box.low
        and box.high <= other.high
    )


def _todo(touched: CellBox, covered: CellBox) -> Array:
    """Return 1 for each covered cell, and 2 for each cell that is only touched; uint8 (rows, columns)."""
    todo = np.full((touched.high - touched.low + 1, touched.last - touched.first + 1), 2, np.uint8)
    if not covered.is_empty:
        rows = slice(covered.low - touched.low, covered.high - touched.low + 1)
        todo[rows, covered.first - touched.first : covered.last - touched.first + 1] = 1
    return todo


def _cells(grid: CellGrid, touched: CellBox, chosen: Array) -> Array:
    """Return the numbers of chosen cells, ascending, int64 (n,)."""
    if chosen.size == grid.cells and chosen.all():
        return np.arange(grid.cells)
    rows, columns = np.nonzero(chosen)
    numbers = grid.number_of(columns + touched.first, rows + touched.low)
    return np.sort(numbers.astype(np.uint16), kind="stable").astype(np.int64)  # radix


class _Usable:
    """The views that can answer a question, by node."""

    def __init__(self, grid: CellGrid, times: Times, asked: Shape, weight: float) -> None:
        self._grid, self._times, self._asked, self._weight = grid, times, asked, weight
        self._uses: dict[CellNode, tuple[float, ViewUse]] = {}
        self._above: set[CellNode] = set()

    def add(self, view: View) -> None:
        """Add a view that can answer the question."""
        slots = [slot for slot in self._times.whole if slot.rows in view.parts]
        if not slots:
            return
        span, node = self._grid.span(view.node), view.node
        spared = sum(slot.count(span) for slot in slots)
        rest = self._times.count(span) - spared
        cost = VIEW_COST + ROW_COST * view.expected + self._weight * rest
        saved = self._weight * (spared + rest) - cost
        known = self._uses.get(node)
        if known is None or cost < known[0]:
            self._uses[node] = cost, ViewUse(view, slots, spared, saved)
        self._above |= {
            CellNode(up, node.column >> node.level - up, node.row >> node.level - up)
            for up in range(node.level)
        }

    def chosen(self) -> list[ViewUse]:
        """Return the views of the cheapest plan."""
        return [*self._start(ROOT)]

    def _start(self, node: CellNode) -> Iterator[ViewUse]:
        if node in self._uses:
            yield from self._cheapest(node)[1]
        elif node in self._above:
            for child in node.children:
                yield from self._start(child)

    def _cheapest(self, node: CellNode) -> tuple[float, list[ViewUse]]:
        best: tuple[float, list[ViewUse]] = self._weight * self._times.count(self._grid.span(node)), []
        if node in self._uses:
            cost, use = self._uses[node]
            best = min(best, (cost, [use]), key=_cost)
        if node in self._above:
            below = [self._cheapest(child) for child in node.children]
            best = min(best, (sum(map(_cost, below)), [use for _, uses in below for use in uses]), key=_cost)
        return best


def _cost(way: tuple[float, list[ViewUse]]) -> float:
    return way[0]
