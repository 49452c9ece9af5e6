"""REGISTER QUERIES and `Session.register_many`: register a query for each row of a file or table.

The SELECT is bound once, with a hole for each parameter; rows are read, checked and stored by columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Raw
from numpy.typing import NDArray

from stqsh.client.results import BulkRegistration, Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.dispatch import check_kind, window_remark
from stqsh.client.statements.source_paths import pointing_at_source, with_absolute_files
from stqsh.client.stdin_pump import check_stdin, pump_stdin
from stqsh.errors import StqshError
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import (
    FileSource,
    HttpSource,
    RegisterQueries,
    RegisterQuery,
    Select,
    StdinSource,
)
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.definitions.live_sources import LIVE_SOURCES
from stqsh.lang.binder.definitions.streams import source_spec
from stqsh.lang.binder.names import check_free
from stqsh.lang.binder.parameters import COLUMN_TYPES, Hole, parameters_in
from stqsh.lang.binder.regions import members_beyond
from stqsh.lang.errors import BindError, locating, near
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax.parse import parse
from stqsh.sources.fed_records import as_table
from stqsh.sources.inference import infer
from stqsh.sources.live.http_port import check_port, posting_notes
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.registry import check_format
from stqsh.sources.parameter_checks import RowChecks, reach_beyond
from stqsh.sources.parameter_rows import read_parameters, table_columns, table_parameters
from stqsh.sources.query_rows import register_row
from stqsh.sources.recognition import recognize_dialect
from stqsh.spec.query_stream import DROP_COLUMN, QueryStreamSpec
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, HttpSourceSpec, StreamSpec
from stqsh.storage.queries.bulk_register import register_rows
from stqsh.storage.queries.query_streams import create_query_stream
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate, TemplateRows

if TYPE_CHECKING:
    import pyarrow as pa

    from stqsh.sources.parameter_rows import ParameterBlock
    from stqsh.spec.query import QuerySpec
    from stqsh.storage.queries.query_templates import QueryTemplate

NAME_COLUMN = "name"
"""The column with the queries' names, if KEY names none."""
TABLE_PREFIX = "query"
"""Without such a column, the queries of a table are called query_1, query_2, …."""
_KEY_TYPES = ("STRING", "BIGINT", "INT")
Columns = list[list[str]]
Blocks = Callable[[Mapping[str, str]], Iterator["ParameterBlock"]]


def register_queries(context: StatementContext, statement: RegisterQueries) -> Iterator[Outcome]:
    """Register a query for each row of the files that a REGISTER QUERIES names, or make a query stream."""
    with locating(statement.piece):
        if isinstance(statement.source, LIVE_SOURCES):
            yield query_stream(context, statement)
            return
        if not isinstance(statement.source, FileSource):
            raise BindError(
                "REGISTER QUERIES takes its rows from files or from a live source",
                statement.select.items[0].span,
                expected=(
                    "FROM FILE 'glob' before AS",
                    "FROM INSERTS",
                    "FROM KAFKA 'host' TOPIC 'topic'",
                    "FROM HTTP PORT n",
                ),
            )
        if statement.name is not None:
            raise BindError(
                "queries from a file need no name of their own",
                statement.name.span,
                hint="KEY column names the column with their names",
            )
    shown = statement.source.glob
    with pointing_at_source(statement):
        statement = with_absolute_files(statement, context.script)
        assert statement.source is not None
        source = source_spec(statement.source)
        assert isinstance(source, FileSourceSpec)
        source = recognize_dialect(source).source
        columns = infer(source)
        every = source.options.get("header") is False  # without a header, columns are identified by position

        def blocks(wanted: Mapping[str, str]) -> Iterator[ParameterBlock]:
            given = {name: wanted.get(name, "STRING") for name, _ in columns} if every else wanted
            return read_parameters(source, given)

        done = _registered(context, statement, columns, blocks)
    yield Message(done.text(shown))


