"""Resolve names in conditions and select lists to columns of a stream or of joined tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from stqsh.lang.ast.expressions import Call, Column, Expression
from stqsh.lang.ast.source import Span
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.values import quoted
from stqsh.spec.expression import DISTANCE, ColumnExpr, Expr, JoinExpr
from stqsh.spec.stream import StreamSpec, TableSpec

NO_CENTRE = "DISTANCE is for CIRCLE and NEAREST: there is no place to measure from"
NO_AGGREGATE = "an aggregate stands in a select list, in HAVING or in ORDER BY, not here"
NO_AGGREGATE_IN_WHERE = "an aggregate cannot be tested in WHERE"
NOT_IN_WHERE = "DISTANCE cannot be tested in WHERE"


class TypedExpression(NamedTuple):
    """A bound expression, its type, and its position; here `NULL` and `DURATION` also count as types."""

    expr: Expr
    type: str
    span: Span


_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
Bind: TypeAlias = "Callable[[Expression, Scope], TypedExpression]"
"""Binds an expression; modules below `conditions` get it as an argument."""


@dataclass(frozen=True)
class JoinedTable:
    """A table joined by its key, which equals `by`: a column of the stream or of a table before it."""

    table: TableSpec
    by: ColumnExpr | JoinExpr
    qualifiers: frozenset[str]

    @property
    def columns(self) -> dict[str, str]:
        """The table's columns and their types."""
        return self.table.types

    def value(self, name: str) -> JoinExpr:
        """Return the expression for a column's value in the matching row; NULL if no row matches."""
        return JoinExpr(self.table.id, self.column, name)

    @property
    def column(self) -> str | JoinExpr:
        """The column to which the key is equal, in the form that `JoinExpr` needs."""
        return self.by.name if isinstance(self.by, ColumnExpr) else self.by


@dataclass(frozen=True)
class Scope:
    """The names that an expression may use.

    Attributes:
        stream: The stream of the query.
        qualifiers: The names of the stream.
        catalogue: The catalogue, for regions.
        joined: The tables joined with the stream, in order.
        outputs: Additional names: those of a query's select list, in TAIL and ORDER BY.
        no_distance: The reason why DISTANCE has no value; None if it has one.
        distance: The expression for DISTANCE.
        no_aggregate: The reason why aggregates are not allowed.
        no_moving_region: The text of the error for a moving region; empty in WHERE, where one is allowed.
        columns: The stream's columns and their types.
    """

    stream: StreamSpec
    qualifiers: frozenset[str]
    catalogue: CatalogueView
    joined: tuple[JoinedTable, ...] = ()
    outputs: Mapping[str, TypedExpression] = field(default_factory=dict)
    no_distance: str | None = NO_CENTRE
    distance: Expr = DISTANCE
    no_aggregate: str = NO_AGGREGATE
    no_moving_region: str = "a moving region outside of WHERE"
    columns: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self.stream.types)

    def column(self, node: Column) -> TypedExpression:
        """Return the expression to which a name refers.

        `time` means the TIME column, and DISTANCE the distance from the query's centre, unless a column has
        that name. Raises `BindError` if the name is unknown or ambiguous.
        """
        found = self._found(node)
        if found is None:
            raise _unknown(self, node)
        return found if found.span == node.span else found._replace(span=node.span)

    def find(self, node: Column) -> TypedExpression | None:
        """Return the expression to which a name refers, None if unknown; raise `BindError` if ambiguous."""
        return self._found(node)

    def replaced(self, node: Expression) -> TypedExpression | None:
        """Return the replacement for a node as a whole, None if its parts have to be bound."""
        del node
        return None

    def aggregate(self, node: Call) -> TypedExpression:
        """Return the value of an aggregate; raise `BindError` if aggregates are not allowed."""
        hint = "HAVING tests aggregates" if self.no_aggregate == NO_AGGREGATE_IN_WHERE else None
        raise BindError(self.no_aggregate, node.span, hint=hint)

    def key_type(self, node: object) -> str | None:
        """Return the type of the stream's or a table's key if a node is that column, else None."""
        found = self._found(node) if isinstance(node, Column) else None
        if found is None:
            return None
        keys: list[Expr] = [ColumnExpr(self.stream.key)]
        keys += [joined.value(joined.table.key) for joined in self.joined]
        return found.type if found.expr in keys else None

    def is_time(self, node: object) -> bool:
        """Return whether a node is a column of type TIMESTAMP."""
        found = self._found(node) if isinstance(node, Column) else None
        return found is not None and found.type == "TIMESTAMP"

    def _found(self, node: Column) -> TypedExpression | None:
        of_stream = self._of_stream(node)
        if node.qualifier is not None:
            return self._qualified(node, of_stream)
        of_tables = self._of_tables(node, of_stream)
        if len(of_tables) + (of_stream is not None) > 1:
            raise _ambiguous(self, node, of_stream, of_tables)
        of_table = next(iter(of_tables.values()), None)
        # In ORDER BY and TAIL, names of the select list take precedence if they rename something.
        named = self.outputs.get(node.name)
        return named or of_stream or of_table or self._special(node)

    def _qualified(self, node: Column, of_stream: TypedExpression | None) -> TypedExpression | None:
        if node.qualifier in self.qualifiers:
            return of_stream or self._special(node)
        for joined in self.joined:
            if node.qualifier in joined.qualifiers:
                return _of_table(joined, node)
        nested = self._of_stream(replace(node, name=f"{node.qualifier}.{node.name}", qualifier=None))
        if nested is not None:
            return nested
        known = self.qualifiers.union(*(joined.qualifiers for joined in self.joined))
        raise BindError(
            f"unknown stream or alias {node.qualifier!r}",
            node.span,
            near=near(node.qualifier or "", known),
        )

    def _of_stream(self, node: Column) -> TypedExpression | None:
        kind = self.columns.get(node.name)
        return None if kind is None else TypedExpression(ColumnExpr(node.name), kind, node.span)

    def _of_tables(self, node: Column, of_stream: TypedExpression | None) -> dict[str, TypedExpression]:
        """Return the columns of joined tables to which a name may refer, by table.

        A key that a join makes equal to another of these columns is omitted, because either may be meant.
        """
        found = {one.table.name: (one, typed) for one in self.joined if (typed := _of_table(one, node))}
        exprs = [typed.expr for _, typed in found.values()] + ([of_stream.expr] if of_stream else [])
        return {
            name: typed
            for name, (joined, typed) in found.items()
            if node.name != joined.table.key or joined.by not in exprs
        }

    def _special(self, node: Column) -> TypedExpression | None:
        word = node.name.lower()
        if word == "time" and self.stream.time:
            return TypedExpression(ColumnExpr(self.stream.time), "TIMESTAMP", node.span)
        if word != "distance" or any(name.lower() == word for name in self.columns):
            return None
        if self.no_distance is not None:
            raise BindError(self.no_distance, node.span)
        return TypedExpression(self.distance, "DOUBLE", node.span)


