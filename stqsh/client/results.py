"""What statements answer: the values that `Session.execute` yields. Nothing here prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stqsh.storage.rows import Progress, QueryRow, StreamRow

if TYPE_CHECKING:
    import pyarrow as pa

    from stqsh.client.map.scene import MapFeed
    from stqsh.client.read.projection import TableLookups
    from stqsh.client.read.subscription import Subscription
    from stqsh.client.read.watch import WatchFeed
    from stqsh.client.run import RunHandle


@dataclass(frozen=True, slots=True)
class Message:
    """A message for the user: one or more lines of text, not data.

    >>> [message] = session.execute("CREATE REGION square AS RECT(10.02, 50.01, 10.03, 50.02);")
    >>> message.text
    'region square created'
    """

    text: str


@dataclass(frozen=True, slots=True)
class WaitNotice(Message):
    """Says what the session waits for before it goes on; `wait` waits, and tells the progress meanwhile.

    Who does not call it waits all the same, with the next outcome.
    """

    wait: Callable[[Callable[[Progress], None]], None]


@dataclass(frozen=True, slots=True)
class BulkRegistration:
    """What REGISTER QUERIES has done: how many queries it registered, and how many rows make no valid query.

    `faults` says of the first of these where they stand and why they make none, a line for each.
    """

    registered: int
    refused: int
    faults: tuple[str, ...]

    def text(self, origin: str) -> str:
        """What to tell the user; `origin` is where the rows came from."""
        count = "1 query" if self.registered == 1 else f"{self.registered:,} queries"
        lines = [f"{count} registered from {origin}"]
        if self.refused:
            rows = "1 row makes" if self.refused == 1 else f"{self.refused:,} rows make"
            lines.append(f"{rows} no valid query:")
            more = self.refused - len(self.faults)
            lines += [*self.faults, *([f"and {more:,} more"] if more else [])]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Rows:
    """A small table, as SHOW and DESCRIBE answer; a cell is a str, int, float, bool or None.

    >>> [rows] = session.execute("SHOW REGIONS;")
    >>> dict(zip(rows.columns, rows.rows[0]))["name"]
    'square'
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Script:
    """Statements that can be run again, as DUMP answers.

    >>> [script] = session.execute("DUMP;")
    >>> script.text.startswith("CREATE MOVING STREAM taxis")
    True
    """

    text: str


@dataclass(frozen=True, slots=True)
class Updates:
    """Updates of the queries of one stream, in order: by step, query name, `-` before `+`, key.

    `table` has the columns step int64, at_us int64 (event time of the step), query int64 (id), op int8
    (+1, -1), why int8 (index into `stqsh.spec.chunk.WHY`), key (type of the stream's key), then the
    stream's declared columns under their own names with the prefix `c.` so that none of them clashes
    (`c.lon`), and where a query selects DISTANCE, that as `distance` (float64, null where there is none). The
    select list of a query is made of these by `projection.project`, which finds joined tables in `lookups`.
    `queries` has every query that occurs. Successive `Updates` continue the order: where
    several streams interleave, each run of rows of one stream is a value of its own. `snapshot` marks
    rows of the answer with which a TAIL begins.

    >>> [tail] = session.execute("TAIL near FROM START LIMIT 1;")
    >>> [updates] = tail
    >>> updates.queries[updates.table["query"][0].as_py()].name, updates.snapshot
    ('near', False)
    """

    table: pa.Table
    stream: StreamRow
    queries: Mapping[int, QueryRow]
    snapshot: bool = False
    lookups: TableLookups | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a snapshot SELECT answers: the state after step `step`, the same for all slots.

    `table` has a column for each of `names`, the select list, rows in order and already limited; TIMESTAMP
    columns are timestamp[us]. `at_us` is the step's event time, `None` before the first step. `statement` is
    the SELECT's number in its script, `None` where it has none. `location` names the two of the columns that
    are the stream's location, where both are selected.

    >>> [answer] = session.execute("SELECT oid, lon, lat FROM taxis WHERE oid = 'ambulance';")
    >>> answer.names, answer.table.num_rows, answer.location
    (('oid', 'lon', 'lat'), 1, ('lon', 'lat'))
    """

    names: tuple[str, ...]
    table: pa.Table
    step: int
    at_us: int | None
    statement: int | None = None
    location: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """The mark before and after the rows of the answer with which a TAIL begins."""

    query: QueryRow
    step: int
    at_us: int | None
    edge: Literal["begin", "end"]


Outcome: TypeAlias = "Message | Rows | Script | Answer | RunHandle | Subscription | WatchFeed | MapFeed"
"""Anything that `Session.execute` yields."""
