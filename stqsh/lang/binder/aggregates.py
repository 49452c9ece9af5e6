"""Bind GROUP BY, HAVING and aggregates (language.md section 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from stqsh.lang.ast.expressions import Call, Column, Expression, Inside, Literal, Node, Parameter, Star
from stqsh.lang.ast.statements import Select, SelectItem
from stqsh.lang.binder.conditions import bind, condition
from stqsh.lang.binder.functions import AGGREGATES
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.binder.measures import bound_measure
from stqsh.lang.binder.scope import Scope, TypedExpression
from stqsh.lang.binder.selects import Outputs, ordering, place_in_list, select_list
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.spec.aggregate import (
    AggregateSpec,
    GroupColumn,
    GroupOrder,
    GroupOutput,
    Measure,
    group_column,
    measure_column,
)
from stqsh.spec.expression import ColumnExpr, RegionOfExpr, find_nodes
from stqsh.spec.query import OrderColumn, Timing

_IN_GROUP_BY = "an aggregate cannot stand in GROUP BY"


@dataclass(frozen=True, kw_only=True)
class GroupScope(Scope):
    """The names that expressions over groups may use: grouped expressions, and aggregates.

    Attributes:
        records: The names of the records, for the arguments of aggregates.
        groups: The expressions of GROUP BY, over records.
        measures: The aggregates found so far.
    """

    records: Scope
    groups: tuple[TypedExpression, ...]
    measures: list[Measure] = field(default_factory=list)

    def replaced(self, node: Expression) -> TypedExpression | None:
        """Return the group to which an expression is equal, or the value of an aggregate."""
        if isinstance(node, Call) and node.name in AGGREGATES:
            return self.aggregate(node)
        if isinstance(node, Literal | Parameter | Column | Star):
            return None
        try:
            bound = bind(node, self.records)
        except (BindError, NotSupportedError):
            return None
        group = self._group(bound, node)
        if group is None and (isinstance(node, Inside) or isinstance(bound.expr, RegionOfExpr)):
            raise _not_grouped(node, bound)  # its parts cannot be grouped either
        return group

    def aggregate(self, node: Call) -> TypedExpression:
        """Return the value of an aggregate, and add the aggregate to `measures`."""
        measure = bound_measure(node, self.records)
        if measure not in self.measures:
            self.measures.append(measure)
        return TypedExpression(measure_column(self.measures.index(measure)), measure.type, node.span)

    def key_type(self, node: object) -> str | None:
        """Return the type of the key if a node is the key column and grouped, else None."""
        return self.records.key_type(node)

    def is_time(self, node: object) -> bool:
        """Return whether a node is a grouped column or an aggregate of type TIMESTAMP."""
        if isinstance(node, Call):
            found = self.replaced(node)
            return found is not None and found.type == "TIMESTAMP"
        return super().is_time(node)

    def _found(self, node: Column) -> TypedExpression | None:
        if node.qualifier is None and node.name in self.outputs:
            return self.outputs[node.name]
        found = self.records.find(node)
        if found is None:
            return None
        group = self._group(found, node)
        if group is None:
            raise _not_grouped(node, found)
        return group

    def _group(self, bound: TypedExpression, node: Expression) -> TypedExpression | None:
        for number, group in enumerate(self.groups):
            if group.expr == bound.expr:
                return TypedExpression(group_column(number), group.type, node.span)
        return None


def is_aggregated(select: Select) -> bool:
    """Return whether a query shows groups, because it has GROUP BY, HAVING or an aggregate."""
    shown = [item.expression for item in select.items] + [item.expression for item in select.order_by]
    return bool(select.group_by) or select.having is not None or any(map(_has_aggregate, shown))


def without_distinct(select: Select, catalogue: CatalogueView) -> Select:
    """Rewrite a SELECT DISTINCT as the equivalent query over groups; return other queries unchanged.

    Groups that are not shown only repeat rows of the others, so they are left out if all that is shown is
    groups and constants. A query that computes values of more groups than it shows stays DISTINCT: its equal
    rows count once after its groups are computed.
    """
    if not select.distinct:
        return select
    plain = replace(select, distinct=False)
    if select.group_by:
        listed = [item.expression for item in select.items]
        listed += [Column(name) for item in select.items if (name := _group_name(item, select, catalogue))]
        hidden = [one for one in select.group_by if one not in listed and not isinstance(one, Literal)]
        if not hidden:
            return plain
        kept = tuple(one for one in select.group_by if one not in hidden)
        shows_groups = all(
            _is_group(item, place, kept) or Column(_group_name(item, select, catalogue)) in kept
            for place, item in enumerate(select.items, 1)
        )
        if not kept or not shows_groups or select.having is not None:
            return select
        return replace(plain, group_by=kept)
    if is_aggregated(plain) or any(isinstance(item.expression, Star) for item in select.items):
        return plain  # it has one row, or its rows differ by their keys
    constants = (Literal, Parameter)
    shown = [item.expression for item in select.items]
    return replace(plain, group_by=tuple(one for one in shown if not isinstance(one, constants)))


def _group_name(item: SelectItem, select: Select, catalogue: CatalogueView) -> str:
    """Return the alias by which GROUP BY may name a select item, "" for none: a column comes first."""
    sources = [catalogue.stream(one.name) or catalogue.table(one.name) for one in select.relations]
    is_column = any(source is not None and item.alias in source.types for source in sources)
    return "" if is_column or item.alias is None else item.alias


def _is_group(item: SelectItem, place: int, groups: tuple[Expression, ...]) -> bool:
    """Return whether the item of a select list, the first of which has place 1, is a group or a constant."""
    by_place = any(isinstance(one, Literal) and one.value == place for one in groups)
    return by_place or item.expression in groups or isinstance(item.expression, Literal)


def aggregated(select: Select, records: Scope) -> AggregateSpec:
    """Return the groups, the measures and the answer of a query. Raises `BindError`.

    Args:
        select: The query.
        records: The names of the query's records.
    """
    groups = tuple(_group(node, select, records) for node in select.group_by)
    scope = GroupScope(
        records.stream, records.qualifiers, records.catalogue, records.joined, records=records, groups=groups
    )
    _check_stars(select)
    outputs = select_list(select.items, scope)
    named = replace(scope, outputs=outputs)
    having = None if select.having is None else condition(select.having, named)
    order = ordering(select.order_by, named)
    if select.distinct:
        _check_shown(select, outputs, order)
    return AggregateSpec(
        groups=tuple(GroupColumn(group.expr, group.type) for group in groups),
        select=_listed(outputs),
        having=having,
        order=tuple(GroupOrder(one.value, one.is_descending, one.nulls_first) for one in order),
        measures=tuple(scope.measures),
        limit=select.limit,
        distinct=select.distinct,
    )


def _check_shown(select: Select, outputs: Outputs, order: tuple[OrderColumn, ...]) -> None:
    """Raise `BindError` if equal rows of a SELECT DISTINCT could have different places in its order."""
    shown = [output.expr for output in outputs.values()]
    for item, one in zip(select.order_by, order, strict=True):
        if one.value not in shown and any(node not in shown for node in find_nodes(one.value, ColumnExpr)):
            raise BindError(
                f"SELECT DISTINCT is ordered by what it shows, and {printed(item.expression)} is not shown",
                item.expression.span,
                hint="add it to the select list",
            )


def timing_of(select: Select) -> Timing:
    """Return when a query looks at its members: its SYNC, or SLIDE, and its WINDOW."""
    sync = None if select.sync is None else duration_us(select.sync, "SYNC")
    window = None if select.window is None else duration_us(select.window, "WINDOW")
    slide = None if select.slide is None else duration_us(select.slide, "SLIDE")
    if select.slide is not None and None not in (sync, slide) and sync != slide:
        raise BindError(
            "SYNC and SLIDE differ, but both say when the query is refreshed",
            select.slide.span,
            hint="leave one of them out",
        )
    return Timing(sync_us=sync or slide or window, window_us=window)


def _not_grouped(node: Expression, bound: TypedExpression) -> BindError:
    name = printed(node)
    choice = "" if bound.type == "BOOLEAN" else f", or choose one of its values: MIN({name})"
    return BindError(
        f"{name} is neither grouped nor within an aggregate", node.span, hint=f"put it into GROUP BY{choice}"
    )


def _has_aggregate(node: Any) -> bool:
    return not isinstance(node, Column) and any(call.name in AGGREGATES for call in _calls(node))


def _calls(node: Any) -> Iterator[Call]:
    """Yield the function calls in an expression."""
    if isinstance(node, Call):
        yield node
    for part in node if isinstance(node, tuple) else vars(node).values():
        if isinstance(part, Node | tuple):
            yield from _calls(part)


def _group(node: Expression, select: Select, records: Scope) -> TypedExpression:
    """Bind an expression of GROUP BY; a name that is no column may be the alias of a selected expression."""
    scope = replace(records, no_aggregate=_IN_GROUP_BY)
    if isinstance(node, Column) and node.qualifier is None and records.find(node) is None:
        named = (item.expression for item in select.items if item.alias == node.name)
        node = next(named, node)
    if isinstance(node, Literal):
        node = select.items[place_in_list(node, len(select.items), "GROUP BY")].expression
    if isinstance(node, Literal | Parameter):
        raise BindError("GROUP BY takes columns and expressions, not constants", node.span)
    typed = bind(node, scope)
    if typed.type in ("DURATION", "NULL"):
        raise BindError(f"cannot group by {printed(node)}", node.span)
    return typed


def _check_stars(select: Select) -> None:
    star = next((item for item in select.items if isinstance(item.expression, Star)), None)
    if star is not None:
        raise BindError(
            f"{printed(star.expression)} stands for all columns, which are not grouped",
            star.span,
            hint="list the expressions of GROUP BY, and aggregates",
        )


def _listed(outputs: Outputs) -> tuple[GroupOutput, ...]:
    kinds = {"NULL": "STRING"}
    return tuple(GroupOutput(name, one.expr, kinds.get(one.type, one.type)) for name, one in outputs.items())


def log_columns(spec: AggregateSpec) -> tuple[ColumnExpr, ...]:
    """Return the update log columns that contain the select list of a continuous query."""
    return tuple(ColumnExpr(f"s{i}:{output.type}") for i, output in enumerate(spec.select))
