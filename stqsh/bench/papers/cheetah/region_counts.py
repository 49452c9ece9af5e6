"""CheetahGIS, Fig. 7: counts of objects in a region, with and without slots that are passed over.

All slots are asked, or those whose cells the region touches, or those among them that have objects there.
What a count costs is the thread time of all slots that are asked, and of finding which these are.
"""

from __future__ import annotations

from time import thread_time_ns
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Floats
from stqsh.bench.figures import Row, numbers_of
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.driven_slots import DrivenSlots
from stqsh.bench.papers.routing.maps import FOUR_MAPS, Places, read_places, resampled, roads, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import EVENTS, Records, load_by, range_queries, records
from stqsh.client.read.asked_slots import slots_holding
from stqsh.core.snapshots.select import part
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable
from stqsh.spec.query import Members, SnapshotSpec
from stqsh.spec.region import RectangleSpec

_FEW, _MANY = 8, 64
_OBJECTS, _ASKED, _TURNS = 400_000, 20, 3
_AREAS = (0.0001, 0.01, 0.1)
_SMALL, _WANTED, _LEAST = 0.01, 1.9, 1.0
_PAPER_SMALL = "up to 1.2, 1.9"
_ROADS, _REAL = "roads", "real objects"
_BY_KEY, _BY_CELL = "object", "grid"

COLUMNS = {
    "map": "map",
    "where": "regions",
    "slots": "slots",
    "area": "area of a region",
    "touched": "slots touched",
    "held": "slots with objects",
    "broadcast_ms": "all slots, ms",
    "touched_ms": "without counts, ms",
    "held_ms": "with counts, ms",
    "gain_without": "times all slots, without",
    "gain": "with",
    "paper": "paper",
}


class _Counted(NamedTuple):
    """What a count took.

    Attributes:
        asked: how many slots were asked.
        spent: the thread time of these and of finding them, ms.
        found: the count.
    """

    asked: int
    spent: float
    found: int


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Count objects in regions under each way of asking."""
    maps = {**FOUR_MAPS, _ROADS: roads}
    if scale.places:
        maps[_REAL] = resampled(read_places(scale.places))
    rows: list[Row] = []
    for name, places in maps.items():
        for slots in (_FEW, _MANY) if name in (_ROADS, _REAL) else (_FEW,):
            if slots <= scale.most_slots:
                say(f"cheetah7: {name}, {slots} slots")
                rows += _rows(name, places, slots, scale)
    notes = [
        f"{scale.count(_OBJECTS):,} objects; {_asked(scale)} squares for each row, around objects or "
        f"anywhere, the least of {_TURNS} turns each. All slots: objects are dealt by key, and each slot is "
        "asked, as in the paper's QueryBroadcast. The others: a grid. Times are those of all slots that are "
        "asked together, and of finding them. Roads: objects on 60 streets. A slot scans all of its objects, "
        "where the paper's processors look at those of some cells. Real objects: with --places."
    ]
    title = "counts of objects in a region"
    return [FigureResult("cheetah7", title, COLUMNS, rows, _goals(rows), notes)]


def _rows(name: str, places: Places, slots: int, scale: RoutingScale) -> list[Row]:
    rng, asked = np.random.default_rng(23), _asked(scale)
    drawn = records(1, places(rng, scale.count(_OBJECTS)))
    load = load_by(drawn.places, np.empty((0, 4)))
    tables = {strategy: STRATEGIES[strategy](load, slots) for strategy in (_BY_KEY, _BY_CELL)}
    states = {strategy: _states(table, drawn, rng) for strategy, table in tables.items()}
    rows: list[Row] = []
    for where, centres in (("around objects", places(rng, asked)), ("anywhere", rng.random((asked, 2)))):
        for area in _AREAS:
            boxes = squares_around(centres, area**0.5)
            counted = [_counted(states, tables, box) for box in boxes]
            ways = [*zip(*counted, strict=True)]
            if len({tuple(one.found for one in way) for way in ways}) > 1:
                raise ValueError(f"{name}: counts differ")
            broadcast, touched, held = (float(np.mean([one.spent for one in way])) for way in ways)
            rows.append(
                {
                    "map": name,
                    "where": where,
                    "slots": slots,
                    "area": f"{area:.2%}",
                    "touched": float(np.mean([one.asked for one in ways[1]])),
                    "held": float(np.mean([one.asked for one in ways[2]])),
                    "broadcast_ms": broadcast,
                    "touched_ms": touched,
                    "held_ms": held,
                    "gain_without": broadcast / touched,
                    "gain": broadcast / held,
                    "paper": _PAPER_SMALL if area <= _SMALL else "falls",
                }
            )
    return rows


def _asked(scale: RoutingScale) -> int:
    """Return how many regions a row has."""
    return max(4, int(_ASKED * scale.share**0.5))


def _states(table: RoutingTable, drawn: Records, rng: np.random.Generator) -> list[SlotState]:
    """Return slots that have the objects."""
    nowhere = np.full((1, 4), 2.0)
    driven = DrivenSlots(table, EVENTS, range_queries(nowhere), nowhere)
    driven.take(drawn, rng)
    return driven.states


def _counted(
    states: dict[str, list[SlotState]], tables: dict[str, RoutingTable], box: Floats
) -> tuple[_Counted, _Counted, _Counted]:
    """Count the objects in a box in turns: on all slots, those that it touches, and those with objects."""
    turns = [
        (
            _count(states[_BY_KEY], None, box, by_counts=False),
            _count(states[_BY_CELL], tables[_BY_CELL], box, by_counts=False),
            _count(states[_BY_CELL], tables[_BY_CELL], box, by_counts=True),
        )
        for _ in range(_TURNS)
    ]
    all_slots, touched, held = (min(way, key=lambda one: one.spent) for way in zip(*turns, strict=True))
    return all_slots, touched, held


def _count(states: list[SlotState], table: RoutingTable | None, box: Floats, *, by_counts: bool) -> _Counted:
    """Count the objects in a box on slots, or on those that it touches, perhaps by their counts."""
    region = RectangleSpec(*box.tolist())
    spec = SnapshotSpec(stream_id=EVENTS.id, kind="range", members=Members(region=region), aggregate="count")
    begun = thread_time_ns()
    chosen = np.ones(len(states), np.bool_) if table is None else table.slots_touching(box[None])[0]
    if by_counts:
        chosen = slots_holding(states, EVENTS.id, region.box, chosen)
    shares = [part(states[slot], spec) for slot in np.flatnonzero(chosen).tolist()]
    spent = (thread_time_ns() - begun) / 1e6
    found = sum(share.column("count")[0].as_py() for share in shares if share is not None)
    return _Counted(len(shares), spent, found)


def _goals(rows: list[Row]) -> list[Goal]:
    """Return goals for small regions of real objects, and for all others."""
    small = [row for row in rows if (row.get("map"), row.get("paper")) == (_REAL, _PAPER_SMALL)]
    others = numbers_of([row for row in rows if row not in small], "gain")
    goals = [
        Goal(
            "all slots over those with objects, all other rows, the worst",
            "up to 1.9",
            _LEAST,
            min(others),
        )
    ]
    if small:
        what = f"the same, real objects, up to {_SMALL:.0%} of the area, the worst row"
        goals.append(Goal(what, "up to 1.9", _WANTED, min(numbers_of(small, "gain"))))
    return goals
