"""Bind SELECT to a QuerySpec, for snapshots, REGISTER QUERY, SUBSCRIBE and EXPLAIN."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stqsh.lang.ast.expressions import Column, Expression, Inside
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import Explain, RegisterQueries, RegisterQuery, Select
from stqsh.lang.binder.aggregates import (
    aggregated,
    is_aggregated,
    log_columns,
    timing_of,
    without_distinct,
)
from stqsh.lang.binder.conditions import check_location, condition
from stqsh.lang.binder.extents import distance_from, extent_test
from stqsh.lang.binder.joins import FromClause, from_clause, has_row
from stqsh.lang.binder.names import check_free, query_named
from stqsh.lang.binder.parameters import Hole, typed
from stqsh.lang.binder.places import SAY_PLACES
from stqsh.lang.binder.query_options import AS_A_QUERY, snapshot_error, with_options
from stqsh.lang.binder.regions import (
    ANTIMERIDIAN,
    bound_nearest,
    bound_region,
    is_inside,
    moves,
    over_meridian,
)
from stqsh.lang.binder.scope import (
    NO_AGGREGATE_IN_WHERE,
    NOT_IN_WHERE,
    Scope,
)
from stqsh.lang.binder.selects import Outputs, ordering, select_list
from stqsh.lang.binder.unsupported import counts
from stqsh.lang.binder.views import expanded
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.printer.printer import to_sql
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import (
    DISTANCE,
    ColumnExpr,
    CompareExpr,
    DistanceExpr,
    DistanceToExpr,
    Expr,
    ExtentTestExpr,
    InsideEachExpr,
    InsideExpr,
    LiteralExpr,
    NowExpr,
    RegionOfExpr,
    areas_of,
    changes_always,
    conjunction,
    conjuncts,
    find_nodes,
    focal_keys_in,
    has_node,
    rewrite,
)
from stqsh.spec.query import (
    BUILT_IN,
    NEAREST,
    NEAREST_TOP_N,
    RANGE,
    JoinSpec,
    Members,
    OrderColumn,
    QuerySpec,
    Result,
    SelectColumn,
    SnapshotSpec,
    Timing,
    kind_of,
    kind_of_region,
    with_members,
    with_result,
    with_timing,
)
from stqsh.spec.region import (
    EVERYWHERE,
    CircleSpec,
    Key,
    MovingCircleSpec,
    NamedRegionSpec,
    NearestSpec,
    RectangleSpec,
)
from stqsh.spec.region import Region as BoundRegion
from stqsh.spec.stream import StreamSpec

_LOCATION = Column("loc")
_OF_PLACES = (InsideExpr, InsideEachExpr, RegionOfExpr, DistanceToExpr)
"""Expressions that use a record's place."""


class AnalysedSelect(msgspec.Struct, frozen=True):
    """A SELECT to answer once, measuring the time of each operator."""

    spec: SnapshotSpec


class Explained(msgspec.Struct, frozen=True):
    """A registered query to explain, and whether to include its measured cost."""

    query: QuerySpec
    analyze: bool


class _Query(NamedTuple):
    """The spec of a snapshot or continuous query, and the scope of its select list."""

    spec: QuerySpec
    scope: Scope

    @property
    def searches_again(self) -> bool:
        """Whether its members are found anew in each step, because records do not tell which ones change.

        They are extents that are the nearest, or those around an object, or their condition reads NOW other
        than in comparisons of times.
        """
        if changes_always(self.spec.condition):
            return not self.scope.stream.keeps_none
        return self.scope.stream.extent is not None and (self.spec.region.is_nearest or _surrounds(self.spec))


def register(query: RegisterQuery, catalogue: CatalogueView) -> QuerySpec:
    """Return the spec of a REGISTER QUERY, without its id. Raises `BindError` and `NotSupportedError`."""
    check_free(query.name, catalogue)
    return replace(_registered(query, query.select, catalogue), name=query.name.text)


