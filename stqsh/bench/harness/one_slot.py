"""One slot of the core, driven in this process: made-up objects that report, and what a batch costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.bench.harness.workload import Motion
from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import Chunk, ChunkOrder, pack, pack_json, unpack_json
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec

Array = npt.NDArray[Any]
Spec = dict[str, Any]

STREAM, SECOND = 1, 1_000_000
_PARTS = ("decode", "kernel", "state")

_TYPES = {"oid": "STRING", "x": "DOUBLE", "y": "DOUBLE", "ts": "TIMESTAMP"}
MOVING = StreamSpec(
    id=STREAM,
    name="m",
    columns=tuple(ColumnSpec(*column) for column in _TYPES.items()),
    key="oid",
    x="x",
    y="y",
    time="ts",
    planar=True,
    bounds=(0.0, 0.0, 1.0, 1.0),
    source=FileSourceSpec(""),
)
"""The spec of the stream of `stqsh.bench.harness.workload.CREATE`."""


@dataclass(frozen=True)
class BatchCost:
    """What a batch came to: records, updates, and µs of processor time a record: all, and the parts of it."""

    records: int
    updates: int
    total: float
    parts: dict[str, float]


@dataclass
class OneSlot:
    """A slot with a stream of objects, all of which have reported once.

    motion: who reports when and where. spec: of the stream, its first columns those of `MOVING`. texts: what
    posts say, for a stream with one more column, drawn from again and again.
    """

    motion: Motion
    spec: StreamSpec = MOVING
    texts: pa.Array[Any] | None = None
    state: SlotState = field(default_factory=lambda: SlotState.fresh(0))
    step: int = 0

    def __post_init__(self) -> None:
        self._names = pa.array([f"o{number}" for number in range(self.motion.objects)])
        self._hashes = hash_keys(self._names)
        self._reports = self.motion.reports()
        self._places = np.full((self.motion.objects, 2), np.nan)
        self._focal = np.zeros(self.motion.objects, np.bool_)
        self.run(-(-self.motion.objects // self.motion.per_tick))

    def register(self, regions: Sequence[Spec], conditions: Sequence[Any] | None = None) -> float:
        """Register a query for each region, with its condition; s of processor time."""
        asked = zip(regions, conditions or [None] * len(regions), strict=True)
        commands = [_command(number, *what) for number, what in enumerate(asked, 1)]
        focal = [command["query"]["region"]["focal"] for command in commands if "focal" in _region(command)]
        self._focal[[int(name[1:]) for name in focal]] = True
        seeds = np.flatnonzero(self._focal)
        parts = [("commands", pack_json(commands))]
        if len(seeds):
            parts.append(("focal", pack(self._batch(seeds, self._places[seeds], self.step))))
        begun = process_time()
        self._evaluate(self.step + 1, self.step + 1, parts)
        return process_time() - begun

    def run(self, ticks: int) -> BatchCost:
        """Process the reports of some ticks as one batch."""
        first, last = self.step + 1, self.step + ticks
        parts = [part for step in range(first, last + 1) for part in self._records(step)]
        begun = process_time()
        stats = self._evaluate(first, last, parts)
        micros = (process_time() - begun) * 1e6 / max(1, stats["records"])
        shares = {part: stats[f"{part}_us"] / max(1, stats["total_us"]) for part in _PARTS}
        parts_of = {part: share * micros for part, share in shares.items()}
        return BatchCost(stats["records"], stats["updates"], micros, parts_of)

    def _records(self, step: int) -> Iterator[tuple[str, bytes]]:
        who, at = next(self._reports)
        self._places[who] = at
        yield "records", pack(self._batch(who, at, step))
        followed = self._focal[who]
        if followed.any():
            yield "focal", pack(self._batch(who[followed], at[followed], step))

    def _batch(self, who: Array, at: Array, step: int) -> pa.RecordBatch:
        times: Any = np.full(len(who), step * SECOND)
        chosen: Any = pa.array(who)
        columns: list[Any] = [self._names.take(chosen), at[:, 0], at[:, 1], pa.array(times).cast(_TIME)]
        if self.texts is not None:
            body: Any = pa.array(np.random.default_rng(step).integers(0, len(self.texts), len(who)))
            columns.append(self.texts.take(body))
        columns += [np.full(len(who), step), self._hashes[who]]
        names = [name for name, _ in self.spec.columns]
        arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, names=[*names, "_step", "_hash"])

    def _evaluate(self, first: int, last: int, parts: Sequence[tuple[str, bytes]]) -> Spec:
        clock = {"first_step": first, "last_step": last, "base_tick": 1, "tick_us": SECOND}
        named = [("clock", pack_json(clock)), *parts]
        if first == 1:
            named.insert(1, ("define", pack_json(self.spec)))
        chunks = [
            Chunk(
                0, 0 if kind == "clock" else STREAM, kind, ChunkOrder(number=number), first, last, 1, payload
            )
            for number, (kind, payload) in enumerate(named)
        ]
        sent, self.step = evaluate(self.state, chunks), last
        stats: Spec = unpack_json(next(chunk.payload for chunk in sent if chunk.kind == "stats"))
        return stats


_TIME = pa.timestamp("us", tz="UTC")


def _command(number: int, region: Spec, condition: Any) -> Spec:
    kind = "nearest" if region["type"] == "nearest" else "range"
    query = {"id": number, "kind": kind, "region": region, "condition": condition}
    return {"op": "register", "query": query | {"for_us": None, "select": []}}


def _region(command: Spec) -> Spec:
    region: Spec = command["query"]["region"]
    return region