def names_of(spec: StreamSpec | TableSpec, alias: str | None) -> frozenset[str]:
    """Return the qualifiers of a stream or table: its alias if it has one, and its name."""
    return frozenset({spec.name} | ({alias} if alias else set()))


def _of_table(joined: JoinedTable, node: Column) -> TypedExpression | None:
    kind = joined.columns.get(node.name)
    return None if kind is None else TypedExpression(joined.value(node.name), kind, node.span)


def _ambiguous(
    scope: Scope, node: Column, of_stream: TypedExpression | None, of_tables: Mapping[str, TypedExpression]
) -> BindError:
    owners = [*([] if of_stream is None else [scope.stream.name]), *of_tables]
    *names, last = (f"{owner}.{node.name}" for owner in owners)
    several = "both" if len(owners) == 2 else "several"  # two are both
    return BindError(f"{node.name!r} is a column of {several}; write {', '.join(names)} or {last}", node.span)


def _unknown(scope: Scope, node: Column) -> BindError:
    if not scope.stream.name:  # a SELECT without FROM
        text = f"a text takes single quotes: {quoted(node.name)}"
        return BindError(f"there is no FROM, so there is no column {node.name!r}", node.span, hint=text)
    owner = next((joined for joined in scope.joined if node.qualifier in joined.qualifiers), None)
    if owner is not None:
        who, columns = f"table {owner.table.name}", list(owner.columns)
    elif not scope.columns:  # rows that are not records
        who, columns = "the select list", list(scope.outputs)
    else:
        who, columns = f"stream {scope.stream.name}", list(scope.columns)
    of_tables = [name for joined in scope.joined for name in joined.columns]
    further = [] if owner is not None else [*scope.outputs, *of_tables]
    similar = near(node.name, (*columns, *further))
    meant = "" if similar or node.qualifier else f"; a text takes single quotes: {quoted(node.name)}"
    if (name := node.name.upper()) in _AGGREGATES and not node.qualifier:
        meant = f"; an aggregate has parentheses: {name}({'*' if name == 'COUNT' else 'x'})"
    return BindError(
        f"{who} has no column {node.name!r}",
        node.span,
        near=similar,
        hint=f"its columns are {', '.join(columns)}{meant}",
    )