def register_queries(
    queries: RegisterQueries, catalogue: CatalogueView, columns: Mapping[str, str]
) -> QuerySpec:
    """Return the spec that all queries of a REGISTER QUERIES share, with a `Hole` for each parameter.

    `columns` are the types of the rows' columns by name. Raises `BindError` and `NotSupportedError`.
    """
    return _registered(queries, typed(queries.select, columns), catalogue)


def _registered(
    query: RegisterQuery | RegisterQueries, select: Select, catalogue: CatalogueView
) -> QuerySpec:
    spec = with_options(query, continuous(select, catalogue))
    place, stream = select.relations[0].span, catalogue.stream(spec.stream)
    assert stream is not None, "the SELECT is bound"
    _check_stream(stream, spec, place)
    if spec.timing.dwell_us and spec.aggregates is not None and spec.kind in BUILT_IN:
        return _dwelling(spec, spec.aggregates, is_significant=stream.is_significant)
    waits = False
    if spec.kind == RANGE.name and spec.timing.changes:
        # Only records inside regions are kept: rows can wait outside of them, objects cannot.
        waits = bool(spec.timing.dwell_us) and stream.is_significant
        if waits or _strays(spec.region, spec.result.select):
            spec = _limited(spec)
    if spec.timing.changes and not stream.keeps_none:
        spec = _timed(spec, place)
    return _composed(spec, held=waits)


def _composed(spec: QuerySpec, *, held: bool = False) -> QuerySpec:
    """Return a query with the kind that follows from its parts; `held` as for `kind_of`."""
    return replace(spec, kind=kind_of(spec, held=held).name) if spec.kind in BUILT_IN else spec


def _timed(spec: QuerySpec, place: Span) -> QuerySpec:
    """Make a query with `changes` evaluate its members in each step if its select list reads NOW.

    Raises:
        NotSupportedError: such changes cannot be tracked for this query.
    """
    if spec.aggregates is not None or not any(has_node(one.value, NowExpr) for one in spec.result.select):
        return spec
    if spec.kind == RANGE.name:
        spec = _limited(spec)
    if spec.kind in (NEAREST.name, NEAREST_TOP_N.name):
        spec = _refreshed(spec)
    if spec.kind not in BUILT_IN:
        raise NotSupportedError(f"changes of what depends on NOW, of a {spec.kind} query", place)
    return with_timing(spec, each_step=True)


def _check_stream(stream: StreamSpec, spec: QuerySpec, place: Span) -> None:
    """Raise an error if the query's stream does not allow its SINCE NOW or dwell."""
    if spec.members.since_now and not stream.is_event:
        raise BindError(f"SINCE NOW is for event streams; {stream.name} is a moving stream", place)
    if spec.timing.dwell_us and stream.keeps_none:
        raise BindError(f"{stream.name} keeps no events (KEEP NONE), so none can dwell", place)


def _dwelling(spec: QuerySpec, aggregates: AggregateSpec, *, is_significant: bool) -> QuerySpec:
    """Return aggregates with DWELL as those of a query for rows, whose merged rows Aggregate holds back.

    Members of a region that are followed step by step wait on their slots instead, where their records are.
    """
    is_nearest, refreshed = spec.region.is_nearest, spec.timing.sync_us is not None
    if not (is_nearest or is_significant or spec.timing.each_step or refreshed):
        return _composed(spec)
    reads_now = any(has_node(expr, NowExpr) for expr in aggregates.values)
    # Slots compute distances from the centre of a region only step by step; ALTER may make the centre move.
    far = not is_nearest and any(has_node(expr, DistanceExpr) for expr in aggregates.values)
    order = (OrderColumn(DistanceExpr(), False),) if is_nearest else ()
    anew = is_nearest or _surrounds(spec) or changes_always(spec.condition)
    again = spec.timing.each_step and anew
    spec = with_timing(spec, each_step=reads_now or far or again)
    return _composed(with_result(spec, order=order, aggregates=replace(aggregates, error=0.0)), held=True)


