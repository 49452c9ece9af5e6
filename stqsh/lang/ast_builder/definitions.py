"""Builders of CREATE and DROP."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, Literal, get_args

from stqsh.extensions import FORMATS, extension_names
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.source import cover
from stqsh.lang.ast_builder.regions import fixed
from stqsh.lang.ast_builder.rules import (
    Builder,
    Clause,
    Parts,
    by_field,
    clause_of,
    clause_of_list,
    fill,
    node_of,
    node_of_text,
    only_part,
    rule,
    rules,
)
from stqsh.lang.errors import StatementSyntaxError, near
from stqsh.lang.types import type_named

FILE_FORMATS = ("csv", "jsonl", "parquet", "geojson", "gpx", "gpkg", "shapefile", "fgb")
"""The formats of files; packages may add others, see `stqsh.extensions`."""
_LIVE_FORMATS = ("csv", "jsonl", "parquet", "geojson")
_FORMATS: dict[type[statements.DataSource], tuple[str, ...]] = {
    statements.KafkaSource: ("csv", "json", "arrow"),
    statements.StdinSource: ("csv", "json"),
    statements.SocketSource: ("csv", "json"),
    statements.HttpSource: ("json",),
    statements.DirectorySource: _LIVE_FORMATS,
    statements.InsertsSource: _LIVE_FORMATS,
}
"""The formats of sources that do not accept those of files."""
_FORMAT_ALIASES = {"json": "jsonl"}
SINK_FORMATS = ("parquet", "jsonl", "csv")


rules(
    {
        "columns": list,
        "file_source": node_of_text(statements.FileSource),
        "socket_source": node_of_text(statements.SocketSource),
        "directory_source": node_of_text(statements.DirectorySource),
        "stdin_source": node_of(statements.StdinSource),
        "inserts_source": node_of(statements.InsertsSource),
        "kafka_start": only_part,
        "from_clause": clause_of("source", "FROM"),
        "key_clause": clause_of("key", "KEY"),
        "time_clause": clause_of("time", "TIME"),
        "text_clause": clause_of("text_column", "TEXT"),
        "name_clause": clause_of("name_column", "NAME"),
        "grid_clause": clause_of("grid", "GRID"),
        "geometry_clause": clause_of("geometry", "PLANAR or GEODETIC"),
        "tick_clause": clause_of("tick", "TICK"),
        "report_every_clause": clause_of("report_every", "REPORT EVERY"),
        "max_speed_clause": clause_of("max_speed", "MAX SPEED"),
        "order_clause": clause_of("order_by", "ORDER BY"),
        "pace_clause": clause_of("pace", "PACE"),
        "keep_clause": clause_of("keep", "KEEP"),
        "kept": lambda parts: statements.Kept(parts[0], parts[1], span=parts[0].span),
        "kept_size": lambda parts: statements.Kept(None, parts[0], span=parts[0].span),
        "retain_clause": clause_of("retain", "RETAIN"),
        "archive_clause": clause_of("archive", "ARCHIVE TO"),
        "location_clause": clause_of_list("location", "LOCATION"),
        "extent_clause": clause_of("extent", "LOCATION"),
        "create_region": lambda parts: statements.CreateRegion(parts[1], parts[2], bool(parts[0])),
        "create_sink": lambda parts: statements.CreateSink(parts[1], parts[2], parts[3], bool(parts[0])),
        "all_queries": lambda _: (),
        "http_target": node_of_text(statements.HttpTarget),
        "notify_action": lambda parts: statements.AlertAction("notify", template=parts[0]),
        "bell_action": lambda parts: statements.AlertAction("bell", template=parts[0]),
        "function_file": lambda parts: (parts[0], True),
        "function_text": lambda parts: (parts[0], False),
        "insert_columns": tuple,
        "drop": only_part,
    }
)


@rule("column_definition")
def column_definition(parts: Parts) -> statements.ColumnDefinition:
    """Build `a T [AS expression]`."""
    name, type_name, value = parts
    return statements.ColumnDefinition(name.text, type_named(type_name), value, span=name.span)


@rule("option")
def option(parts: Parts) -> tuple[str, Any]:
    """Build `name => value`; the name is in lower case."""
    return parts[0].text.lower(), parts[1]


@rule("options")
def options(parts: Parts) -> statements.Options:
    """Build `(a => 1, b => 'x')`."""
    given = [part for part in parts if part is not None]
    names = [name for name, _ in given]
    for place, (name, value) in enumerate(given):
        if name in names[:place]:
            raise StatementSyntaxError(f"the option {name} is given twice", value.span)
    return tuple(given)


@rule("kafka_source")
def kafka_source(parts: Parts) -> statements.KafkaSource:
    """Build `KAFKA 'brokers' TOPIC 't', … [FROM place]`."""
    brokers, *topics, start = parts
    return statements.KafkaSource(
        brokers.value, tuple(topic.value for topic in topics), start, span=brokers.span
    )


@rule("kafka_place")
def kafka_place(parts: Parts) -> str:
    """Build `EARLIEST`, `LATEST`, or the time of `TIMESTAMP '…'`."""
    return str(parts[0]).upper() if len(parts) == 1 else parts[1].value


@rule("http_source")
def http_source(parts: Parts) -> statements.HttpSource:
    """Build `HTTP PORT n`."""
    port = parts[0]
    if port.kind != "INTEGER":
        raise StatementSyntaxError(f"{port.value} is not a port", port.span)
    return statements.HttpSource(port.value, span=port.span)


@rule("generator_source")
def generator_source(parts: Parts) -> statements.GeneratorSource:
    """Build `GENERATOR 'name' (options)`."""
    name, given = parts
    return statements.GeneratorSource(name.value, given or (), span=name.span)


@rule("bounds_clause")
def bounds_clause(parts: Parts) -> Clause:
    """Build `BOUNDS (x1, y1, x2, y2)`."""
    return Clause("bounds", tuple(fixed(part) for part in parts), "BOUNDS", parts[0].span)


@rule("format_clause")
def format_clause(parts: Parts) -> Clause:
    """Build `FORMAT x [(options)]`; the source's builder checks whether the source accepts it."""
    name: Name = parts[0]
    return Clause("format", (name, parts[1] or ()), "FORMAT", name.span)


