"""Builders of CREATE and DROP."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.source import cover
from stqsh.lang.ast.statements import (
    AlertAction,
    ColumnDefinition,
    CreateAlert,
    CreateRegion,
    CreateRegions,
    CreateSink,
    CreateStream,
    CreateTable,
    DataSource,
    DirectorySource,
    Drop,
    FileSource,
    FileTarget,
    GeneratorSource,
    HttpSource,
    HttpTarget,
    Insert,
    InsertsSource,
    KafkaSource,
    KafkaTarget,
    ObjectKind,
    Options,
    SocketSource,
    StdinSource,
    ValueRow,
)
from stqsh.lang.ast_builder.regions import fixed
from stqsh.lang.ast_builder.rules import Builder, Clause, Parts, by_field, fill, rule
from stqsh.lang.errors import StatementSyntaxError, near
from stqsh.lang.types import type_named

FILE_FORMATS = ("csv", "jsonl", "parquet", "geojson")
"""The formats of files; sources of one's own add theirs here."""
_FORMATS: dict[type[DataSource], tuple[str, ...]] = {
    KafkaSource: ("csv", "json", "arrow"),
    StdinSource: ("csv", "json"),
    SocketSource: ("csv", "json"),
    HttpSource: ("json",),
}
"""The formats of sources that do not take those of files."""
_FORMAT_ALIASES = {"json": "jsonl"}
SINK_FORMATS = ("parquet", "jsonl", "csv")


@rule("columns")
def columns(parts: Parts) -> list[ColumnDefinition]:
    """Build `(a T, b T)`."""
    return parts


@rule("column_definition")
def column_definition(parts: Parts) -> ColumnDefinition:
    """Build `a T`."""
    name, type_name = parts
    return ColumnDefinition(name.text, type_named(type_name), span=name.span)


@rule("option")
def option(parts: Parts) -> tuple[str, Any]:
    """Build `name => value`; the name is in lower case."""
    return parts[0].text.lower(), parts[1]


@rule("options")
def options(parts: Parts) -> Options:
    """Build `(a => 1, b => 'x')`."""
    given = [part for part in parts if part is not None]
    names = [name for name, _ in given]
    for place, (name, value) in enumerate(given):
        if name in names[:place]:
            raise StatementSyntaxError(f"the option {name} is given twice", value.span)
    return tuple(given)


@rule("file_source")
def file_source(parts: Parts) -> FileSource:
    """Build `FILE 'glob'`."""
    return FileSource(parts[0].value, span=parts[0].span)


@rule("kafka_source")
def kafka_source(parts: Parts) -> KafkaSource:
    """Build `KAFKA 'brokers' TOPIC 't', … [FROM place]`."""
    brokers, *topics, start = parts
    return KafkaSource(brokers.value, tuple(topic.value for topic in topics), start, span=brokers.span)


@rule("kafka_start")
def kafka_start(parts: Parts) -> str:
    """Build `FROM EARLIEST | LATEST | TIMESTAMP '…'`."""
    return parts[0]  # type: ignore[no-any-return]


@rule("kafka_place")
def kafka_place(parts: Parts) -> str:
    """Build `EARLIEST`, `LATEST`, or the time of `TIMESTAMP '…'`."""
    return str(parts[0]).upper() if len(parts) == 1 else parts[1].value


@rule("stdin_source")
def stdin_source(_: Parts) -> StdinSource:
    """Build `STDIN`."""
    return StdinSource()


@rule("socket_source")
def socket_source(parts: Parts) -> SocketSource:
    """Build `SOCKET 'host:port'`."""
    return SocketSource(parts[0].value, span=parts[0].span)


@rule("directory_source")
def directory_source(parts: Parts) -> DirectorySource:
    """Build `DIRECTORY 'dir'`."""
    return DirectorySource(parts[0].value, span=parts[0].span)


@rule("inserts_source")
def inserts_source(_: Parts) -> InsertsSource:
    """Build `INSERTS`."""
    return InsertsSource()


@rule("http_source")
def http_source(parts: Parts) -> HttpSource:
    """Build `HTTP PORT n`."""
    port = parts[0]
    if port.kind != "INTEGER":
        raise StatementSyntaxError(f"{port.value} is not a port", port.span)
    return HttpSource(port.value, span=port.span)


