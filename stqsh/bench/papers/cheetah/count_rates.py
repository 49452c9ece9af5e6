"""CheetahGIS, Fig. 9a and 10a: how many counts of objects in a region a second, by cell size and by slots.

Each slot answers for its own objects, so a slot that has most to do bounds the rate, as if each slot had a
processor of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time_ns
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from stqsh.arrays import Floats
from stqsh.bench.figures import Row, numbers_of
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.driven_slots import DrivenSlots
from stqsh.bench.papers.routing.maps import roads, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import EVENTS, Records, load_by, range_queries, records
from stqsh.client.read.asked_slots import slots_holding
from stqsh.core.snapshots.select import part
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.strategies import lay
from stqsh.routing.table import RoutingTable
from stqsh.spec.query import Members, SnapshotSpec
from stqsh.spec.region import RectangleSpec

_OBJECTS, _ASKED, _TURNS = 400_000, 200, 3
_AREAS = {"small": 0.0001, "large": 0.01}
_SIDES, _USUAL = (16, 64, 256), 64
_MANY, _SLOTS = 64, (2, 4, 8, 16)

COLUMNS = {
    "slots": "slots",
    "side": "cells per side",
    "regions": "regions",
    "asked": "slots asked",
    "finding_us": "finding them, µs",
    "rate": "counts/s",
    "paper": "paper",
}


class _Rate(NamedTuple):
    """The slots that a count asks, the time of finding them, µs, counts a second, and the objects found."""

    asked: float
    finding_us: float
    rate: float
    found: int


def by_cell_size(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure counts while slots count their objects in coarse, usual and fine cells."""
    say("cheetah9: cell sizes")
    slots = min(_MANY, scale.most_slots)
    rows = _rows(scale, [slots], _SIDES, "medium is best")
    goals = [Goal(f"{_USUAL} cells per side over the best others, worst", "1 or more", 0.9, _worst(rows))]
    note = "Cells are those of each slot's counts, by which slots without objects in a region are not asked."
    return [FigureResult("cheetah9", "counts by cell size", COLUMNS, rows, goals, [_note(scale), note])]


def by_slots(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure counts on more and more slots."""
    say("cheetah10: numbers of slots")
    rows = _rows(scale, _SLOTS, [_USUAL], "rises")
    gains = [numbers_of([row for row in rows if row["regions"] == name], "rate") for name in _AREAS]
    goals = [
        Goal(
            f"counts/s on {_SLOTS[-1]} slots over {_SLOTS[0]}, {name} regions",
            "rises",
            2.0,
            found[-1] / found[0],
        )
        for name, found in zip(_AREAS, gains, strict=True)
    ]
    return [FigureResult("cheetah10", "counts by number of slots", COLUMNS, rows, goals, [_note(scale)])]


def _note(scale: RoutingScale) -> str:
    return (
        f"{scale.count(_OBJECTS):,} objects on roads, dealt by a grid; {scale.count(_ASKED)} squares around "
        f"objects, {_AREAS['small']:.2%} and {_AREAS['large']:.0%} of the area; the best of {_TURNS} turns."
    )


def _rows(scale: RoutingScale, slots: Sequence[int], sides: Sequence[int], paper: str) -> list[Row]:
    rng = np.random.default_rng(31)
    drawn = records(1, roads(rng, scale.count(_OBJECTS)))
    centres = roads(rng, scale.count(_ASKED))
    boxes = {name: squares_around(centres, area**0.5) for name, area in _AREAS.items()}
    load = load_by(drawn.places, np.empty((0, 4)))
    rows: list[Row] = []
    for count in slots:
        table = lay("grid", load, count)
        states = {side: _states(table, side, drawn, rng) for side in sides}
        for name, asked in boxes.items():
            found = {side: _rate(states[side], table, asked) for side in sides}
            if len({rate.found for rate in found.values()}) > 1:
                raise ValueError("counts differ")
            rows += [
                {
                    "slots": count,
                    "side": side,
                    "regions": name,
                    "asked": rate.asked,
                    "finding_us": rate.finding_us,
                    "rate": rate.rate,
                    "paper": paper,
                }
                for side, rate in found.items()
            ]
    return rows


def _states(table: RoutingTable, side: int, drawn: Records, rng: np.random.Generator) -> list[SlotState]:
    """Return slots that have the objects and count them in `side` x `side` cells."""
    nowhere = np.full((1, 4), 2.0)
    driven = DrivenSlots(table, replace(EVENTS, grid=side), range_queries(nowhere), nowhere)
    driven.take(drawn, rng)
    return driven.states


def _rate(states: list[SlotState], table: RoutingTable, boxes: Floats) -> _Rate:
    """Count the objects in each box, several times, and return the best rate."""
    return max((_counted(states, table, boxes) for _ in range(_TURNS)), key=lambda one: one.rate)


def _counted(states: list[SlotState], table: RoutingTable, boxes: Floats) -> _Rate:
    busy, asked, found, finding = np.zeros(len(states)), 0, 0, 0
    for box in boxes:
        region = RectangleSpec(*box.tolist())
        spec = SnapshotSpec(
            stream_id=EVENTS.id, kind="range", members=Members(region=region), aggregate="count"
        )
        begun = thread_time_ns()
        chosen = slots_holding(states, EVENTS.id, region.box, table.slots_touching(box[None])[0])
        finding += thread_time_ns() - begun
        for slot in np.flatnonzero(chosen).tolist():
            begun = thread_time_ns()
            share = part(states[slot], spec)
            busy[slot] += thread_time_ns() - begun
            asked += 1
            found += 0 if share is None else share.column("count")[0].as_py()
    rate = len(boxes) / (float(busy.max()) / 1e9)
    return _Rate(asked / len(boxes), finding / len(boxes) / 1e3, rate, found)


def _worst(rows: list[Row]) -> float:
    """Return the rate with the usual cells over the best with others, the least over the sizes of regions."""
    ratios = []
    for name in _AREAS:
        rates = {row["side"]: float(str(row["rate"])) for row in rows if row["regions"] == name}
        usual = rates.pop(_USUAL)
        ratios.append(usual / max(rates.values()))
    return min(ratios)
