"""Drive one slot of the core through the town, step by step, and record what it sends and holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.harness.one_slot import STREAM, BatchCost, Steps, evaluate_batch
from stqsh.bench.papers.sole.town import Drive, TownWorld, stream_spec
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import Chunk, ChunkKind, pack, unpack
from stqsh.spec.command import MemoryCommand, RegisterCommand, SlotCommand
from stqsh.spec.query import SlotQuery
from stqsh.spec.stream import Retention


@dataclass
class DrivenSlot:
    """A slot with the stream of a world and queries over it, from the world's first step on.

    Attributes:
        retain: "all" or "significant".
        drive: how the stream's spec says that objects drive; None: as they do drive.
        kinds: the kinds of objects whose records the slot gets, all of them if empty.
        sizes: the sizes of the queries' answers, by id.
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

    def run(self, steps: int = 1, commands: Sequence[SlotCommand] = ()) -> BatchCost:
        """Take in the next steps as one batch; commands take effect before the first of them."""
        taken = Steps(self.step + 1, self.step + steps, self.world.base)
        self._follow(commands)
        records = [part for step in range(taken.first, taken.last + 1) for part in self._records(step)]
        cost, sent = evaluate_batch(self.state, self.spec, taken, commands, records)
        self.step = taken.last
        self._count(sent)
        return cost

    def units(self, count: int = 1, commands: Sequence[SlotCommand] = ()) -> list[BatchCost]:
        """Take in some time units, each as one batch."""
        unit = self.world.drive.unit_s
        return [self.run(unit, commands if number == 0 else ()) for number in range(count)]

    def array(self, name: str) -> Array:
        """Return an array of the stream's state."""
        return self.state.array(f"s{STREAM}/{name}")

    def _follow(self, commands: Iterable[SlotCommand]) -> None:
        """Note the focal objects of new queries: all slots get their records, as the planner sends them."""
        queries = [command.query for command in commands if isinstance(command, RegisterCommand)]
        keys = [query.region.focal_key for query in queries if query.region.focal_key is not None]
        self._focal = np.union1d(self._focal, hash_keys(pa.array(keys, pa.string())))

    def _records(self, step: int) -> list[tuple[ChunkKind, bytes]]:
        records, payload = self.world.step(step)
        mine = records
        if self.kinds:
            kinds = np.isin(records.column("kind").to_numpy(zero_copy_only=False), self.kinds)
            mine = records.filter(pa.array(kinds))
            payload = pack(mine)
        parts = [(ChunkKind.RECORDS, payload)] if mine.num_rows else []
        followed = np.isin(records.column("_hash").to_numpy(), self._focal)
        if followed.any():
            parts.append((ChunkKind.FOCAL, pack(records.filter(pa.array(followed)))))
        return parts

    def _count(self, sent: Iterable[Chunk]) -> None:
        """Add up by how much the answers grew in a batch."""
        for chunk in sent:
            if chunk.kind == ChunkKind.COUNTS:
                counts = unpack(chunk.payload)
                ids, deltas = (counts.column(name).to_numpy().tolist() for name in ("query", "delta"))
                for id_, delta in zip(ids, deltas, strict=True):
                    self.sizes[id_] += delta


def registered(queries: Iterable[SlotQuery]) -> list[SlotCommand]:
    """Return the commands that register these queries."""
    return [RegisterCommand(query=query) for query in queries]


def memory(factor: float = 1.0, *, k: int = 1, cache: float = 1.0, area: float = 1.0) -> MemoryCommand:
    """Return the command that sets how much a significant stream keeps."""
    return MemoryCommand(factor=factor, k=k, cache=cache, area=area)
