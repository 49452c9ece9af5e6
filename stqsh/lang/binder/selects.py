"""Bind select lists and ORDER BY."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, count

from stqsh.lang.ast.expressions import Call, Column, Expression, Literal, Star
from stqsh.lang.ast.statements import OrderItem, SelectItem
from stqsh.lang.binder.conditions import bind
from stqsh.lang.binder.scope import JoinedTable, Scope, TypedExpression
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.spec.expression import DISTANCE, ColumnExpr, ExtentDistanceExpr
from stqsh.spec.query import OrderColumn

Outputs = dict[str, TypedExpression]
"""The columns of an answer by name, in order."""


def select_list(items: tuple[SelectItem, ...], scope: Scope) -> Outputs:
    """Return the columns of a select list, with `*` expanded. Raises `BindError`.

    A call without AS is named after its function, with a number if the name is taken: `count_1`.
    """
    outputs: Outputs = {}
    aliases = {item.alias for item in items}
    for item in items:
        added = _star(item.expression, scope) if isinstance(item.expression, Star) else _one(item, scope)
        if isinstance(item.expression, Call) and item.alias is None:
            added = _numbered(added, {*outputs, *aliases})
        twice = next((name for name in added if name in outputs), None)
        if twice is not None:
            raise BindError(
                f"two columns of the answer are called {twice!r}", item.span, hint="name one with AS"
            )
        outputs.update(added)
    return outputs


def _numbered(call: Outputs, taken: Collection[str | None]) -> Outputs:
    """Return a column, with a number appended to its name if that is taken."""
    [(name, typed)] = call.items()
    names = chain([name], (f"{name}_{number}" for number in count(1)))
    return {next(free for free in names if free not in taken): typed}


def ordering(items: tuple[OrderItem, ...], scope: Scope) -> tuple[OrderColumn, ...]:
    """Bind ORDER BY; `scope` has the select list's names as outputs."""
    return tuple(
        OrderColumn(_orderable(item.expression, scope).expr, item.descending, item.nulls_first)
        for item in items
    )


def _one(item: SelectItem, scope: Scope) -> Outputs:
    typed = bind(item.expression, scope)
    if typed.type == "DURATION":
        raise BindError(
            f"{printed(item.expression)} is a duration, which cannot be a column of an answer", item.span
        )
    return {item.alias or _name(item.expression, typed): typed}


def _name(expression: Expression, typed: TypedExpression) -> str:
    if typed.expr == DISTANCE or (
        isinstance(expression, Column) and isinstance(typed.expr, ExtentDistanceExpr)
    ):
        return "distance"
    if isinstance(expression, Column):
        dotted = f"{expression.qualifier}.{expression.name}"
        return dotted if typed.expr == ColumnExpr(dotted) else expression.name
    return expression.name.lower() if isinstance(expression, Call) else printed(expression)


def _star(star: Star, scope: Scope) -> Outputs:
    if not scope.stream.name:
        raise BindError("* stands for columns, and there is no FROM", star.span, expected=("FROM a stream",))
    for joined in scope.joined:
        if star.qualifier in joined.qualifiers:
            return {
                name: TypedExpression(joined.value(name), kind, star.span)
                for name, kind in joined.columns.items()
            }
    if star.qualifier is not None:
        scope.column(Column(next(iter(scope.columns)), star.qualifier, span=star.span))
    own = {name: TypedExpression(ColumnExpr(name), kind, star.span) for name, kind in scope.columns.items()}
    if star.qualifier is None:
        for joined in scope.joined:
            own |= _of_table(own, joined, star)
    return own


def _of_table(own: Outputs, joined: JoinedTable, star: Star) -> Outputs:
    """Return a table's columns for a plain `*`, without the key, which equals another column."""
    key = joined.table.key
    further = {name: kind for name, kind in joined.columns.items() if name != key}
    twice = next((name for name in further if name in own), None)
    if twice is not None:
        raise BindError(
            f"two columns of the answer are called {twice!r}",
            star.span,
            hint="list them, and name one with AS",
        )
    return {name: TypedExpression(joined.value(name), kind, star.span) for name, kind in further.items()}


def place_in_list(number: Literal, size: int, clause: str) -> int:
    """Return the index of the column in a select list to which a clause refers by its number, from 1.

    Raises:
        BindError: the number is not an integer, or there are fewer columns.
    """
    if number.kind != "INTEGER":
        raise BindError(f"{clause} takes columns and expressions, not constants", number.span)
    if not 1 <= int(number.value or 0) <= size:
        raise BindError(f"{clause} {number.value}: the last column of the select list is {size}", number.span)
    return int(number.value or 0) - 1


def _orderable(expression: Expression, scope: Scope) -> TypedExpression:
    if isinstance(expression, Literal):
        place = place_in_list(expression, len(scope.outputs), "ORDER BY")
        typed = tuple(scope.outputs.values())[place]
    else:
        typed = bind(expression, scope)
    if typed.type in ("DURATION", "TOPK"):
        raise BindError(f"cannot order by {printed(expression)}", expression.span)
    return typed
