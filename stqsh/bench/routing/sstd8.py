"""SSTD, Fig. 8a: snapshots of the posts in a square that have a word, under a QT-tree and other routings.

A slot of SSTD has an index for each leaf, and looks at the leaves that a snapshot touches (section 6.1). A
slot of ours scans all of its posts, so what a routing spares is whole slots. How many posts lie in the leaves
that a snapshot touches says what there would be to look at if slots kept their posts by leaf.
"""

from __future__ import annotations

from dataclasses import replace
from time import thread_time_ns
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult, Goal
from stqsh.bench.routing.driven_slots import DrivenSlots
from stqsh.bench.routing.measuring import RoutingScale, Trial
from stqsh.bench.routing.sstd11 import SLOTS, SPLIT, TEXTS, trial_of
from stqsh.bench.routing.world import EVENTS, POSTS, Records, range_queries
from stqsh.core.snapshots.select import part
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.slot_terms import sought_words
from stqsh.routing.table import HASHED, TEXT, RoutingTable
from stqsh.routing.text_leaves import SoughtTerms
from stqsh.spec.expression import ColumnExpr, ContainsExpr
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.region import RectangleSpec

_QUADTREE = "quadtree"
_ASKED, _TURNS = 60, 3
_SIDES = {0.001: (2.0, "10 / 4 ms"), 0.01: (2.0, "2 to 4"), 0.1: (3.0, "132 / 32 ms")}
"""What is to be gained over a quadtree by the side of squares, and what SSTD has."""
_CASES = ("alike", "topics anywhere")

COLUMNS = {
    "texts": "texts",
    "area": "area of a snapshot",
    "routing": "routing",
    "split": "leaves split by texts",
    "asked": "slots asked",
    "longest": "longest slot, ms",
    "all": "all slots, ms",
    "gain": "times quadtree",
    "posts": "posts of its leaves, most of a slot",
    "paper": "paper",
}


class _Asked(NamedTuple):
    """What snapshots took, in the mean.

    Attributes:
        slots: how many slots were asked.
        longest: the thread time of the slot that took longest, ms.
        together: that of all slots, ms.
        posts: the most posts of a slot that lie in leaves which the snapshot touches.
        rows: the number of rows of each answer.
    """

    slots: float
    longest: float
    together: float
    posts: float
    rows: list[int]


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


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Ask slots under each routing for the same posts, and time each of them."""
    rows: list[Row] = []
    goals = []
    for name in _CASES:
        for side, (wanted, paper) in _SIDES.items():
            say(f"sstd8: {name}, squares of {side:.1%} side")
            trial = trial_of(TEXTS[name], side, scale.count(100_000))
            found = _found(trial)
            before, area = found[_QUADTREE].longest, f"{side * side:.4%}"
            for routing, each in found.items():
                texts = trial.tables[routing].texts
                rows.append(
                    {
                        "texts": name,
                        "area": area,
                        "routing": routing,
                        "split": 0 if texts is None else len(texts),
                        "asked": each.slots,
                        "longest": each.longest,
                        "all": each.together,
                        "gain": before / each.longest,
                        "posts": each.posts,
                        "paper": paper if routing == SPLIT else "",
                    }
                )
            what = f"{SPLIT} over quadtree, {name}, {area} of the area"
            goals.append(Goal(what, paper, wanted, before / found[SPLIT].longest))
    notes = [
        f"{SLOTS} slots with {scale.count(100_000):,} posts; {_ASKED} snapshots for a word in a square "
        f"where the posts are, the least of {_TURNS} turns each. Routings are made for queries of that size."
    ]
    return [FigureResult("sstd8", "Snapshots of posts with a word", COLUMNS, rows, goals, notes)]


def _found(trial: Trial) -> dict[str, _Asked]:
    """Return what the snapshots took under each routing.

    Raises:
        ValueError: two routings gave different numbers of rows.
    """
    rng = np.random.default_rng(8)
    drawn = trial.drawn(1, rng)
    assert trial.phrases is not None, "snapshots ask for words"
    one = range_queries(trial.boxes[:1], trial.phrases[:1])
    found: dict[str, _Asked] = {}
    for name, table in trial.tables.items():
        driven = DrivenSlots(table, POSTS, one, trial.boxes[:1])
        driven.take(drawn, rng)
        posts = _LeafPosts(table, drawn)
        asked = zip(trial.boxes[:_ASKED], trial.phrases[:_ASKED], strict=True)
        found[name] = _summed([_asked(driven.states, table, posts, box, word) for box, word in asked])
    first = found[_QUADTREE].rows
    for name, each in found.items():
        if each.rows != first:
            raise ValueError(f"{name} has other rows than {_QUADTREE}")
    return found


def _asked(states: list[SlotState], table: RoutingTable, posts: _LeafPosts, box: Floats, word: str) -> _Asked:
    """Ask the slots that may have posts with a word in a box."""
    condition = ContainsExpr(ColumnExpr("body"), word, "all")
    region = RectangleSpec(*box.tolist())
    spec = SnapshotSpec(stream_id=EVENTS.id, kind="range", region=region, condition=condition)
    sought = sought_words([word])
    touched = np.flatnonzero(table.slots_touching(box[None], sought)[0])
    spent, rows = np.full((_TURNS, len(touched)), 0), 0
    for turn in range(_TURNS):
        shares: list[pa.RecordBatch | None] = []
        for at, slot in enumerate(touched.tolist()):
            begun = thread_time_ns()
            shares.append(part(states[slot], spec))
            spent[turn, at] = thread_time_ns() - begun
        rows = sum(share.num_rows for share in shares if share is not None)
    least = spent.min(axis=0) / 1e6
    most = posts.most(box, sought)
    return _Asked(len(touched), float(least.max()), float(least.sum()), most, [rows])


def _summed(asked: list[_Asked]) -> _Asked:
    slots, longest, together, posts, rows = zip(*asked, strict=True)
    counts = [count for each in rows for count in each]
    means = (float(np.mean(slots)), float(np.mean(longest)), float(np.mean(together)), float(np.mean(posts)))
    return _Asked(*means, counts)