@rule("create_stream")
def create_stream(parts: Parts) -> statements.CreateStream:
    """Build `CREATE MOVING|EVENT STREAM …`."""
    kind, existing, name, defined, *clauses = parts
    given = by_field(clauses)
    stream = statements.CreateStream(
        "moving" if kind == "MOVING" else "event",
        name,
        _source(name, given),
        columns=tuple(defined or ()),
        if_not_exists=bool(existing),
    )
    return fill(stream, given)


@rule("create_table")
def create_table(parts: Parts) -> statements.CreateTable:
    """Build `CREATE TABLE …`."""
    existing, name, defined, *clauses = parts
    given = by_field(clauses)
    columns, source = tuple(defined or ()), _source(name, given)
    return fill(statements.CreateTable(name, source, columns, if_not_exists=bool(existing)), given)


@rule("some_queries")
def some_queries(parts: Parts) -> tuple[Name, ...]:
    """Build `FOR q1, q2`; duplicate queries are removed."""
    return tuple({name.text: name for name in parts}.values())


@rule("file_target")
def file_target(parts: Parts) -> statements.FileTarget:
    """Build `TO FILE 'dir' FORMAT format`."""
    folder, name = parts
    given = name.text.lower()
    found = _FORMAT_ALIASES.get(given, given)
    if found not in SINK_FORMATS:
        raise StatementSyntaxError(
            f"unknown format {name.text!r}", name.span, expected=SINK_FORMATS, near=near(given, SINK_FORMATS)
        )
    return statements.FileTarget(folder.value, found, span=folder.span)


@rule("kafka_target")
def kafka_target(parts: Parts) -> statements.KafkaTarget:
    """Build `TO KAFKA 'brokers' TOPIC 't' [AS UPDATES | ANSWERS]`."""
    brokers, topic, mode = parts
    is_answers = mode == "ANSWERS"
    return statements.KafkaTarget(
        brokers.value, topic.value, "answers" if is_answers else "updates", span=brokers.span
    )


def _sending(kind: Literal["run", "post"]) -> Builder:
    return lambda parts: statements.AlertAction(kind, parts[0].value, parts[1], span=parts[0].span)


rules({"run_action": _sending("run"), "post_action": _sending("post")})


