"""Look up names in the catalogue; the error for an unknown name suggests a similar one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stqsh.lang.ast.expressions import Name
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, near
from stqsh.spec.expression import FunctionSpec
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.spec.view import ViewSpec

_Found = TypeVar("_Found")
_PLURALS = {
    "stream": "streams",
    "query": "queries",
    "query stream": "query streams",
    "table": "tables",
    "region": "regions",
    "view": "views",
    "function": "functions",
    "sink": "sinks",
    "alert": "alerts",
}
_WORDS = {"query stream": "QUERIES"}
"""The words of DROP that are not the name of the kind."""
_MAKING = {
    "stream": "there is no stream yet; make one with CREATE MOVING STREAM",
    "query": "there is no query; make one with REGISTER QUERY",
    "query stream": "there is no query stream yet; make one with REGISTER QUERIES name FROM INSERTS",
    "table": "there is no table yet; make one with CREATE TABLE",
    "region": "there is no region yet; make one with CREATE REGION",
    "view": "there is no view yet; make one with CREATE VIEW",
    "function": "there is no function yet; make one with CREATE FUNCTION",
    "sink": "there is no sink yet; make one with CREATE SINK",
    "alert": "there is no alert yet; make one with CREATE ALERT",
}


def stream_named(name: Name, catalogue: CatalogueView) -> StreamSpec:
    """Return the spec of a stream; raise `BindError` if there is none of that name."""
    return _named("stream", name, catalogue.stream, catalogue)


def query_named(name: Name, catalogue: CatalogueView) -> QuerySpec:
    """Return the spec of an active or paused query; raise `BindError` if there is none of that name."""
    return _named("query", name, catalogue.query, catalogue)


def query_stream_named(name: Name, catalogue: CatalogueView) -> QueryStreamSpec:
    """Return the spec of a query stream; raise `BindError` if there is none of that name."""
    return _named("query stream", name, catalogue.query_stream, catalogue)


def table_named(name: Name, catalogue: CatalogueView) -> TableSpec:
    """Return the spec of a table; raise `BindError` if there is none of that name."""
    return _named("table", name, catalogue.table, catalogue)


def area_named(name: Name, catalogue: CatalogueView) -> AreaSpec:
    """Return the spec of a region or a set of regions; raise `BindError` if there is none of that name."""
    return _named("region", name, catalogue.area, catalogue)


def view_named(name: Name, catalogue: CatalogueView) -> ViewSpec:
    """Return the spec of a view; raise `BindError` if there is none of that name."""
    return _named("view", name, catalogue.view, catalogue)


def function_named(name: Name, catalogue: CatalogueView) -> FunctionSpec:
    """Return a function of the session; raise `BindError` if there is none of that name."""
    known = catalogue.names("function")
    upper = Name(name.text.upper(), span=name.span)
    return _named(
        "function", upper, lambda text: catalogue.function(text) if text in known else None, catalogue
    )


def sink_named(name: Name, catalogue: CatalogueView) -> SinkSpec:
    """Return the spec of a sink; raise `BindError` if there is none of that name."""
    return _named("sink", name, catalogue.sink, catalogue)


def alert_named(name: Name, catalogue: CatalogueView) -> SinkSpec:
    """Return the spec of an alert; raise `BindError` if there is none of that name."""
    return _named("alert", name, catalogue.alert, catalogue)


def check_free(name: Name, catalogue: CatalogueView) -> None:
    """Raise `BindError` if a name is already in use."""
    user = catalogue.kind_of(name.text)
    if user is not None:
        raise BindError(
            f"the name {name.text!r} is in use by {_article(user)} {user}",
            name.span,
            hint=f"choose another, or DROP {_WORDS.get(user, user.upper())} {name.text}; first",
        )


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def _named(kind: str, name: Name, find: Callable[[str], _Found | None], catalogue: CatalogueView) -> _Found:
    found = find(name.text)
    if found is not None:
        return found
    known, other = catalogue.names(kind), catalogue.kind_of(name.text)
    plural, close = _PLURALS[kind], near(name.text, known)
    lists = f"SHOW {plural.upper()} lists the {plural}"
    hint = _MAKING[kind] if not known else lists if close is None else None
    if other is not None:
        hint = f"{name.text} is {_article(other)} {other}; {lists}"
    raise BindError(f"unknown {kind} {name.text!r}", name.span, near=close, hint=hint)
