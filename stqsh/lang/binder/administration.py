"""Bind the statements for running and administration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Column, Literal, Name, Quantity
from stqsh.lang.ast.source import Span
from stqsh.lang.binder.literals import duration_us, timestamp_us
from stqsh.lang.binder.names import (
    alert_named,
    area_named,
    function_named,
    query_named,
    query_stream_named,
    sink_named,
    stream_named,
    table_named,
    view_named,
)
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.values import constant
from stqsh.settings import KEYS, SECRETS
from stqsh.spec.expression import FunctionSpec
from stqsh.spec.log import (
    AreaDropped,
    QueryDropped,
    QueryPaused,
    QueryResumed,
    QueryStreamDropped,
    RunFor,
    RunSpec,
    RunSteps,
    RunToEnd,
    RunUntil,
    SettingChanged,
    SinkDropped,
    StreamDropped,
    StreamPaused,
    StreamPlayed,
    TableDropped,
)
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.spec.view import ViewSpec

Dropped: TypeAlias = (
    StreamDropped
    | TableDropped
    | AreaDropped
    | QueryDropped
    | QueryStreamDropped
    | SinkDropped
    | ViewSpec
    | FunctionSpec
)
_KINDS = ("stream", "query", "query stream", "table", "region", "view", "sink", "alert")
NAMED = (
    "STREAMS",
    "QUERIES",
    "QUERY STREAMS",
    "TABLES",
    "REGIONS",
    "VIEWS",
    "FUNCTIONS",
    "SINKS",
    "ALERTS",
    "SETTINGS",
)
"""The kinds of objects that SHOW lists by name."""
LETTER_FILES = (".jsonl", ".ndjson", ".json")


class NamedThing(Struct, frozen=True):
    """A name and the kind of object that it refers to, one of `_KINDS`."""

    kind: str
    name: str


class MapSpec(Struct, frozen=True):
    """The content of a MAP: a stream and some of its queries, None for all; and a target file, if any."""

    stream: str
    queries: tuple[str, ...] | None
    file: str | None


def run(statement: statements.Run) -> RunSpec:
    """Bind RUN to the limit of the run."""
    if statement.until is not None:
        return RunUntil(timestamp_us(str(statement.until.value), statement.until.span))
    if statement.duration is not None:
        return RunFor(duration_us(statement.duration, "RUN FOR"))
    if statement.steps is None:
        return RunToEnd()
    if statement.steps == 0:
        raise BindError("RUN takes one step or more", statement.span)
    return RunSteps(statement.steps)


class LettersExport(Struct, frozen=True):
    """An export of dead letters: the stream or table, None for all, and the target file."""

    name: str | None
    file: str


def export(statement: statements.ExportDeadLetters, catalogue: CatalogueView) -> LettersExport:
    """Bind EXPORT DEAD LETTERS."""
    file, name = str(statement.file.value), statement.name
    if not file.lower().endswith(LETTER_FILES):
        raise BindError(
            "dead letters are written as JSON lines", statement.file.span, hint="a name such as 'bad.jsonl'"
        )
    if name is None:
        return LettersExport(None, file)
    kind = catalogue.kind_of(name.text)
    if kind == "query stream":
        return LettersExport(name.text, file)
    found = table_named(name, catalogue) if kind == "table" else stream_named(name, catalogue)
    return LettersExport(found.name, file)


def save(statement: statements.Save) -> str:
    """Bind SAVE TO to its URI."""
    uri = str(statement.uri.value)
    if not uri.strip():
        raise BindError("SAVE TO needs a place", statement.uri.span, hint="SAVE TO '/backup/monday';")
    return uri


def play(statement: statements.Play, catalogue: CatalogueView) -> StreamPlayed:
    """Bind PLAY."""
    stream = stream_named(statement.stream, catalogue)
    pace = statement.pace
    if pace is not None and stream.is_live:
        raise BindError(
            f"a live stream is not replayed, so PLAY {stream.name} takes no pace",
            statement.stream.span,
            hint="leave AT out: its records come at the pace of their source",
        )
    return StreamPlayed(stream.id, stream.name, pace.lower() if isinstance(pace, str) else pace)


MOST_SLOTS = 1024
"""The maximum number of slots of a stream."""


class RepartitionSpec(Struct, frozen=True):
    """The streams to lay out anew, None for all; the strategy; the number of slots, None to keep it."""

    stream: str | None
    strategy: str
    slots: int | None


class RebalanceSpec(Struct, frozen=True):
    """The streams to balance, None for all; the load adjuster, None for any suitable one."""

    stream: str | None
    adjuster: str | None


def repartition(statement: statements.Repartition, catalogue: CatalogueView) -> RepartitionSpec:
    """Bind REPARTITION."""
    stream = None if statement.stream is None else stream_named(statement.stream, catalogue).name
    if statement.slots is None:
        return RepartitionSpec(stream, statement.strategy, None)
    slots = statement.slots.value
    assert isinstance(slots, int), "the grammar has whole numbers here"
    if not 1 <= slots <= MOST_SLOTS:
        raise BindError(f"INTO takes 1 to {MOST_SLOTS:,} slots, not {slots:,}", statement.slots.span)
    return RepartitionSpec(stream, statement.strategy, slots)


def rebalance(statement: statements.Rebalance, catalogue: CatalogueView) -> RebalanceSpec:
    """Bind REBALANCE."""
    stream = None if statement.stream is None else stream_named(statement.stream, catalogue).name
    return RebalanceSpec(stream, statement.strategy)


def pause(statement: statements.Pause, catalogue: CatalogueView) -> StreamPaused:
    """Bind PAUSE of a stream."""
    stream = stream_named(statement.stream, catalogue)
    return StreamPaused(stream.id, stream.name)


def pause_query(statement: statements.PauseQuery, catalogue: CatalogueView) -> QueryPaused:
    """Bind PAUSE QUERY."""
    query = query_named(statement.name, catalogue)
    return QueryPaused(query.id, query.name, query.stream_id)


def resume_query(statement: statements.ResumeQuery, catalogue: CatalogueView) -> QueryResumed:
    """Bind RESUME QUERY."""
    query = query_named(statement.name, catalogue)
    return QueryResumed(query.id, query.name, query.stream_id)


def drop(statement: statements.Drop, catalogue: CatalogueView) -> tuple[Dropped, ...]:
    """Bind DROP of names, skipping missing ones with IF EXISTS; the session resolves a pattern."""
    return tuple(
        _dropped(statement, name, catalogue)
        for name in statement.names
        if not statement.if_exists or _exists(statement.kind, name.text, catalogue)
    )


def _exists(kind: statements.ObjectKind, name: str, catalogue: CatalogueView) -> bool:
    """Return whether a name is in use; functions have a separate namespace."""
    if kind == "FUNCTION":
        return name.upper() in catalogue.names("function")
    return catalogue.kind_of(name) is not None


def _dropped(statement: statements.Drop, name: Name, catalogue: CatalogueView) -> Dropped:
    found = _FINDERS[statement.kind](name, catalogue)
    if isinstance(found, AreaSpec) and found.set != (statement.kind == "REGIONS"):
        what = "a set of regions" if found.set else "a single region"
        right = found.word.upper()
        raise BindError(f"{name.text} is {what}", name.span, near=f"DROP {right} {name.text}")
    return _drop_entry(found)


def show(statement: statements.Show, catalogue: CatalogueView) -> str:
    """Return what SHOW lists; raise `BindError` for a pattern if that has no names."""
    if statement.stream is not None:
        stream_named(statement.stream, catalogue)
    if statement.like is not None and statement.what not in NAMED:
        raise BindError(
            f"SHOW {statement.what} lists no names that LIKE could choose from",
            statement.like.span,
            hint=f"LIKE goes with SHOW {', '.join(NAMED[:-1])} and {NAMED[-1]}",
        )
    return statement.what


def describe(statement: statements.Describe, catalogue: CatalogueView) -> NamedThing:
    """Bind DESCRIBE."""
    name = statement.name
    kind = catalogue.kind_of(name.text)
    if kind is not None:
        return NamedThing(kind, name.text)
    known = [known for kind in _KINDS for known in catalogue.names(kind)]
    close = near(name.text, known)
    hint = (
        None
        if close
        else "SHOW STREAMS, QUERIES, TABLES, REGIONS, VIEWS, SINKS or ALERTS lists the names in use"
    )
    raise BindError(f"nothing is called {name.text!r}", name.span, near=close, hint=hint)


def show_query(statement: statements.ShowQuery, catalogue: CatalogueView) -> str:
    """Bind SHOW QUERY to the name of the query."""
    return query_named(statement.name, catalogue).name


def watch(statement: statements.Watch, catalogue: CatalogueView) -> tuple[str, ...]:
    """Bind WATCH to the names of the queries, each listed once."""
    names = [query_named(name, catalogue).name for name in statement.names]
    return tuple(dict.fromkeys(names))


def set_setting(statement: statements.SetSetting, catalogue: CatalogueView) -> SettingChanged:
    """Bind SET; a quantity keeps its written form."""
    key = statement.key.text.lower()
    if key in SECRETS:
        variable = next(known.variable for known in KEYS if known.name == key)
        hint = f"give it in the environment ({variable}) or in the profile"
        raise BindError(f"{key} is a secret, and statements are stored", statement.key.span, hint=hint)
    if key in catalogue.settings and key.startswith("session."):
        hint = "give it in the profile or the environment: STQSH_" + key.upper().replace(".", "_")
        raise BindError(f"{key} counts before a session is open", statement.key.span, hint=hint)
    if key in catalogue.settings:
        value = _plain(statement.value)
        _check_value(key, str(value), statement.value.span)
        return SettingChanged(key, value)
    close = near(key, catalogue.settings)
    raise BindError(
        f"unknown setting {key!r}", statement.key.span, near=close, hint="SHOW SETTINGS lists them"
    )


def _check_value(key: str, text: str, span: Span) -> None:
    """Raise `BindError` for a value that the setting cannot have."""
    for known in KEYS:
        if known.name == key:
            try:
                known.read(text)
            except ValueError as error:
                close = near(text, known.choices) if text.isalpha() else None
                raise BindError(f"{key} is {text!r}, expected {error}", span, near=close) from None


def _plain(value: Literal | Quantity | Column) -> Any:
    if isinstance(value, Quantity):
        return constant(value)
    return value.name if isinstance(value, Column) else value.value


def _drop_entry(found: Any) -> Dropped:
    """Return the log's entry for the DROP of an object; views and functions, which are not logged, as is."""
    if isinstance(found, QuerySpec):
        return QueryDropped(found.id, found.name, found.stream_id)
    entry = _DROPPED.get(type(found))
    return found if entry is None else entry(found.id, found.name)


