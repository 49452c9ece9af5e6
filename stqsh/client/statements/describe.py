"""The answers to DESCRIBE and DUMP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from stqsh.client.connection import Connection
from stqsh.client.read.accuracy import Accuracy, accuracy_shown
from stqsh.client.read.kept_events import keep_text, kept_text
from stqsh.client.read.spec_text import query_region_text
from stqsh.client.results import Rows, Script
from stqsh.client.show.subjects import source_text
from stqsh.errors import SourceError
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Literal, Name
from stqsh.lang.ast.statements import CreateFunction, Parameters
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax.parse import parse
from stqsh.spec.measure import QueryMeasure
from stqsh.spec.query import QuerySpec, join_texts
from stqsh.spec.source_facts import extent_text, pace_text, records_text, set_aside_text, span_text
from stqsh.spec.stream import FileSourceSpec, StreamSpec, TableSpec
from stqsh.spec.view import ViewSpec
from stqsh.storage.catalogue import (
    count_queries,
    known_functions,
    known_views,
    live_areas,
    live_queries,
    live_streams,
    live_tables,
    queries_over_area,
    queries_over_table,
)
from stqsh.storage.layouts import PASSING
from stqsh.storage.progress import stream_statuses
from stqsh.storage.queries.query_streams import QueryStreamRow, live_query_streams, streamed_queries
from stqsh.storage.rows import AreaRow, QueryRow, SinkRow, StreamRow, StreamStatus, TableRow
from stqsh.storage.session_settings import session_settings
from stqsh.storage.sinks.sink_catalogue import live_sinks
from stqsh.units import counted, format_duration, format_instant

_DEFINITIONS = (
    "SELECT CASE WHEN kind = 'register_alike' THEN json_extract(spec, '$.first') ELSE seq END, seq, text"
    " FROM log WHERE kind IN ('create_stream', 'create_table', 'create_area', 'register', 'register_alike',"
    " 'create_sink', 'create_query_stream')"
    " ORDER BY seq"
)

_ROWS = 1000
"""How many rows of a query stream are in a statement of DUMP."""
_ALTERED = f"SELECT DISTINCT json_extract(spec, '$.id') FROM log WHERE {PASSING} AND kind = 'alter_query'"


def describe_stream(connection: Connection, stream: StreamRow) -> Iterator[Rows]:
    """Yield a stream's columns with their roles, then its clauses and how far it has been read."""
    spec = stream.spec
    parts = {getattr(spec, part): part for part in ("text", "time", "extent", "y", "x", "key")}
    yield Rows(f"{spec.kind} stream {stream.name}", ("column", "type", "part"), _columns(spec, parts))
    status = stream_statuses(connection.db).get(stream.id, StreamStatus(stream.id))
    speed, bounds, event = spec.max_speed, spec.bounds, spec.is_event
    items: list[tuple[str, Any]] = [
        ("source", source_text(stream)),
        ("geometry", "planar" if spec.planar else "geodetic"),
        ("tick", format_duration(spec.tick_us)),
        ("report every", format_duration(spec.report_every_us)),
        ("max speed", None if speed is None else f"{speed:g} {'units/s' if spec.planar else 'm/s'}"),
        ("bounds", None if bounds is None else ", ".join(f"{value:g}" for value in bounds)),
        ("grid", None if spec.grid is None else f"{spec.grid} x {spec.grid} cells"),
        ("order", spec.order),
        ("pace", spec.pace),
        *([] if event else [("retain", spec.retain)]),
        ("state", f"{status.state}: {status.message}" if status.message else status.state),
        ("rows", status.rows),
        ("dead letters", status.dead),
        *_facts(connection, stream),
        *(
            [
                ("keep", keep_text(spec)),
                *(
                    []
                    if spec.keep_bytes is None
                    else [("kept", kept_text(connection.progress(), spec) or None)]
                ),
                ("duplicates", status.duplicates),
            ]
            if event
            else ()
        ),
        *([] if spec.archive is None else [("archive", spec.archive)]),
        ("queries", count_queries(connection.db, stream.id)),
    ]
    yield Rows(f"stream {stream.name}", ("item", "value"), tuple(items))


def _facts(connection: Connection, stream: StreamRow) -> list[tuple[str, str]]:
    """Return the time range, extent and density of a stream's records, from its store or its files."""
    if not isinstance(stream.spec.source, FileSourceSpec):
        return []
    from stqsh.sources.measuring import measure_files, measure_store  # pyarrow: only when needed

    try:
        facts = measure_store(connection.home.stream(stream.id), stream.spec) or measure_files(stream.spec)
    except SourceError:  # the files are gone; the state reports it if it matters
        return []
    if facts is None:
        return []
    items = [
        ("records", records_text(facts)),
        ("time span", span_text(facts)),
        ("extent", extent_text(facts)),
        ("density", pace_text(facts)),
        ("set aside", set_aside_text(facts)),
    ]
    return [(name, text) for name, text in items if text]