def query_stream(context: StatementContext, statement: RegisterQueries) -> Message:
    """Make a query stream: from now on the rows of a live source register, replace and drop queries.

    Raises:
        BindError: it has no name, or the template has no parameter or takes their types from nowhere.
        SourceError: it reads a standard input that cannot be read, or a directory that does not exist.
    """
    with pointing_at_source(statement):
        statement = with_absolute_files(statement, context.script)
    source, name = statement.source, statement.name
    assert source is not None, "it has a live source"
    if name is None:
        raise BindError(
            "a query stream needs a name",
            Span(0, len("REGISTER QUERIES")),
            hint="REGISTER QUERIES name FROM INSERTS AS SELECT …",
        )
    check_free(name, context.view)
    parameters = dict.fromkeys(parameters_in(statement.select), "STRING")
    if not parameters or DROP_COLUMN in parameters:
        what = "has no parameter" if not parameters else f"has a parameter {DROP_COLUMN}"
        hint = f":column stands for a value of each row; {DROP_COLUMN} says that a row drops its query"
        raise BindError(f"the SELECT of a query stream {what}", statement.select.items[0].span, hint=hint)
    key = NAME_COLUMN if statement.key is None else statement.key.text
    spec = bind(statement, context.view, inferred=[*({key: "STRING"} | parameters).items()]).spec
    check_kind(context.connection.db, spec.kind)
    template = _template(statement, spec)
    kinds = _wanted(statement, template, key) | {DROP_COLUMN: "BOOLEAN"}
    columns = [(column, kinds[column]) for column in dict.fromkeys((key, *template.parameters, DROP_COLUMN))]
    rows = StreamSpec(
        name=name.text,
        columns=tuple(starmap(ColumnSpec, columns)),
        key=key,
        x="",
        y="",
        time="",
        source=source_spec(source),
    )
    check_format(rows)
    if isinstance(source, StdinSource):
        check_stdin(context.script == "stdin")
    if isinstance(source, HttpSource):
        check_port(context.connection.db, source)
    members = members_beyond(spec, context.view)
    made = create_query_stream(
        context.connection.db,
        f"{to_sql(statement)};",
        QueryStreamSpec(
            rows=rows,
            stream_id=spec.stream_id,
            template=Raw(template.to_json(members=True).encode()),
            beyond=tuple(tuple(sorted(members.get(hole, ()))) for _, hole in template.holes),
            areas=spec.areas,
            tables=tuple(join.table_id for join in spec.joins),
        ),
    )
    if isinstance(source, StdinSource):
        pump_stdin(context.connection.home.stream(made.id) / SPOOL)
    context.connection.wake()
    listed = ", ".join(column for column, _ in columns)
    begun = f"queries {made.name} are registered by rows of {listed}"
    lines = ["; ".join(filter(None, (begun, window_remark(context, spec))))]
    if isinstance(rows.source, HttpSourceSpec):
        lines += posting_notes(context.connection.home.stream(made.id), rows.source)
    return Message("\n".join(lines))


def register_many(context: StatementContext, template: str, table: Any) -> BulkRegistration:
    """Register a query for each row of a table; see `Session.register_many`."""
    statement = _template_statement(template)
    rows = as_table(table)
    if not rows.num_rows:  # empty columns have no types
        return BulkRegistration(0, 0, ())
    return _registered(context, statement, table_columns(rows), lambda wanted: table_parameters(rows, wanted))


def _template_statement(text: str) -> RegisterQueries:
    """Parse the template of `register_many`; raise `StqshError` if it is not one."""
    statements = parse(text)
    statement = statements[0] if len(statements) == 1 else None
    if isinstance(statement, Select):
        return RegisterQueries(statement, piece=statement.piece, span=statement.span)
    if isinstance(statement, RegisterQueries) and statement.source is None:
        return statement
    raise StqshError(
        "register_many takes one SELECT, or one REGISTER QUERIES without FROM FILE",
        hint="SELECT oid FROM taxis INSIDE RECT(:x1, :y1, :x2, :y2)",
    )


