"""Print SELECT and the statements that contain it."""

from __future__ import annotations

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import And, Column, Expression, Literal, Not, Or, Quantity
from stqsh.lang.printer.expressions import expression, nearest, region
from stqsh.lang.printer.values import column_name, constant, identifier, joined, options, quoted


def select(node: statements.Select) -> str:
    """Return `SELECT …`, with its clauses in the order of the manual."""
    return joined(
        (
            "SELECT DISTINCT" if node.distinct else "SELECT",
            ", ".join(map(_item, node.items)),
            f"FROM {', '.join(map(_relation, node.relations))}" if node.relations else None,
            *_where(node),
            nearest(node.nearest) if node.nearest else None,
            f"GROUP BY {', '.join(map(expression, node.group_by))}" if node.group_by else None,
            f"HAVING {expression(node.having)}" if node.having else None,
            f"ORDER BY {_order(node)}" if node.order_by else None,
            None if node.limit is None else f"LIMIT {node.limit}",
            quantity("WINDOW", node.window),
            quantity("SLIDE", node.slide),
            quantity("SYNC", node.sync),
            f"WITH{options(node.options)}" if node.options else None,
        )
    )


def create_view(node: statements.CreateView) -> str:
    """Return `CREATE VIEW name AS SELECT …`."""
    existing = "IF NOT EXISTS" if node.if_not_exists else None
    return joined(("CREATE VIEW", existing, identifier(node.name.text), "AS", select(node.select)))


def register(node: statements.RegisterQuery) -> str:
    """Return `REGISTER QUERY …`."""
    return registration(node, select(node.select))


def registration(node: statements.RegisterQuery, text: str) -> str:
    """Return `REGISTER QUERY …`, given the text of its SELECT."""
    return f"REGISTER QUERY {identifier(node.name.text)} {registered(node, text)}"


def registered(node: statements.RegisterQuery | statements.RegisterQueries, text: str) -> str:
    """Return `[SINCE NOW] [FOR d] [WITH (…)] AS SELECT …`, given the text of the SELECT."""
    return joined(
        (
            "SINCE NOW" if node.since_now else None,
            quantity("FOR", node.duration),
            f"WITH{options(node.options)}" if node.options else None,
            f"AS {text}",
        )
    )


def subscribe(node: statements.Subscribe) -> str:
    """Return `SUBSCRIBE SELECT …`."""
    return f"SUBSCRIBE {select(node.select)}"


def explain(node: statements.Explain) -> str:
    """Return `EXPLAIN [ANALYZE] SELECT …`, or `EXPLAIN [ANALYZE] QUERY name`."""
    if node.select is not None:
        body = select(node.select)
    else:
        body = f"QUERY {identifier(node.query.text if node.query else '')}"
    return f"EXPLAIN {'ANALYZE ' if node.analyze else ''}{body}"


def tail(node: statements.Tail) -> str:
    """Return `TAIL name …`."""
    return joined(
        (
            f"TAIL {identifier(node.name.text)}",
            _begin(node.begin),
            node.only and f"ONLY {node.only}",
            f"WHERE {expression(node.where)}" if node.where else None,
            None if node.limit is None else f"LIMIT {node.limit}",
        )
    )


def _begin(begin: int | Literal | Quantity | None) -> str | None:
    """Return `FROM …` or `SINCE …` of a TAIL."""
    match begin:
        case None:
            return None
        case int():
            return f"FROM STEP {begin}" if begin else "FROM START"
        case Quantity():
            return quantity("SINCE", begin)
    return f"FROM {constant(begin)}"


def quantity(keyword: str, value: Quantity | None) -> str | None:
    """Return `KEYWORD 5 min`, or nothing."""
    return None if value is None else f"{keyword} {constant(value)}"


def _item(item: statements.SelectItem) -> str:
    text = expression(item.expression)
    return text if item.alias is None else f"{text} AS {column_name(item.alias)}"


def _file(file: statements.FileSource) -> str:
    """Return `'file'`, with the format among the options."""
    formats = () if file.format is None else (("format", Literal(file.format, "STRING")),)
    return f"{quoted(file.glob)}{options((*formats, *file.options))}"


def _relation(relation: statements.Relation) -> str:
    name = identifier(relation.name) if relation.file is None else _file(relation.file)
    return name if relation.alias is None else f"{name} {identifier(relation.alias)}"


def _where(node: statements.Select) -> list[str | None]:
    where = f"WHERE {expression(node.where)}" if node.where else None
    inside = f"INSIDE {region(node.region)}" if node.region else None
    intersects = f"INTERSECTS {region(node.intersects)}" if node.intersects else None
    # The parser would read a column right before INSIDE as `loc INSIDE …`.
    swapped = (inside or intersects) is not None and node.where is not None and _ends_in_column(node.where)
    return [inside, intersects, where] if swapped else [where, inside, intersects]


def _ends_in_column(condition: Expression) -> bool:
    if isinstance(condition, And | Or):
        return _ends_in_column(condition.parts[-1])
    if isinstance(condition, Not):
        return _ends_in_column(condition.operand)
    return isinstance(condition, Column)


def _order(node: statements.Select) -> str:
    return ", ".join(map(_order_item, node.order_by))


def _order_item(item: statements.OrderItem) -> str:
    direction = " DESC" if item.descending else ""
    return expression(item.expression) + direction + (" NULLS FIRST" if item.nulls_first else "")


def alter(node: statements.AlterQuery) -> str:
    """Print ALTER QUERY."""
    inside = None if node.region is None else f"INSIDE {region(node.region)}"
    near = None if node.nearest is None else nearest(node.nearest)
    where = None if node.where is None else f"WHERE {expression(node.where)}"
    return joined((f"ALTER QUERY {identifier(node.name.text)}", inside, near, where))
