"""A process that holds a slot: what it says of its memory after each stage, and what the kernel says.

`python -m support.memory_growth FOLDER`: a line of JSON a stage. A process of its own, so that nothing but
the slot grows or shrinks in it.

What is right to compare: the arrays lie in files of the arena, in memory, and `arena` is what these take. The
memory that is in no file has a fixed part: the interpreter, kernels, and what a batch needs for as long as it
lasts.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.state.arena import Arena
from stqsh.spec.chunk import Chunk, ChunkOrder, pack, pack_json
from stqsh.spec.stream import StreamSpec
from support.specs import stream_spec
from support.typed import composed_commands

SECOND = 1_000_000
A_BATCH = 20_000
STREAM = stream_spec({
    "id": 1, "name": "s", "kind": "moving", "key": "oid", "x": "x", "y": "y", "time": "ts", "text": None,
    "columns": [
        ["oid", "STRING"], ["x", "DOUBLE"], ["y", "DOUBLE"], ["ts", "TIMESTAMP"], ["speed", "DOUBLE"]
    ],
    "planar": True, "tick_us": SECOND, "report_every_us": 600 * SECOND, "max_speed": 1.0,
    "bounds": [0, 0, 1000, 1000], "order": "time", "retain": "significant", "keep_us": None, "pace": None,
})  # fmt: skip


class Slot:
    """A slot in an arena, as the engine keeps one; its stream has the columns of `STREAM`."""

    def __init__(self, folder: Path, stream: StreamSpec = STREAM) -> None:
        self.folder, self.arena = folder, Arena((folder,), "evaluate-0")
        self.state = SlotState.fresh(0, self.arena)
        self.step, self.stats = 0, {}
        self.batch(define=stream)

    def batch(self, records: pa.RecordBatch | None = None, **more: Any) -> None:
        """Take a batch of one step in."""
        self.step += 1
        clock = {"first_step": self.step, "last_step": self.step, "base_tick": 1, "tick_us": SECOND, "seq": 0}
        contents = [("clock", 0, pack_json(clock))]
        more |= {"commands": composed_commands(more["commands"])} if "commands" in more else {}
        contents += [(kind, 1, pack_json(content)) for kind, content in more.items()]
        contents += [] if records is None else [("records", 1, pack(records))]
        chunks = [
            Chunk(0, stream, kind, ChunkOrder(number=part), self.step, self.step, 0, payload)
            for part, (kind, stream, payload) in enumerate(contents)
        ]
        with self.arena.held():
            self.arena.begin()
            sent = evaluate(self.state, chunks)
            self.state.trim_unused(self.arena.trim)
            self.arena.commit(uuid.uuid4().hex, self.state.header, self.state.buffers)
        [told] = [orjson.loads(chunk.payload) for chunk in sent if chunk.kind == "stats"]
        self.stats = told["memory"].get("1", {})  # of streams that retain what is significant

    def report(self, first: int, count: int = A_BATCH) -> None:
        """Let objects report from anywhere."""
        draw = np.random.default_rng(self.step)
        keys = pa.array([f"object-{number:08d}" for number in range(first, first + count)])
        numbers = [draw.uniform(0, 1000, count), draw.uniform(0, 1000, count), draw.uniform(0, 30, count)]
        step = self.step + 1
        at = pa.array(np.full(count, step * SECOND)).cast(pa.timestamp("us", "UTC"))
        steps = pa.array(np.full(count, step))
        columns = [
            keys,
            *map(pa.array, numbers[:2]),
            at,
            pa.array(numbers[2]),
            steps,
            pa.array(hash_keys(keys)),
        ]
        names = [*(name for name, _ in STREAM.columns), "_step", "_hash"]
        self.batch(pa.RecordBatch.from_arrays(columns, names=names))

    def rest(self) -> None:
        """Let batches pass after which memory is given back, see `trim_unused`."""
        for _ in range(8):
            self.batch()

    def tell(self, stage: str) -> None:
        """Print a line."""
        gc.collect()
        pa.default_memory_pool().release_unused()
        ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps for later is not the slot's
        pss, arena = resident(self.folder)
        told = {name: self.stats.get(name) for name in ("objects", "shadow", "bytes")}
        print(json.dumps({"stage": stage, **told, "pss": pss, "arena": arena}), flush=True)


def resident(folder: Path) -> tuple[int, int]:
    """The bytes of memory of this process and of the files in a folder, and those of the files alone.

    Pages of other files are left out: the share of a library rises when another process that uses it ends.
    """
    lines = Path("/proc/self/smaps").read_text().splitlines()
    anonymous = sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Anonymous:"))
    arena = sum(file.stat().st_blocks * 512 for file in folder.iterdir())
    return anonymous + arena, arena


def region(number: int, width: float) -> dict[str, Any]:
    """A command that registers a query of a width."""
    query = {
        "id": number, "name": f"q{number}", "stream": "s", "stream_id": 1, "text": "", "kind": "range",
        "region": {"type": "rect", "x1": 0, "y1": 0, "x2": width, "y2": 1000}, "condition": None,
        "join": None, "areas": [], "select": [["oid", ["col", "oid"]]], "for_us": None, "options": {},
    }  # fmt: skip
    return {"op": "register", "query": query}


def main(folder: Path, most: int = 20) -> None:
    """Grow, shed, and grow again."""
    slot = Slot(folder)
    slot.batch(commands=[region(10, 1000), region(11, 200)])
    for _ in range(2):
        slot.report(0)
    slot.tell("begun")
    for batch in range(1, most):
        slot.report(batch * A_BATCH)
    slot.tell("grown")
    slot.batch(commands=[{"op": "memory", "factor": 1.0, "k": 2, "cache": 1.0, "area": 1.0}])
    for batch in range(most):
        slot.report(batch * A_BATCH)
    slot.rest()
    slot.tell("shed")
    slot.batch(commands=[{"op": "drop", "id": 10}])
    for batch in range(most):
        slot.report(batch * A_BATCH)
    slot.rest()
    slot.tell("few")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