_DROPPED: dict[type[Struct], Callable[[int, str], Dropped]] = {
    StreamSpec: StreamDropped,
    TableSpec: TableDropped,
    AreaSpec: AreaDropped,
    SinkSpec: SinkDropped,
    QueryStreamSpec: QueryStreamDropped,
}


_FINDERS: dict[str, Callable[[Name, CatalogueView], Any]] = {
    "STREAM": stream_named,
    "TABLE": table_named,
    "REGION": area_named,
    "REGIONS": area_named,
    "QUERY": query_named,
    "QUERIES": query_stream_named,
    "SINK": sink_named,
    "ALERT": alert_named,
    "VIEW": view_named,
    "FUNCTION": function_named,
}
"""The look-up function for each kind that DROP may name."""


def map_(statement: statements.Map, catalogue: CatalogueView) -> MapSpec:
    """Bind MAP; raise `BindError` if it does not fit the catalogue.

    If no stream is named, it is that of the queries, or else the only stream there is.
    """
    if statement.file == "":
        raise BindError("the name of the file is empty", statement.span, expected=("TO 'file.html'",))
    stream, names = _told_apart(statement, catalogue)
    queries = [query_named(name, catalogue) for name in names]
    if stream is not None:
        home = stream_named(stream, catalogue).name
    elif queries:
        home = queries[0].stream
    else:
        home = _only_stream(statement, catalogue)
    for name, query in zip(names, queries, strict=True):
        if query.stream != home:
            raise BindError(
                f"{name.text} asks about {query.stream}, but this is a map of {home}",
                name.span,
                hint="a map shows one stream",
            )
    return MapSpec(home, tuple(query.name for query in queries) or None, statement.file)


