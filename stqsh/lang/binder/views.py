"""Expand views: turn a SELECT from a view into the equivalent SELECT from the view's own stream.

The view's columns are replaced by their definitions, and the conditions are combined by AND. A query over a
view is therefore like any other query, continuous or not, and is independent of the view once it is bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from stqsh.lang.ast.expressions import And, Call, Column, Expression, Inside, Literal, Node, Star
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import CreateView, OrderItem, Relation, Select, SelectItem
from stqsh.lang.binder.aggregates import is_aggregated, without_distinct
from stqsh.lang.binder.names import check_free
from stqsh.lang.binder.places import LOCATIONS
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, NotSupportedError, near
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax.parse import parse
from stqsh.spec.view import ViewSpec

_KEPT = 64
_LOCATION = Column("loc")

Columns = Mapping[str, Expression]
"""The definition of each column of a view, over the view's own stream."""


def create_view(statement: CreateView, catalogue: CatalogueView) -> ViewSpec:
    """Return the spec of a view; the caller has to check whether its SELECT can be answered.

    Raises:
        BindError: the name is in use, or two of its columns have the same name.
    """
    check_free(statement.name, catalogue)
    select = statement.select
    if select.sync is not None:
        raise NotSupportedError("SYNC in a view", select.sync.span)
    if not select.relations:
        raise BindError("a view needs a FROM", select.items[0].span, expected=("FROM a stream",))
    over = expanded(select, catalogue)
    _columns(without_distinct(over, catalogue), catalogue)
    return ViewSpec(statement.name.text, to_sql(replace(select, format=None)))


def view_columns(view: ViewSpec, catalogue: CatalogueView) -> tuple[str, ...]:
    """Return the names of a view's columns."""
    return tuple(_columns(without_distinct(expanded(_select_of(view.text), catalogue), catalogue), catalogue))


def expanded(select: Select, catalogue: CatalogueView) -> Select:
    """Return the equivalent SELECT over streams and tables; one that uses no view is not changed.

    Raises:
        BindError: the view has no such column.
        NotSupportedError: there is no single equivalent SELECT.
    """
    views = [one for one in select.relations if _view(one, catalogue) is not None]
    if not views:
        return select
    if len(select.relations) > 1:
        raise NotSupportedError("joins with a view", views[0].span)
    [relation] = views
    view = _view(relation, catalogue)
    assert view is not None, "it is one of the views"
    inner = without_distinct(expanded(_select_of(view.text), catalogue), catalogue)
    return _Substitution(relation, inner, _columns(inner, catalogue)).applied(select)


def _view(relation: Relation, catalogue: CatalogueView) -> ViewSpec | None:
    return catalogue.view(relation.name)


@lru_cache(_KEPT)
def _select_of(text: str) -> Select:
    [select] = parse(text)
    assert isinstance(select, Select), "a view is a SELECT"
    return select


def _columns(inner: Select, catalogue: CatalogueView) -> dict[str, Expression]:
    """Return the columns of a view by name, with `*` expanded."""
    found: dict[str, Expression] = {}
    for item in inner.items:
        for name, value in _named(item, inner, catalogue):
            if name in found:
                raise BindError(
                    f"two columns of the view are called {name!r}", item.span, hint="name one with AS"
                )
            found[name] = value
    return found


def _named(item: SelectItem, inner: Select, catalogue: CatalogueView) -> list[tuple[str, Expression]]:
    node = item.expression
    if not isinstance(node, Star):
        return [(item.alias or _name(node, inner, catalogue), node)]
    found: list[tuple[str, Expression]] = []
    for relation in inner.relations:
        own = {relation.name, relation.alias}
        spec = catalogue.stream(relation.name) or catalogue.table(relation.name)
        if spec is None or (node.qualifier is not None and node.qualifier not in own):
            continue
        qualifier = (relation.alias or relation.name) if len(inner.relations) > 1 else None
        is_joined = bool(found) and node.qualifier is None
        names = [name for name in spec.types if not (is_joined and name == spec.key)]
        found += [(name, Column(name, qualifier, span=node.span)) for name in names]
    return found


def _name(node: Expression, inner: Select, catalogue: CatalogueView) -> str:
    """Return the name that a select list gives to an expression without AS."""
    if isinstance(node, Column):
        stream = catalogue.stream(inner.relations[0].name)
        is_distance = node.name.lower() == "distance" and (stream is None or node.name not in stream.types)
        return "distance" if is_distance else node.name
    return node.name.lower() if isinstance(node, Call) else printed(node)


