"""The planner's fold of the control log: which streams there are, and whose focal objects are broadcast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from stqsh.spec.log import (
    QueryBlock,
    QueryDropped,
    QueryPaused,
    QueryResumed,
    RunFor,
    RunSteps,
    RunStopped,
    RunToEnd,
    RunUntil,
    StreamDropped,
    StreamPaused,
    StreamPlayed,
)
from stqsh.spec.query import QuerySpec
from stqsh.spec.region import Key
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.storage.rows import LogRow

#: Entries that change what slots hold: they take effect with a step.
COMMANDS = (QuerySpec, QueryBlock, QueryDropped, QueryPaused, QueryResumed, StreamDropped)
#: Entries that move the clock: they take effect between two batches.
CLOCK_ENTRIES = (RunToEnd, RunUntil, RunFor, RunSteps, RunStopped, StreamPlayed, StreamPaused)
#: Entries that define what queries may name: slots get them at once, before the step that uses them.
DEFINITIONS = (TableSpec, AreaSpec)


@dataclass
class PlannerState:
    """All log rows up to `seq`, folded to what routing needs.

    `focal` counts, per stream id, the registered queries around each focal key: records of these keys go to
    every slot (object routing). A query that ended by its `FOR` keeps its count until
    its stream is dropped, which costs a broadcast and changes no answer. `memory` is the last order about the
    memory of significant streams, None before the first.
    """

    seq: int = 0
    streams: dict[int, StreamSpec] = field(default_factory=dict)
    focal: dict[int, Counter[Key]] = field(default_factory=dict)
    memory: SheddingOrder | None = None
    _focal_of_query: dict[int, tuple[int, Key]] = field(default_factory=dict)

    def apply(self, row: LogRow) -> None:
        """Fold one log row in; rows come in order of `seq`."""
        self.seq = row.seq
        match row.entry:
            case StreamSpec():
                self.streams[row.seq] = row.entry
            case StreamDropped(stream_id):
                self.streams.pop(stream_id, None)
                self.focal.pop(stream_id, None)
            case SheddingOrder():
                self.memory = row.entry
            case QuerySpec() | QueryBlock():
                self._add_focal(row.seq, row.entry)
            case QueryDropped(query_id) if query_id in self._focal_of_query:
                self._forget_focal(query_id)

    def _add_focal(self, seq: int, new: QuerySpec | QueryBlock) -> None:
        keys = focal_keys_of(new)
        if not keys:
            return
        first = seq + 1 - len(keys)
        self._focal_of_query.update((first + at, (new.stream_id, key)) for at, key in enumerate(keys))
        self.focal.setdefault(new.stream_id, Counter()).update(keys)

    def broadcasts(self, stream_id: int, key: Key) -> bool:
        """Return whether every slot already gets the records of this key."""
        return self.focal.get(stream_id, Counter())[key] > 0

    def focal_keys(self, stream_id: int) -> tuple[Key, ...]:
        """List the keys of one stream whose records go to every slot."""
        return tuple(key for key, count in self.focal.get(stream_id, Counter()).items() if count > 0)

    def copy(self) -> PlannerState:
        """Return a ledger that can be folded further without changing this one."""
        focal = {stream: Counter(keys) for stream, keys in self.focal.items()}
        return PlannerState(self.seq, dict(self.streams), focal, self.memory, dict(self._focal_of_query))

    def _forget_focal(self, query_id: int) -> None:
        stream_id, key = self._focal_of_query.pop(query_id)
        if stream_id in self.focal:
            self.focal[stream_id][key] -= 1


def focal_keys_of(new: QuerySpec | QueryBlock) -> Sequence[Key]:
    """Return the keys of the focal objects of new queries, in the order of the queries' ids.

    There are none if the queries are stationary; of queries in one block, all move or none does.
    """
    if isinstance(new, QueryBlock):
        shared = new.example.region.focal_key
        return new.focal or (() if shared is None else (shared,) * new.count)
    key = new.region.focal_key
    return () if key is None else (key,)
