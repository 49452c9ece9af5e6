"""The queries of REGISTER QUERY, SUBSCRIBE and SELECT, as stored in the control log and the slots.

A query is its members, its result and its timing: which objects belong to it, what it shows of them, and when
it looks at them. Each combination is a query, and each of its facts is in one of the three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import Expr, ExtentDistanceExpr, JoinExpr, focal_keys_in, located
from stqsh.spec.region import FocalPlace, Key, NearestSpec, Place, Region, RegionBase


class SelectColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of an answer: its name and its expression."""

    name: str
    value: Expr


class OrderColumn(msgspec.Struct, frozen=True, array_like=True):
    """An expression of ORDER BY; NULLs come last unless `nulls_first` is set."""

    value: Expr
    is_descending: bool
    nulls_first: bool = False


_MOST_FORMS = 1 << 14
"""The number of decoded forms that a process caches."""

MOST_MEMBERS = 2**31 - 1
"""The maximum number of objects of a slot; a larger LIMIT has no effect."""


class Members(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The objects that belong to a query: the first of its three parts.

    Attributes:
        region: where they are; with `NEAREST`, the k nearest of those that satisfy the condition.
        condition: WHERE, without the region.
        since_now: whether only events that come after the query count (SINCE NOW).
        min_accuracy: the minimum share of them that load shedding preserves, 0 to 1.
    """

    region: Region
    condition: Expr | None = None
    since_now: bool = False
    min_accuracy: float | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a query shows of its members: the second of its three parts.

    Without aggregates the answer is rows: all members, or the first `limit` of them by (ORDER BY, key).

    Attributes:
        select: the select list; with aggregates, the columns of the update log that contain it.
        order: ORDER BY of rows.
        limit: LIMIT of rows; None for all.
        aggregates: the groups to show instead of rows, with their own ORDER BY and LIMIT.
    """

    select: tuple[SelectColumn, ...] = ()
    order: tuple[OrderColumn, ...] = ()
    limit: int | None = None
    aggregates: AggregateSpec | None = None

    @property
    def of_rows(self) -> tuple[Expr, ...]:
        """The expressions of ORDER BY and of the select list, over rows."""
        return (*(one.value for one in self.order), *(one.value for one in self.select))


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a query looks at its members, and what holds its updates back: the last of its three parts.

    Without any of it, the answer follows every record.

    Attributes:
        each_step: whether the answer may change in steps without records, because it reads NOW or the
            distance from a moving object.
        sync_us: the duration between refreshes, µs; None to follow every step.
        window_us: the age of the oldest record that counts, µs; None for all.
        dwell_us: the time that a row must stay in or out of the answer before it is reported, µs.
        changes: whether objects that stay in the answer are sent again when their selected columns change.
        for_us: the event time after which the query ends, µs; None for never.
    """

    each_step: bool = False
    sync_us: int | None = None
    window_us: int | None = None
    dwell_us: int | None = None
    changes: bool = False
    for_us: int | None = None

    @property
    def looks(self) -> Timing:
        """When the members are looked at, without what holds updates back."""
        return Timing(each_step=self.each_step, sync_us=self.sync_us, window_us=self.window_us)


class GroupForm(msgspec.Struct, frozen=True, array_like=True):
    """What is the same for many queries with aggregates: their groups, and when they are looked at.

    Slots and Aggregate store each form once, and slots send it to Aggregate.
    """

    groups: AggregateSpec
    timing: Timing = Timing()

    @property
    def text(self) -> str:
        """The form as JSON."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    @lru_cache(_MOST_FORMS)
    def read(text: str) -> GroupForm:
        """Read the JSON of a form; cached, because each batch reads all forms several times.

        Slots of earlier versions have one object for both parts, whose fields have the same names.
        """
        if text.startswith("{"):
            groups = msgspec.json.decode(text, type=AggregateSpec)
            return GroupForm(groups, msgspec.json.decode(text, type=Timing))
        return msgspec.json.decode(text, type=GroupForm)


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


class _Composed(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that snapshots and continuous queries have in common.

    Attributes:
        kind: the name of the query kind, such as "range" or "nearest".
    """

    kind: str
    members: Members
    result: Result = Result()
    timing: Timing = Timing()

    @property
    def region(self) -> Region:
        """The region of the members."""
        return self.members.region

    @property
    def condition(self) -> Expr | None:
        """The condition of the members."""
        return self.members.condition

    @property
    def aggregates(self) -> AggregateSpec | None:
        """The aggregates of the result."""
        return self.result.aggregates


class SlotQuery(_Composed, frozen=True, kw_only=True):
    """The part of a continuous query that slots need.

    Attributes:
        id: the number of the log's row that registered it; 0 before it is logged.
    """

    id: int = 0

    @property
    def adds_up_rows(self) -> bool:
        """Whether Aggregate adds up the rows of a merged answer: the query has DWELL, by which rows wait."""
        return self.aggregates is not None and self.kind in MERGED_ROWS

    @property
    def shown_kind(self) -> str:
        """The kind as users read it."""
        return f"aggregate of {self.kind}" if self.adds_up_rows else self.kind

    @property
    def values(self) -> tuple[Expr, ...]:
        """The values of a member that slots compute: those that are added up, or else the select list."""
        if self.aggregates is not None and self.adds_up_rows:
            return self.aggregates.values
        return tuple(column.value for column in self.result.select)


class QuerySpec(SlotQuery, frozen=True, kw_only=True):
    """A continuous query.

    Attributes:
        text: the SELECT as the printer writes it.
        areas: the ids of the named regions that it reads, in ascending order.
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
    own, others = query.region.focal_key, focal_keys_in(query.condition)
    return others if own is None else (own, *(key for key in others if key != own))


def slot_query(query: QuerySpec) -> SlotQuery:
    """Return the part of a query that slots need."""
    return SlotQuery(
        id=query.id, kind=query.kind, members=query.members, result=query.result, timing=query.timing
    )


class SnapshotSpec(_Composed, frozen=True, kw_only=True):
    """A SELECT that is answered once; of its timing it has only WINDOW.

    Attributes:
        lookup: the constant that the key equals, if a condition requires it.
        aggregate: "count" if the answer is the number of objects, in a column called `output`.
        measure: requests the cost of the query with this id, or of the snapshot itself (0), not an answer.
        past: whether events that are no longer kept count; slots report the events that they have not
            archived yet.
    """

    stream: str = ""
    stream_id: int
    text: str = ""
    join: JoinSpec | None = None
    areas: tuple[int, ...] = ()
    lookup: Key | None = None
    aggregate: Literal["count"] | None = None
    output: str = "count"
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
_Some = TypeVar("_Some", bound=_Composed)


def nearest_extents(spec: BoundQuery) -> NearestSpec | None:
    """Return the NEAREST of a query over objects with an extent, which is an order and a limit; or None."""
    match spec.result.order[:1]:
        case (OrderColumn(ExtentDistanceExpr(place=(x, y)), False),) if spec.result.limit is not None:
            return NearestSpec(spec.result.limit, x, y)
    return None


def with_members(query: _Some, **changes: Any) -> _Some:
    """Return a query with some fields of its members changed."""
    return msgspec.structs.replace(query, members=msgspec.structs.replace(query.members, **changes))


def with_result(query: _Some, **changes: Any) -> _Some:
    """Return a query with some fields of its result changed."""
    return msgspec.structs.replace(query, result=msgspec.structs.replace(query.result, **changes))


def with_timing(query: _Some, **changes: Any) -> _Some:
    """Return a query with some fields of its timing changed."""
    return msgspec.structs.replace(query, timing=msgspec.structs.replace(query.timing, **changes))


def at_places(query: _Bound, places: Mapping[Key, FocalPlace]) -> tuple[_Bound, Place | None]:
    """Return a query with the regions of its condition at their focal objects' places, and its own centre.

    Args:
        query: the query.
        places: the places of the focal objects that are present, by key.
    """
    condition, own = query.condition, query.region.focal_key
    if focal_keys_in(condition):
        assert condition is not None, "it has regions"
        points = {key: (place.x, place.y) for key, place in places.items()}
        query = with_members(query, condition=located(condition, points))
    if own is None or own not in places:
        return query, None
    if isinstance(query.region, NearestSpec) and places[own].extent:
        nearest = msgspec.structs.replace(query.region, extent=places[own].extent)
        query = with_members(query, region=nearest)
    return query, (places[own].x, places[own].y)


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

MERGED_ROWS = {one.name for one in (TOP_N, NEAREST_TOP_N, REFRESHED_ROWS, REFRESHED_NEAREST_ROWS)}
"""The kinds whose rows Aggregate merges and shows; with aggregates, it adds them up."""

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


def kind_of(query: _Composed, *, held: bool = False) -> QueryKindEntry:
    """Return the kind that evaluates a continuous query's members, result and timing.

    Args:
        query: The query; its `kind` does not matter.
        held: Whether rows of a region wait for DWELL at Aggregate, because slots lack the records outside.
    """
    result, timing = query.result, query.timing
    adds_up, refreshed = result.aggregates is not None and not timing.dwell_us, timing.sync_us is not None
    if query.region.is_nearest:
        if refreshed or timing.each_step:
            return REFRESHED_NEAREST if adds_up else REFRESHED_NEAREST_ROWS
        in_order = bool(result.order) or result.limit is not None
        return NEAREST_AGGREGATE if adds_up else NEAREST_TOP_N if in_order else NEAREST
    if adds_up:
        return AGGREGATE
    if refreshed:
        return REFRESHED_ROWS
    if held or timing.each_step or result.limit is not None:
        return TOP_N
    return RANGE if result.aggregates is None else DWELLING_AGGREGATE


def kind_of_region(region: RegionBase) -> QueryKindEntry:
    """Return the default kind of a query with a region."""
    return NEAREST if region.is_nearest else RANGE
