"""The object cache apart, which figure 4 of the paper explains and none measures: tests and times it spares.

The questions are those of a few screens that people look at again and again: the same ranges, each asked
several times among others. Cells whose events are tested for every question are where margins can help.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.star.asking import ask
from stqsh.bench.papers.star.contenders import Contender, baseline_1, o_cache
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import Workload, bound
from stqsh.bench.papers.star.world import Posts
from stqsh.core.snapshots.select import selection_of

_SIDES = (0.002, 0.01, 0.05, 0.2)
_SCREENS = 16
_COLUMNS = {
    "side": "side, %",
    "name": "way",
    "mean_ms": "mean ms",
    "p50_ms": "p50 ms",
    "tested": "tests a question",
    "times": "times Baseline-1",
    "kb": "kept, kB",
    "learned_s": "warm-up s",
}


@dataclass(frozen=True)
class _Screens(Workload):
    """The same few ranges, again and again."""

    def texts(self, posts: Posts, count: int, seed: int) -> Iterator[str]:
        """Yield questions."""
        del seed
        some = [*super().texts(posts, _SCREENS, seed=5)]
        yield from (some[i % _SCREENS] for i in range(count))


def measure(bench: StarRun) -> list[FigureResult]:
    """Compare the cells alone with cells and their margins, for ranges of several sides."""
    rows, goals = list[Row](), list[Goal]()
    for side in _SIDES:
        workload = _Screens("S2", "COUNT(*)", 0, side)
        ways = [baseline_1(), o_cache(bench.scale.budget)]
        found = ask(bench.world, workload, ways, replace(bench.scale, past=96), bench.say)
        base = found["Baseline-1"].mean_ms
        tests = {way.name: _tests(bench, workload, way) for way in ways}
        for way in ways:
            timed = found[way.name]
            more: Row = {"side": 100 * side, "tested": tests[way.name], "times": base / timed.mean_ms}
            rows.append({**asdict(timed), **more, "kb": timed.nbytes / 2**10})
        left = tests["O-cache"] / max(1.0, tests["Baseline-1"])
        goals.append(Goal(f"side {100 * side:g} %: tests left", "-", 0.8, left, least=False))
        what = f"side {100 * side:g} %: O-cache over Baseline-1"
        goals.append(Goal(what, "QO over Q: 1.1 to 1.4", 1.1, base / found["O-cache"].mean_ms))
    note = (
        f"{bench.scale.posts:,} posts on one slot; {_SCREENS} ranges asked again and again, processor time of"
        " an answer. Tests: the events that are tested for being in the range."
    )
    return [FigureResult("4", "the object cache: margins of cells", _COLUMNS, rows, goals, [note])]


def _tests(bench: StarRun, workload: Workload, way: Contender) -> float:
    """Return how many events a question has tested, on average over all screens."""
    [state], total = bench.world.states, 0
    for text in workload.texts(bench.world.posts, _SCREENS, seed=0):
        selection = selection_of(state, bound(text))
        assert way.kept is not None and selection is not None, "cells are kept, and the slot knows the stream"
        usage = way.kept.planned(state, selection)
        total += 0 if usage is None else usage.tested
    return total / _SCREENS
