"""Register many queries: as statements, or straight into the control log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace
from numpy.typing import NDArray

from stqsh.bench.harness.drive import execute, run
from stqsh.client.api import Session
from stqsh.spec.query import QuerySpec
from stqsh.storage import catalogue_writer

PROBE = "pattern"
"""The name of the query that is registered and dropped only to see how it is bound."""

_PORTION = 50_000
"""Queries that go into the log, and from there into the engine, at once."""


def statements(boxes: NDArray[Any], first: int = 0, select: str = "oid") -> str:
    """Return a REGISTER statement for a query over each row of `boxes`, float64 (n, 4).

    The queries are named q and a number from `first` on; `select` is their select list.
    """
    return "\n".join(
        f"REGISTER QUERY q{number} AS SELECT {select} FROM m INSIDE ({x1!r}, {y1!r}, {x2!r}, {y2!r});"
        for number, (x1, y1, x2, y2) in enumerate(boxes.tolist(), first)
    )


def bind(session: Session, select: str) -> QuerySpec:
    """Return the spec that a query with this SELECT has once it is registered."""
    execute(session, f"REGISTER QUERY {PROBE} AS {select};")
    spec = next(query.spec for query in session.queries() if query.name == PROBE)
    execute(session, f"DROP QUERY {PROBE};")
    return spec


def log(session: Session, specs: Iterable[QuerySpec], first: int = 0) -> None:
    """Write queries, named q and a number from `first` on, into the control log in one transaction."""
    with session.connection.db.transaction():
        for number, spec in enumerate(specs, first):
            named = replace(spec, name=f"q{number}")
            catalogue_writer.register(
                session.connection.db, catalogue_writer.Registered(f"-- query {number}", named)
            )
    session.connection.wake()


def portions(count: int) -> int:
    """Return the number of portions of a number of queries."""
    return -(-count // _PORTION)


def log_in_portions(session: Session, specs: Sequence[QuerySpec], first: int) -> float:
    """Log queries and let the engine take in each portion by a batch of its own.

    Args:
        first: the number of the first query that is not registered yet.

    Returns:
        The seconds that it took.
    """
    begun = time.perf_counter()
    for start in range(first, len(specs), _PORTION):
        log(session, specs[start : start + _PORTION], start)
        run(session, 1)
    return time.perf_counter() - begun
