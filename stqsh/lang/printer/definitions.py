"""Print CREATE, DROP and REGISTER QUERIES."""

from __future__ import annotations

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Literal, Name, Quantity
from stqsh.lang.printer.expressions import expression, region
from stqsh.lang.printer.queries import quantity, registered, select
from stqsh.lang.printer.values import (
    column_name,
    constant,
    identifier,
    joined,
    number,
    options,
    pace,
    query_stream_name,
    quoted,
)


def create_stream(node: statements.CreateStream) -> str:
    """Return `CREATE MOVING|EVENT STREAM …`, with its clauses in the order of the manual."""
    return joined(
        (
            f"CREATE {node.kind.upper()} STREAM",
            _existing(node.if_not_exists),
            identifier(node.name.text),
            _columns(node.columns),
            _named("KEY", node.key),
            node.location and f"LOCATION ({', '.join(column_name(name.text) for name in node.location)})",
            None if node.extent is None else f"LOCATION ({column_name(node.extent.text)})",
            _named("TIME", node.time),
            _named("TEXT", node.text_column),
            source(node.source),
            *_settings(node),
        )
    )


def create_table(node: statements.CreateTable) -> str:
    """Return `CREATE TABLE …`."""
    name = identifier(node.name.text)
    parts = (_existing(node.if_not_exists), name, _columns(node.columns), source(node.source))
    return joined(("CREATE TABLE", *parts, _named("KEY", node.key)))


def create_region(node: statements.CreateRegion) -> str:
    """Return `CREATE REGION name AS region`."""
    name = identifier(node.name.text)
    return joined(("CREATE REGION", _existing(node.if_not_exists), name, "AS", region(node.region)))


def create_regions(node: statements.CreateRegions) -> str:
    """Return `CREATE REGIONS name FROM …`."""
    name = identifier(node.name.text)
    parts = (_existing(node.if_not_exists), name, source(node.source), _named("NAME", node.name_column))
    return joined(("CREATE REGIONS", *parts))


def register_queries(node: statements.RegisterQueries) -> str:
    """Return `REGISTER QUERIES [name] [FROM source] [KEY column] … AS SELECT …`."""
    name = None if node.name is None else query_stream_name(node.name.text)
    rows = None if node.source is None else source(node.source)
    rest = registered(node, select(node.select))
    return joined(("REGISTER QUERIES", name, rows, _named("KEY", node.key), rest))


def create_sink(node: statements.CreateSink) -> str:
    """Return `CREATE SINK name FOR … TO …`."""
    name = identifier(node.name.text)
    queries = ", ".join(identifier(query.text) for query in node.queries) or "ALL"
    parts = (_existing(node.if_not_exists), name, f"FOR {queries}", target(node.target))
    return joined(("CREATE SINK", *parts))


def create_alert(node: statements.CreateAlert) -> str:
    """Return `CREATE ALERT name ON query … DO action`."""
    name, action = identifier(node.name.text), node.action
    text = f" {quoted(action.text)}" if action.kind in ("run", "post") else ""
    if action.template is not None:
        text += f"{' WITH' if text else ''} {quoted(str(action.template.value))}"
    on = f"ON {identifier(node.query.text)}"
    parts = (_existing(node.if_not_exists), name, on, node.edge, quantity("EVERY", node.every))
    return joined(("CREATE ALERT", *parts, f"DO {action.kind.upper()}{text}"))


def target(node: statements.SinkTarget) -> str:
    """Return `TO …`."""
    if isinstance(node, statements.FileTarget):
        return f"TO FILE {quoted(node.folder)} FORMAT {node.format.upper()}"
    if isinstance(node, statements.HttpTarget):
        return f"TO HTTP {quoted(node.url)}"
    return f"TO KAFKA {quoted(node.brokers)} TOPIC {quoted(node.topic)} AS {node.mode.upper()}"


def insert(node: statements.Insert) -> str:
    """Return `INSERT INTO stream [(columns)] VALUES (…), …`."""
    columns = ", ".join(column_name(name.text) for name in node.columns)
    rows = ", ".join(f"({', '.join(map(expression, row.values))})" for row in node.rows)
    name = identifier(node.stream.text)
    return joined((f"INSERT INTO {name}", columns and f"({columns})", f"VALUES {rows}"))


