"""What it costs to route the records of live streams by space: the dealer, and the copy by key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import thread_time_ns

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say, temporary_folder
from stqsh.bench.harness.one_slot import STREAM, Steps, evaluate_batch
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import squares_around, towns
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import EVENTS, SECOND, load_by, records
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.ingest.dealer import Dealer
from stqsh.routing.strategies import agrid_table
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, Phase, pack, pack_json
from stqsh.spec.clock import DealOrder
from stqsh.spec.command import RegisterCommand
from stqsh.spec.log import StreamRouted
from stqsh.spec.query import Members, SlotQuery
from stqsh.spec.region import RectangleSpec
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import home_blobs
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import open_home
from stqsh.storage.stream_routes import PublishedRoutes, append_route

_SLOTS, _QUERIES, _SIDE = 8, 10_000, 0.01
_DRIFT = 0.005
"""By how much an object moves from one report to the next."""
_A_RECORD, _MORE = 1.2, 1.0
"""What the dealer, and the copy, may cost for each record, as a multiple of what Evaluate spends on it."""

_OBJECTS: StreamSpec = msgspec.structs.replace(EVENTS, kind="moving", keep_us=None)

COLUMNS = {
    "what": "what",
    "ns": "ns a record",
    "share": "of Evaluate's",
    "crossing": "records that cross",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Time Evaluate, the copy and the dealer over the same records, one batch after the other."""
    say("dealing: dealer and copy by key")
    steps = list(_reports(scale.count(200_000), scale.batches + 2))
    plain, copied = (_evaluated(steps, is_copied=on) for on in (False, True))
    objects, crossing = _dealt(_OBJECTS, steps)
    events, _ = _dealt(EVENTS, [_as_events(step, batch) for step, batch in enumerate(steps, 1)])
    rows: list[Row] = [
        {"what": f"Evaluate, {_QUERIES:,} squares", "ns": plain, "share": 1.0},
        {"what": "the copy by key besides", "ns": copied - plain, "share": (copied - plain) / plain},
        {"what": "dealer of objects", "ns": objects, "share": objects / plain, "crossing": crossing},
        {"what": "dealer of events", "ns": events, "share": events / plain},
    ]
    notes = [
        f"One slot of {_SLOTS} each, thread time, the median of {scale.batches} batches. Objects move by "
        f"{_DRIFT} of the area's width between two reports. The copy is without queries of its own."
    ]
    goals = [
        Goal("dealer of objects / Evaluate", "-", _A_RECORD, objects / plain, least=False),
        Goal("dealer of events / Evaluate", "-", _A_RECORD, events / plain, least=False),
        Goal("copy by key / Evaluate", "-", _MORE, (copied - plain) / plain, least=False),
    ]
    return [FigureResult("dealing", "the cost of live streams routed by space", COLUMNS, rows, goals, notes)]


def _reports(count: int, steps: int) -> Iterator[pa.RecordBatch]:
    """Yield the reports of all objects in each step."""
    rng = np.random.default_rng(9)
    places = towns(rng, count)
    hashes = hash_keys(pa.array(np.arange(count)))
    for step in range(1, steps + 1):
        places = np.clip(places + rng.normal(0, _DRIFT, places.shape), 0, 1)
        made = records(step, places).batch
        at = made.schema.get_field_index("id"), made.schema.get_field_index("_hash")
        made = made.set_column(at[0], "id", pa.array(np.arange(count)))
        yield made.set_column(at[1], "_hash", pa.array(hashes))


def _as_events(step: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records with keys that have not been there before."""
    return records(step, _places(batch)).batch


def _places(batch: pa.RecordBatch) -> Floats:
    return np.column_stack([batch.column(axis).to_numpy() for axis in "xy"])


def _evaluated(steps: list[pa.RecordBatch], *, is_copied: bool) -> float:
    """Return the thread time of Evaluate, ns a record."""
    rng = np.random.default_rng(4)
    boxes = squares_around(towns(rng, _QUERIES), _SIDE).tolist()
    commands = [
        RegisterCommand(query=SlotQuery(id=number, kind="range", members=Members(region=RectangleSpec(*box))))
        for number, box in enumerate(boxes, 1)
    ]
    state, spent = SlotState.fresh(0), []
    for step, batch in enumerate(steps, 1):
        parts = [(ChunkKind.RECORDS, pack(batch))]
        if is_copied:
            begins = [(ChunkKind.COPY_BEGIN, pack_json({}))] if step == 1 else []
            parts = [*begins, *parts, (ChunkKind.COPY_RECORDS, pack(batch))]
        begun = thread_time_ns()
        evaluate_batch(state, _OBJECTS, Steps(step, step), commands if step == 1 else (), parts)
        spent.append((thread_time_ns() - begun) / batch.num_rows)
    return float(np.median(spent[2:]))


def _dealt(spec: StreamSpec, steps: list[pa.RecordBatch]) -> tuple[float, float]:
    """Return the thread time of the dealer, ns a record, and the share of the records that cross."""
    with temporary_folder() as folder:
        home = open_home("dealing", root=folder).path
        dealer, route = Dealer(spec, home_blobs(home), _SLOTS), _route(home, steps[0])
        state, spent, crossed = SlotState.fresh(0), [], []
        for step, batch in enumerate(steps, 1):
            order = DealOrder(step, step, 1, SECOND, route)
            parts = [(ChunkKind.DEAL_ORDER, pack_json(order)), (ChunkKind.DEAL_RECORDS, pack(batch))]
            chunks = [
                Chunk(0, STREAM, kind, ChunkOrder(Phase.RECORDS, number=number), step, step, 1, payload)
                for number, (kind, payload) in enumerate(parts)
            ]
            begun = thread_time_ns()
            sent = dealer.apply(state, chunks)
            spent.append((thread_time_ns() - begun) / batch.num_rows)
            crossed.append((sum(chunk.rows for chunk in sent) - batch.num_rows) / 2 / batch.num_rows)
        return float(np.median(spent[2:])), float(np.median(crossed[2:]))


def _route(home: Path, batch: pa.RecordBatch) -> int:
    """Log a routing by the load of a batch, and return its number."""
    places = _places(batch)
    table = agrid_table(load_by(places, squares_around(places[:1000], _SIDE)), _SLOTS)
    control = ControlDb(home, create=True)
    route = append_route(control, StreamRouted(STREAM, strategy=table.strategy), table).seq
    PublishedRoutes(control, home_blobs(home)).publish(route)
    return route
