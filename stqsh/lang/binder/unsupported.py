"""What the language has and stqsh has not yet: one small function a part, in the order they are asked.

Each gives the words after "not supported yet: ", or None where the statement does without that part. A
function goes when its part comes.
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
    """A lone COUNT(*) is the one aggregate that there is."""
    calls = (item.expression for item in select.items if isinstance(item.expression, Call))
    found = next((call for call in calls if call.name in AGGREGATES), None)
    if found is None or counts(select):
        return None
    return f"{found.name}(…) in a select list"


QUERY_RULES: tuple[Rule, ...] = (_distinct, _grouping, _aggregates, _windows)
"""What no query may have yet."""


def _counting(select: statements.Select) -> str | None:
    return "COUNT(*) in a continuous query" if counts(select) else None


def _ordering(select: statements.Select) -> str | None:
    if select.order_by:
        return "ORDER BY in a continuous query"
    return None if select.limit is None else "LIMIT in a continuous query"


CONTINUOUS_RULES: tuple[Rule, ...] = (_counting, _ordering)
"""What a continuous query may not have yet."""


def _since_now(query: statements.RegisterQuery | statements.RegisterQueries) -> str | None:
    return "SINCE NOW" if query.since_now else None


REGISTER_RULES: tuple[Rule, ...] = (_since_now,)
"""What a REGISTER QUERY may not have yet."""


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
"""What a CREATE STREAM may not have yet."""


def _generated(table: statements.CreateTable | statements.CreateRegions) -> str | None:
    return (
        "generators of other things than streams"
        if isinstance(table.source, statements.GeneratorSource)
        else None
    )


SOURCE_RULES: tuple[Rule, ...] = (_live_sources, _generated)
"""What a CREATE TABLE and a CREATE REGIONS may not have yet."""


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
"""Statements that are not there yet."""


def check(rules: tuple[Rule, ...], node: object) -> None:
    """Ask the rules in turn. Raises `NotSupportedError` with the words of the first that has any."""
    for rule in rules:
        what = rule(node)
        if what is not None:
            raise NotSupportedError(what)


def counts(select: statements.Select) -> bool:
    """Whether a select list is a lone COUNT(*)."""
    call = select.items[0].expression
    if len(select.items) > 1 or not isinstance(call, Call) or call.name != "COUNT":
        return False
    return len(call.arguments) == 1 and isinstance(call.arguments[0], Star)
