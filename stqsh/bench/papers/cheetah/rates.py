"""CheetahGIS, Fig. 9 and 10: how many snapshots slots answer a second, by cell size and by slots.

Snapshots count the objects in a region (a), or find the nearest of a place (b). Each slot answers for its own
objects, so a slot that has most to do bounds the rate, as if each slot had a processor of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.bench.figures import Row, numbers_of
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.cheetah.questions import BY_CELL, counts, neighbours, objects_of, routed
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.asked import RoutedSlots, check_equal
from stqsh.bench.papers.routing.maps import roads
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.spec.query import SnapshotSpec

_OBJECTS, _ASKED, _TURNS = 400_000, 200, 3
_SIDES, _USUAL = (16, 64, 256), 64
_MANY, _SLOTS = 64, (2, 4, 8, 16)

COLUMNS = {
    "slots": "slots",
    "side": "cells per side",
    "asking": "asking for",
    "asked": "slots asked",
    "finding_us": "finding them, µs",
    "rate": "snapshots/s",
    "paper": "paper",
}


@dataclass(frozen=True)
class _Part:
    """A part of the figures.

    Attributes:
        letter: that of the paper.
        what: what is asked.
        sizes: the shares of the area that regions have, or numbers of neighbours, by their names.
        paper: how cell sizes compare in the paper.
    """

    letter: str
    what: str
    sizes: Mapping[str, float]
    paper: str

    def asked(
        self, centres: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    ) -> dict[str, list[SnapshotSpec]]:
        """Return the snapshots around places, float64 (n, 2), by the names of the sizes."""
        if self.letter == "b":
            return {name: neighbours(centres, int(size)) for name, size in self.sizes.items()}
        return {name: counts(centres, size) for name, size in self.sizes.items()}


_COUNTS = _Part("", "counts", {"0.01 %": 0.0001, "1 %": 0.01}, "medium is best")
_NEIGHBOURS = _Part("b", "nearest", {"2 nearest": 2, "8 nearest": 8, "64 nearest": 64}, "small is best")


class _Rate(NamedTuple):
    """The slots that a snapshot asks, the time of finding them, µs, and snapshots a second."""

    asked: float
    finding_us: float
    rate: float
    answers: list[pa.Table]


def _by_cell_size(part: _Part, scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure snapshots while slots count their objects in coarse, usual and fine cells."""
    name = f"cheetah9{part.letter}"
    say(f"{name}: cell sizes")
    slots = min(_MANY, scale.most_slots)
    rows = _rows(part, scale, [slots], _SIDES, part.paper)
    goal = Goal(f"{_USUAL} cells per side over the best others, worst", part.paper, 0.9, _worst(part, rows))
    note = "Cells are those of each slot's counts, by which slots without objects in a region are not asked."
    notes = [_note(part, scale), note]
    return [FigureResult(name, f"{part.what} by cell size", COLUMNS, rows, [goal], notes)]


def _by_slots(part: _Part, scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure snapshots on more and more slots."""
    name = f"cheetah10{part.letter}"
    say(f"{name}: numbers of slots")
    rows = _rows(part, scale, _SLOTS, [_USUAL], "rises")
    goals = []
    for size in part.sizes:
        rates = numbers_of([row for row in rows if row["asking"] == size], "rate")
        what = f"snapshots/s on {_SLOTS[-1]} slots over {_SLOTS[0]}, {size}"
        goals.append(Goal(what, "rises", 2.0, rates[-1] / rates[0]))
    title = f"{part.what} by number of slots"
    return [FigureResult(name, title, COLUMNS, rows, goals, [_note(part, scale)])]


counts_by_cell_size = partial(_by_cell_size, _COUNTS)
counts_by_slots = partial(_by_slots, _COUNTS)
neighbours_by_cell_size = partial(_by_cell_size, _NEIGHBOURS)
neighbours_by_slots = partial(_by_slots, _NEIGHBOURS)


def _note(part: _Part, scale: RoutingScale) -> str:
    return (
        f"{scale.count(_OBJECTS):,} objects on roads, dealt by a grid; {_asked(scale)} snapshots around "
        f"objects for each row, {', '.join(part.sizes)}; the least of {_TURNS} turns."
    )


def _asked(scale: RoutingScale) -> int:
    """Return how many snapshots a row has."""
    return scale.count(_ASKED, 8)


def _rows(
    part: _Part, scale: RoutingScale, slots: Sequence[int], sides: Iterable[int], paper: str
) -> list[Row]:
    drawn = objects_of(roads, scale.count(_OBJECTS), 31)
    asked = part.asked(roads(np.random.default_rng(32), _asked(scale)))
    rows: list[Row] = []
    for count in slots:
        on = {side: routed(drawn, count, BY_CELL, side) for side in sides}
        for name, specs in asked.items():
            found = {side: _rate(some, count, specs) for side, some in on.items()}
            for answers in zip(*(rate.answers for rate in found.values()), strict=True):
                check_equal(answers, name)
            rows += [
                {
                    "slots": count,
                    "side": side,
                    "asking": name,
                    "asked": rate.asked,
                    "finding_us": rate.finding_us,
                    "rate": rate.rate,
                    "paper": paper,
                }
                for side, rate in found.items()
            ]
    return rows


def _rate(slots: RoutedSlots, count: int, specs: Sequence[SnapshotSpec]) -> _Rate:
    """Ask for snapshots, and return their rate."""
    busy, found = np.zeros(count), [slots.ask(spec, _TURNS) for spec in specs]
    for one in found:
        for phase in one.phases:
            busy[phase.slots] += phase.spent
    asked, finding = (
        float(np.mean(values)) for values in zip(*((one.slots, one.finding) for one in found), strict=True)
    )
    rate = len(specs) / (float(busy.max()) / 1e9)
    return _Rate(asked, finding / 1e3, rate, [one.answer for one in found])


def _worst(part: _Part, rows: list[Row]) -> float:
    """Return the rate with the usual cells over the best with others, the least over what is asked."""
    ratios = []
    for name in part.sizes:
        rates = {row["side"]: float(str(row["rate"])) for row in rows if row["asking"] == name}
        usual = rates.pop(_USUAL)
        ratios.append(usual / max(rates.values()))
    return min(ratios)
