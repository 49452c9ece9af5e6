"""The definitions of CREATE STREAM, CREATE TABLE and CREATE REGION, as stored in the control log.

The fields are in the order in which they are written as JSON. `id` is the number of the log's row that
created the definition, 0 before it is logged.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from stqsh.spec.expression import Expr
from stqsh.spec.region import CircleSpec

DEFAULT_TICK_US = 1_000_000
"""TICK of replayed streams, µs."""
LIVE_TICK_US = 250_000
"""TICK of live streams, µs."""
LEAST_LIVE_TICK_US = 100_000
META_COLUMNS = ("_key", "_timestamp", "_partition", "_offset")
"""Columns of a Kafka stream that are not in the message's value."""
ARRIVED = "_step"
"""The column of stored events, besides the declared ones, with the step in which each arrived."""
MOST_COLUMNS = 10_000
"""The maximum number of columns of a stream or table: each has separate files per slot, which a worker
maps; Linux lets a process map 65,530."""
OWN_COLUMNS = (ARRIVED, "_hash", "_tick", "_role")
"""Columns that the engine adds to records, and that no stream can declare."""
StreamKind = Literal["moving", "event"]
ReplayOrder = Literal["time", "arrival"]
Retention = Literal["all", "significant"]
Bounds: TypeAlias = tuple[float, float, float, float]
FAR_AWAY = 1e300
"""The maximum distance of bounds and grids from the origin, so that their width is finite."""
OptionValue: TypeAlias = str | bool | int | float | None
Options: TypeAlias = dict[str, OptionValue]


ROW = "\0row"
"""The column with row numbers, which no stream stores; no declared column can have this name."""


class ColumnSpec(NamedTuple):
    """A column: its name and its type, such as DOUBLE."""

    name: str
    type: str


class DerivedColumn(NamedTuple):
    """A column that is computed from others when records are read.

    Attributes:
        name: one of the stream's columns.
        value: an expression over the columns of the source and over derived columns before this one.
        text: the expression as it is written.
    """

    name: str
    value: Expr
    text: str


class FileSourceSpec(msgspec.Struct, frozen=True, tag="file"):
    """The files that match a glob; `format` is None if it follows from the files' names."""

    glob: str
    format: str | None = None
    options: Options = {}


class GeneratorSourceSpec(msgspec.Struct, frozen=True, tag="generator"):
    """A generator and its options: durations in µs, lengths in metres, speeds in metres a second."""

    name: str
    options: Options = {}


class KafkaSourceSpec(msgspec.Struct, frozen=True, tag="kafka"):
    """Topics of Kafka.

    Attributes:
        brokers: addresses, separated by commas.
        topics: their names; one of the form `/^bus-.*/` is a pattern.
        format: "jsonl", "csv" or "arrow".
        start: "earliest", "latest", or µs since the epoch.
    """

    brokers: str
    topics: tuple[str, ...]
    format: str = "jsonl"
    options: Options = {}
    start: Literal["earliest", "latest"] | int = "earliest"


class StdinSourceSpec(msgspec.Struct, frozen=True, tag="stdin"):
    """The lines of the standard input of the client that creates the stream."""

    format: str = "jsonl"
    options: Options = {}


class SocketSourceSpec(msgspec.Struct, frozen=True, tag="socket"):
    """The lines that a server sends to its clients."""

    address: str
    format: str = "jsonl"
    options: Options = {}


class DirectorySourceSpec(msgspec.Struct, frozen=True, tag="directory"):
    """The files that appear in a directory; `format` is None if it follows from the files' names."""

    path: str
    format: str | None = None
    options: Options = {}


class InsertsSourceSpec(msgspec.Struct, frozen=True, tag="inserts"):
    """The records of INSERT INTO and `stqsh feed`; `format` of the fed data, None to recognize it."""

    format: str | None = None
    options: Options = {}


class HttpSourceSpec(msgspec.Struct, frozen=True, tag="http"):
    """JSON lines that are POSTed to a port of this machine; the token is in a file of the stream's folder."""

    port: int
    format: str = "jsonl"
    options: Options = {}


LiveSourceSpec: TypeAlias = (
    KafkaSourceSpec
    | StdinSourceSpec
    | SocketSourceSpec
    | DirectorySourceSpec
    | InsertsSourceSpec
    | HttpSourceSpec
)
SourceSpec: TypeAlias = FileSourceSpec | GeneratorSourceSpec | LiveSourceSpec


MOST_CELLS = 256
"""The maximum number of cells in each direction of GRID, because their numbers have 16 bits."""


class StreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of moving objects or of events.

    Attributes:
        columns: all columns, including derived ones.
        derived: the columns that the source does not have, in an order in which they can be computed.
        key, x, y, time: the columns of these roles.
        extent: the column with the extents of objects, as WKT; None if objects are points. Then `x` and `y`
            are derived columns with the first corner of each extent.
        text: the column that is searched for keywords.
        planar: whether `x` and `y` are plane coordinates instead of longitude and latitude in degrees.
        report_every_us: an object that does not report for this long is disconnected, µs.
        max_speed: metres a second, or units a second on the plane.
        bounds: x1, y1, x2, y2 of the area in which records are expected.
        grid: the cells in each direction of the grids of regions and of objects; None to choose
            automatically.
        keep_us: how long an event is kept, µs; None for ever, 0 with KEEP NONE.
        keep_bytes: the most bytes of events that are kept, the oldest go first; None for any number.
        archive: the folder for events that are no longer kept; None for none.
        pace: "max", a factor of real time, or None for the session's choice.
        numbers_rows: whether the key is the number of the row among all rows of the files.
    """

    name: str
    kind: StreamKind = "moving"
    columns: tuple[ColumnSpec, ...]
    key: str
    x: str
    y: str
    time: str
    extent: str | None = None
    text: str | None = None
    planar: bool = False
    tick_us: int = DEFAULT_TICK_US
    report_every_us: int | None = None
    max_speed: float | None = None
    bounds: Bounds | None = None
    grid: int | None = None
    order: ReplayOrder = "time"
    retain: Retention = "all"
    keep_us: int | None = None
    keep_bytes: int | None = None
    archive: str | None = None
    pace: str | int | float | None = None
    numbers_rows: bool = False
    derived: tuple[DerivedColumn, ...] = ()
    source: SourceSpec
    id: int = 0

    @property
    def given(self) -> tuple[ColumnSpec, ...]:
        """The columns that records of the source have: all but derived ones."""
        derived = {column.name for column in self.derived}
        return tuple(column for column in self.columns if column.name not in derived)

    @property
    def is_event(self) -> bool:
        """Whether the records are events instead of reports of moving objects."""
        return self.kind == "event"

    @property
    def keeps_none(self) -> bool:
        """Whether events are matched in their step and then forgotten (KEEP NONE)."""
        return self.keep_us == 0

    @property
    def lets_go(self) -> bool:
        """Whether events are kept for some time, or up to some size, and then let go."""
        return self.keep_bytes is not None or bool(self.keep_us)

    @property
    def is_sifted(self) -> bool:
        """Whether slots get only the records with words that some query there can use."""
        return self.keeps_none and self.searches_text

    @property
    def searches_text(self) -> bool:
        """Whether keyword queries are possible: the text column has no other role."""
        return self.text is not None and self.text not in self.roles

    @property
    def is_live(self) -> bool:
        """Whether records arrive from outside in real time, so that the stream runs by the wall clock."""
        return isinstance(self.source, LiveSourceSpec)

    @property
    def is_endless(self) -> bool:
        """Whether a generator makes records for as long as the stream plays."""
        return isinstance(self.source, GeneratorSourceSpec) and self.source.options.get("duration") is None

    @property
    def needs_dealer(self) -> bool:
        """Whether routing by space needs a dealer for last records, because no store has all of them."""
        return self.is_live or (self.is_endless and not self.is_event)

    @property
    def is_significant(self) -> bool:
        """Whether the stream keeps only the objects that some query needs."""
        return self.retain == "significant"

    @property
    def types(self) -> dict[str, str]:
        """The type of each column."""
        return dict(self.columns)

    @property
    def roles(self) -> tuple[str, str, str, str]:
        """The names of the key, x, y and time columns."""
        return self.key, self.x, self.y, self.time


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A table, whose rows queries find by its key."""

    name: str
    columns: tuple[ColumnSpec, ...]
    key: str
    source: SourceSpec
    derived: tuple[DerivedColumn, ...] = ()
    id: int = 0

    @property
    def types(self) -> dict[str, str]:
        """The type of each column."""
        return dict(self.columns)


class AreaSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A named region, or a set of regions with the names of its members.

    `source` is the source of a set; `area` is the id of the region from which a single one was made. A circle
    has no polygons: a query in it has the circle as its region. `beyond` has the names of the members that
    are not within -180 to 180, or "" for a single region; it matters where x is a longitude.
    """

    name: str
    set: bool = False
    members: tuple[str, ...] = ()
    source: SourceSpec | None = None
    area: int | None = None
    circle: CircleSpec | None = None
    beyond: tuple[str, ...] = ()
    id: int = 0

    @property
    def word(self) -> str:
        """The word in its CREATE statement: "region", or "regions" for a set."""
        return "regions" if self.set else "region"


def stream_spec(value: Any) -> StreamSpec:
    """Return the stream that a JSON object defines.

    Raises:
        msgspec.ValidationError: it does not define one.
    """
    return msgspec.convert(value, StreamSpec)
