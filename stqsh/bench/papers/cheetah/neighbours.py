"""CheetahGIS, Fig. 7 (second row): the nearest objects of a place, of all slots and of those that are near.

All slots are asked, as by the paper's QueryBroadcast. Or objects are dealt by place, and a client asks the
slot at the place first, and then those that the circle of its k-th object touches (section VI).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stqsh.bench.figures import Row, numbers_of
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.cheetah.questions import BY_CELL, BY_KEY, neighbours, objects_of, routed
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.asked import Asked, check_equal
from stqsh.bench.papers.routing.maps import Places, read_places, resampled, roads, uniform
from stqsh.bench.papers.routing.trials import RoutingScale

_FEW, _MANY = 8, 64
_OBJECTS, _ASKED, _TURNS = 400_000, 40, 3
_KS = (2, 8, 64)

COLUMNS = {
    "map": "map",
    "slots": "slots",
    "k": "k",
    "asked": "slots asked",
    "broadcast_ms": "all slots, ms",
    "near_ms": "near slots, ms",
    "gain": "times all slots",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Find the nearest objects of places both ways."""
    maps: dict[str, Places] = {"uniform": uniform, "roads": roads}
    if scale.places:
        maps["real objects"] = resampled(read_places(scale.places))
    rows: list[Row] = []
    for name, places in maps.items():
        for slots in (_FEW, _MANY):
            if slots <= scale.most_slots:
                say(f"cheetah7b: {name}, {slots} slots")
                rows += _rows(name, places, slots, scale)
    gains = numbers_of(rows, "gain")
    goals = [Goal("all slots over near slots, the worst row", "first", 1.0, min(gains))]
    notes = [
        f"{scale.count(_OBJECTS):,} objects; {scale.count(_ASKED, 4)} places for each row, where objects "
        f"are, the least of {_TURNS} turns. Times are those of all slots that are asked together, of finding "
        "them, and of merging. A slot scans all of its objects. The paper's variant without counts of cells, "
        "which has to search a large circle, is left out: the first slot's answer bounds the circle here."
    ]
    return [FigureResult("cheetah7b", "the nearest objects of a place", COLUMNS, rows, goals, notes)]


def _rows(name: str, places: Places, slots: int, scale: RoutingScale) -> list[Row]:
    drawn = objects_of(places, scale.count(_OBJECTS), 23)
    by_key, by_cell = (routed(drawn, slots, strategy) for strategy in (BY_KEY, BY_CELL))
    centres = places(np.random.default_rng(24), scale.count(_ASKED, 4))
    rows: list[Row] = []
    for k in _KS:
        all_, near = (
            [some.ask(spec, _TURNS) for spec in neighbours(centres, k)] for some in (by_key, by_cell)
        )
        for one, other in zip(all_, near, strict=True):
            check_equal([one.answer, other.answer], f"the {k} nearest, {name}")
        broadcast_ms, near_ms = _mean_ms(all_), _mean_ms(near)
        rows.append(
            {
                "map": name,
                "slots": slots,
                "k": k,
                "asked": float(np.mean([one.slots for one in near])),
                "broadcast_ms": broadcast_ms,
                "near_ms": near_ms,
                "gain": broadcast_ms / near_ms,
                "paper": "first",
            }
        )
    return rows


def _mean_ms(asked: Sequence[Asked]) -> float:
    """Return what a snapshot takes in the mean: its slots, finding them, and merging, ms."""
    return float(np.mean([one.together + one.finding + one.merging for one in asked])) / 1e6
