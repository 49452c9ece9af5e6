"""FOLLOW: a query of one object that is dropped when its reader leaves it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stqsh.client.read.followed import Followed
from stqsh.client.read.subscription import TailOptions
from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.dispatch import free_name
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Name
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.live import BoundFollow
from stqsh.lang.printer.printer import to_sql
from stqsh.spec.query import RECORDS


def follow(desk: StatementContext, statement: statements.Follow) -> Iterator[Outcome]:
    """Follow an object, from its last record on."""
    bound: BoundFollow = bind(statement, desk.view).spec
    name = free_name(desk, "follow")
    subscribed = bind(statements.Subscribe(bound.select, piece=statement.piece), desk.view, name=name).spec
    text = to_sql(statements.RegisterQuery(Name(name), bound.select))
    spec = replace(subscribed, kind=RECORDS.name)
    asked, stream = desk.snapshots.bound(bound.select, desk.view)
    found = desk.snapshots.ask(asked, stream)
    if not found.table.num_rows and asked.lookup is not None:
        from stqsh.client.read.empty_answers import unknown_key  # numpy

        if away := unknown_key(desk.link, desk.snapshots, stream, asked.lookup):
            yield Message(f"{away}; its records are shown once it reports")
    first = desk.link.progress().step + 1  # before it is registered
    query = desk.register_own(f"{text};", spec)
    yield Followed(
        query,
        TailOptions(from_step=first),
        desk.link,
        temporary=True,
        until_idle=desk.is_script,
        last=(found.table, found.step, found.at_us),
    )
