"""Parts of the language that stqsh does not support yet: one small function for each, in order.

Each function returns the words after "not supported yet: ", or None if the statement does not use that part.
A function is removed when its part is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.errors import NotSupportedError
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Call, Star
from stqsh.lang.binder.functions import AGGREGATES

Rule = Callable[[Any], str | None]


def _distinct(select: statements.Select) -> str | None:
    return "SELECT DISTINCT" if select.distinct else None


def _grouping(select: statements.Select) -> str | None:
    if select.group_by:
        return "GROUP BY"
    return "HAVING" if select.having else None


def _windows(select: statements.Select) -> str | None:
    if select.window:
        return "WINDOW"
    return "SYNC" if select.sync else None


def _aggregates(select: statements.Select) -> str | None:
    """Check that there is no aggregate but a lone COUNT(*)."""
    calls = (item.expression for item in select.items if isinstance(item.expression, Call))
    found = next((call for call in calls if call.name in AGGREGATES), None)
    if found is None or counts(select):
        return None
    return f"{found.name}(…) in a select list"


QUERY_RULES: tuple[Rule, ...] = (_distinct, _grouping, _aggregates, _windows)
"""Parts that no query supports yet."""


def _counting(select: statements.Select) -> str | None:
    return "COUNT(*) in a continuous query" if counts(select) else None


def _ordering(select: statements.Select) -> str | None:
    if select.order_by:
        return "ORDER BY in a continuous query"
    return None if select.limit is None else "LIMIT in a continuous query"


CONTINUOUS_RULES: tuple[Rule, ...] = (_counting, _ordering)
"""Parts that continuous queries do not support yet."""


def _since_now(query: statements.RegisterQuery | statements.RegisterQueries) -> str | None:
    return "SINCE NOW" if query.since_now else None


REGISTER_RULES: tuple[Rule, ...] = (_since_now,)
"""Parts that REGISTER QUERY does not support yet."""


def _live_sources(
    stream: statements.CreateStream | statements.CreateTable | statements.CreateRegions,
) -> str | None:
    kinds = {
        statements.KafkaSource: "KAFKA",
        statements.StdinSource: "STDIN",
        statements.SocketSource: "SOCKET",
    }
    name = kinds.get(type(stream.source))
    return f"{name} sources" if name else None


STREAM_RULES: tuple[Rule, ...] = (_live_sources,)
"""Parts that CREATE STREAM does not support yet."""


def _generated(table: statements.CreateTable | statements.CreateRegions) -> str | None:
    return (
        "generators of other things than streams"
        if isinstance(table.source, statements.GeneratorSource)
        else None
    )


SOURCE_RULES: tuple[Rule, ...] = (_live_sources, _generated)
"""Parts that CREATE TABLE and CREATE REGIONS do not support yet."""


_SHOWN = frozenset({"ROUTING"})
_STATEMENTS: dict[type[statements.Statement], str] = {
    statements.Repartition: "REPARTITION",
    statements.Rebalance: "REBALANCE",
}


def _whole_statements(statement: statements.Statement) -> str | None:
    return _STATEMENTS.get(type(statement))


def _shown(statement: statements.Statement) -> str | None:
    if isinstance(statement, statements.Show) and statement.what in _SHOWN:
        return f"SHOW {statement.what}"
    return None


def _analysis(statement: statements.Statement) -> str | None:
    is_analysis = (
        isinstance(statement, statements.Explain) and statement.analyze and statement.select is not None
    )
    return "EXPLAIN ANALYZE SELECT" if is_analysis else None


STATEMENT_RULES: tuple[Rule, ...] = (_whole_statements, _shown, _analysis)
"""Statements that are not supported yet."""


def check(rules: tuple[Rule, ...], node: object) -> None:
    """Apply the rules in order; raise `NotSupportedError` with the words of the first that returns any."""
    for rule in rules:
        what = rule(node)
        if what is not None:
            raise NotSupportedError(what)


def counts(select: statements.Select) -> bool:
    """Return whether a select list is a lone COUNT(*)."""
    call = select.items[0].expression
    if len(select.items) > 1 or not isinstance(call, Call) or call.name != "COUNT":
        return False
    return len(call.arguments) == 1 and isinstance(call.arguments[0], Star)
