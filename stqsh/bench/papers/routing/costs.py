"""What the cost model counts: c1, c2 and c3 of STAR (section 6), upkeep, counts of cells, and neighbours.

The constants of `stqsh.routing.load` come from here. Counts of cells are what CheetahGIS's synchroniser sends
late (section V-C). For neighbours, one slot offers only the k nearest of all; with more slots each offers its
own k nearest, of which SSTD's workers would leave out those beyond the k-th of all (section 6.3).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from time import thread_time_ns
from typing import Any
from unittest import mock

import numpy as np
from msgspec.structs import replace

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.driven_slots import DrivenSlots
from stqsh.bench.papers.routing.maps import squares_around
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import EVENTS, RANGE_QUERY, SECOND, load_by, queries_like, records
from stqsh.core import stream_batch
from stqsh.core.contract.snapshot_selection import PresentObjects
from stqsh.core.objects.presence import count_presence
from stqsh.core.snapshots.cache.time_slots import TimeSlots
from stqsh.core.snapshots.select import part
from stqsh.lang.binder.bind import bind
from stqsh.lang.catalogue import Catalogue
from stqsh.lang.syntax.parse import parse
from stqsh.routing.load import PAIR, READ, UPKEEP
from stqsh.routing.table import RoutingTable
from stqsh.spec.query import Members, SlotQuery
from stqsh.spec.region import NearestSpec
from stqsh.spec.stream import StreamSpec

_RECORDS, _QUERIES, _SIDE, _KS, _SLOTS = 20_000, 4_000, 0.02, (1, 10), (1, 2, 8)
_KEPT = (1, 20)
_CORNER = np.zeros((1, 4))
"""The box of a query without records."""
_WARM, _TURNS, _STORED = 3, 7, 100_000

COLUMNS = {"what": "what", "ns": "ns", "records": "of a record", "model": "in the model", "paper": "paper"}
NEIGHBOURS = {
    "kept": "kept for s",
    "k": "k",
    "slots": "slots",
    "us": "µs a record, all slots and merging",
    "merging": "of it merging",
    "queries": "of it for neighbours",
    "saved": "at most saved",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure the constants."""
    say("costs: records, pairs and reads")
    count = scale.count(_RECORDS)
    more = squares_around(np.random.default_rng(1).random((4 * scale.count(_QUERIES), 2)), _SIDE)
    boxes = more[::4]
    counting = _Timed(count_presence)
    with mock.patch.object(stream_batch, "count_presence", counting):
        plain, _ = _a_batch(EVENTS, count, 1, RANGE_QUERY, _CORNER)
    drawn = np.random.default_rng(2).random((count, 2))
    few, many = (
        (_a_batch(EVENTS, count, 1, RANGE_QUERY, some)[0], _pairs(drawn, some)) for some in (boxes, more)
    )
    pair = (many[0] - few[0]) / (many[1] - few[1])
    record = few[0] - pair * few[1]
    read, sort = _snapshots(scale.count(_STORED, 40_000))
    each = {
        "a record without queries": (plain, None, ""),
        "c1, a record, with the search for queries": (record, 1.0, "c1"),
        "c2, a record and a query over its cell": (pair, PAIR, "c2"),
        "c3, a record that a snapshot reads": (read, READ, "c3"),
        "upkeep, a record that a client sorts": (sort, UPKEEP, "views, caches"),
        "counting the cells of records": (counting.median / count, None, "synchroniser"),
    }
    rows: list[Row] = [
        {"what": what, "ns": ns, "records": ns / record, "model": model, "paper": paper}
        for what, (ns, model, paper) in each.items()
    ]
    ratios = [ns / record / model for ns, model, _ in each.values() if model]
    apart = max(max(ratio, 1 / ratio) for ratio in ratios if ratio > 0)
    goals = [Goal("a constant as measured and in the model: farthest apart", "-", 2, apart, least=False)]
    notes = [f"{count:,} records a batch, {len(boxes):,} and {len(more):,} queries of {_SIDE:.0%} side."]
    return [
        FigureResult("costs", "what a record, a pair, a read and upkeep take", COLUMNS, rows, goals, notes)
    ]


