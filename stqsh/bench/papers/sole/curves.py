"""Figures 22 to 24: the accuracy that is left when the memory is reduced, by objects or by queries.

Object load shedding raises k step by step; the kept objects and the mean accuracy of the queries (their share
of the full answers) give a curve. Query load shedding drops the caches first, then shrinks areas; the
accuracy is the share of its area that a query has left. Curves are straight between measured points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import STREAM
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.sharing import FACTOR, shared_slot
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, memory
from stqsh.bench.papers.sole.town import TownQueries
from stqsh.core.retention.interest_table import InterestTable
from stqsh.core.retention.stream_stats import accuracies

_FEW, _MANY = 1_000, 25_000
_COUNTS = (1_000, 2_000, 8_000, 32_000)
_MOVING = 0.25
"""The share of the queries that move; their focal objects are never dropped."""

_DROPPED = (0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
"""k is raised so that fewer than k queries want these shares of the objects."""

_AREAS = (0.9, 0.7, 0.4, 0.2, 0.05)
_LOADS = (90, 80, 70, 60, 50, 40, 30, 20, 10)


@dataclass(frozen=True)
class Curve:
    """Falling loads, % of the objects that are kept without load shedding, and the accuracy at each, %."""

    load: list[float]
    accuracy: list[float]

    def load_for(self, accuracy: float) -> float | None:
        """Return the least load with this accuracy; None if the accuracy never fell so low."""
        return _between(accuracy, self.accuracy, self.load)

    def accuracy_at(self, load: float) -> float | None:
        """Return the accuracy at this load; None if the load never fell so low."""
        return _between(load, self.load, self.accuracy)


def _between(value: float, xs: list[float], ys: list[float]) -> float | None:
    return None if value < min(xs) else float(np.interp(value, xs[::-1], ys[::-1]))


def objects_curve(bench: FigureRun, count: int) -> Curve:
    """Return the curve of object load shedding with a number of queries."""
    return bench.once(("objects", count), lambda: _by_objects(bench, count))


def queries_curve(bench: FigureRun, count: int) -> Curve:
    """Return the curve of query load shedding with a number of queries."""
    return bench.once(("queries", count), lambda: _by_queries(bench, count))


def _begun(bench: FigureRun, count: int, how: str) -> tuple[DrivenSlot, int]:
    bench.say(f"{how} load shedding with {count:,} queries")
    slot = shared_slot(bench, TownQueries(count, moving=_MOVING))
    return slot, kept(slot)


def kept(slot: DrivenSlot) -> int:
    """Return how many objects a slot keeps."""
    return int(np.count_nonzero(slot.array("objects/known")))


def accuracy(slot: DrivenSlot) -> float:
    """Return the mean accuracy of the queries, %."""
    queries = InterestTable(slot.state, STREAM)
    return 100 * float(np.mean(accuracies(queries, queries.active)))


def _by_objects(bench: FigureRun, count: int) -> Curve:
    slot, whole = _begun(bench, count, "object")
    refs = slot.array("objects/refs")[slot.array("objects/known")]
    wanted = np.unique(np.quantile(refs, bench.scale.some(_DROPPED), method="lower").astype(int) + 1)
    curve = Curve([100.0], [100.0])
    for k in wanted[wanted > 1].tolist():
        slot.units(1, [memory(FACTOR, k=k)])
        _add(curve, 100 * kept(slot) / whole, accuracy(slot))
    return curve


def _by_queries(bench: FigureRun, count: int) -> Curve:
    slot, whole = _begun(bench, count, "query")
    slot.units(1, [memory(FACTOR, cache=0.0)])
    curve = Curve([100.0], [100.0])
    _add(curve, 100 * kept(slot) / whole, 100.0)
    for area in bench.scale.some(_AREAS):
        slot.units(1, [memory(FACTOR, cache=0.0, area=area)])
        _add(curve, 100 * kept(slot) / whole, accuracy(slot))
    return curve


def _add(curve: Curve, load: float, mean: float) -> None:
    """Add a point below the last one, as moving objects make the load of the same k vary a little."""
    curve.load.append(min(load, curve.load[-1]))
    curve.accuracy.append(min(mean, curve.accuracy[-1]))


def load(bench: FigureRun) -> list[FigureResult]:
    """Figure 22: the load that a required accuracy takes, for 1 K and for 25 K queries."""
    accuracies = list(range(100, 0, -10))
    rows, charts, goals = list[Row](), [], []
    for name, paper_count in (("a", _FEW), ("b", _MANY)):
        count = bench.scale.count(paper_count)
        by_object, by_query = objects_curve(bench, count), queries_curve(bench, count)
        rows += [
            {
                "queries": count,
                "accuracy": wanted,
                "object": by_object.load_for(wanted),
                "query": by_query.load_for(wanted),
                "paper": _PAPER.get((paper_count, wanted)),
            }
            for wanted in accuracies
        ]
        lines = [
            Line("object load shedding", by_object.load, by_object.accuracy),
            Line("query load shedding", by_query.load, by_query.accuracy),
            Line("expected", [0, 100], [0, 100], paper=True),
        ]
        charts.append(Chart(f"{name}: {count:,} queries", "load kept, %", "accuracy, %", lines))
        if paper_count == _FEW:
            found = by_object.load_for(90)
            goals.append(Goal("load for 90 % accuracy with 1 K queries, %", "-", 85.0, found, least=False))
    columns = {
        "queries": "queries",
        "accuracy": "accuracy, %",
        "object": "object: load, %",
        "query": "query: load, %",
        "paper": "paper: object, query",
    }
    return [FigureResult("22", "load against accuracy", columns, rows, goals, [_NOTE], charts)]


_PAPER = {(_FEW, 90): "85, 97", (_MANY, 20): "20, over 90"}
_NOTE = (
    f"Queries of various sizes, {_MOVING:.0%} of them moving, cache {FACTOR:.0%}. '-': the load never went "
    "so low, for focal objects are always kept. Accuracy is the mean over queries."
)


def reduced(bench: FigureRun) -> list[FigureResult]:
    """Figure 23: the load that 70 and 90 % accuracy take, against the number of queries."""
    counts = list(map(bench.scale.count, bench.scale.some(_COUNTS[1:])))
    curves = [(objects_curve(bench, count), queries_curve(bench, count)) for count in counts]
    rows: list[Row] = [
        {
            "queries": count,
            "object70": by_object.load_for(70),
            "query70": by_query.load_for(70),
            "object90": by_object.load_for(90),
            "query90": by_query.load_for(90),
            "paper": "object < accuracy < query",
        }
        for count, (by_object, by_query) in zip(counts, curves, strict=True)
    ]
    columns = {
        "queries": "queries",
        "object70": "70 %: object",
        "query70": "70 %: query",
        "object90": "90 %: object",
        "query90": "90 %: query",
        "paper": "paper",
    }
    charts = [
        Chart(
            f"{name}: {wanted} % accuracy",
            "queries",
            "load kept, %",
            [
                Line("object load shedding", counts, [by_object.load_for(wanted) for by_object, _ in curves]),
                Line("query load shedding", counts, [by_query.load_for(wanted) for _, by_query in curves]),
                Line("expected", counts, [wanted] * len(counts), paper=True),
            ],
            log="x",
        )
        for name, wanted in (("a", 70), ("b", 90))
    ]
    return [FigureResult("23", "load for a certain accuracy, %", columns, rows, notes=[_NOTE], charts=charts)]


def stable(bench: FigureRun) -> list[FigureResult]:
    """Figure 24: the accuracy of object load shedding at reduced loads, against the number of queries."""
    counts = list(map(bench.scale.count, bench.scale.some(_COUNTS)))
    curves = [objects_curve(bench, count) for count in counts]
    rows: list[Row] = [
        {
            "queries": count,
            **{str(wanted): curve.accuracy_at(wanted) for wanted in _LOADS},
            "paper": "94 at 90",
        }
        for count, curve in zip(counts, curves, strict=True)
    ]
    headings = {str(wanted): f"{wanted} %" for wanted in _LOADS}
    columns = {"queries": "queries", **headings, "paper": "paper"}
    lines = [
        Line(f"load {wanted} %", counts, [curve.accuracy_at(wanted) for curve in curves]) for wanted in _LOADS
    ]
    charts = [Chart("object load shedding", "queries", "accuracy, %", lines, log="x")]
    title = "accuracy, %, of object load shedding at reduced loads"
    return [FigureResult("24", title, columns, rows, notes=[_NOTE], charts=charts)]
