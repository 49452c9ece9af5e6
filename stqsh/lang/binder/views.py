"""Expand views: turn a SELECT from a view into the equivalent SELECT from the view's own stream.

The view's columns are replaced by their definitions, and the conditions are combined by AND. A query over a
view is therefore like any other query, continuous or not, and is independent of the view once it is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from stqsh.lang.ast.expressions import And, Call, Column, Expression, Inside, Literal, Node, Star
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import CreateView, OrderItem, Relation, Select, SelectItem
from stqsh.lang.binder.aggregates import is_aggregated, without_distinct
from stqsh.lang.binder.joins import check_sources
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
    if select.options:
        raise NotSupportedError("WITH in a view", select.options[0][1].span)
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
        BindError: the view has no such column, or a source is unknown.
        NotSupportedError: there is no single equivalent SELECT.
    """
    views = {one: view for one in select.relations if (view := catalogue.view(one.name)) is not None}
    if not views:
        return select
    check_sources(select.relations, catalogue)
    [(relation, view)] = views.items()
    inner = without_distinct(expanded(_select_of(view.text), catalogue), catalogue)
    if len(select.relations) > 1:
        _check_joined(relation, inner)
        inner = _qualified(inner, relation.alias or relation.name, catalogue)
    return _Substitution(select, relation, inner, catalogue).applied()


def _check_joined(relation: Relation, inner: Select) -> None:
    """Raise `NotSupportedError` for a view that would have to be computed before it is joined."""
    parts = {"groups": is_aggregated(inner), "a LIMIT": inner.limit is not None, "NEAREST": inner.nearest}
    for part, is_there in parts.items():
        if is_there:
            raise NotSupportedError(f"joins with the view {relation.name}, which has {part}", relation.span)


def _qualified(inner: Select, name: str, catalogue: CatalogueView) -> Select:
    """Return a view's SELECT with source names that no other source of a join has.

    A single source gets the name that the view has in the join; several get that name as a prefix.
    """
    several = len(inner.relations) > 1
    relations = tuple(
        replace(one, alias=f"{name}_{one.alias or one.name}" if several else name) for one in inner.relations
    )
    owners: dict[tuple[str | None, str], str] = {}
    for old, new in zip(inner.relations, relations, strict=True):
        assert new.alias is not None
        for column in _types(old, catalogue):
            for qualifier in (None, old.name, old.alias):
                owners.setdefault((qualifier, column), new.alias)

    def owned(node: Column) -> Column:
        owner = owners.get((node.qualifier, node.name))
        is_location = owner is None and node.name.lower() in LOCATIONS
        return replace(node, qualifier=owner) if owner is not None or is_location else node

    items = tuple(
        replace(item, expression=value, alias=column)
        for item in inner.items
        for column, value in _named(item, inner, catalogue)
    )
    whole: Select = _rewritten(replace(inner, items=items, relations=()), owned)
    return replace(whole, relations=relations)


