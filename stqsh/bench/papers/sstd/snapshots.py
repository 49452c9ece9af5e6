"""SSTD, section 7.3, Fig. 8a, 9 and 10: snapshots of posts under a QT-tree and other routings.

A slot of SSTD has an index for each leaf, and looks at the leaves that a snapshot touches (section 6.1). A
slot of ours scans all of its posts, so what a routing spares is whole slots. How many posts lie in the leaves
that a snapshot touches says what there would be to look at if slots kept their posts by leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.asked import RoutedSlots, bound
from stqsh.bench.papers.routing.trials import RoutingScale, Trial
from stqsh.bench.papers.routing.world import POSTS, Records
from stqsh.bench.papers.sstd.textual_splits import SLOTS, SPLIT, TEXTS, phrases_at, trial_of
from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.matching.keyword_queries import words_needed
from stqsh.routing.query_routing import EVERYWHERE
from stqsh.routing.slot_terms import sought_words
from stqsh.routing.table import HASHED, TEXT, RoutingTable
from stqsh.routing.text_leaves import SoughtTerms
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.region import NearestSpec, RectangleSpec

_QUADTREE = "quadtree"
_TURNS = 3
_LEAST_MS = 0.001
"""What a snapshot takes that asks no slot, as none has posts in its region."""
_WANTED = {0.001: 2.0, 0.01: 2.0, 0.1: 3.0}
"""What is to be gained over a quadtree by the side of squares."""
_CASES = ("alike", "topics anywhere")

COLUMNS = {
    "texts": "texts",
    "area": "area",
    "k": "k",
    "words": "words",
    "routing": "routing",
    "split": "leaves split by texts",
    "asked": "slots asked",
    "longest": "longest slot, ms",
    "all": "all slots, ms",
    "merging": "merging, ms",
    "gain": "times quadtree",
    "posts": "posts of its leaves, most of a slot",
    "paper": "paper",
}


class AskedTimes(NamedTuple):
    """What a snapshot took, or in the mean some of them.

    Attributes:
        slots: how many slots were asked.
        longest: the thread time of the slot that took longest, ms; if some are asked after others, the sum.
        together: that of all slots, ms.
        merging: the thread time of making the answer of their shares, ms.
        posts: the most posts of a slot that lie in leaves which the snapshot touches.
    """

    slots: float
    longest: float
    together: float
    merging: float
    posts: float


class _Questions(NamedTuple):
    """Snapshots of a kind, as SELECTs, and what is to be gained for them over a quadtree."""

    about: Row
    selects: list[str]
    wanted: float
    paper: str


@dataclass(frozen=True)
class _Figure:
    """A figure: the sides of its squares, and the sizes of a full run.

    Attributes:
        asked: how many snapshots of a kind.
        posts: how many posts all slots have.
    """

    name: str
    title: str
    sides: tuple[float, ...] = tuple(_WANTED)
    asked: int = 40
    posts: int = 100_000


class RoutedPosts:
    """Slots that have taken in posts under a routing."""

    def __init__(self, table: RoutingTable, posts: Records) -> None:
        self._slots, self._leaves = RoutedSlots(table, POSTS, posts), _LeafPosts(table, posts)

    def ask(self, spec: SnapshotSpec, turns: int) -> tuple[AskedTimes, pa.Table]:
        """Ask the slots that a client asks, the least of some turns; return the answer, too."""
        asked = self._slots.ask(spec, turns)
        longest = sum(int(phase.spent.max(initial=0)) for phase in asked.phases) / 1e6
        posts = self._leaves.most(np.array(_box(spec, asked.answer)), sought_words(words_needed(spec, POSTS)))
        times = AskedTimes(
            asked.slots, max(_LEAST_MS, longest), asked.together / 1e6, asked.merging / 1e6, posts
        )
        return times, asked.answer


class _LeafPosts:
    """How many posts lie in each leaf of a routing table, and on which slot."""

    def __init__(self, table: RoutingTable, posts: Records) -> None:
        numbers = np.arange(len(table.slot), dtype=np.int16)
        self._table, self._hashed = table, table.slot == HASHED
        own = np.where(table.slot <= TEXT, table.slot, numbers)
        self._by_leaf = replace(table, slot=own, slots=len(numbers))
        x, y = posts.places.T
        leaf = self._by_leaf.slots_of(x, y, posts.hashes, posts.batch.column("body"))
        self._posts = np.bincount(leaf, minlength=len(numbers)).astype(np.float64)

    def most(self, box: Floats, sought: SoughtTerms) -> float:
        """Return the most posts of a slot that lie in leaves which a snapshot touches."""
        touched = self._by_leaf.slots_touching(box[None], sought)[0] & (self._posts > 0)
        own = touched & ~self._hashed
        of_slots = np.bincount(self._table.slot[own], self._posts[own], self._table.slots)
        return float(of_slots.max() + self._posts[touched & self._hashed].sum() / self._table.slots)


def _box(spec: SnapshotSpec, answer: pa.Table) -> tuple[float, float, float, float]:
    """Return the box of a snapshot's region: for neighbours, that of the circle around those found."""
    if isinstance(spec.region, RectangleSpec):
        return spec.region.box
    assert isinstance(spec.region, NearestSpec) and spec.region.place is not None, "snapshots have either"
    if answer.num_rows < spec.region.k:
        return EVERYWHERE
    return circle_box(*spec.region.place, float(answer.column("distance").to_numpy().max()), POSTS.planar)


