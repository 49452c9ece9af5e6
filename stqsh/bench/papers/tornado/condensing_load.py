"""Tornado, Fig. 9a: all records and queries condense to a part of the plane, with and without adjustments.

Tornado's adjusters leave a rectangle to each slot; the ladder has others, too.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Floats
from stqsh.bench.figures import Row, Value
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import condensed_to, squares_around, towns
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured, modelled_ratio
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.adjusters.adjuster_choice import moved_queries, suggest
from stqsh.routing.load import Load
from stqsh.routing.strategies import agrid_table
from stqsh.routing.table import RoutingTable

_FEW, _MANY = 8, 64
_SAMPLE = 200_000
_FACTORS = (0.7, 0.6, 0.5, 0.4)
_QUERIES, _SIDE = 8_000, 0.01
_MOST, _LIMIT = 10, 1.25
_NEAR, _WORSE = 1.25, 3.0

COLUMNS = {
    "slots": "slots",
    "factor": "condensed to",
    "routing": "routing",
    "adjustments": "adjustments",
    "moved": "queries moved",
    "modelled": "max/mean, modelled",
    "measured": "measured",
    "makespan_ms": "makespan ms",
    "times": "times the uncondensed",
    "paper": "paper",
}
_STATIC = "static"
_ADAPTIVE: dict[str, Container[str]] = {
    "Tornado's adjusters": ("shift", "splitmerge"),
    "the ladder": ADJUSTERS,
}
_FALLS, _FLAT = "falls", "flat"


class _Adjusted(NamedTuple):
    """A table that was adjusted, how often, and the share of the queries that this moved."""

    table: RoutingTable
    adjustments: int
    moved: float


@dataclass(frozen=True, eq=False)
class _Case:
    """A load that condensed, and what becomes of the table.

    Attributes:
        boxes: float64 (m, 4), the boxes of queries.
        routings: the static table, and those that are adjusted.
    """

    factor: float
    boxes: Floats
    load: Load
    routings: Mapping[str, _Adjusted]

    @property
    def tables(self) -> dict[str, RoutingTable]:
        """The table of each routing."""
        return {name: adjusted.table for name, adjusted in self.routings.items()}

    def row(self, routing: str, slots: int) -> Row:
        """Return what is known without a measurement."""
        table, adjustments, moved = self.routings[routing]
        fact: Row = {
            "slots": slots,
            "factor": self.factor,
            "routing": routing,
            "modelled": modelled_ratio(table, self.load),
            "paper": _FALLS if routing == _STATIC else _FLAT,
        }
        return fact if routing == _STATIC else {**fact, "adjustments": adjustments, "moved": moved}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure how a static and an adjusted A-Grid take a load that condenses."""
    say(f"tornado9: condensed to {', '.join(map(str, _FACTORS))}")
    rng = np.random.default_rng(19)
    boxes = squares_around(towns(rng, _QUERIES), _SIDE)
    count = scale.count(200_000)
    rows = _measured_rows(boxes, count, scale, rng) + _modelled_rows(boxes, rng)
    notes = [
        f"{_QUERIES:,} squares. The places of records and the boxes of queries are scaled about the centre, "
        "so that the work is the same. Tornado's adjusters: shift or splitmerge, whichever is better, at "
        f"most {_MOST} times, each by the load of a further batch, while max/mean is above {_LIMIT} in the "
        "model. An adjustment may be several shifts or splits. The ladder is what REBALANCE takes, and may "
        f"give a slot several rectangles. {_MANY} slots are modelled."
    ]
    return [FigureResult("tornado9", "a load that condenses", COLUMNS, rows, _goals(rows), notes)]


def _measured_rows(boxes: Floats, count: int, scale: RoutingScale, rng: np.random.Generator) -> list[Row]:
    base = agrid_table(load_by(towns(rng, count), boxes), _FEW)
    cases = [_case(base, boxes, factor, count, rng) for factor in _FACTORS]
    condensed = [
        Trial(partial(condensed_to, factor=case.factor), case.boxes, case.tables, count, base)
        for case in cases
    ]
    first, *others = measured([Trial(towns, boxes, {_STATIC: base}, count), *condensed], scale)
    uncondensed = first[_STATIC]
    reference = uncondensed.makespan_ms
    rows: list[Row] = [_reference_row(_FEW) | {"measured": uncondensed.ratio, "makespan_ms": reference}]
    for case, found in zip(cases, others, strict=True):
        for routing, each in found.items():
            own = {
                "measured": each.ratio,
                "makespan_ms": each.makespan_ms,
                "times": each.makespan_ms / reference,
            }
            rows.append({**case.row(routing, _FEW), **own})
    return rows


def _modelled_rows(boxes: Floats, rng: np.random.Generator) -> list[Row]:
    load = load_by(towns(rng, _SAMPLE), boxes)
    base = agrid_table(load, _MANY)
    reference = modelled_ratio(base, load)
    rows: list[Row] = [_reference_row(_MANY) | {"modelled": reference}]
    for factor in _FACTORS:
        case = _case(base, boxes, factor, _SAMPLE, rng)
        for routing, table in case.tables.items():
            times = modelled_ratio(table, case.load) / reference
            rows.append({**case.row(routing, _MANY), "times": times})
    return rows


def _reference_row(slots: int) -> dict[str, Value]:
    return {"slots": slots, "factor": 1.0, "routing": "uncondensed"}


def _case(base: RoutingTable, boxes: Floats, factor: float, count: int, rng: np.random.Generator) -> _Case:
    there = 0.5 + factor * (boxes - 0.5)
    adjusted = {name: _adjusted(base, there, factor, count, rng, among) for name, among in _ADAPTIVE.items()}
    load = load_by(condensed_to(rng, count, factor), there)
    return _Case(factor, there, load, {_STATIC: _Adjusted(base, 0, 0.0), **adjusted})


def _adjusted(
    table: RoutingTable,
    boxes: Floats,
    factor: float,
    count: int,
    rng: np.random.Generator,
    among: Container[str],
) -> _Adjusted:
    """Adjust a table by some adjusters until it is even enough, or none helps."""
    moved = 0.0
    for number in range(_MOST):
        load = load_by(condensed_to(rng, count, factor), boxes)
        found = suggest(table, load, _LIMIT, among) if modelled_ratio(table, load) > _LIMIT else None
        if found is None:
            return _Adjusted(table, number, moved)
        moved += moved_queries(table, found.table, load)
        table = found.table
    return _Adjusted(table, _MOST, moved)


def _goals(rows: list[Row]) -> list[Goal]:
    goals = []
    for slots, how in ((_FEW, "measured"), (_MANY, "modelled")):
        times = {
            (row["routing"], row["factor"]): float(str(row["times"]))
            for row in rows
            if row["slots"] == slots and "times" in row
        }
        least = min(_FACTORS)
        what = f"{slots} slots, makespan / the uncondensed one, {how}"
        for name in _ADAPTIVE:
            worst = max(value for (routing, _), value in times.items() if routing == name)
            goals.append(Goal(f"{name}, worst factor, {what}", _FLAT, _NEAR, worst, least=False))
        static = times[_STATIC, least]
        goals.append(Goal(f"static, condensed to {least}, {what}", _FALLS, _WORSE, static))
    return goals
