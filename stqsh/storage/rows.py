"""Types for the rows of control.db: log, catalogue and the engine's progress.

Instants are microseconds since the epoch (int).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from stqsh.spec.log import LogEntry, LogKind, kind_of
from stqsh.spec.query import QuerySpec
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stats import BatchStats
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec

QueryState = Literal["active", "paused", "dropped", "ended"]
StreamState = Literal["new", "reading", "ready", "failed", "endless", "live", "stalled"]
"""An endless stream is stalled while it cannot be extended; RUN and PLAY retry."""


class LogRow(Struct, frozen=True):
    """A row of the control log.

    Attributes:
        seq: its number.
        at_us: when it was written.
        entry: its content.
        text: the text of the statement.
        payload: packed record batches, for some kinds of rows: the geometry [member, wkb] of create_area, the
            queries' values of register_alike, the records of found.
    """

    seq: int
    at_us: int
    entry: LogEntry
    text: str = ""
    payload: bytes | None = None

    @property
    def kind(self) -> LogKind:
        """The kind of the row."""
        return kind_of(self.entry)


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream of the catalogue; `dropped_seq` is the number of the log row of its DROP, if any."""

    id: int
    name: str
    spec: StreamSpec
    dropped_seq: int | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table of the catalogue; `dropped_seq` is the number of the log row of its DROP, if any."""

    id: int
    name: str
    spec: TableSpec
    dropped_seq: int | None = None


@dataclass(frozen=True, slots=True)
class AreaRow:
    """A region or set of regions of the catalogue; its geometry is in the log row with its id."""

    id: int
    name: str
    spec: AreaSpec
    dropped_seq: int | None = None

    @property
    def word(self) -> str:
        """The keyword that created it: "region", or "regions" for a set."""
        return self.spec.word


@dataclass(frozen=True, slots=True)
class SinkRow:
    """A sink of the catalogue."""

    id: int
    name: str
    spec: SinkSpec


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A continuous query of the catalogue.

    Attributes:
        seq: the number of the log row with its last change.
        size: the number of rows in its answer.
        since_us: when it was registered.
        owner: for a SUBSCRIBE, the process ("pid:start") with which the query is dropped.
    """

    id: int
    name: str
    stream_id: int
    spec: QuerySpec
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
    """The state of the engine's preparation of a stream or table; `progress` is 0 to 1.

    `duplicates` counts the records of an event stream that were skipped because their key existed. `seal` is
    the checksum of the replay store of a stream with an end, "" if unknown.
    """

    id: int
    state: StreamState = "new"
    rows: int = 0
    dead: int = 0
    message: str = ""
    progress: float = 0.0
    duplicates: int = 0
    seal: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the source has been read completely and contained no records."""
        return self.state == "ready" and self.rows == 0


NO_STATS = BatchStats()


@dataclass(frozen=True, slots=True)
class Progress:
    """The engine's progress after its last batch, written by Deliver.

    Attributes:
        batch: Spark's batch number (-1: none yet).
        step: the last step delivered (0: none).
        seq: the last row of the control log that has been processed.
        run_done: the sequence number of the last completed RUN.
        ended: whether every replayed stream is at its end.
        wall_us: when the row was written, by the wall clock.
    """

    batch: int = -1
    step: int = 0
    base_tick: int | None = None
    tick_us: int | None = None
    seq: int = 0
    run_done: int = 0
    ended: bool = False
    wall_us: int = 0
    stats: BatchStats = NO_STATS

    def at_us(self, step: int | None = None) -> int | None:
        """Return the event time of a step (by default the last one); None before the clock is fixed."""
        number = self.step if step is None else step
        if self.base_tick is None or self.tick_us is None or number < 1:
            return None
        return (self.base_tick + number - 1) * self.tick_us
