"""Plays the engine of a session for tests of live views: writes an update log at a pace, and nothing else.

    PYTHONPATH=tests python -m shell.played ROOT SESSION UPDATES_A_SECOND [STEPS]

Queries `busy` and `calm` are registered before the first batch. Each batch of `busy` takes back what the
batch before it brought (half of the updates) and brings as much anew, so that the answer is always the last
batch's; `calm` gets a row with each tenth batch. It ends when it is told to (TERM), or its parent has gone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from support.session_fixtures import STREAM
from support.specs import stream_spec
from support.typed import query_spec
from support.update_logs import BASE_TICK, TICK_US, clock

from stqsh.spec.chunk import UPDATES, Chunk, ChunkOrder, pack, to_table
from stqsh.storage import catalogue_writer
from stqsh.storage.catalogue import find_stream, live_queries
from stqsh.storage.control_log import ControlDb, last_seq, wall_clock_us
from stqsh.storage.engine_info import EngineInfo, write_engine
from stqsh.storage.home import SessionHome, open_home
from stqsh.storage.progress import BatchEffects, read_progress, record_batch
from stqsh.storage.rows import Progress
from stqsh.storage.update_log.writer import write_batch

ROWS = pa.schema([("oid", pa.string()), ("lon", pa.float64()), ("lat", pa.float64())])
BATCHES_A_SECOND = 4


def prepare(root: Path, name: str) -> tuple[SessionHome, ControlDb]:
    """A session with the stream `taxis` and the queries `busy` and `calm`."""
    home = open_home(name, root=root)
    db = ControlDb(home.path, create=True)
    if find_stream(db, "taxis") is None:
        stream = catalogue_writer.create_stream(db, "CREATE MOVING STREAM taxis …;", stream_spec(STREAM))
        for query in ("busy", "calm"):
            spec = {
                "name": query,
                "stream": "taxis",
                "stream_id": stream.id,
                "kind": "range",
                "select": [[column, ["col", column]] for column in ROWS.names],
                "for_us": None,
                "text": "SELECT oid, lon, lat FROM taxis INSIDE (0, 0, 1, 1)",
            }
            catalogue_writer.register(
                db, catalogue_writer.Registered(f"REGISTER QUERY {query} AS …;", query_spec(spec))
            )
    return home, db


def chunks_of(step: int, ids: tuple[int, int], stream: int, half: int) -> list[Chunk]:
    """The update log's chunks of a batch of one step."""
    came = [f"taxi-{number:07d}" for number in range(half * (step - 1), half * step)]
    gone = (
        [f"taxi-{number:07d}" for number in range(half * (step - 2), half * (step - 1))] if step > 1 else []
    )
    calm = [f"calm-{step:05d}"] if step % 10 == 1 else []
    keys = [*gone, *came, *calm]
    count = len(keys)
    lon = np.round(116 + np.arange(count) / max(1, count), 5)
    rows = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(lon), pa.array(lon - 77)], schema=ROWS)
    ops = np.repeat([-1, 1], [len(gone), count - len(gone)]).astype(np.int8)
    queries = np.repeat(ids, [len(gone) + len(came), len(calm)])
    columns = [np.full(count, step), queries, ops, (ops < 0).astype(np.int8), np.arange(count)]
    table = [pa.array(column, field.type) for column, field in zip(columns, UPDATES, strict=True)]
    updates = pa.RecordBatch.from_arrays(table, schema=UPDATES)
    return [
        Chunk(0, stream, "rows", ChunkOrder(number=1), step, step, count, pack(rows)),
        Chunk(0, stream, "updates", ChunkOrder(number=1), step, step, count, pack(updates)),
    ]


def deliver(home: SessionHome, db: ControlDb, step: int, a_second: int) -> None:
    """Write the batch of a step, and the progress that goes with it."""
    stream = find_stream(db, "taxis")
    assert stream is not None
    ids = {query.name: query.id for query in live_queries(db)}
    half = a_second // (2 * BATCHES_A_SECOND)
    chunks = [clock(step, step), *chunks_of(step, (ids["busy"], ids["calm"]), stream.id, half)]
    logged = write_batch(home.updates, step - 1, to_table(chunks))
    slots = [
        {"slot": slot, "records": half * (slot + 1), "updates": half, "objects": 10 * half, "queries": 2}
        for slot in range(2)
    ]
    stats = {"playing": True, "records_per_s": 3.0 * a_second, "lag_s": 0.2, "slots": slots}
    progress = Progress(step - 1, step, BASE_TICK, TICK_US, last_seq(db), 0, False, wall_clock_us(), stats)
    grown = {ids["busy"]: half * (step == 1), ids["calm"]: int(step % 10 == 1)}
    queries, deltas = (np.array(some) for some in zip(*sorted(grown.items()), strict=True))
    record_batch(db, progress, BatchEffects(grown=(queries, deltas), logged=logged))


def play(root: Path, name: str, a_second: int, steps: int) -> None:
    """Write batches at their times, `steps` of them where that is not 0; then only live on."""
    home, db = prepare(root, name)
    parent = os.getppid()
    began, before = time.monotonic(), read_progress(db).step
    step = before
    while os.getppid() == parent:
        write_engine(home, EngineInfo.now(os.getpid(), "ready"))
        if not steps or step < steps:
            step += 1
            deliver(home, db, step, a_second)
        time.sleep(max(0.05, began + (step - before) / BATCHES_A_SECOND - time.monotonic()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    root_, name_, a_second_, *steps_ = sys.argv[1:]
    play(Path(root_), name_, int(a_second_), int(steps_[0]) if steps_ else 0)