class _Timed:
    """A function of which each call's thread time is kept."""

    def __init__(self, work: Callable[..., None]) -> None:
        self._work, self._taken = work, list[int]()

    def __call__(self, *given: Any) -> None:
        begun = thread_time_ns()
        self._work(*given)
        self._taken.append(thread_time_ns() - begun)

    @property
    def median(self) -> float:
        """The mean time of two calls in a row, as every other one counts all objects, ns."""
        later = np.array(self._taken[_WARM:], np.float64)
        return float(np.median((later[1:] + later[:-1]) / 2))


def _pairs(places: Floats, boxes: Floats) -> float:
    """Return how many queries are over the cell of a record."""
    load = load_by(places, boxes)
    return float((load.records * load.queries).sum()) / len(places)


def _a_batch(
    stream: StreamSpec, count: int, slots: int, pattern: SlotQuery, boxes: Floats
) -> tuple[float, float]:
    """Return the thread time of a record on all slots together, and that of merging, ns; medians."""
    rng = np.random.default_rng(3)
    assert stream.keep_us is not None, "its events expire"
    warm = _WARM + stream.keep_us // SECOND
    driven = DrivenSlots(RoutingTable.by_object(slots), stream, queries_like(pattern, boxes), boxes)
    spent = [
        int(driven.take(records(step, rng.random((count, 2))), rng).sum()) for step in range(1, warm + _TURNS)
    ]
    merging = float(np.median(driven.merging[warm:]))
    return float(np.median(spent[warm:])) / count, merging / count


def _snapshots(stored: int) -> tuple[float, float]:
    """Return what reading a record for a snapshot takes, and sorting it into a time slot, ns."""
    driven = DrivenSlots(RoutingTable.by_object(1), EVENTS, queries_like(RANGE_QUERY, _CORNER), _CORNER)
    driven.take(records(1, np.random.default_rng(4).random((stored, 2))), np.random.default_rng(5))
    [state] = driven.states
    [statement] = parse("SELECT COUNT(*) FROM events INSIDE (0.2, 0.2, 0.6, 0.7)")
    spec = bind(statement, Catalogue({EVENTS.name: EVENTS})).spec
    present = PresentObjects.of(state, EVENTS.id)
    assert present is not None, "the slot has the stream"
    read = _least(lambda: part(state, spec))
    return read / stored, _least(lambda: TimeSlots.over(present.stored)) / stored


def _least(work: Callable[[], object]) -> float:
    """Return the least thread time of some turns, ns."""
    taken = []
    for _ in range(_TURNS):
        begun = thread_time_ns()
        work()
        taken.append(thread_time_ns() - begun)
    return float(min(taken[1:]))


def pruning(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Compare slots that offer their own k nearest with one slot, which offers only those of all."""
    rows, alone = list[Row](), 0.0
    places = squares_around(np.random.default_rng(6).random((scale.count(500), 2)), _SIDE)
    for kept, k, slots in product(scale.some(_KEPT), scale.some(_KS), _SLOTS):
        say(f"pruning: {k} neighbours, {slots} slots")
        pattern = SlotQuery(kind="nearest", members=Members(region=NearestSpec(k, 0.0, 0.0)))
        stream = replace(EVENTS, keep_us=kept * SECOND)
        count = scale.count(_RECORDS // (1 if kept == _KEPT[0] else 4))
        without = sum(_a_batch(stream, count, slots, RANGE_QUERY, _CORNER))
        spent, merging = _a_batch(stream, count, slots, pattern, places)
        extra = spent + merging - without
        alone = extra if slots == _SLOTS[0] else alone
        rows.append(
            {
                "kept": kept,
                "k": k,
                "slots": slots,
                "us": (spent + merging) / 1000,
                "merging": merging / (spent + merging),
                "queries": extra / (spent + merging),
                "saved": (extra - alone) / (spent + merging),
            }
        )
    notes = [
        f"{scale.count(_RECORDS):,} records a batch, a quarter if kept for longer; {len(places):,} queries, "
        "by object. What an empty query takes on as many slots is not saved."
    ]
    most = max(float(str(row["saved"])) for row in rows)
    goals = [Goal("pruning by the k-th of all: the most that it could save", "-", 0.1, most, least=False)]
    return [FigureResult("pruning", "what pruning of neighbours could save", NEIGHBOURS, rows, goals, notes)]