def _registered(
    context: StatementContext, statement: RegisterQueries, columns: Columns, blocks: Blocks
) -> BulkRegistration:
    """Register the queries of all rows, block by block; raise `StqshError` if no row makes one."""
    with locating(statement.piece):
        spec = bind(statement, context.view, inferred=columns).spec
        check_kind(context.connection.db, spec.kind)
        template = _template(statement, spec)
        key = _key_column(statement, dict(columns))
        wanted = _wanted(statement, template, key)
    members = members_beyond(spec, context.view)
    checks = RowChecks(template, key, TABLE_PREFIX)
    for block in blocks(wanted or {columns[0][0]: "STRING"}):
        for rows, places in checks.good_rows(block):
            checks.names_in_use(block, rows, places, _register(context, template, rows, members))
        context.connection.wake()
    done = BulkRegistration(checks.registered, checks.refused, checks.faults())
    if done.refused and not done.registered:
        raise StqshError(
            "no row yields a valid query: " + done.faults[0], hint="\n".join(done.faults[1:4]) or None
        )
    return replace(done, remark=window_remark(context, spec))


def _register(
    context: StatementContext,
    template: QueryTemplate,
    rows: pa.RecordBatch,
    members: Mapping[Hole, frozenset[str]],
) -> NDArray[np.bool_]:
    """Register the queries of rows; return which have a name that is in use, bool (n,).

    A region across the 180th meridian has another form than the other regions, so its query is registered
    separately.
    """
    beyond = reach_beyond(template, rows, members)
    in_use = np.zeros(rows.num_rows, np.bool_)
    if not beyond.all():
        in_use[~beyond] = register_rows(context.connection.db, template, rows.filter(pa.array(~beyond)))
    whole = TemplateRows(template, rows, 0)
    for row in np.flatnonzero(beyond).tolist():
        if context.knows(rows.column(NAMES)[row].as_py()):
            in_use[row] = True
        else:
            register_row(context.connection.db, whole, row)
    return in_use


def _template(statement: RegisterQueries, spec: QuerySpec) -> QueryTemplate:
    single = RegisterQuery(
        Name("q"), statement.select, statement.since_now, statement.duration, statement.options
    )
    text = to_sql(statement.select)
    whole = to_sql(single)
    return QueryTemplate.of(spec, text, whole[len("REGISTER QUERY q") : len(whole) - len(text)])


def _key_column(statement: RegisterQueries, columns: Mapping[str, str]) -> str | None:
    """Return the column with the queries' names; None if they are numbered."""
    if statement.key is None:
        return NAME_COLUMN if columns.get(NAME_COLUMN) in _KEY_TYPES else None
    name, span = statement.key.text, statement.key.span
    if name not in columns:
        raise BindError(
            f"there is no column {name!r} in the rows",
            span,
            expected=tuple(columns),
            near=near(name, columns),
        )
    if columns[name] not in _KEY_TYPES:
        raise BindError(f"a name is a string or a whole number, but {name} is a {columns[name]}", span)
    return name


def _wanted(statement: RegisterQueries, template: QueryTemplate, key: str | None) -> dict[str, str]:
    """Return the columns to read, each with a type that suits all places where its values are used."""
    wanted: dict[str, set[str]] = {} if key is None else {key: {"STRING"}}
    for _, hole in template.holes:
        if hole.constant is None:
            wanted.setdefault(hole.column, set()).add(COLUMN_TYPES[hole.content])
    return {name: _type_of(name, kinds, statement) for name, kinds in wanted.items()}


def _type_of(name: str, kinds: set[str], statement: RegisterQueries) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds in ({"BIGINT", "DOUBLE"}, {"BIGINT", "STRING"}):
        return "BIGINT"
    raise BindError(
        f"the column {name} is used as {' and as '.join(sorted(kinds))}",
        Span(0, len("REGISTER QUERIES")),
        hint="use two columns",
    )
