"""The planner's fold of the control log: which streams there are, and whose focal objects are broadcast."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import LogRow

Key = str | int

#: Kinds of log rows that change what slots hold: they take effect with a step.
COMMANDS = frozenset({"register", "register_alike", "drop", "pause_query", "resume_query", "drop_stream"})
#: Kinds that bring queries.
REGISTERS = frozenset({"register", "register_alike"})
#: Kinds that move the clock: they take effect between two batches.
CLOCK_KINDS = frozenset({"run", "stop_run", "play", "pause"})
#: Kinds that define what queries may ask about: slots learn of it at once, before the step that uses it.
DEFINITIONS = frozenset({"create_table", "create_area"})


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
        if row.kind == "create_stream":
            self.streams[row.seq] = row.spec
        elif row.kind == "drop_stream":
            self.streams.pop(row.spec["id"], None)
            self.focal.pop(row.spec["id"], None)
        elif row.kind == "memory":
            self.memory = SheddingOrder(**row.spec)
        elif row.kind in REGISTERS and (keys := focal_keys_of(row)):
            stream_id = row.spec["stream_id"]
            first = row.seq + 1 - len(keys)
            self._focal_of_query.update((first + at, (stream_id, key)) for at, key in enumerate(keys))
            self.focal.setdefault(stream_id, Counter()).update(keys)
        elif row.kind == "drop" and row.spec["id"] in self._focal_of_query:
            self._forget_focal(row.spec["id"])

    def broadcasts(self, stream_id: int, key: Key) -> bool:
        """Return whether every slot already gets the records of this key."""
        return self.focal.get(stream_id, Counter())[key] > 0

    def focal_keys(self, stream_id: int) -> tuple[Key, ...]:
        """List the keys of one stream whose records go to every slot."""
        return tuple(key for key, count in self.focal.get(stream_id, Counter()).items() if count > 0)

    def copy(self) -> PlannerState:
        """Return a ledger that can be folded on without touching this one."""
        focal = {stream: Counter(keys) for stream, keys in self.focal.items()}
        return PlannerState(self.seq, dict(self.streams), focal, self.memory, dict(self._focal_of_query))

    def _forget_focal(self, query_id: int) -> None:
        stream_id, key = self._focal_of_query.pop(query_id)
        if stream_id in self.focal:
            self.focal[stream_id][key] -= 1


def focal_keys_of(row: LogRow) -> list[Key]:
    """Return the key of each focal object that a row's queries are bound to, in the order of their ids.

    None where they are stationary: queries that come together all move, or none of them does.
    """
    if row.kind == "register":
        key: Key | None = row.spec["region"].get("focal")
        return [] if key is None else [key]
    shared: Key | None = row.spec["example"]["region"].get("focal")
    own: list[Key] = row.spec.get("focal", [])
    return own or ([] if shared is None else [shared] * row.spec["count"])
