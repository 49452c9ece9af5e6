"""The rows of the control log: one struct for each kind of row.

A row's kind is in a separate column beside its JSON, so a struct has no tag within its JSON.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType, ValidationError
from msgspec.json import Decoder

from stqsh.errors import OtherVersionError
from stqsh.spec.query import QuerySpec, SlotQuery, SnapshotSpec
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.spec.region import Key, Place
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec


class NamedEntry(Struct, frozen=True):
    """A change of the object with this id."""

    id: int
    name: str = ""


class StreamDropped(NamedEntry, frozen=True):
    """DROP STREAM."""


class TableDropped(NamedEntry, frozen=True):
    """DROP TABLE."""


class AreaDropped(NamedEntry, frozen=True):
    """DROP REGION or DROP REGIONS."""


class SinkDropped(NamedEntry, frozen=True):
    """DROP SINK."""


class QueryStreamDropped(NamedEntry, frozen=True):
    """DROP QUERIES of a query stream; the rows before it drop its queries."""


class QueryChanged(Struct, frozen=True):
    """A change of the query with this id."""

    id: int
    name: str = ""
    stream_id: int = 0


class QueryDropped(QueryChanged, frozen=True):
    """DROP QUERY."""


class QueryPaused(QueryChanged, frozen=True):
    """PAUSE QUERY."""


class QueryResumed(QueryChanged, frozen=True):
    """RESUME QUERY."""


class QueryAltered(QueryChanged, frozen=True, kw_only=True):
    """ALTER QUERY.

    Attributes:
        query: the query in its new form, under the same id.
        before: the previous form of the query.
        paused: whether it is paused.
        step: the step in which it was registered, if that precedes the batch; the planner fills it in.
    """

    query: QuerySpec
    before: SlotQuery
    paused: bool = False
    step: int | None = None


class QueryBlock(Struct, frozen=True, omit_defaults=True):
    """Queries of one template; the row's number is the id of the last one.

    The values that differ are in the row's payload, see `stqsh.storage.queries.query_templates.TemplateRows`.

    Attributes:
        first: the id of the first query.
        count: the number of queries; their ids are consecutive.
        example: the spec of the first query.
        template: the JSON of the `QueryTemplate`.
        focal: the keys of the focal objects of their regions, if they differ between queries.
        around: the keys of the focal objects of regions in each query's condition, if they differ.
    """

    first: int
    count: int
    stream_id: int
    example: QuerySpec
    template: Raw
    focal: tuple[Key, ...] = ()
    around: tuple[tuple[Key, ...], ...] = ()


class StreamRouted(NamedEntry, frozen=True):
    """A new routing of the stream with this id; the row's payload is a packed `RoutingTable`.

    It takes effect with a step, like a command.

    Attributes:
        version: its number among the stream's routings; the first one after the initial routing is 2.
        strategy: the strategy of the table.
        slots: the number of slots of the table.
        why: REPARTITION, the load adjuster that made it, or why its strategy was chosen.
        is_automatic: whether SET balance made it, not a statement or the choice at the stream's start.
        leaves: the number of its leaves.
        packages: the number of pairs of slots of which one hands cells over to the other.
        moved: the share of the stream's queries that some slot has to add, 0 to 1.
        before, predicted: the largest load of a slot divided by the mean, under the previous routing and, as
            expected, under this one.
        layout: the settings by which the strategy laid out the table, if they differ from the defaults.
        cuts: where the packages of the change end, see `stqsh.routing.packages`; () for a change in one.
        learned: how many queries slots have learned of after each package.
        package: the package with which this routing takes effect, counted from 0. Only after the last one the
            requested table is in force.
        looked: the last row of the log whose queries were looked at, if the payload has those that slots may
            learn of; else 0.
    """

    version: int = 0
    strategy: str = ""
    slots: int = 0
    why: str = ""
    is_automatic: bool = False
    leaves: int = 0
    packages: int = 1
    moved: float = 0.0
    before: float = 0.0
    predicted: float = 0.0
    layout: str = ""
    cuts: tuple[int, ...] = ()
    learned: tuple[int, ...] = ()
    package: int = 0
    looked: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the requested table is in force with this routing."""
        return self.package + 1 >= len(self.cuts)

    @property
    def change(self) -> int:
        """The version with which the change began that this routing is a package of."""
        return self.version - self.package


class RunToEnd(Struct, frozen=True, tag_field="mode", tag="end"):
    """RUN to the end of all streams."""


class RunUntil(Struct, frozen=True, tag_field="mode", tag="until"):
    """RUN UNTIL an instant, µs since the epoch."""

    t_us: int