def asked(trial: Trial, groups: Sequence[Sequence[str]], scale: RoutingScale) -> list[dict[str, AskedTimes]]:
    """Ask for snapshots under each routing, and return what those of each group took in the mean.

    Raises:
        ValueError: two routings gave other answers.
    """
    drawn = trial.drawn(1, np.random.default_rng(8))
    routed = {name: RoutedPosts(table, drawn) for name, table in trial.tables.items()}
    turns = min(_TURNS, scale.batches)
    return [
        _means([under_all(routed, bound(select, POSTS), turns) for select in selects]) for selects in groups
    ]


def under_all(routed: Mapping[str, RoutedPosts], spec: SnapshotSpec, turns: int) -> dict[str, AskedTimes]:
    """Ask for a snapshot under each routing; raise ValueError if two give other answers."""
    found = {name: posts.ask(spec, turns) for name, posts in routed.items()}
    (first, (_, wanted)), *others = found.items()
    for name, (_, answer) in others:
        if not answer.equals(wanted):
            raise ValueError(f"{name} has another answer than {first} to {spec.text}")
    return {name: took for name, (took, _) in found.items()}


def _means(found: list[dict[str, AskedTimes]]) -> dict[str, AskedTimes]:
    return {name: AskedTimes(*np.mean([each[name] for each in found], axis=0).tolist()) for name in found[0]}


def in_squares(trial: Trial, count: int) -> list[str]:
    """Return SELECTs of the posts in the first squares of a trial that have a word."""
    assert trial.phrases is not None, "snapshots ask for words"
    pairs = zip(trial.boxes[:count].tolist(), trial.phrases, strict=False)
    return [
        f"SELECT id FROM events WHERE body CONTAINS '{word}' INSIDE RECT({x1}, {y1}, {x2}, {y2})"
        for (x1, y1, x2, y2), word in pairs
    ]


