"""Registering very many queries: what users type one by one, put into the control log at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stqsh.bench.harness.drive import execute
from stqsh.client.api import Session
from stqsh.storage import catalogue_writer

PATTERN = "pattern"
"""The name of a query that is registered and dropped only to see how it is bound."""


def bound(session: Session, select: str) -> dict[str, Any]:
    """Return the spec of a query of this SELECT, as it is registered."""
    execute(session, f"REGISTER QUERY {PATTERN} AS {select};")
    spec: dict[str, Any] = next(query.spec for query in session.queries() if query.name == PATTERN)
    execute(session, f"DROP QUERY {PATTERN};")
    return spec


def register(session: Session, specs: Iterable[dict[str, Any]], first: int) -> None:
    """Register queries of these specs, named q and a number from `first` on, in one transaction."""
    with session.link.db.transaction():
        for number, spec in enumerate(specs, first):
            named = {**spec, "name": f"q{number}"}
            catalogue_writer.register(
                session.link.db, catalogue_writer.Registered(f"-- query {number}", named)
            )
    session.link.wake()