def describe_table(connection: Connection, table: TableRow) -> Iterator[Rows]:
    """Yield a table's columns, then its source and how far it has been read."""
    columns = _columns(table.spec, {table.spec.key: "key"})
    yield Rows(f"table {table.name}", ("column", "type", "part"), columns)
    status = stream_statuses(connection.db).get(table.id, StreamStatus(table.id))
    items: list[tuple[str, Any]] = [
        ("source", source_text(table)),
        ("state", f"{status.state}: {status.message}" if status.message else status.state),
        ("rows", status.rows),
        ("dead letters", status.dead),
        ("queries", ", ".join(queries_over_table(connection.db, table.id)) or None),
    ]
    yield Rows(f"table {table.name}", ("item", "value"), tuple(items))


def _columns(
    spec: StreamSpec | TableSpec, parts: Mapping[str | None, str]
) -> tuple[tuple[str, str, str | None], ...]:
    """Return name, type and part of each column: its role, and how it is computed."""
    derived = {column.name: f"AS {column.text}" for column in spec.derived}
    return tuple(
        (name, kind, ", ".join(filter(None, (parts.get(name), derived.get(name)))) or None)
        for name, kind in spec.columns
    )


def describe_area(connection: Connection, area: AreaRow) -> Iterator[Rows]:
    """Yield a region with its shape, or a set of regions and the shapes of its members."""
    from stqsh.client.read.region_shapes import circle_shape, region_shapes  # shapely: only when needed

    streams = live_streams(connection.db)
    planar = bool(streams) and all(stream.spec.planar for stream in streams)
    shapes = region_shapes(connection.db, area.id, planar=planar)
    shape: list[tuple[str, Any]] = []
    if area.spec.circle is not None:
        shape = [("shape", circle_shape(area.spec.circle, planar=planar))]
    elif not area.spec.set:
        shape = list(zip(("shape", "extent", "area", "text"), shapes[0][1:], strict=True))
    items: list[tuple[str, Any]] = [
        ("kind", "a set of regions" if area.spec.set else "a region"),
        *shape,
        ("source", source_text(area)),
        ("members", len(area.spec.members) if area.spec.set else None),
        ("queries", ", ".join(queries_over_area(connection.db, area.id)) or None),
    ]
    yield Rows(f"{area.word} {area.name}", ("item", "value"), tuple(items))
    if area.spec.set:
        yield Rows(
            f"members of {area.name}",
            ("member", "shape", "extent", "area"),
            tuple((one.name, one.shape, one.extent, one.area) for one in shapes),
        )


def show_query(query: QueryRow, measured: QueryMeasure, accuracy: Accuracy) -> Iterator[Rows]:
    """Yield SHOW QUERY: all details of one query; `measured` has the slots' reports about it."""
    spec, own = query.spec, measured.own
    for_us = spec.timing.for_us
    ends = None if for_us is None else f"{format_duration(for_us)} of event time after it began"
    items: list[tuple[str, Any]] = [
        ("query", query.name),
        ("text", spec.text),
        ("kind", spec.shown_kind),
        ("stream", spec.stream),
        ("state", query.state),
        ("registered", format_instant(query.since_us)),
        ("ends", ends),
        ("region", query_region_text(spec)),
        ("joined with", ", ".join(join_texts(spec)) or None),
        ("options", _options_text(spec) or None),
        ("select", ", ".join(column.name for column in spec.result.select)),
        ("answer", query.size),
        ("candidates so far", None if own is None else own.tested),
        ("updates so far", None if own is None else own.updates),
        ("accuracy", accuracy_shown(accuracy)),
    ]
    yield Rows(f"query {query.name}", ("item", "value"), tuple(items))


def _options_text(spec: QuerySpec) -> str:
    """Return the options that a query was given."""
    timing, least = spec.timing, spec.members.min_accuracy
    dwell = [] if timing.dwell_us is None else [f"dwell {format_duration(timing.dwell_us)}"]
    accuracy = [] if least is None else [f"min_accuracy {least:g}"]
    return ", ".join([*(["changes"] if timing.changes else []), *dwell, *accuracy])


def describe_query(query: QueryRow) -> Iterator[Rows]:
    """Yield a query's text, state and answer, one item per row."""
    spec = query.spec
    items: list[tuple[str, Any]] = [
        ("query", query.name),
        ("kind", spec.shown_kind),
        ("stream", spec.stream),
        ("state", query.state),
        ("registered", format_instant(query.since_us)),
        ("for", format_duration(spec.timing.for_us)),
        ("answer", query.size),
        ("select", ", ".join(column.name for column in spec.result.select)),
        ("text", spec.text),
    ]
    yield Rows(f"query {query.name}", ("item", "value"), tuple(items))


