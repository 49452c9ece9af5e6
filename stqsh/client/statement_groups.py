"""Execute statements in groups: those that only change queries share a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from stqsh.client.results import Answer, Outcome
from stqsh.client.run import RunHandle
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.dispatch import perform
from stqsh.errors import StqshError
from stqsh.lang.ast import statements as ast
from stqsh.lang.syntax.parse import parse

_QUICK = (ast.RegisterQuery, ast.Drop, ast.PauseQuery, ast.ResumeQuery)
_GROUP = 500
"""Maximum number of quick statements in one transaction."""
_SHORT = 1000
"""Maximum length in characters of a text whose statements are cached."""


def performed(desk: StatementContext, group: list[ast.Statement], number: int) -> Iterator[Outcome]:
    """Execute the statements of a group, in one transaction if there are several.

    `number` is that of the last one.
    """
    if len(group) > 1:
        yield from _perform_together(desk, group)
        return
    for outcome in perform(desk, group[0]):
        yield replace(outcome, statement=number) if isinstance(outcome, Answer) else outcome
        if isinstance(outcome, RunHandle):
            outcome.wait()


def groups_of(statements: Sequence[ast.Statement]) -> Iterator[list[ast.Statement]]:
    """Yield statements one by one, but runs of those that only change queries as groups."""
    group: list[ast.Statement] = []
    for statement in statements:
        if group and not (
            isinstance(group[-1], _QUICK) and isinstance(statement, _QUICK) and len(group) < _GROUP
        ):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group


def parsed(text: str, file: str | None) -> Sequence[ast.Statement]:
    """Return the statements of a text; those of short texts, which may be repeated often, are cached."""
    return _parsed_before(text, file) if len(text) <= _SHORT else parse(text, file)


_parsed_before = lru_cache(256)(parse)


def _perform_together(desk: StatementContext, group: list[ast.Statement]) -> Iterator[Outcome]:
    """Execute quick statements in one transaction, up to the first that fails; raise its error at the end."""
    outcomes: list[Outcome] = []
    failed: StqshError | None = None
    with desk.link.db.transaction():
        for statement in group:
            try:
                outcomes += perform(desk, statement)
            except StqshError as error:
                failed = error
                break
    yield from outcomes
    if failed is not None:
        raise failed
