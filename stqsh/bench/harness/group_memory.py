"""Measure the memory of groups: what a slot and Aggregate hold for each group of each query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import MOVING, SECOND, STREAM, Steps, evaluate_batch
from stqsh.bench.harness.workload import rectangles
from stqsh.core.aggregate import aggregate
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.output.partials import is_partial
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.aggregate import AggregateSpec, GroupColumn, Measure
from stqsh.spec.chunk import ChunkKind, pack
from stqsh.spec.command import RegisterCommand
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import AGGREGATE, Members, Result, SlotQuery, Timing
from stqsh.spec.region import RectangleSpec
from stqsh.spec.stream import ColumnSpec

_TOPICS, _POSTS, _TICKS = 10, 50_000, 20
_TYPES = {"id": "BIGINT", "x": "DOUBLE", "y": "DOUBLE", "ts": "TIMESTAMP", "topic": "STRING", "len": "DOUBLE"}
_EVENTS = replace(
    MOVING,
    kind="event",
    columns=tuple(ColumnSpec(*column) for column in _TYPES.items()),
    key="id",
    keep_us=60 * SECOND,
)
_MEASURES = {"COUNT": (Measure("count"),), "COUNT, SUM": (Measure("sum", ColumnExpr("len"), "DOUBLE"),)}


def measure_memory(count: int) -> list[Row]:
    """Return the bytes of each group of this many squares by topic, refreshed and following every step."""
    return [_memory(count, name, sync_us) for name in _MEASURES for sync_us in (_TICKS * SECOND, None)]


def _memory(count: int, name: str, sync_us: int | None) -> Row:
    spec = AggregateSpec(groups=(GroupColumn(ColumnExpr("topic"), "STRING"),), measures=_MEASURES[name])
    squares = enumerate(rectangles(count).tolist(), 1)
    queries = [
        SlotQuery(
            id=number,
            kind=AGGREGATE.name,
            members=Members(region=RectangleSpec(*box)),
            result=Result(aggregates=spec),
            timing=Timing(sync_us=sync_us),
        )
        for number, box in squares
    ]
    commands: Any = [RegisterCommand(query=query) for query in queries]
    slot, merged = SlotState.fresh(0), SlotState.fresh(0)
    for tick in range(1, _TICKS + 1):
        _, sent = evaluate_batch(slot, _EVENTS, Steps(tick, tick), commands, [_posts(tick)])
        aggregate(merged, [chunk for chunk in sent if is_partial(chunk.kind) or chunk.kind == "define"])
        commands = []
    groups = len(merged.array(f"s{STREAM}/{AGGREGATE.name}/totals/n"))
    how = "every step" if sync_us is None else "refreshed"
    return {
        "what": f"memory: {name}, {how}",
        "queries": count,
        "groups": groups,
        "slot_bytes": _bytes(slot) / groups,
        "row_bytes": _bytes(merged) / groups,
    }


def _bytes(state: SlotState) -> int:
    """Return the bytes of the arrays of aggregate queries, with their spare capacity."""
    return sum(state.buffers[name].nbytes for name in state.names(f"s{STREAM}/{AGGREGATE.name}/"))


def _posts(tick: int) -> tuple[ChunkKind, bytes]:
    draw = np.random.default_rng(tick)
    topics: Any = pa.array([f"topic {number}" for number in range(_TOPICS)])
    about, keys = pa.array(draw.integers(0, _TOPICS, _POSTS)), pa.array(np.arange(_POSTS) + tick * _POSTS)
    times: Any = pa.array(np.full(_POSTS, tick * SECOND, "datetime64[us]")).cast(pa.timestamp("us", tz="UTC"))
    columns: list[Any] = [keys, *(pa.array(draw.random(_POSTS)) for _ in range(2)), times, topics.take(about)]
    columns += [pa.array(draw.integers(1, 2800, _POSTS) / 10), pa.array(np.full(_POSTS, tick))]
    columns.append(pa.array(hash_keys(keys)))
    return ChunkKind.RECORDS, pack(pa.RecordBatch.from_arrays(columns, names=[*_TYPES, "_step", "_hash"]))