@rule("create_alert")
def create_alert(parts: Parts) -> statements.CreateAlert:
    """Build `CREATE ALERT name ON query … DO action`."""
    existing, name, query, edge, every, action = parts
    return statements.CreateAlert(name, query, action, edge, every, bool(existing))


@rule("create_regions")
def create_regions(parts: Parts) -> statements.CreateRegions:
    """Build `CREATE REGIONS name FROM FILE 'glob' [NAME column]`."""
    existing, name, *clauses = parts
    given = by_field(clauses)
    return fill(statements.CreateRegions(name, _source(name, given), if_not_exists=bool(existing)), given)


@rule("function_parameter")
def function_parameter(parts: Parts) -> tuple[Name, str]:
    """Build `name [TYPE]`."""
    name, kind = parts
    return name, "" if kind is None else type_named(kind)


@rule("create_function")
def create_function(parts: Parts) -> statements.CreateFunction:
    """Build `CREATE FUNCTION [IF NOT EXISTS] name (parameter, …) [RETURNS type] FROM 'file' | AS 'code'`."""
    existing, name, *given, returns, (code, is_file) = parts
    named = [one for one in given if one is not None]
    for place, (parameter, _) in enumerate(named):
        if parameter.text in [other.text for other, _ in named[:place]]:
            raise StatementSyntaxError(f"two parameters are called {parameter.text}", parameter.span)
    parameters = statements.Parameters(
        tuple(parameter.text for parameter, _ in named), tuple(kind for _, kind in named)
    )
    return statements.CreateFunction(name, parameters, code, is_file, returns, bool(existing))


@rule("value_row")
def value_row(parts: Parts) -> statements.ValueRow:
    """Build `(1, 'x')`."""
    return statements.ValueRow(tuple(parts), span=cover(parts[0].span, parts[-1].span))


@rule("insert")
def insert(parts: Parts) -> statements.Insert:
    """Build `INSERT INTO stream [(columns)] VALUES (…), …`."""
    stream, columns, *rows = parts
    return statements.Insert(stream, tuple(rows), columns or ())


def _dropped(kind: statements.ObjectKind) -> Builder:
    return lambda parts: statements.Drop(kind, tuple(parts[1:]), bool(parts[0]), span=parts[1].span)


def _dropped_like(kind: statements.ObjectKind) -> Builder:
    return lambda parts: statements.Drop(kind, like=parts[0], span=parts[0].span)


for _kind in get_args(statements.ObjectKind):
    rule(f"dropped_{_kind.lower()}")(_dropped(_kind))
for _kind, _plural in statements.PLURALS.items():
    rule(f"dropped_{_plural.lower()}_like")(_dropped_like(_kind))


def _source(name: Name, given: dict[str, Clause]) -> statements.DataSource:
    """Remove the source from a definition's clauses and return it; raise if there is none."""
    source = pop_source(given)
    if source is None:
        raise StatementSyntaxError(
            f"{name.text} has no source", name.span, expected=("FROM FILE 'glob' or another source",)
        )
    return source


def pop_source(given: dict[str, Clause]) -> statements.DataSource | None:
    """Remove the source and its format from clauses; raise if the source accepts no format."""
    source, form = given.pop("source", None), given.pop("format", None)
    if source is None:
        return None
    found: statements.DataSource = source.value
    if form is None:
        return found
    if isinstance(found, statements.GeneratorSource):
        raise StatementSyntaxError("a generator has no FORMAT", found.span)
    name, options = form.value
    return replace(found, format=format_of(found, name), options=options)


def format_of(source: statements.DataSource, name: Name) -> str:
    """Return a source's format; raise if the source does not accept it, with a suggestion."""
    given, formats = name.text.lower(), _FORMATS.get(type(source), FILE_FORMATS)
    found = _FORMAT_ALIASES.get(given, given)
    if found not in {_FORMAT_ALIASES.get(one, one) for one in formats}:
        if formats is FILE_FORMATS:
            formats = (*FILE_FORMATS, *extension_names(FORMATS))
            if found in formats:
                return found
        is_known = found in {*FILE_FORMATS, *chain.from_iterable(_FORMATS.values())}
        problem = "this source does not take format" if is_known else "unknown format"
        raise StatementSyntaxError(
            f"{problem} {name.text!r}", name.span, expected=formats, near=near(given, formats)
        )
    return found
