"""The outcomes of statements: the values that `Session.execute` returns. Nothing here prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stqsh.storage.rows import Progress, QueryRow, StreamRow

if TYPE_CHECKING:
    import pyarrow as pa

    from stqsh.client.map.scene import MapFeed
    from stqsh.client.read.projection import RowLookups
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
    """Reports what the session waits for next; `wait` waits, and calls back with the progress.

    If `wait` is not called, the next outcome waits instead.
    """

    wait: Callable[[Callable[[Progress], None]], object]


@dataclass(frozen=True, slots=True)
class BulkRegistration:
    """The outcome of REGISTER QUERIES: the number of registered queries, and of rows that make none.

    `faults` has one line for each of the first such rows: its location and the reason. `remark` is about what
    the queries have in common; "" if there is none.
    """

    registered: int
    refused: int
    faults: tuple[str, ...]
    remark: str = ""

    def text(self, origin: str) -> str:
        """Return the text for the user; `origin` is the source of the rows."""
        count = "1 query" if self.registered == 1 else f"{self.registered:,} queries"
        lines = ["; ".join(filter(None, (f"{count} registered from {origin}", self.remark)))]
        if self.refused:
            rows = "1 row makes" if self.refused == 1 else f"{self.refused:,} rows make"
            lines.append(f"{rows} no valid query:")
            more = self.refused - len(self.faults)
            lines += [*self.faults, *([f"and {more:,} more"] if more else [])]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Rows:
    """A small table, the outcome of SHOW and DESCRIBE; a cell is a str, int, float, bool or None.

    >>> [rows] = session.execute("SHOW REGIONS;")
    >>> dict(zip(rows.columns, rows.rows[0]))["name"]
    'square'
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A text that is output data: the runnable statements of DUMP, or the text of HELP.

    >>> [script] = session.execute("DUMP;")
    >>> "CREATE MOVING STREAM taxis" in script.text
    True
    """

    text: str


@dataclass(frozen=True, slots=True)
class Updates:
    """Updates of the queries of one stream, in order: by step, query name, `-` before `+`, key.

    `table` has the columns step int64, at_us int64 (event time of the step), query int64 (id), op int8 (+1,
    -1), why int8 (index into `stqsh.spec.chunk.WHY`), key (type of the stream's key), then the stream's
    declared columns with the prefix `c.`, so that none of them clashes (`c.lon`), and, if a query selects
    DISTANCE, `distance` (float64, null where there is none). `projection.project` computes a query's select
    list from these columns; it looks up tables and regions in `lookups`.

    `queries` has every query that occurs. Successive `Updates` continue the order: where several streams
    interleave, each run of rows of one stream is a separate value. `snapshot` marks rows of the answer with
    which a TAIL begins.

    >>> [tail] = session.execute("TAIL near FROM START LIMIT 1;")
    >>> [updates] = tail
    >>> updates.queries[updates.table["query"][0].as_py()].name, updates.snapshot
    ('near', False)
    """

    table: pa.Table
    stream: StreamRow
    queries: Mapping[int, QueryRow]
    snapshot: bool = False
    lookups: RowLookups | None = None
    place: TablePlace | None = None


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The position of updates in a larger table of the same stream, whose rows can be rendered together.

    It is valid only for updates whose table is `table` itself, not for a subset of its rows.

    Attributes:
        table: the updates.
        whole: the larger table.
        begin: the row of `whole` at which they begin.
    """

    table: pa.Table
    whole: pa.Table
    begin: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a snapshot SELECT: the state after step `step`, the same for all slots.

    Attributes:
        names: the select list.
        table: a column for each of `names`, rows in order and already limited; TIMESTAMP columns are
            timestamp[us].
        at_us: the step's event time, None before the first step.
        statement: the SELECT's number in its script, None if it has none.
        location: the two of the columns that are the stream's location, if both are selected.
        is_planar: whether the stream's location is in a plane's units, and not in degrees.
        in_metres: the positions of the columns that hold lengths in metres.
        regions: the column that names members of a set of regions, with their shapes.
        extent: the column with the extents of objects, as WKT, if it is selected.
        is_timeless: whether the rows belong to no step, such as those of a file.
        remark: why the answer is empty, if known; "" for other answers.

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
    is_planar: bool = False
    in_metres: frozenset[int] = frozenset()
    regions: RegionColumn | None = None
    extent: str | None = None
    is_timeless: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class RegionColumn:
    """A column, by its position, that names members of a set of regions.

    `shapes` returns the members' geometries as GeoJSON texts, by name.
    """

    place: int
    shapes: Callable[[], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """The mark before and after the rows of the answer with which a TAIL begins."""

    query: QueryRow
    step: int
    at_us: int | None
    edge: Literal["begin", "end"]


Outcome: TypeAlias = "Message | Rows | Script | Answer | RunHandle | Subscription | WatchFeed | MapFeed"
"""Anything that `Session.execute` returns."""
