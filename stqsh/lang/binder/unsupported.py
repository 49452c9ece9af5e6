"""Parts of the language that stqsh does not support yet: one small function for each, in order.

Each function returns the error, or None if the statement does not use that part. A function is removed once
its part is implemented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Call, Star
from stqsh.lang.errors import NotSupportedError

Rule = Callable[[Any], NotSupportedError | None]


def _other_than_files(table: statements.CreateTable | statements.CreateRegions) -> NotSupportedError | None:
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
    return NotSupportedError(f"{name} of other things than streams", table.span) if name else None


SOURCE_RULES: tuple[Rule, ...] = (_other_than_files,)
"""Parts that CREATE TABLE and CREATE REGIONS do not support yet."""


def check(rules: tuple[Rule, ...], node: object) -> None:
    """Apply the rules in order; raise the first error that one returns."""
    for rule in rules:
        error = rule(node)
        if error is not None:
            raise error


def counts(select: statements.Select) -> bool:
    """Return whether a select list consists only of COUNT(*)."""
    call = select.items[0].expression
    if len(select.items) > 1 or not isinstance(call, Call) or call.name != "COUNT" or call.distinct:
        return False
    return len(call.arguments) == 1 and isinstance(call.arguments[0], Star)