def _surrounds(spec: QuerySpec) -> bool:
    """Return whether a condition compares extents with regions around objects.

    An index of places does not say for which idle objects such a condition changes when the region moves.
    """
    return any(test.around is not None for test in find_nodes(spec.condition, ExtentTestExpr))


def _strays(region: BoundRegion, columns: Iterable[SelectColumn | OrderColumn]) -> bool:
    """Return whether columns contain distances that change even if no member reports."""
    far = any(has_node(column.value, DistanceExpr) for column in columns)
    return far and isinstance(region, MovingCircleSpec)


def continuous(select: Select, catalogue: CatalogueView) -> QuerySpec:
    """Return the spec of a continuous SELECT, without its id and with an empty name."""
    return _composed(_continuous(select, catalogue))


def _continuous(select: Select, catalogue: CatalogueView) -> QuerySpec:
    """Return the parts of a continuous SELECT; its kind is that of a query with its region."""
    select = expanded(select, catalogue)
    if not select.relations:
        raise BindError("a continuous query needs a FROM", select.items[0].span, expected=("FROM a stream",))
    if select.options:
        name, value = select.options[0]
        place = select.option_name(name, value.span)
        raise BindError("WITH after a SELECT is for snapshots", place, hint=AS_A_QUERY)
    query, select = _query(select, catalogue), without_distinct(select, catalogue)
    if query.scope.stream.keeps_none:
        _check_forgotten(select, query.spec)
    if is_aggregated(select):
        return _continuous_aggregates(select, query)
    outputs = select_list(select.items, query.scope)
    order = _ordering(select, query.scope, outputs)
    listed = [typed.expr for typed in outputs.values()]
    result = Result(select=_listed(outputs), order=order, limit=select.limit)
    spec = replace(query.spec, result=result, timing=timing_of(select), areas=_areas(query.spec, *listed))
    if spec.timing.sync_us is not None:
        return _refreshed(spec)
    if query.searches_again:
        return with_timing(_refreshed(spec) if spec.region.is_nearest else _limited(spec), each_step=True)
    if result.limit is None:  # any order gives the same rows, because updates are sent in the order of keys
        return with_result(spec, order=())
    return _nearest_of_nearest(spec, result.limit) if spec.region.is_nearest else _limited(spec)


def _limited(spec: QuerySpec) -> QuerySpec:
    """Return a continuous query for the first rows of a region. Raises `NotSupportedError`."""
    areas, order = _areas(spec, *spec.result.of_rows), spec.result.order
    strays = _strays(spec.region, (*order, *spec.result.select))
    if not strays and any(has_node(value, DistanceExpr) for value in spec.result.of_rows):
        spec = _with_distances(spec)
    each_step = strays or any(has_node(one.value, NowExpr) for one in order)
    return with_timing(replace(spec, areas=areas), each_step=each_step)


def _refreshed(spec: QuerySpec) -> QuerySpec:
    """Return a query whose rows are evaluated repeatedly: at refreshes, or in each step.

    Nearest neighbours are ordered by distance unless another order is given. Members of a region are in no
    particular order unless there is a LIMIT.
    """
    is_nearest = spec.region.is_nearest
    order = spec.result.order or ((OrderColumn(DistanceExpr(), False),) if is_nearest else ())
    spec = with_result(spec, order=order)
    by_time = any(has_node(one.value, NowExpr) for one in order)
    each_step = by_time or (not is_nearest and _strays(spec.region, (*order, *spec.result.select)))
    return with_timing(replace(spec, areas=_areas(spec, *spec.result.of_rows)), each_step=each_step)


def _with_distances(spec: QuerySpec) -> QuerySpec:
    """Replace DISTANCE in a query with LIMIT by the distance from its fixed centre."""
    region = spec.region
    assert isinstance(region, CircleSpec), "other regions have no fixed centre"
    if isinstance(region.x, Hole) or isinstance(region.y, Hole):
        raise NotSupportedError("DISTANCE from parameters in continuous queries with LIMIT")
    distance = DistanceToExpr(region.x, region.y)

    def changed(expr: Expr) -> Expr:
        return rewrite(expr, lambda node: distance if isinstance(node, DistanceExpr) else None)

    select = tuple(replace(one, value=changed(one.value)) for one in spec.result.select)
    order = tuple(replace(one, value=changed(one.value)) for one in spec.result.order)
    return with_result(spec, select=select, order=order)


