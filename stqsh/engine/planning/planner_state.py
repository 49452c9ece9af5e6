"""The planner's fold of the control log: the existing streams, and the focal objects that are broadcast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from stqsh.spec.expression import focal_keys_in
from stqsh.spec.log import (
    QueryAltered,
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
    StreamRouted,
)
from stqsh.spec.offset import Offset
from stqsh.spec.query import QuerySpec, find_kind, focal_keys
from stqsh.spec.region import Key
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.storage.rows import LogRow

#: Entries that change what slots hold: they take effect with a step.
COMMANDS = (
    QuerySpec,
    QueryBlock,
    QueryDropped,
    QueryPaused,
    QueryResumed,
    QueryAltered,
    StreamDropped,
    StreamRouted,
)
#: Entries that move the clock: they take effect between two batches.
CLOCK_ENTRIES = (RunToEnd, RunUntil, RunFor, RunSteps, RunStopped, StreamPlayed, StreamPaused)
#: Entries that define tables and areas for queries: slots get them at once, before the step that uses them.
DEFINITIONS = (TableSpec, AreaSpec)


class RefreshedQuery(NamedTuple):
    """A query with SYNC or WINDOW: its stream, the log's row that registers it, and its FOR in µs."""

    stream: int
    row: int
    for_us: int | None

    def is_over(self, offset: Offset, step: int) -> bool:
        """Return whether its FOR ends it in or before a step that the offset has not reached."""
        if self.for_us is None:
            return False
        if self.row <= offset.seq:
            return offset.ends.get(self.row, 0) <= step
        return last_step_of(offset, self.for_us) <= step