def keywords(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Figure 8a: posts in a square that have a word (SRQ), by the area of the square."""
    paper = {0.001: "10 / 4 ms", 0.01: "2 to 4", 0.1: "132 / 32 ms"}

    def questions(_: str, side: float, trial: Trial, count: int) -> Iterator[_Questions]:
        yield _Questions({"area": _area(side)}, in_squares(trial, count), _WANTED[side], paper[side])

    return _measured(_Figure("sstd8", "Snapshots of posts with a word"), questions, scale, say)


def neighbours(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Figure 9: the nearest posts that have some words (SKQ), by their number and by that of the words.

    A client asks the slot at the place first, and then those that the circle of its k-th post touches, as
    section 6.2 has it. The words are those of a post there.
    """

    def questions(texts: str, side: float, trial: Trial, count: int) -> Iterator[_Questions]:
        places = trial.boxes[:count, :2] + side / 2
        for k, words in ((10, 1), (40, 1), (10, 3)):
            phrases = phrases_at(np.random.default_rng(9), TEXTS[texts], places, words)
            selects = [
                f"SELECT id, DISTANCE FROM events WHERE body CONTAINS '{phrase}' NEAREST {k} TO ({x}, {y})"
                for (x, y), phrase in zip(places.tolist(), phrases, strict=True)
            ]
            paper = "first" if k == 10 else "as with 10"
            yield _Questions({"k": k, "words": words}, selects, _WANTED[side], paper)

    figure = _Figure("sstd9", "Snapshots of the nearest posts with words", (0.01,), 10, 50_000)
    return _measured(figure, questions, scale, say)


def terms(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Figure 10: the commonest terms in a square and a window of time (STQ), by its area and their number."""
    paper = {0.001: "first, by little", 0.01: "first", 0.1: "first, by most"}

    def questions(_: str, side: float, trial: Trial, count: int) -> Iterator[_Questions]:
        for k in (10, 40) if side == 0.01 else (10,):
            selects = [
                f"SELECT TOPK(body, {k}) FROM events INSIDE RECT({x1}, {y1}, {x2}, {y2}) WINDOW 1 s"
                for x1, y1, x2, y2 in trial.boxes[:count].tolist()
            ]
            about: Row = {"area": _area(side), "k": k}
            yield _Questions(about, selects, _WANTED[side], paper[side] if k == 10 else "as with 10")

    return _measured(_Figure("sstd10", "Snapshots of the commonest terms", asked=12), questions, scale, say)


Ask = Callable[[str, float, Trial, int], Iterator[_Questions]]
"""Yields questions for texts, the side of squares, the trial, and how many of a kind are wanted."""


def _measured(figure: _Figure, ask: Ask, scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Ask slots under each routing for the same, and time each of them."""
    rows: list[Row] = []
    goals, count = [], scale.count(figure.asked, 2)
    for texts, side in product(scale.some(_CASES), scale.some(figure.sides)):
        say(f"{figure.name}: {texts}, squares of {side:.1%} side")
        trial = trial_of(TEXTS[texts], side, scale, figure.posts)
        questions = list(ask(texts, side, trial, count))
        took = asked(trial, [each.selects for each in questions], scale)
        for each, found in zip(questions, took, strict=True):
            rows += [_row(texts, each, routing, trial, found) for routing in found]
            what = ", ".join(f"{COLUMNS[key]} {value}" for key, value in each.about.items())
            gain = found[_QUADTREE].longest / found[SPLIT].longest
            goals.append(Goal(f"{SPLIT} over quadtree, {texts}, {what}", each.paper, each.wanted, gain))
    columns = {key: heading for key, heading in COLUMNS.items() if key in rows[0]}
    made_for = "that area" if len(figure.sides) > 1 else _area(figure.sides[0])
    notes = [
        f"{SLOTS} slots with {trial.count:,} posts; {count} snapshots where the posts are, the least of "
        f"{min(_TURNS, scale.batches)} turns each. Routings are made for keyword queries in squares of "
        f"{made_for}. Each slot scans its posts; the times of slots are compared without that of merging."
    ]
    return [FigureResult(figure.name, figure.title, columns, rows, goals, notes)]


def _row(texts: str, each: _Questions, routing: str, trial: Trial, found: Mapping[str, AskedTimes]) -> Row:
    lists, took = trial.tables[routing].texts, found[routing]
    return {
        "texts": texts,
        **each.about,
        "routing": routing,
        "split": 0 if lists is None else len(lists),
        "asked": took.slots,
        "longest": took.longest,
        "all": took.together,
        "merging": took.merging,
        "gain": found[_QUADTREE].longest / took.longest,
        "posts": took.posts,
        "paper": each.paper if routing == SPLIT else "",
    }


def _area(side: float) -> str:
    return f"{side * side:.4%}"