def _types(relation: Relation, catalogue: CatalogueView) -> Collection[str]:
    """Return the names of the columns of a stream or a table."""
    spec = catalogue.stream(relation.name) or catalogue.table(relation.name)
    return () if spec is None else spec.types


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
    """Replaces a view in FROM by its own SELECT.

    Args:
        outer: The SELECT that has the view in FROM, alone or with tables.
        relation: The view in FROM.
        inner: The view's SELECT, over its own sources.
    """

    def __init__(self, outer: Select, relation: Relation, inner: Select, catalogue: CatalogueView) -> None:
        self._outer, self._relation, self._inner = outer, relation, inner
        self._qualifiers = {relation.name, relation.alias or relation.name}
        self._columns = _columns(inner, catalogue)
        self._tables = {
            one: table
            for one in outer.relations
            if one is not relation and (table := catalogue.table(one.name)) is not None
        }

    def applied(self) -> Select:
        """Return the SELECT that is equivalent to the one over the view."""
        outer, inner = self._outer, self._inner
        has_groups = is_aggregated(outer) or outer.distinct
        self._check(has_groups)
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
        sources = ((one,) if one in self._tables else inner.relations for one in outer.relations)
        return replace(
            outer,
            items=tuple(one for item in outer.items for one in self._items(item)),
            relations=tuple(one for some in sources for one in some),
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

    def _check(self, has_groups: bool) -> None:
        """Raise `NotSupportedError` for parts that would have to be computed after the view."""
        outer, inner, place = self._outer, self._inner, self._relation.span
        view = f"the view {self._relation.name}, which has"
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
            return [
                SelectItem(placed(value, node.span), name, span=item.span)
                for name, value in self._all(node).items()
            ]
        value = self._value(node)
        if item.alias is not None or isinstance(node, Call):
            return [replace(item, expression=value)]
        alias = node.name if isinstance(node, Column) else printed(node)
        return [SelectItem(value, alias, span=item.span)]

    def _all(self, star: Star) -> Columns:
        """Return the columns that `*` means."""
        if star.qualifier in self._qualifiers:
            return self._columns
        if star.qualifier is not None:
            table = self._table(star.qualifier, star.span)
            return {name: Column(name, table.alias or table.name) for name in self._tables[table].types}
        found: dict[str, Expression] = {}
        for relation in self._outer.relations:
            columns = self._columns
            if relation in self._tables:
                spec = self._tables[relation]
                names = (name for name in spec.types if not (found and name == spec.key))
                columns = {name: Column(name, relation.alias or relation.name) for name in names}
            for name, value in columns.items():
                if name in found:
                    hint = "choose columns by name, and name one with AS"
                    raise BindError(f"two columns of * are called {name!r}", star.span, hint=hint)
                found[name] = value
        return found

    def _table(self, qualifier: str, span: Span) -> Relation:
        """Return the table in FROM that has a name or an alias."""
        for relation in self._tables:
            if qualifier in (relation.name, relation.alias):
                return relation
        known = [name for one in self._outer.relations for name in (one.name, one.alias) if name]
        raise BindError(f"unknown stream or alias {qualifier!r}", span, near=near(qualifier, known))

    def _ordered(self, item: OrderItem, shown: frozenset[str]) -> OrderItem:
        """Return an expression of ORDER BY; a number stays, because it means a column of the select list."""
        if isinstance(item.expression, Literal):
            return item
        return replace(item, expression=self._value(item.expression, shown))

    def _value(self, node: Expression, shown: frozenset[str] = frozenset()) -> Expression:
        """Return an expression over the views' sources; the names `shown` in the select list stay."""

        def meant(column: Column) -> Expression:
            is_shown = column.qualifier is None and column.name in shown
            return column if is_shown else self._column(column)

        found: Expression = _rewritten(node, meant)
        return found

    def _column(self, node: Column) -> Expression:
        """Return what a column of the view or of a table means."""
        if node.qualifier is not None and node.qualifier not in self._qualifiers:
            self._table(node.qualifier, node.span)
            return node
        found, owners = self._columns.get(node.name), []
        if node.qualifier is None:
            owners = [one for one, table in self._tables.items() if node.name in table.types]
        if found is not None and owners:
            if isinstance(found, Column) and found.name == node.name:
                return node  # like any name of a join: the key of a table may be meant as well
            raise self._ambiguous(node, owners)
        if owners:
            return replace(node, qualifier=owners[0].alias or owners[0].name) if len(owners) == 1 else node
        if found is None and node.name.lower() in LOCATIONS:
            return replace(node, qualifier=None)
        if found is None and node.name.lower() == "distance":
            found = self._columns.get("distance")
        if found is None:
            raise self._no_column(node)
        value: Expression = placed(found, node.span)
        return value

    def _ambiguous(self, node: Column, owners: list[Relation]) -> BindError:
        """Return the error that the view and tables have a column."""
        *names, last = [f"{one.alias or one.name}.{node.name}" for one in (self._relation, *owners)]
        several = "both" if len(names) == 1 else "several"
        return BindError(
            f"{node.name!r} is a column of {several}; write {', '.join(names)} or {last}", node.span
        )

    def _no_column(self, node: Column) -> BindError:
        """Return the error that the view, or no source, has a column."""
        view, of_tables = self._relation.name, node.qualifier is None and bool(self._tables)
        names = [*self._columns]
        if of_tables:
            names += [name for table in self._tables.values() for name in table.types]
            view = " and ".join(one.name for one in self._outer.relations)
        listed = f"{'their' if of_tables else 'its'} columns are {', '.join(dict.fromkeys(names))}"
        text = f"none of {view} has a column" if of_tables else f"view {view} has no column"
        return BindError(f"{text} {node.name!r}", node.span, near=near(node.name, names), hint=listed)


def _rewritten(part: Any, change: Callable[[Column], Expression]) -> Any:
    """Return a part of a SELECT with each column replaced by what `change` returns for it.

    A region's location stays, but without the name of its source: there is only one stream.
    """
    if isinstance(part, tuple):
        return tuple(_rewritten(one, change) for one in part)
    if isinstance(part, Column):
        return change(part)
    if isinstance(part, Inside):
        return replace(part, column=_LOCATION) if part.column.name.lower() in LOCATIONS else part
    if not isinstance(part, Node) or not is_dataclass(part):
        return part
    old = {one.name: getattr(part, one.name) for one in fields(part) if one.name != "span"}
    new = {name: _rewritten(value, change) for name, value in old.items()}
    different = {name: value for name, value in new.items() if value is not old[name]}
    return replace(part, **different) if different else part


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
