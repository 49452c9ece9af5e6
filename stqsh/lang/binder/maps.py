"""MAP to the stream and the queries that it draws."""

from __future__ import annotations

from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import Map
from stqsh.lang.binder.names import kind_of, query_named, stream_named
from stqsh.lang.catalogue import CatalogueView, Spec
from stqsh.lang.errors import BindError, near


def map_(statement: Map, catalogue: CatalogueView) -> Spec:
    """What MAP draws: {"stream": its name, "queries": their names or None for all of it, "file"}.

    Without a stream it is that of the queries, else the only one that there is. Raises `BindError`.
    """
    stream, names = _told_apart(statement, catalogue)
    queries = [query_named(name, catalogue) for name in names]
    if stream is not None:
        home = stream_named(stream, catalogue).name
    elif queries:
        home = queries[0]["stream"]
    else:
        home = _only_stream(statement, catalogue)
    for name, query in zip(names, queries, strict=True):
        if query["stream"] != home:
            raise BindError(
                f"{name.text} asks about {query['stream']}, and this is a map of {home}",
                name.span,
                hint="a map shows one stream",
            )
    return {"stream": home, "queries": [query["name"] for query in queries] or None, "file": statement.file}


def _told_apart(statement: Map, catalogue: CatalogueView) -> tuple[Name | None, tuple[Name, ...]]:
    """The stream and the queries: a single name may be either."""
    names = statement.queries
    if statement.stream is not None or len(names) != 1:
        return statement.stream, names
    [name] = names
    kind = kind_of(name.text, catalogue)
    if kind is None:
        known = (*catalogue.names("stream"), *catalogue.names("query"))
        raise BindError(f"unknown stream or query {name.text!r}", name.span, near=near(name.text, known))
    return (None, names) if kind == "query" else (name, ())


def _only_stream(statement: Map, catalogue: CatalogueView) -> str:
    streams = list(catalogue.names("stream"))
    if len(streams) == 1:
        return streams[0]
    if not streams:
        raise BindError(
            "there is no stream to draw", statement.span, hint="make one with CREATE MOVING STREAM"
        )
    ways = "; ".join(f"MAP {name}" for name in streams[:3])
    raise BindError(
        "there are several streams, and a map shows one", statement.span, hint=f"say which: {ways}"
    )