def _nearest_of_nearest(spec: QuerySpec, limit: int) -> QuerySpec:
    """Return a NEAREST k with LIMIT n; by default the n nearest, because rows are ordered by distance.

    If the order depends on NOW, it is computed again in each step.
    """
    region, order, by_distance = spec.region, spec.result.order, (OrderColumn(DistanceExpr(), False),)
    assert isinstance(region, NearestSpec)
    if order in ((), by_distance) and not isinstance(region.k, Hole) and limit:
        nearest = with_members(spec, region=replace(region, k=min(region.k, limit)))
        return with_result(nearest, order=(), limit=None)
    if any(has_node(one.value, NowExpr) for one in order):
        return _refreshed(spec)
    areas = _areas(spec, *spec.result.of_rows)
    return with_result(replace(spec, areas=areas), order=order or by_distance)


def _check_forgotten(select: Select, spec: QuerySpec) -> None:
    """Raise `BindError` if a query on a stream that keeps no events needs several events at a time."""
    name, reason = select.relations[0], f"{spec.stream} keeps no events (KEEP NONE)"
    if is_aggregated(select):
        raise BindError(f"{reason}, so there is nothing to aggregate", name.span)
    if select.nearest is not None:
        raise BindError(f"{reason}, so none is among the nearest", name.span)
    if select.limit is not None:
        raise BindError(f"{reason}, so none is among the first", name.span)
    if (length := select.sync or select.window) is not None:
        raise BindError(f"{reason}, so there is nothing to look at now and then", length.span)


def _continuous_aggregates(select: Select, query: _Query) -> QuerySpec:
    """Return a query for groups."""
    aggregates, timing = aggregated(select, query.scope), timing_of(select)
    each_step = query.searches_again or _heed_time(aggregates, query.spec.region)
    each_step = each_step and timing.sync_us is None
    names = [output.name for output in aggregates.select]
    columns = tuple(SelectColumn(*pair) for pair in zip(names, log_columns(aggregates), strict=True))
    return replace(
        query.spec,
        result=Result(select=columns, aggregates=aggregates),
        timing=replace(timing, each_step=each_step),
        areas=_areas(query.spec, *aggregates.over_records),
    )


def _heed_time(aggregates: AggregateSpec, region: BoundRegion) -> bool:
    """Return whether groups may change although no member does, so that each step computes them.

    As time passes, expressions with NOW change, and so do the distances of all members from a moving centre,
    even of members that do not report; those of nearest neighbours are tracked. A refresh evaluates all
    members anyway.
    """
    reads_now = any(has_node(expr, NowExpr) for expr in aggregates.over_records)
    moves = isinstance(region, MovingCircleSpec)
    return reads_now or (moves and any(has_node(expr, DistanceExpr) for expr in aggregates.over_records))


def snapshot(select: Select, catalogue: CatalogueView) -> SnapshotSpec:
    """Return the spec of a SELECT that answers once."""
    select = expanded(select, catalogue)
    spec = _snapshot(select, catalogue)
    _check_places(spec, select, catalogue)
    return spec


def _check_places(spec: SnapshotSpec, select: Select, catalogue: CatalogueView) -> None:
    """Raise `BindError` if a query uses places of a file that has none."""
    stream = catalogue.stream(spec.stream)
    if stream is None or stream.x:
        return
    over_records = () if spec.aggregates is None else spec.aggregates.over_records
    values = (spec.condition, *spec.result.of_rows, *over_records)
    columns = [column.name for one in values for column in find_nodes(one, ColumnExpr)]
    of_places = any(has_node(one, node) for one in values for node in _OF_PLACES)
    if spec.region == EVERYWHERE and not of_places and stream.x not in columns:
        return
    if not select.relations:
        raise BindError("there is no FROM, so there are no places", select.items[0].span)
    relation = select.relations[0]
    if relation.file is None:
        reason = f"the rows of {spec.stream} have no location"
        raise BindError(reason, relation.span, hint="a query has one if it selects its stream's")
    raise BindError(
        f"no columns of {spec.stream} look like its location",
        relation.span,
        hint=SAY_PLACES,
    )


