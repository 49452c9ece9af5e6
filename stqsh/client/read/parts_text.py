"""The three parts of a query in plain words: its members, its result and its timing."""

from __future__ import annotations

from collections.abc import Sequence

from stqsh.client.read.spec_text import expression_text, region_text
from stqsh.spec.aggregate import AggregateSpec, GroupOrder
from stqsh.spec.expression import (
    ColumnExpr,
    Expr,
    IsNullExpr,
    JoinExpr,
    NotExpr,
    conjunction,
    conjuncts,
    rewrite,
)
from stqsh.spec.query import BoundQuery, OrderColumn, SnapshotSpec
from stqsh.spec.region import EverywhereSpec, NearestSpec
from stqsh.spec.stream import StreamSpec
from stqsh.units import format_duration


def members_text(query: BoundQuery, stream: StreamSpec) -> str:
    """Return which objects belong to a query, such as "objects in square where speed > 3"."""
    members, what = query.members, "events" if stream.is_event else "objects"
    match members.region:
        case EverywhereSpec():
            who = f"all {what}"
        case NearestSpec(k) as nearest:
            who = f"the {k} {what} nearest to {nearest.focal!r}"
            if nearest.place is not None:
                who = f"the {k} {what} nearest to ({nearest.x:g}, {nearest.y:g})"
        case region:
            who = f"{what} in {region_text(region)}"
    tables = "".join(f" with a row in {join.table}" for join in query.joins)
    rest = conjunction([part for part in conjuncts(members.condition) if not _is_join(part)])
    having = "" if rest is None else f" where {expression_text(rest)}"
    new = ", if they come after the query" if members.since_now else ""
    least = members.min_accuracy
    shed = "" if least is None else f"; shedding leaves at least {100 * least:g} % of them"
    return f"{who}{tables}{having}{new}{shed}"


def result_text(query: BoundQuery) -> str:
    """Return what a query shows of its members, such as "the first 3 by speed DESC, oid: oid, speed"."""
    result, aggregates = query.result, query.result.aggregates
    if isinstance(query, SnapshotSpec) and query.aggregate == "count":
        return f"their number: {query.output}"
    if aggregates is not None:
        return _groups_text(aggregates)
    shown = ", ".join(column.name for column in result.select)
    if result.limit is None:
        return f"a row for each: {shown}"
    return f"the first {result.limit}{_by(result.order)}: {shown}"


def timing_text(query: BoundQuery, *, is_paused: bool = False) -> str:
    """Return when a query looks at its members and what holds updates back, such as "every 5 min"."""
    timing = query.timing
    when = "after each step in which something changes"
    if isinstance(query, SnapshotSpec):
        when = "once"
    elif timing.sync_us is not None:
        when = f"every {format_duration(timing.sync_us)}"
    elif timing.each_step:
        when = "after each step, also without records"
    parts = [
        when if timing.window_us is None else f"{when}, over the last {format_duration(timing.window_us)}"
    ]
    if timing.dwell_us:
        parts.append(f"changes wait until they have lasted {format_duration(timing.dwell_us)}")
    if timing.changes:
        parts.append("rows that change are sent again")
    if timing.for_us is not None:
        parts.append(f"ends after {format_duration(timing.for_us)}")
    return "; ".join([*parts, *(["paused"] if is_paused else [])])


def _is_join(condition: Expr) -> bool:
    """Return whether a condition only says that a table has a row for the object."""
    match condition:
        case NotExpr(IsNullExpr(JoinExpr())):
            return True
    return False


def _groups_text(aggregates: AggregateSpec) -> str:
    measured = [
        one.function if one.argument is None else f"{one.function} of {expression_text(one.argument)}"
        for one in aggregates.measures
    ]
    names = {f"g{i}": expression_text(group.value) for i, group in enumerate(aggregates.groups)}
    names |= {f"m{i}": text for i, text in enumerate(measured)}
    what = "one row"
    if aggregates.groups:
        what = f"a row for each {', '.join(expression_text(group.value) for group in aggregates.groups)}"
    if aggregates.distinct:
        what += ", equal ones once"
    if aggregates.having is not None:
        what += f", if {_named(aggregates.having, names)}"
    if aggregates.limit is not None:
        order = [(one, _named(one.value, names)) for one in aggregates.order]
        what += f"; the first {aggregates.limit}" + (f" by {_order(order)}" if order else "")
    return f"{what}: {', '.join(output.name for output in aggregates.select)}"


def _named(expr: Expr, names: dict[str, str]) -> str:
    """Return an expression over a group's columns as a text."""
    return expression_text(
        rewrite(expr, lambda node: ColumnExpr(names[node.name]) if isinstance(node, ColumnExpr) else None)
    )


def _by(order: Sequence[OrderColumn]) -> str:
    return f" by {_order([(one, expression_text(one.value)) for one in order])}" if order else ""


def _order(order: Sequence[tuple[OrderColumn | GroupOrder, str]]) -> str:
    return ", ".join(f"{text} DESC" if one.is_descending else text for one, text in order)