class RunFor(Struct, frozen=True, tag_field="mode", tag="for"):
    """RUN FOR some event time, µs."""

    us: int


class RunSteps(Struct, frozen=True, tag_field="mode", tag="steps"):
    """RUN n STEPS."""

    n: int


RunSpec: TypeAlias = RunToEnd | RunUntil | RunFor | RunSteps


class RunStopped(Struct, frozen=True):
    """The end of the RUN whose row has the number `run`."""

    run: int


class StreamPlayed(NamedEntry, frozen=True):
    """PLAY; `pace` is "max", a factor of event time, or None for event time."""

    pace: str | int | float | None = None


class StreamPaused(NamedEntry, frozen=True):
    """PAUSE of a stream."""


class SettingChanged(Struct, frozen=True):
    """SET."""

    key: str
    value: Any


class RecordsFound(Struct, frozen=True):
    """The last records of focal objects, a packed record batch in the row's payload.

    Attributes:
        up_to: the last row of the log whose focal objects were looked up.
    """

    stream_id: int
    up_to: int


class SnapshotAsked(Struct, frozen=True, omit_defaults=True, rename={"asked_first": "for"}):
    """A snapshot SELECT.

    A snapshot with moving regions is sent twice: first to find the places of their focal objects, then with
    these places; places in its condition are then part of the spec.

    Attributes:
        place: the place of its own region's focal object, None if it is absent or there is none; unset in the
            first question.
        asked_first: in the second question, the row number of the first one.
    """

    spec: SnapshotSpec
    place: Place | UnsetType | None = UNSET
    asked_first: int | None = None


LogKind = Literal[
    "create_stream",
    "drop_stream",
    "create_table",
    "drop_table",
    "create_area",
    "drop_area",
    "create_sink",
    "drop_sink",
    "create_query_stream",
    "drop_query_stream",
    "register",
    "register_alike",
    "drop",
    "pause_query",
    "resume_query",
    "alter_query",
    "run",
    "stop_run",
    "play",
    "pause",
    "route",
    "set",
    "found",
    "ask",
    "memory",
]
LogEntry: TypeAlias = (
    StreamSpec
    | StreamDropped
    | TableSpec
    | TableDropped
    | AreaSpec
    | AreaDropped
    | SinkSpec
    | SinkDropped
    | QueryStreamSpec
    | QueryStreamDropped
    | QuerySpec
    | QueryBlock
    | QueryDropped
    | QueryPaused
    | QueryResumed
    | QueryAltered
    | RunSpec
    | RunStopped
    | StreamPlayed
    | StreamPaused
    | StreamRouted
    | SettingChanged
    | RecordsFound
    | SnapshotAsked
    | SheddingOrder
)
ENTRY_TYPES: dict[LogKind, Any] = {
    "create_stream": StreamSpec,
    "drop_stream": StreamDropped,
    "create_table": TableSpec,
    "drop_table": TableDropped,
    "create_area": AreaSpec,
    "drop_area": AreaDropped,
    "create_sink": SinkSpec,
    "drop_sink": SinkDropped,
    "create_query_stream": QueryStreamSpec,
    "drop_query_stream": QueryStreamDropped,
    "register": QuerySpec,
    "register_alike": QueryBlock,
    "drop": QueryDropped,
    "pause_query": QueryPaused,
    "resume_query": QueryResumed,
    "alter_query": QueryAltered,
    "run": RunSpec,
    "stop_run": RunStopped,
    "play": StreamPlayed,
    "pause": StreamPaused,
    "route": StreamRouted,
    "set": SettingChanged,
    "found": RecordsFound,
    "ask": SnapshotAsked,
    "memory": SheddingOrder,
}
_DECODERS: dict[LogKind, Decoder[Any]] = {kind: Decoder(wanted) for kind, wanted in ENTRY_TYPES.items()}
_KINDS: dict[type, LogKind] = {wanted: kind for kind, wanted in ENTRY_TYPES.items() if kind != "run"}


def kind_of(entry: LogEntry) -> LogKind:
    """Return the kind of a row, which its column `kind` holds."""
    return _KINDS.get(type(entry), "run")


def decode_entry(kind: LogKind, text: str) -> LogEntry:
    """Read the JSON of a row.

    Raises:
        OtherVersionError: the row was written by a version that cannot be read any more.
    """
    try:
        return _DECODERS[kind].decode(text)  # type: ignore[no-any-return]
    except (KeyError, ValidationError) as error:
        raise OtherVersionError from error
