"""Makes the chunks that Evaluate would, from updates written down as tuples."""

import pyarrow as pa

from stqsh.spec.chunk import UPDATES, Chunk, ChunkOrder, pack, pack_json, to_table
from stqsh.storage.control_log import ControlDb
from stqsh.storage.update_log.files import LoggedFile, list_file
from stqsh.storage.update_log.writer import write_batch

BASE_TICK, TICK_US = 1000, 1_000_000
SCHEMA = pa.schema([("oid", pa.string()), ("lon", pa.float64())])


def clock(first, last):
    value = {
        "first_step": first,
        "last_step": last,
        "base_tick": BASE_TICK,
        "tick_us": TICK_US,
        "batch_seq": 0,
    }
    return Chunk(0, 0, "clock", ChunkOrder(), first, last, 0, pack_json(value))


def part(updates, *, slot=0, stream=1, number=1, schema=SCHEMA):
    """The chunks "rows" and "updates" of (step, query, op, why, row) tuples; row = column values."""
    rows = pa.RecordBatch.from_arrays(
        [pa.array([update[4][i] for update in updates], field.type) for i, field in enumerate(schema)],
        schema=schema,
    )
    columns = [[update[i] for update in updates] for i in range(4)] + [list(range(len(updates)))]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, UPDATES, strict=True)], schema=UPDATES
    )
    steps = [update[0] for update in updates]
    place = (min(steps), max(steps), len(updates))
    return [
        Chunk(slot, stream, "rows", ChunkOrder(number=number), *place, pack(rows)),
        Chunk(slot, stream, "updates", ChunkOrder(number=number), *place, pack(batch)),
    ]


def batch_table(first, last, *parts):
    stats = Chunk(0, 0, "stats", ChunkOrder(number=9), first, last, 0, pack_json({"slot": 0}))
    return to_table([clock(first, last), stats, *(chunk for chunks in parts for chunk in chunks)])


def log_batch(control: ControlDb, batch: int, chunks: pa.Table) -> LoggedFile | None:
    """Write a batch's file of the update log and list it, as Deliver does; None if there are no updates."""
    logged = write_batch(control.path.parent / "updates", batch, chunks)
    if logged is not None:
        list_file(control, logged)
    return logged