def _snapshot(select: Select, catalogue: CatalogueView) -> SnapshotSpec:
    query, select = _query(select, catalogue), without_distinct(select, catalogue)
    bound = query.spec
    if query.scope.stream.keeps_none:
        raise BindError(
            f"{bound.stream} keeps no events (KEEP NONE)",
            select.relations[0].span,
            hint="REGISTER QUERY or SUBSCRIBE gives those that come",
        )
    spec = SnapshotSpec(
        stream=bound.stream,
        stream_id=bound.stream_id,
        text=bound.text,
        kind=bound.kind,
        members=bound.members,
        join=bound.join,
        areas=bound.areas,
        lookup=_lookup(bound.condition, query.scope.stream.key),
    )
    if not is_aggregated(select):
        snapshot_error(select, bound, None)
    if _counts_only(select) and not select.options:
        [item] = select.items
        return replace(spec, aggregate="count", output=item.alias or "count")
    timing = Timing(window_us=timing_of(select).window_us)
    if is_aggregated(select):
        aggregates = aggregated(select, query.scope)
        areas = _areas(bound, *aggregates.over_records)
        aggregates = replace(aggregates, error=snapshot_error(select, bound, aggregates))
        return replace(spec, result=Result(aggregates=aggregates), timing=timing, areas=areas)
    outputs = select_list(select.items, query.scope)
    order = _ordering(select, query.scope, outputs)
    values = [*(typed.expr for typed in outputs.values()), *(one.value for one in order)]
    result = Result(select=_listed(outputs), order=order, limit=select.limit)
    return replace(spec, result=result, timing=timing, areas=_areas(bound, *values))


def _counts_only(select: Select) -> bool:
    """Return whether a query is only a COUNT(*) of objects, which can be answered without reading them."""
    clauses = (select.group_by, select.having, select.order_by, select.window, select.sync)
    more = any(clauses) or select.limit is not None
    return counts(select) and not more


def explained(statement: Explain, catalogue: CatalogueView) -> Explained | AnalysedSelect | SnapshotSpec:
    """Return the object of an EXPLAIN; for a SELECT, its spec as a snapshot."""
    if statement.query is not None:
        return Explained(query_named(statement.query, catalogue), statement.analyze)
    assert statement.select is not None
    if not statement.select.relations:
        place = statement.select.items[0].span
        raise BindError("EXPLAIN needs a FROM: there is nothing to read", place)
    spec = snapshot(statement.select, catalogue)
    return AnalysedSelect(spec) if statement.analyze else spec


def _query(select: Select, catalogue: CatalogueView) -> _Query:
    source = from_clause(select, catalogue)
    rest, inside = _placed(select, source)
    place: BoundRegion = EVERYWHERE
    if select.nearest is not None:
        place = bound_nearest(select.nearest, source.stream)
    elif inside is not None:
        place = bound_region(inside.region, source.stream, catalogue)
    names = source.stream, source.qualifiers, catalogue, source.joined
    members = Scope(*names, no_distance=NOT_IN_WHERE, no_aggregate=NO_AGGREGATE_IN_WHERE, no_moving_region="")
    conditions = [condition(part, members) for part in rest]
    distance: Expr | None = DISTANCE if place.has_centre else None
    if source.stream.extent is not None and inside is not None:
        conditions.insert(0, extent_test(inside, place, source.stream, catalogue))
        if isinstance(place, CircleSpec):
            distance = distance_from((place.x, place.y), source.stream)
        if inside.relation == "INTERSECTS":
            place = replace(place, meets=True) if isinstance(place, MovingCircleSpec) else EVERYWHERE
    conditions += _without_focal_objects(conditions, source.stream)
    parts = over_meridian(place, source.stream, catalogue)
    if parts is not None:
        place = RectangleSpec(-ANTIMERIDIAN, parts.south, ANTIMERIDIAN, parts.north)
        conditions.append(is_inside(parts.regions))
    conditions += map(has_row, source.joined)
    joins = [JoinSpec(one.table.name, one.table.id, one.table.key, one.column) for one in source.joined]
    join = replace(joins[0], further=tuple(joins[1:])) if joins else None
    bound = conjunction(conditions)
    spec = QuerySpec(
        stream=source.stream.name,
        stream_id=source.stream.id,
        text=to_sql(select),
        kind=kind_of_region(place).name,
        members=Members(region=place, condition=bound),
        join=join,
        areas=_areas_of_members(place, bound),
    )
    scope = Scope(*names) if distance is None else Scope(*names, no_distance=None, distance=distance)
    return _Query(spec, scope)


