"""SSTD, Fig. 14 and 15: records, or queries, come into one small square, and adjusters answer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import squares_around, towns
from stqsh.bench.papers.routing.trials import Measured, RoutingScale, Trial, measured, modelled_ratio
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.adjusters.adjuster_choice import moved_queries, suggest
from stqsh.routing.load import Load, leaf_costs, slot_loads
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable

_SLOTS = 8
_BEFORE, _PARTS = 30, (10, 30, 50)
_SQUARE, _SIDE = 0.05, 0.01
_QUERIES = 4_000
_LIMIT = 1.3
_GOALS = {"pm": 0.78, "fm": 0.86, "fg": 0.98}
_NONE, _LADDER = "no action", "ladder"
_INSERTED, _REGISTERED = "sstd14", "sstd15"
_PAPER = {
    _INSERTED: {"pm": "+78.4 %", "fm": "+86.6 %", "fg": "+97.9 %"},
    _REGISTERED: dict.fromkeys(("pm", "fm", "fg", _LADDER), "often > +100 %"),
}

COLUMNS = {
    "parts": "parts come",
    "adjuster": "adjuster",
    "takes": "the ladder takes",
    "modelled": "max/mean, modelled",
    "measured": "measured",
    "moved": "queries moved",
    "makespan_ms": "makespan ms",
    "gain": "throughput, gain",
    "whole": "whole leaves, at most",
    "paper": "paper",
}


@dataclass(frozen=True, eq=False)
class Comers:
    """What comes: records and queries afterwards.

    Attributes:
        places: draws the places of records.
        boxes: float64 (m, 4), the boxes of queries.
    """

    places: Callable[[np.random.Generator, int], Floats]
    boxes: Floats


def inserted(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Figure 14: 10, 30 and 50 parts of records beside 30 come into one square."""

    def come(parts: int, square: Floats, boxes: Floats, _: np.random.Generator) -> Comers:
        def places(rng: np.random.Generator, count: int) -> Floats:
            found = towns(rng, count)
            new = rng.random(count) < parts / (_BEFORE + parts)
            found[new] = _in_square(rng, square, int(new.sum()))
            return found

        return Comers(places, boxes)

    return [_figure(_INSERTED, "records come into one square", come, scale, say)]


def registered(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Figure 15: 10, 30 and 50 parts of queries beside 30 are registered in one square."""

    def come(parts: int, square: Floats, boxes: Floats, rng: np.random.Generator) -> Comers:
        new = squares_around(_in_square(rng, square, len(boxes) * parts // _BEFORE), _SIDE)
        return Comers(towns, np.concatenate([boxes, new]))

    return [_figure(_REGISTERED, "queries are registered in one square", come, scale, say)]


def _in_square(rng: np.random.Generator, low: Floats, count: int) -> Floats:
    return low + _SQUARE * rng.random((count, 2))


Come = Callable[[int, Floats, Floats, np.random.Generator], Comers]


@dataclass(frozen=True, eq=False)
class _Case:
    """One square and one number of parts.

    Attributes:
        trial: the routings that adjusters propose.
        load: the load afterwards.
        taken: the adjuster that the ladder takes.
    """

    parts: int
    trial: Trial
    load: Load
    taken: str


def _figure(name: str, title: str, come: Come, scale: RoutingScale, say: Say) -> FigureResult:
    rng = np.random.default_rng(23)
    count = scale.count(150_000)
    boxes = squares_around(towns(rng, _QUERIES), _SIDE)
    base = STRATEGIES["qttree"](load_by(towns(rng, count), boxes), _SLOTS)
    squares = np.clip(towns(rng, scale.tries) - _SQUARE / 2, 0, 1 - _SQUARE)
    rows: list[Row] = []
    for parts in _PARTS:
        say(f"{name}: {parts} parts")
        cases = [_case(base, parts, come(parts, square, boxes, rng), count, rng) for square in squares]
        rows += _rows(cases, measured([case.trial for case in cases], scale), _PAPER[name])
    notes = [
        f"{_SLOTS} slots, a qttree by {_BEFORE} parts; {_QUERIES:,} squares of {_SIDE:.0%} side are queries. "
        f"The square where parts come has {_SQUARE:.0%} side and is where the records are; medians over "
        f"{scale.tries} such squares. Afterwards each batch holds records of both kinds in proportion. Each "
        "adjuster is called once. The ladder is that of the engine, which also has greedy. Nothing can gain "
        "more than max/mean without action, less 1. pm and fm deal whole leaves: they cannot gain more than "
        "what is gained if the dearest leaf is alone on its slot."
    ]
    return FigureResult(name, title, COLUMNS, rows, _goals(name, rows), notes)


def _case(base: RoutingTable, parts: int, comers: Comers, count: int, rng: np.random.Generator) -> _Case:
    load = load_by(comers.places(rng, count), comers.boxes)
    tables = {_NONE: base}
    for name in _GOALS:
        tables[name] = ADJUSTERS[name].propose(base, load, 1 + (_LIMIT - 1) / 2) or base
    found = suggest(base, load, _LIMIT) if modelled_ratio(base, load) > _LIMIT else None
    tables[_LADDER] = found.table if found else base
    trial = Trial(comers.places, comers.boxes, tables, count, base)
    return _Case(parts, trial, load, found.adjuster if found else "nothing")


def _rows(cases: list[_Case], found: list[dict[str, Measured]], paper: Mapping[str, str]) -> list[Row]:
    """Return a row for each adjuster: the medians over all squares."""
    return [
        {
            "parts": cases[0].parts,
            "adjuster": name,
            "takes": ", ".join(sorted({case.taken for case in cases})) if name == _LADDER else "",
            **_medians([_row(case, each, name) for case, each in zip(cases, found, strict=True)]),
            "paper": paper.get(name, "") if cases[0].parts == max(_PARTS) else "",
        }
        for name in cases[0].trial.tables
    ]


def _row(case: _Case, found: dict[str, Measured], name: str) -> dict[str, float]:
    before, after = case.trial.tables[_NONE], case.trial.tables[name]
    return {
        "modelled": modelled_ratio(after, case.load),
        "measured": found[name].ratio,
        "moved": moved_queries(before, after, case.load),
        "makespan_ms": found[name].makespan_ms,
        "gain": found[_NONE].makespan_ms / found[name].makespan_ms - 1,
        "whole": _most_by_whole_leaves(before, case.load),
    }


def _most_by_whole_leaves(table: RoutingTable, load: Load) -> float:
    """Return the most that dealing the leaves again can gain by the model: one slot has the dearest leaf."""
    loads, dearest = slot_loads(table, load.cost), float(leaf_costs(table, load.cost).max())
    return float(loads.max()) / max(dearest, float(loads.mean())) - 1


def _medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def _goals(name: str, rows: list[Row]) -> list[Goal]:
    most = max(_PARTS)
    gains = {str(row["adjuster"]): float(str(row["gain"])) for row in rows if row["parts"] == most}
    goals = [
        Goal(f"{adjuster}, {most} parts, gain of throughput", _PAPER[name][adjuster], wanted, gains[adjuster])
        for adjuster, wanted in _GOALS.items()
    ]
    if name == _REGISTERED:
        what, paper, wanted = "gain of throughput", _PAPER[name][_LADDER], 1.0
    else:
        what, paper, wanted = "gain within 5 % of fg's", "as the least", 0.95 * (1 + gains["fg"]) - 1
    return [*goals, Goal(f"ladder, {most} parts, {what}", paper, wanted, gains[_LADDER])]