@rule("generator_source")
def generator_source(parts: Parts) -> GeneratorSource:
    """Build `GENERATOR 'name' (options)`."""
    name, given = parts
    return GeneratorSource(name.value, given or (), span=name.span)


@rule("location_clause")
def location_clause(parts: Parts) -> Clause:
    """Build `LOCATION (x, y)`."""
    return Clause("location", (parts[0], parts[1]), "LOCATION", parts[0].span)


@rule("bounds_clause")
def bounds_clause(parts: Parts) -> Clause:
    """Build `BOUNDS (x1, y1, x2, y2)`."""
    return Clause("bounds", tuple(fixed(part) for part in parts), "BOUNDS", parts[0].span)


@rule("format_clause")
def format_clause(parts: Parts) -> Clause:
    """Build `FORMAT x [(options)]`; whether the source takes it is checked with the source."""
    name: Name = parts[0]
    return Clause("format", (name, parts[1] or ()), "FORMAT", name.span)


def _one_value(field: str, label: str) -> Builder:
    def clause(parts: Parts) -> Clause:
        value = parts[0]
        span = getattr(value, "span", None)
        return Clause(field, value, label) if span is None else Clause(field, value, label, span)

    return clause


for _rule_name, _field, _label in (
    ("from_clause", "source", "FROM"),
    ("key_clause", "key", "KEY"),
    ("time_clause", "time", "TIME"),
    ("text_clause", "text_column", "TEXT"),
    ("name_clause", "name_column", "NAME"),
    ("geometry_clause", "geometry", "PLANAR or GEODETIC"),
    ("tick_clause", "tick", "TICK"),
    ("report_every_clause", "report_every", "REPORT EVERY"),
    ("max_speed_clause", "max_speed", "MAX SPEED"),
    ("order_clause", "order_by", "ORDER BY"),
    ("pace_clause", "pace", "PACE"),
    ("keep_clause", "keep", "KEEP"),
    ("retain_clause", "retain", "RETAIN"),
    ("archive_clause", "archive", "ARCHIVE TO"),
):
    rule(_rule_name)(_one_value(_field, _label))


@rule("create_stream")
def create_stream(parts: Parts) -> CreateStream:
    """Build `CREATE MOVING|EVENT STREAM …`."""
    kind, existing, name, defined, *clauses = parts
    given = by_field(clauses)
    stream = CreateStream(
        "moving" if kind == "MOVING" else "event",
        name,
        _source(name, given),
        columns=tuple(defined or ()),
        if_not_exists=bool(existing),
    )
    return fill(stream, given)


@rule("create_table")
def create_table(parts: Parts) -> CreateTable:
    """Build `CREATE TABLE …`."""
    existing, name, defined, *clauses = parts
    given = by_field(clauses)
    columns, source = tuple(defined or ()), _source(name, given)
    return fill(CreateTable(name, source, columns, if_not_exists=bool(existing)), given)


@rule("create_region")
def create_region(parts: Parts) -> CreateRegion:
    """Build `CREATE REGION name AS region`."""
    existing, name, region = parts
    return CreateRegion(name, region, bool(existing))


@rule("some_queries")
def some_queries(parts: Parts) -> tuple[Name, ...]:
    """Build `FOR q1, q2`; each query counts once."""
    return tuple({name.text: name for name in parts}.values())


@rule("all_queries")
def all_queries(_: Parts) -> tuple[Name, ...]:
    """Build `FOR ALL`."""
    return ()


@rule("file_target")
def file_target(parts: Parts) -> FileTarget:
    """Build `TO FILE 'dir' FORMAT format`."""
    folder, name = parts
    given = name.text.lower()
    found = _FORMAT_ALIASES.get(given, given)
    if found not in SINK_FORMATS:
        raise StatementSyntaxError(
            f"unknown format {name.text!r}", name.span, expected=SINK_FORMATS, near=near(given, SINK_FORMATS)
        )
    return FileTarget(folder.value, found, span=folder.span)


@rule("http_target")
def http_target(parts: Parts) -> HttpTarget:
    """Build `TO HTTP 'url'`."""
    return HttpTarget(parts[0].value, span=parts[0].span)