class _Substitution:
    """Replaces a view by its own SELECT.

    Args:
        relation: The view in FROM.
        inner: The view's SELECT, over its own stream.
        columns: The columns of the view.
    """

    def __init__(self, relation: Relation, inner: Select, columns: Columns) -> None:
        self._name = relation.name
        self._qualifiers = {relation.name, relation.alias}
        self._inner, self._columns = inner, columns

    def applied(self, outer: Select) -> Select:
        """Return the SELECT that is equivalent to one over the view."""
        inner, has_groups = self._inner, is_aggregated(outer) or outer.distinct
        self._check(outer, has_groups)
        where = [self._value(outer.where)] if outer.where is not None else []
        if outer.region is not None:
            where.append(Inside(_LOCATION, outer.region, span=outer.region.span))
        if outer.intersects is not None:
            where.append(Inside(_LOCATION, outer.intersects, "INTERSECTS", span=outer.intersects.span))
        of_groups = is_aggregated(inner)
        shown = frozenset(item.alias for item in outer.items if item.alias is not None)
        having = [inner.having, *(where if of_groups else ())]
        if outer.having is not None:
            having.append(self._value(outer.having, shown))
        order = tuple(self._ordered(item, shown) for item in outer.order_by)
        return replace(
            outer,
            items=tuple(one for item in outer.items for one in self._items(item)),
            relations=inner.relations,
            where=_both([inner.where, *(() if of_groups else where)]),
            region=inner.region,
            intersects=inner.intersects,
            nearest=inner.nearest or outer.nearest,
            group_by=inner.group_by or tuple(self._value(one, shown) for one in outer.group_by),
            having=_both(having),
            order_by=order or (() if has_groups else inner.order_by),
            limit=inner.limit if outer.limit is None else outer.limit,
            window=inner.window or outer.window,
            slide=inner.slide or outer.slide,
        )

    def _check(self, outer: Select, has_groups: bool) -> None:
        """Raise `NotSupportedError` for parts that would have to be computed after the view."""
        inner, view = self._inner, f"the view {self._name}, which has"
        place = outer.relations[0].span
        of_groups = is_aggregated(inner)
        regions = (outer.region, outer.intersects, outer.nearest)
        has_region = any(one is not None for one in regions)
        chooses = outer.where is not None or has_region
        if of_groups and (has_groups or has_region):
            raise NotSupportedError(f"groups and regions over {view} groups", place)
        if inner.limit is not None and (chooses or has_groups or outer.order_by or outer.limit is not None):
            raise NotSupportedError(f"more than columns of {view} a LIMIT", place)
        if inner.nearest is not None and chooses:
            raise NotSupportedError(f"conditions on {view} NEAREST", place)
        if inner.window is not None and outer.window is not None:
            raise NotSupportedError(f"WINDOW over {view} one", outer.window.span)

    def _items(self, item: SelectItem) -> list[SelectItem]:
        node = item.expression
        if isinstance(node, Star):
            if node.qualifier is not None and node.qualifier not in self._qualifiers:
                raise self._unknown_qualifier(node.qualifier, node.span)
            return [
                SelectItem(placed(value, node.span), name, span=item.span)
                for name, value in self._columns.items()
            ]
        value = self._value(node)
        if item.alias is not None or isinstance(node, Call):
            return [replace(item, expression=value)]
        alias = node.name if isinstance(node, Column) else printed(node)
        return [SelectItem(value, alias, span=item.span)]

    def _ordered(self, item: OrderItem, shown: frozenset[str]) -> OrderItem:
        """Return an expression of ORDER BY; a number stays, because it means a column of the select list."""
        if isinstance(item.expression, Literal):
            return item
        return replace(item, expression=self._value(item.expression, shown))

    def _value(self, node: Expression, shown: frozenset[str] = frozenset()) -> Expression:
        """Return an expression over the view's stream; the names `shown` in the select list stay."""
        found: Expression = self._replaced(node, shown)
        return found

    def _replaced(self, part: Any, shown: frozenset[str]) -> Any:
        if isinstance(part, tuple):
            return tuple(self._replaced(one, shown) for one in part)
        if isinstance(part, Column):
            return part if self._stays(part, shown) else self._column(part)
        if isinstance(part, Inside) or not isinstance(part, Node) or not is_dataclass(part):
            return part
        old = {one.name: getattr(part, one.name) for one in fields(part) if one.name != "span"}
        new = {name: self._replaced(value, shown) for name, value in old.items()}
        changed = {name: value for name, value in new.items() if value is not old[name]}
        return replace(part, **changed) if changed else part

    def _stays(self, node: Column, shown: frozenset[str]) -> bool:
        """Return whether a name is in the select list, or is the location of the view's stream."""
        is_shown = node.qualifier is None and node.name in shown
        return is_shown or (node.name.lower() in LOCATIONS and node.name not in self._columns)

    def _column(self, node: Column) -> Expression:
        if node.qualifier is not None and node.qualifier not in self._qualifiers:
            raise self._unknown_qualifier(node.qualifier, node.span)
        found = self._columns.get(node.name)
        if found is None and node.name.lower() == "distance":
            found = self._columns.get("distance")
        if found is None:
            close = near(node.name, self._columns)
            raise BindError(
                f"view {self._name} has no column {node.name!r}",
                node.span,
                near=close,
                hint=f"its columns are {', '.join(self._columns)}",
            )
        value: Expression = placed(found, node.span)
        return value

    def _unknown_qualifier(self, name: str, span: Span) -> BindError:
        known = [one for one in self._qualifiers if one is not None]
        return BindError(f"unknown stream or alias {name!r}", span, near=near(name, known))


def _both(conditions: list[Expression | None]) -> Expression | None:
    given = tuple(one for one in conditions if one is not None)
    return And(given, span=given[0].span) if len(given) > 1 else given[0] if given else None


def placed(part: Any, span: Span) -> Any:
    """Return a part of a view's SELECT with its position set to that of the column that it replaces."""
    if isinstance(part, tuple):
        return tuple(placed(one, span) for one in part)
    if not isinstance(part, Node) or not is_dataclass(part):
        return part
    old = {one.name: getattr(part, one.name) for one in fields(part) if one.name != "span"}
    return replace(part, span=span, **{name: placed(value, span) for name, value in old.items()})
