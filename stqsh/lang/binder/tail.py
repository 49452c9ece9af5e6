"""TAIL to what its follower needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import Tail
from stqsh.lang.binder.conditions import condition
from stqsh.lang.binder.functions import OF_TIMES
from stqsh.lang.binder.names import query_named, stream_named, table_named
from stqsh.lang.binder.scope import Expr, JoinedTable, Scope, TypedExpression, names_of
from stqsh.lang.catalogue import CatalogueView, Spec
from stqsh.lang.types import WHOLE_NUMBERS

_NOT_SELECTED = "the query does not select DISTANCE"


def tail(statement: Tail, catalogue: CatalogueView) -> Spec:
    """Return what TAIL follows: the query, where it begins, and its condition.

    The condition is over the names of the select list, the columns of the stream and of a table joined
    with it, and DISTANCE where the query selects it. Raises `BindFault`.
    """
    query = query_named(statement.name, catalogue)
    where: Expr | None = None
    if statement.where is not None:
        where = condition(statement.where, _scope(query, statement.name, catalogue))
    return {
        "query": query["name"],
        "query_id": query["id"],
        "from_step": statement.from_step,
        "only": statement.only,
        "where": where,
        "limit": statement.limit,
    }


def _scope(query: Spec, name: Name, catalogue: CatalogueView) -> Scope:
    stream = stream_named(Name(query["stream"], span=name.span), catalogue)
    joined, join = None, query.get("join")
    if join is not None:
        table = table_named(Name(join["table"], span=name.span), catalogue)
        joined = JoinedTable(table, join["column"], names_of(table, None))
    plain = Scope(stream, names_of(stream, None), catalogue, joined)
    outputs = {out: TypedExpression(expr, type_of(expr, plain), name.span) for out, expr in query["select"]}
    selected = any(_has_distance(expr) for _, expr in query["select"])
    return Scope(stream, plain.qualifiers, catalogue, joined, outputs, None if selected else _NOT_SELECTED)


def type_of(expr: Expr, scope: Scope) -> str:
    """Return the type of a bound expression of a select list; conditions are BOOLEAN."""
    rule = _TYPES.get(expr[0])
    return "BOOLEAN" if rule is None else rule(scope, *expr[1:])


def _type_of_arithmetic(scope: Scope, operator: str, left: Expr, right: Expr) -> str:
    whole = operator != "/" and {type_of(left, scope), type_of(right, scope)} <= WHOLE_NUMBERS
    return "BIGINT" if whole else "DOUBLE"


def _type_of_table_column(scope: Scope, _: int, __: str, name: str) -> str:
    assert scope.joined is not None
    return scope.joined.columns[name]


_TYPES: dict[str, Callable[..., str]] = {
    "col": lambda scope, name: scope.columns[name],
    "join": _type_of_table_column,
    "lit": lambda _, __, kind: kind,
    "fn": lambda _, name, __: OF_TIMES[name],
    "distance": lambda _: "DOUBLE",
    "neg": lambda scope, operand: type_of(operand, scope),
    "arith": _type_of_arithmetic,
}


def _has_distance(expr: Any) -> bool:
    return isinstance(expr, list) and (expr == ["distance"] or any(map(_has_distance, expr)))
