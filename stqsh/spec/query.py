"""The queries of REGISTER QUERY, SUBSCRIBE and SELECT, as stored in the control log and the slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import Expr, JoinExpr, focal_keys_in, located
from stqsh.spec.region import Key, Place, Region, RegionBase


class SelectColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of an answer: its name and its expression."""

    name: str
    value: Expr


class OrderColumn(msgspec.Struct, frozen=True, array_like=True):
    """An expression of ORDER BY; NULLs come last unless `nulls_first` is set."""

    value: Expr
    is_descending: bool
    nulls_first: bool = False


MOST_MEMBERS = 2**31 - 1
"""The maximum number of objects of a slot; a larger LIMIT has no effect."""


class TopNSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The LIMIT of a continuous query: its answer is the first rows by (ORDER BY, key).

    Attributes:
        order: ORDER BY.
        limit: LIMIT.
        each_step: whether the order or the output may change in steps without records.
        timed: the output expressions that read NOW, of a query with `changes`.
        sync_us: the duration between refreshes, µs; None to follow every step.
        window_us: the age of the oldest record that counts at a refresh, µs; None for all.
    """

    order: tuple[OrderColumn, ...]
    limit: int
    each_step: bool = False
    timed: tuple[Expr, ...] = ()
    sync_us: int | None = None
    window_us: int | None = None


class JoinSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A join with the row of a table whose `key` equals a column.

    Attributes:
        table, table_id: the name and the id of the table.
        key: its key.
        column: a column of the stream, or one of a table that is joined before this one.
        further: the joins after the first one, in order; only the first one has them, so that the JSON of
            queries with one join is unchanged.
    """

    table: str
    table_id: int
    key: str
    column: str | JoinExpr
    further: tuple[JoinSpec, ...] = ()


def _all_joins(join: JoinSpec | None) -> tuple[JoinSpec, ...]:
    return () if join is None else (join, *join.further)


def join_texts(query: QuerySpec | SnapshotSpec) -> tuple[str, ...]:
    """Return each join of a query as a text, such as `favourites on oid = oid`."""
    joins = query.joins
    names = {join.table_id: join.table for join in joins}

    def by(column: str | JoinExpr) -> str:
        return column if isinstance(column, str) else f"{names[column.table]}.{column.wanted}"

    return tuple(f"{join.table} on {join.key} = {by(join.column)}" for join in joins)


class QueryOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options in a query's WITH clause.

    Attributes:
        dwell_us: the time that an object must stay in or out of the region before it is reported, µs.
        min_accuracy: the minimum share of the answer that load shedding preserves, 0 to 1.
        since_now: whether only events that come after the query count (SINCE NOW).
        changes: whether objects that stay in the answer are sent again when their selected columns change.
        error: the maximum overcount of TOPK, as a share of a group's records.
    """

    dwell_us: int | None = None
    min_accuracy: float | None = None
    since_now: bool = False
    changes: bool = False
    error: float | None = None


class SlotQuery(msgspec.Struct, frozen=True, kw_only=True, rename={"top_n": "first"}):
    """The part of a continuous query that slots need.

    Attributes:
        id: the number of the log's row that registered it; 0 before it is logged.
        kind: the name of the query kind, such as "range" or "nearest".
        for_us: the event time after which the query ends, µs; None for never.
        aggregates: the aggregates to output instead of the members' columns.
        top_n: the order and limit that select the members in the answer; None for all. Stored as "first".
    """

    id: int = 0
    kind: str
    region: Region
    condition: Expr | None = None
    select: tuple[SelectColumn, ...] = ()
    for_us: int | None = None
    options: QueryOptions = QueryOptions()
    aggregates: AggregateSpec | None = None
    top_n: TopNSpec | None = None

    @property
    def sync_us(self) -> int | None:
        """The duration between refreshes, µs; None for a query that follows every step."""
        shown = self.aggregates or self.top_n
        return None if shown is None else shown.sync_us

    @property
    def window_us(self) -> int | None:
        """The age of the oldest record that counts at a refresh, µs; None for all."""
        shown = self.aggregates or self.top_n
        return None if shown is None else shown.window_us

    @property
    def adds_up_rows(self) -> bool:
        """Whether Aggregate adds up the rows of a merged answer: the query has DWELL, by which rows wait."""
        return self.aggregates is not None and self.top_n is not None

    @property
    def shown_kind(self) -> str:
        """The kind as users read it."""
        return f"aggregate of {self.kind}" if self.adds_up_rows else self.kind

    @property
    def values(self) -> tuple[Expr, ...]:
        """The values of a member that slots compute: those that are added up, or else the select list."""
        if self.aggregates is None or self.top_n is None:
            return tuple(column.value for column in self.select)
        return self.aggregates.values


class QuerySpec(SlotQuery, frozen=True, kw_only=True):
    """A continuous query.

    Attributes:
        text: the SELECT as the printer writes it.
        areas: the ids of the named regions in `region` and `condition`, in ascending order.
    """

    stream: str
    stream_id: int
    text: str
    join: JoinSpec | None = None
    areas: tuple[int, ...] = ()
    name: str = ""

    @property
    def joins(self) -> tuple[JoinSpec, ...]:
        """The joins with tables, in order."""
        return _all_joins(self.join)


def focal_keys(query: SlotQuery | SnapshotSpec) -> tuple[Key, ...]:
    """Return the keys of the focal objects of a query's region and condition, each once."""
    own = query.region.focal_key
    return tuple(dict.fromkeys([*([] if own is None else [own]), *focal_keys_in(query.condition)]))


def slot_query(query: QuerySpec) -> SlotQuery:
    """Return the part of a query that slots need."""
    return SlotQuery(
        id=query.id,
        kind=query.kind,
        region=query.region,
        condition=query.condition,
        select=query.select,
        for_us=query.for_us,
        options=query.options,
        aggregates=query.aggregates,
        top_n=query.top_n,
    )


class SnapshotSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A SELECT that is answered once.

    Attributes:
        lookup: the constant that the key equals, if a condition requires it.
        aggregate: "count" if the answer is the number of objects, in a column called `output`.
        aggregates: other aggregates, with their own ORDER BY and LIMIT.
        order: ORDER BY.
        limit: the maximum number of rows.
        window_us: the age of the oldest record that counts, µs; None for all. Aggregates have their own.
        measure: requests the cost of the query with this id, or of the snapshot itself (0), not an answer.
        past: whether events that are no longer kept count; slots report the events that they have not
            archived yet.
    """

    stream: str = ""
    stream_id: int
    text: str = ""
    kind: str
    region: Region
    condition: Expr | None = None
    join: JoinSpec | None = None
    areas: tuple[int, ...] = ()
    lookup: Key | None = None
    select: tuple[SelectColumn, ...] = ()
    aggregate: Literal["count"] | None = None
    output: str = "count"
    aggregates: AggregateSpec | None = None
    order: tuple[OrderColumn, ...] = ()
    limit: int | None = None
    window_us: int | None = None
    measure: int | None = None
    past: bool = False

    @property
    def joins(self) -> tuple[JoinSpec, ...]:
        """The joins with tables, in order."""
        return _all_joins(self.join)

    @property
    def adds_up(self) -> bool:
        """Whether its answer is aggregates of its members instead of the members."""
        return self.aggregates is not None or self.aggregate == "count"


BoundQuery: TypeAlias = QuerySpec | SnapshotSpec


_Bound = TypeVar("_Bound", QuerySpec, SnapshotSpec, BoundQuery)


def at_places(query: _Bound, places: Mapping[Key, Place]) -> tuple[_Bound, Place | None]:
    """Return a query with the regions of its condition at their focal objects' places, and its own centre.

    Args:
        query: the query.
        places: the places of the focal objects that are present, by key.
    """
    condition, own = query.condition, query.region.focal_key
    if focal_keys_in(condition):
        assert condition is not None, "it has regions"
        query = msgspec.structs.replace(query, condition=located(condition, places))
    return query, None if own is None else places.get(own)


class AskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as a question to the slots.

    Attributes:
        ask: the number of the answer.
        place: the place of the snapshot region's focal object, None while it is absent. If it is unset, the
            slots first return the places of all focal objects.
    """

    ask: int
    spec: SnapshotSpec
    place: Place | msgspec.UnsetType | None = msgspec.UNSET


