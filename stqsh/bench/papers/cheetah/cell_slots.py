"""CheetahGIS, Fig. 12a: many cells to a slot against a slot for each cell, for counts of objects in a region.

With many cells to a slot, a count goes once to each slot that it touches. With one, it goes to each cell.
Both ways slots answer chunks with questions, as those of snapshots that come through the control log.
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
from stqsh.bench.papers.routing.maps import squares_around, towns
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import EVENTS, SECOND, Records, load_by, range_queries, records
from stqsh.core.contract.batch import SlotBatch
from stqsh.core.snapshots.select import whole
from stqsh.core.state.slot_state import SlotState
from stqsh.core.stream_batch import answers
from stqsh.routing.strategies import grid_table
from stqsh.routing.table import RoutingTable
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, pack_json, unpack
from stqsh.spec.clock import BatchClock
from stqsh.spec.query import AskSpec, Members, SnapshotSpec
from stqsh.spec.region import RectangleSpec

_SLOTS, _OBJECTS, _ASKED, _TURNS = 8, 200_000, 8, 3
_AREAS = (0.0064, 0.0256, 0.1024, 0.205)
_WANTED = 2.0

COLUMNS = {
    "area": "area of a region",
    "chunks": "slots asked",
    "slots_ms": "many-to-one, ms",
    "cells": "cells asked",
    "cells_ms": "one-to-one, ms",
    "chunk_us": "a chunk of a cell, µs",
    "slot_us": "a chunk of a slot, µs",
    "gain": "times one-to-one",
    "paper": "paper",
}


class _Taken(NamedTuple):
    """What counts took: the chunks and the thread time of each, and what they found."""

    chunks: float
    spent: float
    found: list[int]


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Count objects in regions with both ways to deal cells."""
    rng = np.random.default_rng(31)
    count = scale.count(_OBJECTS)
    driven = _driven(records(1, towns(rng, count)), scale, rng)
    say(f"cheetah12a: {count:,} objects, on {_SLOTS} slots and on {scale.cells**2:,}")
    rows: list[Row] = []
    for area in _AREAS:
        say(f"cheetah12a: regions of {area:.2%}")
        boxes = squares_around(towns(rng, _ASKED), area**0.5)
        many, one = (_taken(slots.states, slots.table, boxes) for slots in driven)
        if many.found != one.found:
            raise ValueError(f"counts differ: {many.found} and {one.found}")
        rows.append(
            {
                "area": f"{area:.2%}",
                "chunks": many.chunks,
                "slots_ms": many.spent,
                "cells": one.chunks,
                "cells_ms": one.spent,
                "chunk_us": 1000 * one.spent / one.chunks,
                "slot_us": 1000 * many.spent / many.chunks,
                "gain": one.spent / many.spent,
                "paper": "> 1, grows",
            }
        )
    gains = numbers_of(rows, "gain")
    goals = [
        Goal(f"one-to-one over many-to-one, {_AREAS[0]:.2%} of the area", "> 1", _WANTED, gains[0]),
        Goal(
            f"the same at {_AREAS[-1]:.1%} over that at {_AREAS[0]:.2%}", "grows", 1.0, gains[-1] / gains[0]
        ),
    ]
    notes = [
        f"{count:,} objects in towns; {_SLOTS} slots with runs of {scale.cells} x {scale.cells} cells, or a "
        f"slot for each cell, with its objects alone. {_ASKED} squares around objects for each row, the "
        f"least of {_TURNS} turns. Times are those of reading a question, counting, and packing the share, "
        "for all chunks of a count, and of putting shares together. What a batch takes a slot besides is "
        "left out, which would come on top for each cell."
    ]
    title = "many cells to a slot, or one"
    return [FigureResult("cheetah12a", title, COLUMNS, rows, goals, notes)]


def _driven(drawn: Records, scale: RoutingScale, rng: np.random.Generator) -> list[DrivenSlots]:
    """Return slots that have the objects: few with many cells each, and one for each cell."""
    load = load_by(drawn.places, np.empty((0, 4)), scale.cells)
    leaf = np.arange(scale.cells**2, dtype=np.int32).reshape(scale.cells, scale.cells)
    by_cell = RoutingTable("grid", load.cells, leaf, leaf.ravel().astype(np.int16), leaf.size)
    nowhere = np.full((1, 4), 2.0)
    driven = [
        DrivenSlots(table, EVENTS, range_queries(nowhere), nowhere)
        for table in (grid_table(load, _SLOTS), by_cell)
    ]
    for slots in driven:
        slots.take(drawn, rng)
    return driven


def _taken(states: list[SlotState], table: RoutingTable, boxes: Floats) -> _Taken:
    """Count the objects in each box."""
    batches = [_stepless(state) for state in states]
    counts = [_count(batches, table, box) for box in boxes]
    chunks, spent, found = zip(*counts, strict=True)
    return _Taken(float(np.mean(chunks)), float(np.mean(spent)), [one for each in found for one in each])


def _count(batches: list[SlotBatch], table: RoutingTable, box: Floats) -> _Taken:
    """Ask each slot that a box touches, by a chunk of its own, and add up what they say."""
    region = RectangleSpec(*box.tolist())
    spec = SnapshotSpec(stream_id=EVENTS.id, kind="range", members=Members(region=region), aggregate="count")
    question = pack_json([AskSpec(ask=1, spec=spec)])
    touched = np.flatnonzero(table.slots_touching(box[None])[0]).tolist()
    spent = np.zeros((_TURNS, len(touched) + 1), np.int64)
    found = 0
    for turn in range(_TURNS):
        shares = []
        for at, slot in enumerate(touched):
            asked = [_chunk(slot, ChunkKind.ASK, question)]
            begun = thread_time_ns()
            shares += [unpack(chunk.payload) for chunk in answers(batches[slot], EVENTS, asked)]
            spent[turn, at] = thread_time_ns() - begun
        begun = thread_time_ns()
        found = int(whole(shares, spec).column(0)[0].as_py())
        spent[turn, -1] = thread_time_ns() - begun
    return _Taken(len(touched), float(spent.min(axis=0).sum()) / 1e6, [found])


def _stepless(state: SlotState) -> SlotBatch:
    """Return a batch of a slot without steps."""
    step = state.clock.step
    return SlotBatch.of(
        state, [_chunk(state.slot, ChunkKind.CLOCK, pack_json(BatchClock(step + 1, step, 1, SECOND)))]
    )


def _chunk(slot: int, kind: ChunkKind, payload: bytes) -> Chunk:
    return Chunk(slot, EVENTS.id, kind, ChunkOrder(), 2, 1, 1, payload)
