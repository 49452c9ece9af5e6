"""Compile every kernel, by evaluating a tiny stream in which everything happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stqsh.core.aggregate import aggregate
from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.events.latest_updates import latest_updates
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.term_table import TermTable
from stqsh.spec.chunk import Chunk, ChunkOrder, columns_schema, pack, pack_json
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec

_TICK = 1_000_000
_COLUMNS = [
    ["x", "DOUBLE"],
    ["y", "DOUBLE"],
    ["ts", "TIMESTAMP"],
    ["s", "STRING"],
    ["n", "BIGINT"],
    ["i", "INT"],
    ["f", "FLOAT"],
    ["b", "BOOLEAN"],
]
_MOVING = StreamSpec(
    id=1,
    name="m",
    columns=tuple(ColumnSpec(name, kind) for name, kind in [["key", "STRING"], *_COLUMNS]),
    key="key",
    x="x",
    y="y",
    time="ts",
    planar=True,
    report_every_us=2 * _TICK,
    source=FileSourceSpec(""),
)
_STREAMS = (
    _MOVING,
    replace(_MOVING, id=2, planar=False, columns=(ColumnSpec("key", "BIGINT"), *_MOVING.columns[1:])),
    replace(_MOVING, id=3, planar=False, kind="event", report_every_us=None, keep_us=2 * _TICK, text="s"),
    replace(_MOVING, id=5, retain="significant", max_speed=0.01),
)
_KEYS = 40
"""Objects per stream: enough for hash tables to grow."""

_TABLE = 4
_DWELLING = 1
"""The number of the query that has DWELL."""

_CHANGING = 4
"""The number of a query that is paused, resumed and dropped: where there is a TEXT, a keyword query."""

_SHEDDING: dict[int, dict[str, Any]] = {2: {"k": 2}, 3: {"k": 99}, 4: {"area": 0.5, "cache": 0.5}, 5: {}}
"""The orders for the memory of the stream of significant objects, by step."""

_RECENT = ["cmp", ">", ["col", "ts"], ["arith", "-", ["now"], ["dur", _TICK]]]
_FREE = ["cmp", "=", ["col", "s"], ["lit", "free", "STRING"]]
_RARE = ["contains", ["col", "s"], "rare", "all"]
_RECT: dict[str, Any] = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 1.0, "y2": 1.0}
_CIRCLE: dict[str, Any] = {"type": "circle", "x": 0.0, "y": 0.0, "radius": 1.0}
_NEAREST: dict[str, Any] = {"type": "nearest", "k": 2, "x": 0.0, "y": 0.0}
_WITH_DISTANCE = ("circle", "moving_circle", "nearest")
_CONDITIONS: list[Any] = [
    None,
    _RECENT,
    _FREE,
    ["contains", ["col", "s"], "free", "all"],
    ["and", ["contains", ["col", "s"], "free bus", "any"], _RECENT],
    ["not", ["isnull", ["join", _TABLE, "n", "n"]]],
    ["or", ["inside", _CIRCLE], ["cmp", "=", ["join", _TABLE, "n", "s"], ["lit", "free", "STRING"]]],
]


def compile_in_two_processes() -> None:
    """Compile all kernels on two cores.

    The other process goes backwards, so that each finds on disk what the other has compiled.
    """
    backwards = "from stqsh.core.kernel_warmup import warm_up; warm_up(backwards=True)"
    with subprocess.Popen([sys.executable, "-c", backwards]):
        warm_up()


def warm_up(*, backwards: bool = False) -> None:
    """Compile all kernels, or load them from numba's cache on disk.

    Args:
        backwards: begin with the last stream.
    """
    for stream in reversed(_STREAMS) if backwards else _STREAMS:
        state, sizes = SlotState.fresh(0), SlotState.fresh(0)
        for step in range(1, 7):
            chunks = [_clock(step), *(_table() if step == 1 else ()), *_stream(stream, step)]
            aggregate(sizes, evaluate(state, chunks))
    _warm_up_rare_paths()


def _warm_up_rare_paths() -> None:
    """Run what needs thousands of keyword records, or a long update log, to be reached."""
    state = SlotState.fresh(0)
    terms = TermTable(state, 1)
    KeywordIndex(state, "s1/range/keywords", terms).rebuild_if_worn(None)
    terms.pack()
    latest_updates(np.zeros(2, np.int64), np.zeros(2, np.int32), np.arange(2), 1)


def _clock(step: int) -> Chunk:
    clock = {"first_step": step, "last_step": step, "base_tick": 1, "tick_us": _TICK}
    return Chunk(0, 0, "clock", ChunkOrder(), step, step, 1, pack_json(clock))


def _table() -> list[Chunk]:
    """Return the chunks of a joined table."""
    columns = [["n", "BIGINT"], ["s", "STRING"]]
    define = pack_json({"id": _TABLE, "name": "t", "columns": columns, "key": "n"})
    rows = pa.RecordBatch.from_pylist([{"n": 1, "s": "free"}], columns_schema(columns))
    return [
        Chunk(0, _TABLE, "table_define", ChunkOrder(), 1, 1, 1, define),
        Chunk(0, _TABLE, "table", ChunkOrder(number=1), 1, 1, 1, pack(rows)),
    ]


def _stream(spec: StreamSpec, step: int) -> Iterator[Chunk]:
    stream, event = spec.id, spec.is_event
    names = [f"key {i}" for i in range(_KEYS)]
    keys = names if spec.columns[0][1] == "STRING" else list(range(_KEYS))
    if step == 1:
        yield Chunk(0, stream, "define", ChunkOrder(), step, step, 1, pack_json(spec))
    commands = {2: _registers(None if event else keys[0])}
    commands |= {n: [{"op": op, "id": _CHANGING}] for n, op in ((3, "pause"), (4, "resume"), (5, "drop"))}
    for n, asked in _SHEDDING.items() if spec.is_significant else ():
        commands[n].append({"op": "memory", "factor": 1.0, "k": 1, "cache": 1.0, "area": 1.0} | asked)
    yield Chunk(0, stream, "ask", ChunkOrder(number=4), step, step, 1, pack_json(_asks(stream)))
    yield Chunk(0, stream, "commands", ChunkOrder(number=1), step, step, 1, pack_json(commands.get(step, [])))
    if step < 4:
        records = pack(_records(spec, keys, step))
        yield Chunk(0, stream, "records", ChunkOrder(number=2), step, step, _KEYS, records)
        if not event:
            yield Chunk(0, stream, "focal", ChunkOrder(number=3), step, step, _KEYS, records)


def _registers(focal: Any) -> list[dict[str, Any]]:
    """Return queries of every kind; those around a focal object if there is one."""
    asked: list[tuple[dict[str, Any], Any]] = [(_RECT, condition) for condition in _CONDITIONS]
    asked += [(region, condition) for region in _static() for condition in (None, _FREE)]
    asked.append((_NEAREST, _RARE))
    if focal is not None:
        asked += [(region, condition) for region in _around(focal) for condition in (None, _FREE)]
    queries = [
        {
            "id": id_,
            "kind": _kind(region),
            "region": region,
            "condition": condition,
            "for_us": None,
            "select": [["d", ["distance"]]] if region["type"] in _WITH_DISTANCE else [],
            "options": {"dwell_us": _TICK} if id_ == _DWELLING else {"min_accuracy": 0.01},
        }
        for id_, (region, condition) in enumerate(asked, start=1)
    ]
    queries[1]["for_us"] = 3 * _TICK
    return [{"op": "register", "query": query} for query in queries]


def _kind(region: dict[str, Any]) -> str:
    return "nearest" if region["type"] == "nearest" else "range"


def _static() -> list[dict[str, Any]]:
    """Return static regions, except rectangles."""
    return [_CIRCLE, {"type": "polygon", "rings": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}, _NEAREST]


def _around(focal: Any) -> list[dict[str, Any]]:
    """Return regions that move with an object."""
    return [
        {"type": "moving_rect", "focal": focal, "xdist": 1.0, "ydist": 1.0},
        {"type": "moving_circle", "focal": focal, "radius": 1.0},
        {"type": "nearest", "focal": focal, "k": 2},
    ]


def _asks(stream: int) -> list[dict[str, Any]]:
    """Return snapshots, which need scans."""
    asked = [(_RECT, None), (_RECT, "count"), (_CIRCLE, None), (_NEAREST, None)]
    specs: list[dict[str, Any]] = [
        {"stream_id": stream, "condition": None, "select": [], "lookup": None, "order": [], "limit": None}
        | {"kind": _kind(region), "region": region, "aggregate": aggregate}
        for region, aggregate in asked
    ]
    return [{"ask": number, "spec": spec} for number, spec in enumerate(specs)]


def _records(spec: StreamSpec, keys: list[Any], step: int) -> pa.RecordBatch:
    schema = columns_schema(spec.columns)
    row = {"s": "free", "n": 1, "i": 1, "f": 0.5, "b": True, "ts": step * _TICK}
    rows = [row | {"key": key, "x": 0.1 * i * step, "y": 0.2} for i, key in enumerate(keys)]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    steps: Any = pa.array([step] * len(rows), pa.int64())
    hashes: Any = pa.array(hash_keys(batch.column("key")))
    columns = [*batch.columns, steps, hashes]
    return pa.RecordBatch.from_arrays(columns, names=[*schema.names, "_step", "_hash"])