@rule("kafka_target")
def kafka_target(parts: Parts) -> KafkaTarget:
    """Build `TO KAFKA 'brokers' TOPIC 't' [AS UPDATES | ANSWERS]`."""
    brokers, topic, mode = parts
    is_answers = mode == "ANSWERS"
    return KafkaTarget(brokers.value, topic.value, "answers" if is_answers else "updates", span=brokers.span)


@rule("create_sink")
def create_sink(parts: Parts) -> CreateSink:
    """Build `CREATE SINK name FOR … TO …`."""
    existing, name, queries, target = parts
    return CreateSink(name, queries, target, bool(existing))


@rule("notify_action")
def notify_action(_: Parts) -> AlertAction:
    """Build `NOTIFY`."""
    return AlertAction("notify")


@rule("bell_action")
def bell_action(_: Parts) -> AlertAction:
    """Build `BELL`."""
    return AlertAction("bell")


@rule("run_action")
def run_action(parts: Parts) -> AlertAction:
    """Build `RUN 'command'`."""
    return AlertAction("run", parts[0].value, span=parts[0].span)


@rule("post_action")
def post_action(parts: Parts) -> AlertAction:
    """Build `POST 'url'`."""
    return AlertAction("post", parts[0].value, span=parts[0].span)


@rule("create_alert")
def create_alert(parts: Parts) -> CreateAlert:
    """Build `CREATE ALERT name ON query … DO action`."""
    existing, name, query, edge, every, action = parts
    return CreateAlert(name, query, action, edge, every, bool(existing))


@rule("create_regions")
def create_regions(parts: Parts) -> CreateRegions:
    """Build `CREATE REGIONS name FROM FILE 'glob' [NAME column]`."""
    existing, name, *clauses = parts
    given = by_field(clauses)
    return fill(CreateRegions(name, _source(name, given), if_not_exists=bool(existing)), given)


@rule("insert_columns")
def insert_columns(parts: Parts) -> tuple[Name, ...]:
    """Build `(a, b)`."""
    return tuple(parts)


@rule("value_row")
def value_row(parts: Parts) -> ValueRow:
    """Build `(1, 'x')`."""
    return ValueRow(tuple(parts), span=cover(parts[0].span, parts[-1].span))


@rule("insert")
def insert(parts: Parts) -> Insert:
    """Build `INSERT INTO stream [(columns)] VALUES (…), …`."""
    stream, columns, *rows = parts
    return Insert(stream, tuple(rows), columns or ())


def _dropped(kind: ObjectKind) -> Builder:
    def dropped(parts: Parts) -> Drop:
        existing, name = parts
        return Drop(kind, name, bool(existing), span=name.span)

    return dropped


for _kind in ("STREAM", "TABLE", "REGION", "REGIONS", "QUERY", "SINK", "ALERT"):
    rule(f"dropped_{_kind.lower()}")(_dropped(_kind))


@rule("drop")
def drop(parts: Parts) -> Drop:
    """Build `DROP kind name`."""
    return parts[0]  # type: ignore[no-any-return]


def _source(name: Name, given: dict[str, Clause]) -> DataSource:
    """Take the source out of a definition's clauses; there must be one."""
    source = pop_source(given)
    if source is None:
        raise StatementSyntaxError(
            f"{name.text} has no source", name.span, expected=("FROM FILE 'glob' or another source",)
        )
    return source


def pop_source(given: dict[str, Clause]) -> DataSource | None:
    """Take the source and its format out of clauses; raise if the source has no format."""
    source, form = given.pop("source", None), given.pop("format", None)
    if source is None:
        return None
    found: DataSource = source.value
    if form is None:
        return found
    if isinstance(found, GeneratorSource):
        raise StatementSyntaxError("a generator has no FORMAT", found.span)
    name, options = form.value
    return replace(found, format=_format_of(found, name), options=options)


def _format_of(source: DataSource, name: Name) -> str:
    """Return a format that a source takes; raise for another, with a suggestion."""
    given, formats = name.text.lower(), _FORMATS.get(type(source), FILE_FORMATS)
    found = _FORMAT_ALIASES.get(given, given)
    if found not in {_FORMAT_ALIASES.get(one, one) for one in formats}:
        is_known = found in {*FILE_FORMATS, *chain.from_iterable(_FORMATS.values())}
        problem = "this source does not take format" if is_known else "unknown format"
        raise StatementSyntaxError(
            f"{problem} {name.text!r}", name.span, expected=formats, near=near(given, formats)
        )
    return found