def dump(connection: Connection) -> Script:
    """Return a script that recreates all settings, streams, tables, regions, queries and views."""
    live = {row.id for rows in (live_streams, live_tables, live_areas) for row in rows(connection.db)}
    sinks = {sink.id: sink for sink in live_sinks(connection.db)}
    query_streams = {stream.id: stream for stream in live_query_streams(connection.db)}
    queries = {row.id: row for row in live_queries(connection.db) if row.owner is None}
    streamed = {id_ for stream in query_streams for id_, _, _ in streamed_queries(connection.db, stream)}
    altered = {id_ for (id_,) in connection.db.query(_ALTERED)}
    lines = [*_last_settings(connection), *_functions(connection)]
    later: list[str] = []  # an altered query's new region may need a later definition
    for first, last, text in connection.db.query(_DEFINITIONS):
        if last in sinks:
            later += _sink_creation(text, sinks[last], {row.name for row in queries.values()})
        if last in query_streams:
            later += [text, *_streamed(connection, query_streams[last])]
        for id_ in range(first, last + 1):
            if id_ in live:
                lines.append(text)
            elif id_ in queries and id_ not in streamed:
                said = _altered(text, queries[id_]) if text and id_ in altered else text
                later.append(said or _registration(connection, last, queries[id_]))
            if id_ in queries and queries[id_].state == "paused":
                later.append(f"PAUSE QUERY {_quoted(queries[id_].name)};")
    lines += [*later, *_routings(connection)]
    lines += (
        f"CREATE VIEW {_quoted(view.name)} AS {view.text};" for view in known_views(connection.db).values()
    )
    return Script("\n".join(lines) + "\n" if lines else "")


def _streamed(connection: Connection, stream: QueryStreamRow) -> Iterator[str]:
    """Yield the rows of a query stream's queries, or a comment if their source has to bring them again."""
    queries, name = streamed_queries(connection.db, stream.id), _quoted(stream.name)
    if not stream.spec.takes_inserts:
        yield f"-- {counted(len(queries), 'row')} of {name} come from its source again"
        return
    for start in range(0, len(queries), _ROWS):
        rows = ", ".join(content for _, _, content in queries[start : start + _ROWS])
        yield f"INSERT INTO {name} VALUES {rows};"


def describe_view(view: ViewSpec, columns: tuple[str, ...]) -> Iterator[Rows]:
    """Yield DESCRIBE of a view: its columns, and the SELECT that it stands for."""
    rows = (("columns", ", ".join(columns)), ("select", view.text))
    yield Rows(f"view {view.name}", ("property", "value"), rows)


def _functions(connection: Connection) -> Iterator[str]:
    """Yield the CREATE of each function with its code, and a comment for each registered in Python."""
    for name, spec in known_functions(connection.db).items():
        if spec.parameters is not None:
            names, types = [one for one, _ in spec.parameters], [kind for _, kind in spec.parameters]
            made = CreateFunction(
                Name(name.lower()),
                Parameters(tuple(names), tuple(types)),
                Literal(spec.text, "STRING"),
                is_file=False,
                returns=Name(spec.returns),
            )
            yield f"{to_sql(made)};"
            continue
        yield f"-- {name} is a Python function: session.register_function({name.lower()!r}, …)"


def _routings(connection: Connection) -> Iterator[str]:
    """Yield the REPARTITION of each stream whose routing is not its initial one.

    The settings by which a stream was laid out come before it, and those of the session after it.
    """
    from stqsh.sources.route_settings import settings_of_layout  # numpy: only when needed
    from stqsh.storage.stream_routes import stream_routes

    settings = session_settings(connection.db)
    for stream in live_streams(connection.db):
        for route in stream_routes(connection.db, stream.id)[-1:]:
            entry = route.entry
            laid = settings_of_layout(entry.layout, entry.strategy)
            others = [(name, value) for name, value in laid.items() if settings.text(name) != value]
            yield from (f"SET {name} = {value};" for name, value in others)
            yield f"REPARTITION {_quoted(stream.name)} USING {entry.strategy} INTO {entry.slots} SLOTS;"
            yield from (f"SET {name} = {settings.text(name)};" for name, _ in others)


def _sink_creation(text: str, sink: SinkRow, queries: set[str]) -> Iterator[str]:
    """Yield the statement of a sink or an alert, restricted to its live queries."""
    [statement] = parse(text)
    if isinstance(statement, statements.CreateAlert):
        if statement.query.text in queries:
            yield f"{to_sql(statement)};"
        return
    assert isinstance(statement, statements.CreateSink)
    live = tuple(name for name in statement.queries if name.text in queries)
    if live or not sink.spec.queries:
        yield f"{to_sql(replace(statement, queries=live))};"


def _altered(text: str, query: QueryRow) -> str:
    """Return the statement of a query with its current region."""
    [statement], [select] = parse(text), parse(query.spec.text)
    assert isinstance(statement, statements.RegisterQuery)
    assert isinstance(select, statements.Select)
    return f"{to_sql(replace(statement, select=select))};"


def _registration(connection: Connection, pattern: int, query: QueryRow) -> str:
    """Return the statement of a query that was registered in bulk."""
    return connection.db.template_rows(pattern).statement(query.name, query.spec.text)


def _last_settings(connection: Connection) -> Iterator[str]:
    rows = connection.db.query(
        "SELECT text FROM log WHERE seq IN"
        " (SELECT max(seq) FROM log WHERE kind = 'set' GROUP BY json_extract(spec, '$.key')) ORDER BY seq"
    )
    for (text,) in rows:
        yield text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
