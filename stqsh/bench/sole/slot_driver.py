"""One slot of the core, driven step by step in this process: what it sends, holds and takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.bench.sole.town import SECOND, Drive, Spec, TownWorld, stream_spec
from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import Chunk, ChunkOrder, pack, pack_json, unpack, unpack_json
from stqsh.spec.stream import Retention

Array = npt.NDArray[Any]

STREAM = 1
"""The id of the stream of the town."""


@dataclass
class DrivenBatch:
    """What a batch came to: records taken in, updates sent, what Evaluate took, its statistics.

    ms: processor time, so that others at work on the machine hardly count; Evaluate has one thread.
    """

    records: int
    updates: int
    ms: float
    stats: Spec


@dataclass
class DrivenSlot:
    """A slot with the stream of a world and queries over it, from the world's first step on.

    retain: all or significant. drive: what the stream's spec says of its objects, else how they do drive.
    kinds: objects of these kinds only, all if empty. sizes: of the queries' answers, by id.
    """

    world: TownWorld
    retain: Retention = "all"
    drive: Drive | None = None
    kinds: tuple[str, ...] = ()
    state: SlotState = field(default_factory=lambda: SlotState.fresh(0))
    sizes: Counter[int] = field(default_factory=Counter)
    step: int = 0

    def __post_init__(self) -> None:
        self.spec = stream_spec(self.drive or self.world.drive, retain=self.retain)
        self._focal = np.empty(0, np.uint64)

    def run(self, steps: int = 1, commands: Sequence[Spec] = ()) -> DrivenBatch:
        """Take the next steps in as one batch; commands come before the first."""
        first, last = self.step + 1, self.step + steps
        self._follow(commands)
        parts = [("clock", pack_json(self._clock(first, last)))]
        if first == 1:
            parts.append(("define", pack_json(self.spec)))
        if commands:
            parts.append(("commands", pack_json(list(commands))))
        parts += [part for step in range(first, last + 1) for part in self._records(step)]
        chunks = [
            Chunk(0, STREAM if kind != "clock" else 0, kind, ChunkOrder(number=at), first, last, 1, payload)
            for at, (kind, payload) in enumerate(parts)
        ]
        begun = process_time()
        sent = evaluate(self.state, chunks)
        took = (process_time() - begun) * 1000
        self.step = last
        return self._taken(sent, took)

    def units(self, count: int = 1, commands: Sequence[Spec] = ()) -> list[DrivenBatch]:
        """Process some time units, each as one batch."""
        unit = self.world.drive.unit_s
        return [self.run(unit, commands if number == 0 else ()) for number in range(count)]

    def array(self, name: str) -> Array:
        """Return an array of the stream's state."""
        return self.state.array(f"s{STREAM}/{name}")

    def _clock(self, first: int, last: int) -> Spec:
        return {
            "first_step": first,
            "last_step": last,
            "base_tick": self.world.base,
            "tick_us": SECOND,
        }

    def _follow(self, commands: Iterable[Spec]) -> None:
        """Note the focal objects of new queries: their records go to all slots, as the planner sends them."""
        regions = [command["query"]["region"] for command in commands if command["op"] == "register"]
        names = pa.array([region["focal"] for region in regions if "focal" in region], pa.string())
        self._focal = np.union1d(self._focal, hash_keys(names))

    def _records(self, step: int) -> list[tuple[str, bytes]]:
        records, payload = self.world.step(step)
        mine = records
        if self.kinds:
            kinds = np.isin(records.column("kind").to_numpy(zero_copy_only=False), self.kinds)
            mine = records.filter(pa.array(kinds))
            payload = pack(mine)
        parts = [("records", payload)] if mine.num_rows else []
        followed = np.isin(records.column("_hash").to_numpy(), self._focal)
        if followed.any():
            parts.append(("focal", pack(records.filter(pa.array(followed)))))
        return parts

    def _taken(self, sent: list[Chunk], took: float) -> DrivenBatch:
        stats: Spec = {}
        for chunk in sent:
            if chunk.kind == "counts":
                counts = unpack(chunk.payload)
                ids, deltas = (counts.column(name).to_numpy() for name in ("query", "delta"))
                for id_, delta in zip(ids.tolist(), deltas.tolist(), strict=True):
                    self.sizes[id_] += delta
            elif chunk.kind == "stats":
                stats = unpack_json(chunk.payload)
        return DrivenBatch(stats["records"], stats["updates"], took, stats)


def registered(queries: Iterable[Spec]) -> list[Spec]:
    """Return the commands that register these queries."""
    return [{"op": "register", "query": query} for query in queries]


def memory(factor: float = 1.0, *, k: int = 1, cache: float = 1.0, area: float = 1.0) -> Spec:
    """Return the command that says how a significant stream keeps its memory."""
    return {"op": "memory", "factor": factor, "k": k, "cache": cache, "area": area}