def last_step_of(offset: Offset, for_us: int) -> int:
    """Return the step in which queries end that the next step registers with FOR."""
    assert offset.tick_us is not None, "the clock runs"
    return offset.step + 1 - (-for_us // offset.tick_us)


@dataclass
class PlannerState:
    """All log rows up to `seq`, folded into the state that planning needs.

    `focal` counts, per stream id, the registered queries around each focal key: records of these keys go to
    every slot (object routing). A query that ended by its `FOR` keeps its count until its stream is dropped,
    which costs a broadcast and changes no answer. `memory` is the last order about the memory of significant
    streams, None before the first. `refreshed` are the queries with SYNC or WINDOW by id; like `focal` it
    keeps queries that ended by their `FOR`. `routes` are the numbers of the log's rows with the routings of
    each stream after its initial one. `remembering` are the queries of each stream with DWELL, and those that
    have been paused, unless their whole answer is sent again on resume.
    """

    seq: int = 0
    streams: dict[int, StreamSpec] = field(default_factory=dict)
    focal: dict[int, Counter[Key]] = field(default_factory=dict)
    memory: SheddingOrder | None = None
    refreshed: dict[int, RefreshedQuery] = field(default_factory=dict)
    routes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    remembering: dict[int, set[int]] = field(default_factory=dict)
    _resent: list[range] = field(default_factory=list)
    _focal_of_query: dict[int, tuple[int, tuple[Key, ...]]] = field(default_factory=dict)

    def apply(self, row: LogRow) -> None:
        """Fold in one log row; rows must come in order of `seq`."""
        self.seq = row.seq
        match row.entry:
            case StreamSpec():
                self.streams[row.seq] = row.entry
            case StreamDropped(stream_id):
                self.streams.pop(stream_id, None)
                if self.focal.pop(stream_id, None):
                    of_query = self._focal_of_query.items()
                    self._focal_of_query = {id_: one for id_, one in of_query if one[0] != stream_id}
                self.routes.pop(stream_id, None)
                self.remembering.pop(stream_id, None)
                self.refreshed = {id_: one for id_, one in self.refreshed.items() if one.stream != stream_id}
            # Older versions may have routed a stream after it was dropped.
            case StreamRouted(stream_id) if stream_id in self.streams:
                self.routes[stream_id] = (*self.routes.get(stream_id, ()), row.seq)
            case SheddingOrder():
                self.memory = row.entry
            case QuerySpec() | QueryBlock():
                self._add_focal(row.seq, row.entry)
                self._add_refreshed(row.seq, row.entry)
                self._add_remembering(row.seq, row.entry)
            case QueryPaused(query_id, stream_id=stream_id):
                if not any(query_id in some for some in self._resent):
                    self.remembering.setdefault(stream_id, set()).add(query_id)
            case QueryAltered(query_id, query=query):
                if query_id in self._focal_of_query:
                    self._forget_focal(query_id)
                self._add_focal(query_id, query)
            case QueryDropped(query_id, stream_id=stream_id):
                self.remembering.get(stream_id, set()).discard(query_id)
                self.refreshed.pop(query_id, None)
                if query_id in self._focal_of_query:
                    self._forget_focal(query_id)

    def _add_focal(self, seq: int, new: QuerySpec | QueryBlock) -> None:
        each = focal_keys_of(new)
        if not each:
            return
        first = seq + 1 - len(each)
        self._focal_of_query.update((first + at, (new.stream_id, keys)) for at, keys in enumerate(each))
        if new.stream_id not in self.focal:
            self.focal[new.stream_id] = Counter()
        self.focal[new.stream_id].update(chain.from_iterable(each))

    def _add_refreshed(self, seq: int, new: QuerySpec | QueryBlock) -> None:
        example, count = (new.example, new.count) if isinstance(new, QueryBlock) else (new, 1)
        if example.timing.sync_us is not None:
            query = RefreshedQuery(example.stream_id, seq, example.timing.for_us)
            self.refreshed |= dict.fromkeys(range(seq + 1 - count, seq + 1), query)

    def _add_remembering(self, seq: int, new: QuerySpec | QueryBlock) -> None:
        example, count = (new.example, new.count) if isinstance(new, QueryBlock) else (new, 1)
        ids = range(seq + 1 - count, seq + 1)
        if find_kind(example.kind).is_resent:
            if self._resent and self._resent[-1].stop == ids.start:
                ids = range(self._resent.pop().start, ids.stop)
            self._resent.append(ids)
        elif example.timing.dwell_us or find_kind(example.kind).remembers:
            self.remembering.setdefault(example.stream_id, set()).update(ids)

    @property
    def copied(self) -> tuple[int, ...]:
        """The moving streams with a copy by key on the slots: repartitioned, with remembering queries."""
        return tuple(
            stream
            for stream in sorted(self.routes)
            if self.remembering.get(stream) and not self.streams[stream].is_event
        )

    def broadcasts(self, stream_id: int, key: Key) -> bool:
        """Return whether every slot already gets the records of this key."""
        counts = self.focal.get(stream_id)
        return counts is not None and counts[key] > 0

    def focal_keys(self, stream_id: int) -> tuple[Key, ...]:
        """List the keys of one stream whose records go to every slot."""
        return tuple(key for key, count in self.focal.get(stream_id, Counter()).items() if count > 0)

    def copy(self) -> PlannerState:
        """Return a planner's state that can be folded further without changing this one."""
        focal = {stream: Counter(keys) for stream, keys in self.focal.items()}
        refreshed, of_query = dict(self.refreshed), dict(self._focal_of_query)
        streams, routes = dict(self.streams), dict(self.routes)
        remembering = {stream: set(ids) for stream, ids in self.remembering.items()}
        return PlannerState(
            self.seq,
            streams,
            focal,
            self.memory,
            refreshed,
            routes,
            remembering,
            [*self._resent],
            of_query,
        )

    def _forget_focal(self, query_id: int) -> None:
        stream_id, keys = self._focal_of_query.pop(query_id)
        counts = self.focal.get(stream_id, Counter())
        for key in keys:
            counts[key] -= 1
            if not counts[key]:
                del counts[key]


def focal_keys_of(new: QuerySpec | QueryBlock | QueryAltered) -> Sequence[tuple[Key, ...]]:
    """Return the keys of the focal objects of each of the queries, in the order of the queries' ids.

    It is empty if the queries are stationary; of queries in one block, all move or none does.
    """
    if not isinstance(new, QueryBlock):
        keys = focal_keys(new.query if isinstance(new, QueryAltered) else new)
        return (keys,) if keys else ()
    shared = focal_keys(new.example)
    if not new.focal and not new.around:
        return (shared,) * new.count if shared else ()
    own = new.example.region.focal_key
    shared_own: tuple[Key, ...] = () if own is None else (own,)
    own_keys = [(key,) for key in new.focal] if new.focal else [shared_own] * new.count
    others = new.around or (focal_keys_in(new.example.condition),) * new.count
    return [tuple(dict.fromkeys(pair[0] + pair[1])) for pair in zip(own_keys, others, strict=True)]
