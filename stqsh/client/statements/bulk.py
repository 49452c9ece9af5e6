"""What statements of one shape do, all at once: the same as one after the other, in a thousandth of the time.

Where any of them would be refused, or says something of its own, they are left to be done one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.lang.ast import statements as ast
from stqsh.lang.ast.expressions import Literal
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.literals import key_value
from stqsh.lang.bulk_parse import AlikeDrop, AlikeRegister, Run, plain
from stqsh.lang.errors import BindError, LangError
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.printer.values import identifier
from stqsh.storage.query_templates import QueryTemplate
from stqsh.storage.rows import Spec

GROUP = 500
"""Up to so many statements about queries go into one transaction."""
MOST_ALIKE = 1 << 16
"""Or so many of one shape: one row of the log, of which slots get a chunk, and Spark copies chunks about."""

_QUICK = (ast.RegisterQuery, ast.Drop, ast.PauseQuery, ast.ResumeQuery)
_POLE = 90.0
_LENGTHS = frozenset({"radius", "xdist", "ydist"})
Statements = Sequence[ast.Statement]


def groups(statements: Statements) -> Iterator[list[ast.Statement]]:
    """Statements one by one, but runs of quick ones together, and of those of one shape very many."""
    group: list[ast.Statement] = []
    for statement in statements:
        if group and not _joins(group, statement):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group


def _joins(group: Statements, statement: ast.Statement) -> bool:
    """Whether a statement may be done together with those before it."""
    last = group[-1]
    if isinstance(last, AlikeRegister | AlikeDrop):
        if not isinstance(statement, AlikeRegister | AlikeDrop) or len(group) == MOST_ALIKE:
            return False
        return statement.run is last.run and statement.row == last.row + 1
    if isinstance(statement, AlikeRegister | AlikeDrop):
        return False
    return isinstance(last, _QUICK) and isinstance(statement, _QUICK) and len(group) < GROUP


def parts(group: Statements) -> Iterator[list[ast.Statement]]:
    """The statements of a group as the grammar reads them, in groups that are done one by one."""
    rest = iter(group)
    while some := [plain(statement) for statement in islice(rest, GROUP)]:
        yield some


def perform_alike(desk: StatementContext, group: Statements) -> Iterator[Outcome] | None:
    """Do a group of one shape: what there is to say, None (and nothing done) where it is not for this way."""
    first = group[0]
    if not isinstance(first, AlikeRegister | AlikeDrop):
        return None
    names = first.run.names[first.row : first.row + len(group)]
    if isinstance(first, AlikeDrop):
        from stqsh.storage.bulk_register import drop_alike

        done, word = drop_alike(desk.link.db, names), "dropped"
    else:
        done, word = _register(desk, first, names), "registered"
    if not done:
        return None
    desk.link.wake()
    return (Message(f"query {name} {word}") for name in names)


def _register(desk: StatementContext, first: AlikeRegister, names: Sequence[str]) -> bool:
    """Register queries of one shape; False where one of them has to be looked at by itself."""
    statement: ast.RegisterQuery = plain(first)
    try:
        spec = bind(statement, desk.view).spec
    except LangError:
        return False
    from stqsh.core.kinds import KINDS
    from stqsh.storage.bulk_register import QueryGroup, register_alike

    pattern, rows = pattern_of(statement, spec, first.run), slice(first.row, first.row + len(names))
    numbers, keys = _numbers(first.run, rows), first.run.keys[rows]
    stream = desk.view.stream(spec["stream"])
    if spec["kind"] not in KINDS or stream is None:
        return False
    if not _fit(pattern, numbers, stream) or not _are_keys(keys, stream):
        return False
    return register_alike(desk.link.db, QueryGroup(pattern, names, numbers, keys))


def _numbers(run: Run, rows: slice) -> Any:
    """The numbers of some of a run's statements, float64 (n, columns)."""
    import numpy as np  # not before it is needed

    columns = [np.frombuffer(column, np.float64)[rows] for column in run.numbers]
    return np.column_stack(columns) if columns else np.empty((len(run.names[rows]), 0))


def _fit(pattern: QueryTemplate, numbers: Any, stream: Spec) -> bool:
    """Whether all places are on the earth, where the stream's are, and all lengths more than 0."""
    columns = dict(zip(pattern.numbers, numbers.T, strict=True))
    if not all((columns[hole] > 0).all() for hole in _LENGTHS & columns.keys()):
        return False
    latitudes = [column for hole, column in columns.items() if hole.startswith("y") and hole not in _LENGTHS]
    return bool(stream["planar"] or all((abs(some) <= _POLE).all() for some in latitudes))


def _are_keys(keys: Sequence[str], stream: Spec) -> bool:
    """Whether the stream's key column can hold all of these keys."""
    kind = dict(stream["columns"])[stream["key"]]
    try:
        for key in keys:
            key_value(Literal(key, "STRING"), kind)
    except BindError:
        return False
    return True


def pattern_of(statement: ast.RegisterQuery, spec: Spec, run: Run) -> QueryTemplate:
    """What a run's queries share, by the spec of one of them."""
    name, text = f"REGISTER QUERY {identifier(statement.name.text)}", to_sql(statement)
    between = text[len(name) : len(text) - len(spec["text"])]
    return QueryTemplate({**spec, "text": "", "name": ""}, run.shape.holes, run.shape.words, between)
