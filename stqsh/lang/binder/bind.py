"""Convert statements into the specs of the control log, checking them against the catalogue.

`bind` handles every statement. Its result is complete except for the id, which is the sequence number that
the log assigns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from stqsh.lang.ast import statements
from stqsh.lang.binder import administration, altering, functions, inserts, live, queries, views
from stqsh.lang.binder.bare_words import read_words
from stqsh.lang.binder.definitions import named_regions, sinks, streams, tables
from stqsh.lang.binder.definitions.column_roles import Columns, guess_roles
from stqsh.lang.catalogue import Catalogue, CatalogueView
from stqsh.lang.errors import locating
from stqsh.spec.expression import FunctionSpec
from stqsh.spec.log import kind_of as kind_of_entry
from stqsh.spec.view import ViewSpec

__all__ = ["Bound", "Catalogue", "CatalogueView", "bind", "guess_roles", "needs_inference"]


class Bound(NamedTuple):
    """A statement's kind in the control log (or "tail", "show", …), its spec, and notes for the user.

    The kind is "nothing" and the spec None if IF EXISTS or IF NOT EXISTS leaves nothing to do.
    """

    kind: str
    spec: Any
    notes: tuple[str, ...] = ()


def bind(
    statement: statements.Statement,
    catalogue: CatalogueView,
    *,
    inferred: Columns | None = None,
    name: str | None = None,
    numbers_rows: bool = False,
) -> Bound:
    """Check a statement against the catalogue and return its spec.

    Args:
        statement: The statement.
        catalogue: The names in use.
        inferred: The columns found in the source of a CREATE STREAM or TABLE that lists none
            (`needs_inference`), or in the rows of a REGISTER QUERIES.
        name: The name of a SUBSCRIBE's query.
        numbers_rows: Whether the key of events is their row's number even if a key could be guessed.

    Raises:
        BindFault: the statement does not fit the catalogue.
        NotSupportedError: it uses something that is not implemented yet.
    """
    with locating(statement.piece):
        statement = read_words(statement, catalogue).statement
        if isinstance(statement, statements.CreateStream | statements.CreateTable):
            return _create(statement, catalogue, inferred, numbers_rows=numbers_rows)
        if isinstance(statement, statements.CreateRegion | statements.CreateRegions):
            return _create_area(statement, catalogue)
        if isinstance(statement, statements.CreateSink | statements.CreateAlert):
            make = sinks.create_sink if isinstance(statement, statements.CreateSink) else sinks.create_alert
            there = _there_already(statement, catalogue)
            return there or Bound("create_sink", make(statement, catalogue))  # type: ignore[arg-type]
        if isinstance(statement, statements.Subscribe):
            return Bound(
                "subscribe", replace(queries.continuous(statement.select, catalogue), name=name or "")
            )
        if isinstance(statement, statements.RegisterQueries):
            columns = {column: kind for column, kind in inferred or ()}  # noqa: C416 - pairs are lists
            return Bound("register_queries", queries.register_queries(statement, catalogue, columns))
        bound = _BINDERS.get(type(statement), _unchecked)(statement, catalogue)
        return bound if bound.spec is not None else Bound("nothing", None, bound.notes)


def needs_inference(
    statement: statements.CreateStream | statements.CreateTable, catalogue: CatalogueView
) -> bool:
    """Return whether columns must be inferred from the source: none are listed, and the object is new."""
    return not statement.listed and _there_already(statement, catalogue) is None


def _create(
    statement: statements.CreateStream | statements.CreateTable,
    catalogue: CatalogueView,
    inferred: Columns | None,
    *,
    numbers_rows: bool,
) -> Bound:
    there = _there_already(statement, catalogue)
    if there is not None:
        return there
    if isinstance(statement, statements.CreateStream):
        return Bound(
            "create_stream", *streams.create_stream(statement, catalogue, inferred, numbers_rows=numbers_rows)
        )
    return Bound("create_table", *tables.create_table(statement, catalogue, inferred))


def _create_area(
    statement: statements.CreateRegion | statements.CreateRegions, catalogue: CatalogueView
) -> Bound:
    there = _there_already(statement, catalogue)
    if there is not None:
        return there
    if isinstance(statement, statements.CreateRegion):
        return Bound("create_area", named_regions.create_region(statement, catalogue))
    return Bound("create_area", named_regions.create_regions(statement, catalogue))


def _create_view(statement: statements.CreateView, catalogue: CatalogueView) -> Bound:
    there = _there_already(statement, catalogue)
    if there is not None:
        return there
    spec = views.create_view(statement, catalogue)
    queries.snapshot(statement.select, catalogue)  # raises an error if it cannot be answered
    return Bound("create_view", spec)


def _there_already(
    statement: statements.CreateStream
    | statements.CreateTable
    | statements.CreateRegion
    | statements.CreateRegions
    | statements.CreateSink
    | statements.CreateAlert
    | statements.CreateView
    | statements.CreateFunction,
    catalogue: CatalogueView,
) -> Bound | None:
    """Return a binding with nothing to do if IF NOT EXISTS is given and the name exists; else None."""
    kinds: dict[type[statements.Statement], str] = {
        statements.CreateStream: "stream",
        statements.CreateTable: "table",
        statements.CreateSink: "sink",
        statements.CreateAlert: "alert",
        statements.CreateView: "view",
    }
    kind, name = kinds.get(type(statement), "region"), statement.name.text
    is_there = catalogue.kind_of(name) == kind
    if isinstance(statement, statements.CreateFunction):
        kind, is_there = "function", name.upper() in catalogue.names("function")
    if not statement.if_not_exists or not is_there:
        return None
    return Bound("nothing", None, (f"{kind} {name} exists already",))


def _create_function(statement: statements.CreateFunction, catalogue: CatalogueView) -> Bound:
    there = _there_already(statement, catalogue)
    return there or Bound("create_function", functions.create_function(statement, catalogue))


Binder = Callable[[Any, CatalogueView], Bound]


def _drop(statement: statements.Drop, catalogue: CatalogueView) -> Bound:
    entries = administration.drop(statement, catalogue)
    first = entries[0] if entries else None
    if isinstance(first, ViewSpec | FunctionSpec):
        return Bound("drop_view" if isinstance(first, ViewSpec) else "drop_function", entries)
    if first is None:
        return Bound("nothing", entries)
    return Bound(kind_of_entry(first), entries)


def _select(statement: statements.Select, catalogue: CatalogueView) -> Bound:
    return Bound("select", queries.snapshot(statement, catalogue))


def _unchecked(statement: Any, catalogue: CatalogueView) -> Bound:
    """Return a statement that needs no catalogue as its own spec."""
    del catalogue
    return Bound("unchecked", statement)


def _as(kind: str, binder: Callable[[Any, CatalogueView], object]) -> Binder:
    return lambda statement, catalogue: Bound(kind, binder(statement, catalogue))


_BINDERS: dict[type[statements.Statement], Binder] = {
    statements.CreateView: _create_view,
    statements.CreateFunction: _create_function,
    statements.RegisterQuery: _as("register", queries.register),
    statements.Select: _select,
    statements.Explain: _as("explain", queries.explained),
    statements.Drop: _drop,
    statements.Insert: _as("insert", inserts.insert),
    statements.AlterQuery: _as("alter_query", altering.alter_query),
    statements.Tail: _as("tail", live.tail),
    statements.Follow: _as("follow", live.follow),
    **{kind: _as(*how) for kind, how in administration.BINDERS.items()},
}