_Asked = TypeVar("_Asked", SlotQuery, QuerySpec, SnapshotSpec)


_ASKS = msgspec.json.Decoder(tuple[AskSpec, ...])


def unpack_asks(payload: bytes) -> tuple[AskSpec, ...]:
    """Read the payload of an "ask" chunk."""
    return _ASKS.decode(payload)


def read_spec(text: str | bytes, wanted: type[_Asked]) -> _Asked:
    """Read the JSON of a query, also in the form of versions before 0.2.

    Those wrote the operands of AND and OR as further elements of the array instead of a nested array.

    Raises:
        ValueError: the text is not such JSON.
    """
    try:
        return msgspec.json.decode(text, type=wanted)
    except msgspec.ValidationError:
        return msgspec.convert(_with_parts(msgspec.json.decode(text)), wanted)


def _with_parts(value: Any) -> Any:
    """Move the operands of AND and OR into a nested array."""
    if isinstance(value, dict):
        return {name: _with_parts(content) for name, content in value.items()}
    if not isinstance(value, list):
        return value
    content = [_with_parts(part) for part in value]
    return [content[0], content[1:]] if content[:1] in (["and"], ["or"]) else content


@dataclass(frozen=True)
class QueryKindEntry:
    """The facts about a kind that binding and display need.

    Attributes:
        name: the kind's name in a query's spec.
        depends_on_slots: whether approximate answers depend on the number of slots: each keeps candidates.
        is_resent: whether a resumed query's whole answer is sent again, so that it does not matter what each
            slot has sent.
        remembers: whether its queries remember which objects they have sent, so that a stream that is
            repartitioned evaluates them over its copy by key.
    """

    name: str
    depends_on_slots: bool = False
    is_resent: bool = False
    remembers: bool = False


RANGE = QueryKindEntry("range")
NEAREST = QueryKindEntry("nearest", True)
AGGREGATE = QueryKindEntry("aggregate", is_resent=True)
DWELLING_AGGREGATE = QueryKindEntry("dwelling_aggregate")
NEAREST_AGGREGATE = QueryKindEntry("nearest_aggregate", True)
REFRESHED_NEAREST = QueryKindEntry("refreshed_nearest", True)

NEAREST_TOP_N = QueryKindEntry("nearest_first", True)
TOP_N = QueryKindEntry("first")
REFRESHED_ROWS = QueryKindEntry("refreshed_first", remembers=True)
REFRESHED_NEAREST_ROWS = QueryKindEntry("refreshed_nearest_first", True, remembers=True)

RECORDS = QueryKindEntry("records")
"""The kind of FOLLOW, which no SELECT has."""

BUILT_IN = {
    kind.name: kind
    for kind in (
        RANGE,
        NEAREST,
        AGGREGATE,
        DWELLING_AGGREGATE,
        NEAREST_AGGREGATE,
        REFRESHED_NEAREST,
        TOP_N,
        NEAREST_TOP_N,
        REFRESHED_ROWS,
        REFRESHED_NEAREST_ROWS,
        RECORDS,
    )
}


def find_kind(name: str) -> QueryKindEntry:
    """Return the facts about a kind; defaults for a plug-in kind that does not define them."""
    return BUILT_IN.get(name) or QueryKindEntry(name)


def kind_of_region(region: RegionBase) -> QueryKindEntry:
    """Return the default kind of a query with a region."""
    return NEAREST if region.is_nearest else RANGE
