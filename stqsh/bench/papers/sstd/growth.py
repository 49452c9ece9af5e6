"""SSTD, section 7.5, Fig. 13: whether a QT-tree is worth as much with more posts, and with more queries."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured
from stqsh.bench.papers.sstd.snapshots import asked, in_squares
from stqsh.bench.papers.sstd.textual_splits import AGRID, SLOTS, SPLIT, TEXTS, trial_of

_QTTREE = "qttree"
_TEXTS, _SIDE, _LIMIT = "topics anywhere", 0.1, 0.2
_POSTS, _SNAPSHOTS = (50_000, 100_000, 200_000), 40
_BATCH, _QUERIES = 10_000, (1_000, 4_000, 20_000)
_SHOWN = {"posts": "3 to 4 times faster", "queries": "first, falls slightly"}

COLUMNS = {
    "grows": "what grows",
    "size": "to",
    "routing": "routing",
    "slowest_ms": "slowest slot, ms",
    "gain": "times agrid",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure snapshots over more and more posts, and batches of posts under more and more queries."""
    say("sstd13: posts")
    whole = _trial(scale, max(_POSTS))
    selects = in_squares(whole, scale.count(_SNAPSHOTS, 2))
    found: list[tuple[str, int, dict[str, float]]] = []
    for count in map(scale.count, scale.some(_POSTS)):
        [took] = asked(replace(whole, count=count), [selects], scale)
        found.append(("posts", count, {name: each.longest for name, each in took.items()}))
    say("sstd13: queries")
    trials = [_trial(scale, _BATCH, queries) for queries in scale.some(_QUERIES)]
    for trial, batch in zip(trials, measured(trials, scale), strict=True):
        makespans = {name: each.makespan_ms for name, each in batch.items()}
        found.append(("queries", len(trial.boxes), makespans))
    rows: list[Row] = [
        {
            "grows": grows,
            "size": size,
            "routing": routing,
            "slowest_ms": slowest,
            "gain": slowest_ms[AGRID] / slowest,
            "paper": _SHOWN[grows] if routing == SPLIT else "",
        }
        for grows, size, slowest_ms in found
        for routing, slowest in slowest_ms.items()
    ]
    goals = [
        Goal(f"{routing} over agrid, off its mean as {grows} grow", _SHOWN[grows], _LIMIT, apart, least=False)
        for grows in _SHOWN
        for routing in (_QTTREE, SPLIT)
        for apart in [_apart([ms[AGRID] / ms[routing] for what, _, ms in found if what == grows])]
    ]
    notes = [
        f"{SLOTS} slots; texts have {_TEXTS}. As posts grow: {len(selects)} snapshots for a word in a square "
        f"of {_SIDE:.0%} side. As queries grow, each of that kind: batches of {trials[0].count:,} posts; "
        "each routing is made for those queries."
    ]
    return [FigureResult("sstd13", "More posts, and more queries", COLUMNS, rows, goals, notes)]


def _trial(scale: RoutingScale, count: int, queries: int = 4_000) -> Trial:
    trial = trial_of(TEXTS[_TEXTS], _SIDE, scale, count, queries)
    return replace(trial, tables={name: trial.tables[name] for name in (AGRID, _QTTREE, SPLIT)})


def _apart(ratios: Sequence[float]) -> float:
    """Return how far the ratio that is farthest from the mean is from it, as a share of it."""
    mean = statistics.mean(ratios)
    return max(abs(ratio / mean - 1) for ratio in ratios)