def _told_apart(statement: statements.Map, catalogue: CatalogueView) -> tuple[Name | None, tuple[Name, ...]]:
    """Return the stream and the queries; a single name may be either."""
    names = statement.queries
    if statement.stream is not None or len(names) != 1:
        return statement.stream, names
    [name] = names
    kind = catalogue.kind_of(name.text)
    if kind is None:
        known = (*catalogue.names("stream"), *catalogue.names("query"))
        close = near(name.text, known)
        hint = None if close else "SHOW STREAMS and SHOW QUERIES list them"
        raise BindError(f"unknown stream or query {name.text!r}", name.span, near=close, hint=hint)
    return (None, names) if kind == "query" else (name, ())


def _only_stream(statement: statements.Map, catalogue: CatalogueView) -> str:
    streams = list(catalogue.names("stream"))
    if len(streams) == 1:
        return streams[0]
    if not streams:
        raise BindError(
            "there is no stream to show on a map", statement.span, hint="make one with CREATE MOVING STREAM"
        )
    ways = "; ".join(f"MAP {name}" for name in streams[:3])
    raise BindError(
        "there are several streams, but a map shows one", statement.span, hint=f"say which: {ways}"
    )


BINDERS: dict[type[statements.Statement], tuple[str, Callable[[Any, CatalogueView], object]]] = {
    statements.Run: ("run", lambda statement, _: run(statement)),
    statements.Play: ("play", play),
    statements.Pause: ("pause", pause),
    statements.PauseQuery: ("pause_query", pause_query),
    statements.ResumeQuery: ("resume_query", resume_query),
    statements.Watch: ("watch", watch),
    statements.Map: ("map", map_),
    statements.Show: ("show", show),
    statements.ShowQuery: ("show_query", show_query),
    statements.Describe: ("describe", describe),
    statements.Repartition: ("repartition", repartition),
    statements.Rebalance: ("rebalance", rebalance),
    statements.SetSetting: ("set", set_setting),
    statements.ExportDeadLetters: ("export", export),
    statements.Save: ("save", lambda statement, _: save(statement)),
}
"""The statements of this module that are checked: the kind of each, and the function that checks it."""