def create_function(node: statements.CreateFunction) -> str:
    """Return `CREATE FUNCTION name (parameter, …) [RETURNS type] FROM 'file' | AS 'code'`."""
    pairs = zip(node.parameters.names, node.parameters.types, strict=True)
    parameters = ", ".join(f"{column_name(name)} {kind}".rstrip() for name, kind in pairs)
    return joined(
        (
            "CREATE FUNCTION",
            "IF NOT EXISTS" if node.if_not_exists else None,
            f"{identifier(node.name.text)} ({parameters})",
            None if node.returns is None else f"RETURNS {node.returns.text}",
            f"{'FROM' if node.is_file else 'AS'} {constant(node.code)}",
        )
    )


def drop(node: statements.Drop) -> str:
    """Return `DROP kind [IF EXISTS] name, …`, or `DROP kinds LIKE 'pattern'`."""
    if node.like is not None:
        return f"DROP {statements.PLURALS[node.kind]} LIKE {constant(node.like)}"
    printed = query_stream_name if node.kind == "QUERIES" else identifier
    names = ", ".join(printed(name.text) for name in node.names)
    return joined(("DROP", node.kind, "IF EXISTS" if node.if_exists else None, names))


def source(node: statements.DataSource) -> str:
    """Return `FROM …`."""
    if isinstance(node, statements.GeneratorSource):
        return f"FROM GENERATOR {quoted(node.name)}{options(node.options)}"
    if isinstance(node, statements.FileSource):
        text = f"FROM FILE {quoted(node.glob)}"
    elif isinstance(node, statements.KafkaSource):
        text = f"FROM KAFKA {quoted(node.brokers)} TOPIC {', '.join(map(quoted, node.topics))}{_start(node)}"
    elif isinstance(node, statements.SocketSource):
        text = f"FROM SOCKET {quoted(node.address)}"
    elif isinstance(node, statements.InsertsSource):
        text = "FROM INSERTS"
    elif isinstance(node, statements.HttpSource):
        text = f"FROM HTTP PORT {node.port}"
    elif isinstance(node, statements.DirectorySource):
        text = f"FROM DIRECTORY {quoted(node.path)}"
    else:
        text = "FROM STDIN"
    return text if node.format is None else f"{text} FORMAT {node.format.upper()}{options(node.options)}"


def _start(node: statements.KafkaSource) -> str:
    if node.start is None or node.start in ("EARLIEST", "LATEST"):
        return "" if node.start is None else f" FROM {node.start}"
    return f" FROM TIMESTAMP {quoted(node.start)}"


def _settings(node: statements.CreateStream) -> tuple[str | None, ...]:
    bounds = node.bounds and f"BOUNDS ({', '.join(map(number, node.bounds))})"
    return (
        bounds,
        None if node.grid is None else f"GRID {constant(node.grid)}",
        node.geometry,
        quantity("TICK", node.tick),
        quantity("REPORT EVERY", node.report_every),
        None if node.max_speed is None else f"MAX SPEED {_speed(node.max_speed)}",
        node.order_by and f"ORDER BY {node.order_by}",
        None if node.pace is None else f"PACE {pace(node.pace)}",
        _keep(node.keep),
        None if node.retain is None else f"RETAIN {node.retain.text}",
        None if node.archive is None else f"ARCHIVE TO {constant(node.archive)}",
    )


def _keep(keep: statements.Kept | str | None) -> str | None:
    if isinstance(keep, statements.Kept):
        return f"KEEP {', '.join(constant(value) for value in (keep.time, keep.size) if value is not None)}"
    return keep and f"KEEP {keep}"


def _speed(value: Quantity | Literal) -> str:
    return constant(value)


def _existing(if_not_exists: bool) -> str | None:
    return "IF NOT EXISTS" if if_not_exists else None


def _columns(columns: tuple[statements.ColumnDefinition, ...]) -> str | None:
    return f"({', '.join(map(_column, columns))})" if columns else None


def _column(column: statements.ColumnDefinition) -> str:
    said = f"{column_name(column.name)} {column.type}"
    return said if column.value is None else f"{said} AS {expression(column.value)}"


def _named(keyword: str, name: Name | None) -> str | None:
    return None if name is None else f"{keyword} {column_name(name.text)}"