def _without_focal_objects(conditions: list[Expr], stream: StreamSpec) -> list[Expr]:
    """Return conditions that exclude the focal objects of moving regions, wherever these occur."""
    keys = dict.fromkeys(chain.from_iterable(map(focal_keys_in, conditions)))
    column = ColumnExpr(stream.key)
    return [CompareExpr("<>", column, LiteralExpr(key, stream.types[stream.key])) for key in keys]


def _placed(select: Select, source: FromClause) -> tuple[list[Expression], Inside | None]:
    """Return the query's region, as the node that has it, and the remaining conditions.

    The region is, in this order of preference: a moving region, because indexes hold those; the region of the
    INSIDE clause; the region of the first top-level `loc INSIDE …`; one after INTERSECTS, which for points is
    the same. With NEAREST, all of them are conditions.
    """
    conditions = list(source.conditions)
    if select.intersects is not None:
        touched = Inside(_LOCATION, select.intersects, "INTERSECTS", span=select.intersects.span)
        conditions.insert(0, touched)
    if select.region is not None:
        conditions.insert(0, Inside(_LOCATION, select.region, span=select.region.span))
    insides = [part for part in conditions if isinstance(part, Inside)]
    for part in insides:
        check_location(part)
    if not insides or select.nearest is not None:
        return conditions, None
    ranks = [(not moves(part.region), part.relation == "INTERSECTS") for part in insides]
    chosen = insides[ranks.index(min(ranks))]
    return [part for part in conditions if part is not chosen], chosen


def _listed(outputs: Outputs) -> tuple[SelectColumn, ...]:
    return tuple(SelectColumn(name, typed.expr) for name, typed in outputs.items())


def _lookup(bound: Expr | None, key: str) -> Key | None:
    """Return the constant to which a top-level condition sets the key equal, if there is one."""
    for part in conjuncts(bound):
        match part:
            case CompareExpr("=", ColumnExpr(column), LiteralExpr(str() | int() as value)) | CompareExpr(
                "=", LiteralExpr(str() | int() as value), ColumnExpr(column)
            ) if column == key:
                return value
    return None


def _ordering(select: Select, scope: Scope, outputs: Outputs) -> tuple[OrderColumn, ...]:
    """Return the columns of ORDER BY; names of the select list take precedence."""
    return ordering(select.order_by, dataclasses.replace(scope, outputs=outputs)) if select.order_by else ()


def _areas_of_members(place: BoundRegion, bound: Expr | None) -> tuple[int, ...]:
    """Return the ids of the named regions in a query's region and condition, ascending."""
    own = place.area if isinstance(place, NamedRegionSpec | CircleSpec) else None
    return tuple(sorted(areas_of(bound) | (set() if own is None else {own})))


def _areas(members: QuerySpec, *expressions: Expr | None) -> tuple[int, ...]:
    """Return the ids of the named regions in a query's region, condition and other parts, ascending."""
    return tuple(sorted(set(members.areas).union(*map(areas_of, expressions))))
