"""From statements to the specs of the control log, checked against the catalogue.

`bind` knows every statement; what it gives is ready for the log, but for the id that the log's own
sequence number becomes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stqsh.lang import ast
from stqsh.lang.binding import areas, commands, maps, queries, streams, tables, tails
from stqsh.lang.binding.limits import STATEMENT_RULES, check
from stqsh.lang.binding.names import kind_of
from stqsh.lang.binding.roles import Columns, guess_roles
from stqsh.lang.catalogue import Catalogue, CatalogueView, Spec
from stqsh.lang.errors import locating

__all__ = ["Bound", "Catalogue", "CatalogueView", "bind", "guess_roles", "needs_inference"]


class Bound(NamedTuple):
    """A statement's kind in the control log (or "tail", "show", …), its spec, and lines for the user.

    The kind is "nothing" and the spec None where IF EXISTS or IF NOT EXISTS leaves nothing to do.
    """

    kind: str
    spec: Any
    notes: tuple[str, ...] = ()


def bind(
    statement: ast.Statement,
    catalogue: CatalogueView,
    *,
    inferred: Columns | None = None,
    name: str | None = None,
) -> Bound:
    """Check a statement against the catalogue and give its spec.

    `inferred` are the columns found in the source of a CREATE STREAM or TABLE that lists none
    (`needs_inference`); `name` is the name of a SUBSCRIBE's query. Raises `BindFault` for a statement that
    does not fit, and `NotSupported` for what is not built yet.
    """
    with locating(statement.piece):
        check(STATEMENT_RULES, statement)
        if isinstance(statement, ast.CreateStream | ast.CreateTable):
            return _create(statement, catalogue, inferred)
        if isinstance(statement, ast.CreateRegion | ast.CreateRegions):
            return _create_area(statement, catalogue)
        if isinstance(statement, ast.Subscribe):
            return Bound("subscribe", {**queries.continuous(statement.select, catalogue), "name": name or ""})
        bound = _BINDERS[type(statement)](statement, catalogue)
        return bound if bound.spec is not None else Bound("nothing", None)


def needs_inference(statement: ast.CreateStream | ast.CreateTable, catalogue: CatalogueView) -> bool:
    """Whether the columns are to be found in the source: none are listed, and it is to be made."""
    return not statement.columns and _there_already(statement, catalogue) is None


def _create(
    statement: ast.CreateStream | ast.CreateTable, catalogue: CatalogueView, inferred: Columns | None
) -> Bound:
    there = _there_already(statement, catalogue)
    if there is not None:
        return there
    if isinstance(statement, ast.CreateStream):
        return Bound("create_stream", *streams.create_stream(statement, catalogue, inferred))
    return Bound("create_table", *tables.create_table(statement, catalogue, inferred))


def _create_area(statement: ast.CreateRegion | ast.CreateRegions, catalogue: CatalogueView) -> Bound:
    there = _there_already(statement, catalogue)
    if there is not None:
        return there
    if isinstance(statement, ast.CreateRegion):
        return Bound("create_area", areas.create_region(statement, catalogue))
    return Bound("create_area", areas.create_regions(statement, catalogue))


def _there_already(
    statement: ast.CreateStream | ast.CreateTable | ast.CreateRegion | ast.CreateRegions,
    catalogue: CatalogueView,
) -> Bound | None:
    """Nothing to do, where something of that kind and name is there and IF NOT EXISTS was said."""
    kinds = {ast.CreateStream: "stream", ast.CreateTable: "table"}
    kind, name = kinds.get(type(statement), "region"), statement.name.text
    if not statement.if_not_exists or kind_of(name, catalogue) != kind:
        return None
    return Bound("nothing", None, (f"{kind} {name} exists already",))


Binder = Callable[[Any, CatalogueView], Bound]


def _drop(statement: ast.Drop, catalogue: CatalogueView) -> Bound:
    return Bound(*commands.drop(statement, catalogue))


def _select(statement: ast.Select, catalogue: CatalogueView) -> Bound:
    return Bound("select", queries.snapshot(statement, catalogue))


def _as(kind: str, binder: Callable[[Any, CatalogueView], Spec]) -> Binder:
    return lambda statement, catalogue: Bound(kind, binder(statement, catalogue))


_BINDERS: dict[type[ast.Statement], Binder] = {
    ast.RegisterQuery: _as("register", queries.register),
    ast.Select: _select,
    ast.Explain: _as("explain", queries.explained),
    ast.Drop: _drop,
    ast.Run: _as("run", lambda statement, _: commands.run(statement)),
    ast.Play: _as("play", commands.play),
    ast.Pause: _as("pause", commands.pause),
    ast.PauseQuery: _as("pause_query", commands.change_query),
    ast.ResumeQuery: _as("resume_query", commands.change_query),
    ast.Tail: _as("tail", tails.tail),
    ast.Watch: _as("watch", commands.watch),
    ast.Map: _as("map", maps.map_),
    ast.Show: _as("show", lambda statement, _: {"what": statement.what}),
    ast.ShowQuery: _as("show_query", commands.show_query),
    ast.Describe: _as("describe", commands.describe),
    ast.SetSetting: _as("set", commands.set_setting),
    ast.Help: _as("help", lambda statement, _: {"topic": statement.topic}),
    ast.Dump: _as("dump", lambda statement, _: {}),
}
