"""The rows of control.db as values: what the log, the catalogue and the engine's progress hold.

Instants are microseconds since the epoch (int). `spec` is the JSON object that lang.bind made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec

Spec = dict[str, Any]
LogKind = Literal[
    "create_stream",
    "drop_stream",
    "create_table",
    "drop_table",
    "create_area",
    "drop_area",
    "register",
    "register_alike",
    "drop",
    "pause_query",
    "resume_query",
    "run",
    "stop_run",
    "play",
    "pause",
    "set",
    "found",
    "ask",
    "memory",
]
QueryState = Literal["active", "paused", "dropped", "ended"]
StreamState = Literal["new", "reading", "ready", "failed", "endless"]


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row of the control log.

    `spec` by kind: create_stream: StreamSpec; create_table: TableSpec; create_area: AreaSpec, with its
    geometry (a packed record batch [member, wkb]) in `payload`; drop_stream, drop_table, drop_area:
    {"id", "name"}; register: QuerySpec; register_alike: {"first", "count", "stream_id", "example": QuerySpec
    of the first, "template"} of queries whose ids end with `seq`, "focal": the keys of their focal objects
    where these differ, and in `payload` the rows of a `stqsh.storage.query_templates.TemplateRows`; drop,
    pause_query, resume_query: {"id", "name", "stream_id"}; play: {"id", "name", "pace"} of the stream, with
    pace null, "max" or a factor; pause: {"id", "name"}; run: {"mode", …}; stop_run: {"run": its seq}; set:
    {"key", "value"}; found: {"stream_id", "up_to"} with the packed record batch in `payload`; ask: {"spec":
    of a snapshot SELECT}; memory: the fields of a `stqsh.storage.shedding_orders.SheddingOrder`.
    """

    seq: int
    at_us: int
    kind: LogKind
    text: str
    spec: Any
    payload: bytes | None = None


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream of the catalogue; `dropped_seq` is the log's number of its DROP, if there was one."""

    id: int
    name: str
    spec: StreamSpec
    dropped_seq: int | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table of the catalogue; `dropped_seq` is the log's number of its DROP, if there was one."""

    id: int
    name: str
    spec: TableSpec
    dropped_seq: int | None = None


@dataclass(frozen=True, slots=True)
class AreaRow:
    """A region, or a set of regions, of the catalogue; its geometry stands in the log, under its id."""

    id: int
    name: str
    spec: AreaSpec
    dropped_seq: int | None = None

    @property
    def word(self) -> str:
        """What it was created as: "region", or "regions" for a set of them."""
        return self.spec.word


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A continuous query of the catalogue.

    `since_us` is when it was registered, `seq` the log's number of its last change, `size` how many rows
    its answer has, `owner` the process ("pid:start") of a SUBSCRIBE, which is dropped with it.
    """

    id: int
    name: str
    stream_id: int
    spec: Spec
    state: QueryState
    seq: int
    size: int
    since_us: int
    owner: str | None = None

    @property
    def live(self) -> bool:
        """Whether the query is neither dropped nor ended."""
        return self.state in ("active", "paused")


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How far the engine's preparation of a stream, or of a table, has come; `progress` is 0 to 1.

    `duplicates` counts the records of an event stream that were left out because their key was there.
    """

    id: int
    state: StreamState = "new"
    rows: int = 0
    dead: int = 0
    message: str = ""
    progress: float = 0.0
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """What Deliver wrote after its last batch.

    `batch` is Spark's batch number (-1: none yet), `step` the last step delivered (0: none), `seq` the
    last row of the control log that is taken in, `run_done` the sequence number of the last RUN that is
    done, `ended` whether every replayed stream is at its end, `wall_us` when it was written. `stats` is
    JSON that the engine fills as it can; SHOW knows "records" (of the batch), "records_total",
    "records_per_s", "updates", "stale", "lag_s" (since the last step was due, None without a pace), "due_us"
    (when that was, by the wall clock), "backlog" (records that are due and not taken), "room" (how many
    records a batch takes of a backlog), "time" {part of a batch: µs} and "slots" [{"slot", "records",
    "stale", "updates", "objects", "queries", "bytes", "kernel_us", "state_us", "decode_us", "memory"}], and,
    while a stream keeps significant objects only, "memory" {"factor", "k", "part", "cache", "area" (the order
    in force), "objects", "shadow", "bytes", "approximate", "least", "settling"}.
    """

    batch: int = -1
    step: int = 0
    base_tick: int | None = None
    tick_us: int | None = None
    seq: int = 0
    run_done: int = 0
    ended: bool = False
    wall_us: int = 0
    stats: Mapping[str, Any] = field(default_factory=dict)

    def at_us(self, step: int | None = None) -> int | None:
        """Event time of a step (the last one unless given), `None` before the first step is fixed."""
        number = self.step if step is None else step
        if self.base_tick is None or self.tick_us is None or number < 1:
            return None
        return (self.base_tick + number - 1) * self.tick_us
