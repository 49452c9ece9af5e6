"""A slot driven by hand: batches in, updates out as plain tuples."""

from __future__ import annotations

import pyarrow as pa
from support.typed import composed_commands

from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import WHY, Chunk, ChunkOrder, columns_schema, pack, pack_json, unpack, unpack_json

TICK = 1_000_000
SPEC = {
    "id": 1,
    "name": "taxis",
    "columns": [
        ["oid", "STRING"],
        ["x", "DOUBLE"],
        ["y", "DOUBLE"],
        ["ts", "TIMESTAMP"],
        ["status", "STRING"],
        ["n", "BIGINT"],
    ],
    "key": "oid",
    "x": "x",
    "y": "y",
    "time": "ts",
    "planar": True,
    "report_every_us": None,
    "bounds": None,
    "source": {"type": "file", "glob": "none"},
}
UNIT = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 1.0, "y2": 1.0}


def register(id_, region=UNIT, condition=None, for_us=None):
    query = {"id": id_, "kind": "range", "region": region, "condition": condition, "for_us": for_us}
    return {"op": "register", "query": query}


def records(spec, rows):
    """rows: (step, oid, x, y, second) and perhaps the further columns: status, n."""
    columns = columns_schema(spec["columns"])
    names = [name for name, _ in spec["columns"][4:]]
    dicts = [
        {"oid": oid, "x": x, "y": y, "ts": int(s * TICK)} | dict(zip(names, rest, strict=False))
        for _, oid, x, y, s, *rest in rows
    ]
    batch = pa.RecordBatch.from_pylist(dicts, columns)
    hashes = pa.array(hash_keys(batch.column("oid")))
    steps = pa.array([row[0] for row in rows], pa.int64())
    names = [*columns.names, "_step", "_hash"]
    return pack(pa.RecordBatch.from_arrays([*batch.columns, steps, hashes], names=names))


class Slot:
    """One slot with one stream; step n is second n."""

    def __init__(self, **changes):
        self.spec = SPEC | changes
        self.state = SlotState.fresh(0)
        self.defined = False
        self.indexes = {}

    def batch(self, first, last, rows=(), commands=(), *, beside=(), closing=0, **more):
        """beside: (kind, stream, payload) of chunks for other streams, tables and areas."""
        clock = {"first_step": first, "last_step": last, "base_tick": 1, "tick_us": TICK, "closing": closing}
        clock |= {"indexes": self.indexes}
        parts = [("clock", 0, pack_json(clock)), *beside]
        if not self.defined:
            parts.append(("define", 1, pack_json(self.spec)))
            self.defined = True
        if commands:
            parts.append(("commands", 1, pack_json(composed_commands(commands))))
        if rows:
            parts.append(("records", 1, records(self.spec, rows)))
        parts += [(kind, 1, payload) for kind, payload in more.items()]
        chunks = [
            Chunk(0, s, kind, ChunkOrder(number=i), first, last, 1, p) for i, (kind, s, p) in enumerate(parts)
        ]
        return evaluate(self.state, chunks)

    def updates(self, *args, **more):
        return sorted(updates(self.batch(*args, **more)))


def of_kind(chunks, kind):
    return [chunk for chunk in chunks if chunk.kind == kind]


def updates(chunks):
    """(step, query, op, key, why) of each update."""
    out = []
    for chunk, shown in zip(of_kind(chunks, "updates"), of_kind(chunks, "rows"), strict=True):
        keys = unpack(shown.payload).column("oid").to_pylist()
        for u in unpack(chunk.payload).to_pylist():
            sign = "+" if u["op"] > 0 else "-"
            out.append((u["step"], u["query"], sign, keys[u["row"]], WHY[u["why"]]))
    return out


def stats(chunks):
    return unpack_json(of_kind(chunks, "stats")[0].payload)
