"""Parts of the language that stqsh does not support yet: one small function for each, in order.

Each function returns the words after "not supported yet: ", or None if the statement does not use that part.
A function is removed when its part is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Call, Star
from stqsh.lang.ast.source import NOWHERE
from stqsh.lang.binder.aggregates import is_aggregated
from stqsh.lang.errors import NotSupportedError

Rule = Callable[[Any], str | None]


def _plain_windows(select: statements.Select) -> str | None:
    if not (select.sync or select.window) or is_aggregated(select):
        return None
    return f"{'SYNC' if select.sync else 'WINDOW'} on a query without aggregates"


QUERY_RULES: tuple[Rule, ...] = (_plain_windows,)
"""Parts that no query supports yet."""


def _other_than_files(table: statements.CreateTable | statements.CreateRegions) -> str | None:
    kinds = {
        statements.KafkaSource: "KAFKA",
        statements.StdinSource: "STDIN",
        statements.SocketSource: "SOCKET",
        statements.DirectorySource: "DIRECTORY",
        statements.InsertsSource: "INSERTS",
        statements.HttpSource: "HTTP",
        statements.GeneratorSource: "generators",
    }
    name = kinds.get(type(table.source))
    return f"{name} of other things than streams" if name else None


SOURCE_RULES: tuple[Rule, ...] = (_other_than_files,)
"""Parts that CREATE TABLE and CREATE REGIONS do not support yet."""


def check(rules: tuple[Rule, ...], node: object) -> None:
    """Apply the rules in order; raise `NotSupportedError` with the words of the first that returns any."""
    for rule in rules:
        what = rule(node)
        if what is not None:
            raise NotSupportedError(what, getattr(node, "span", NOWHERE))


def counts(select: statements.Select) -> bool:
    """Return whether a select list is a lone COUNT(*)."""
    call = select.items[0].expression
    if len(select.items) > 1 or not isinstance(call, Call) or call.name != "COUNT" or call.distinct:
        return False
    return len(call.arguments) == 1 and isinstance(call.arguments[0], Star)
