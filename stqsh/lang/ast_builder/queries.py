"""Builders of SELECT and the statements that contain it."""

from __future__ import annotations

from dataclasses import replace

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import (
    And,
    Column,
    Expression,
    Inside,
    Literal,
    Name,
    Not,
    Or,
    Parameter,
)
from stqsh.lang.ast.source import cover
from stqsh.lang.ast_builder.definitions import format_of, pop_source
from stqsh.lang.ast_builder.regions import Coordinates, check_letter, coordinate, nearest
from stqsh.lang.ast_builder.rules import Clause, Parts, by_field, clause_of, clause_of_list, fill, rule, rules
from stqsh.lang.errors import StatementSyntaxError, near
from stqsh.settings import FORMATS

_LOCATION_NAMES = frozenset({"loc", "location"})
_AFTER_ITEMS = frozenset({"FROM", "WHERE"})
_FORMAT_PLACE = "REGISTER QUERY shows no rows; say FORMAT with TAIL or SUBSCRIBE"


@rule("select")
def select(parts: Parts) -> statements.Select:
    """Build `SELECT items FROM relations clauses`."""
    distinct, *rest = parts
    items = tuple(part for part in rest if isinstance(part, statements.SelectItem))
    relations = next((part for part in rest if isinstance(part, list)), [])
    if not relations:
        _check_items(items)
    given = by_field(part for part in rest if isinstance(part, Clause))
    window = given.pop("window", None)
    selected = fill(statements.Select(items, tuple(relations), bool(distinct)), given)
    if window is not None:
        selected = replace(selected, window=window.value[0], slide=window.value[1])
    return _with_inside_clause(selected)


def _check_items(items: tuple[statements.SelectItem, ...]) -> None:
    """Raise an error for `SELECT FROM t` and the like, where FROM was parsed as a column."""
    for item in items:
        node = item.expression
        if isinstance(node, Column) and node.qualifier is None and node.name.upper() in _AFTER_ITEMS:
            raise StatementSyntaxError(
                f"something is missing before '{node.name}'", node.span, expected=("a value", "DISTINCT", "*")
            )


rules(
    {
        "relations": list,
        "where_clause": clause_of("where", "WHERE"),
        "inside_clause": clause_of("region", "INSIDE"),
        "intersects_clause": clause_of("intersects", "INTERSECTS"),
        "altered_region": clause_of("region", "INSIDE"),
        "altered_where": clause_of("where", "WHERE"),
        "group_clause": clause_of_list("group_by", "GROUP BY"),
        "having_clause": clause_of("having", "HAVING"),
        "order_by_clause": clause_of_list("order_by", "ORDER BY"),
        "limit_clause": clause_of("limit", "LIMIT"),
        "window_clause": clause_of_list("window", "WINDOW"),
        "sync_clause": clause_of("sync", "SYNC"),
        "since_clause": lambda _: Clause("since_now", True, "SINCE NOW"),
        "for_clause": clause_of("duration", "FOR"),
        "with_clause": clause_of("options", "WITH"),
    }
)


@rule("select_item")
def select_item(parts: Parts) -> statements.SelectItem:
    """Build `expression [AS alias]`."""
    expression, alias = parts
    return statements.SelectItem(expression, None if alias is None else alias.text, span=expression.span)


@rule("relation")
def relation(parts: Parts) -> statements.Relation:
    """Build `name [AS alias]`, or `'file' [(options)] [AS alias]`."""
    read, alias = parts
    name, file = (read.glob, read) if isinstance(read, statements.FileSource) else (read.text, None)
    return statements.Relation(name, None if alias is None else alias.text, file, span=read.span)


@rule("read_file")
def read_file(parts: Parts) -> statements.FileSource:
    """Build `'file' [(options)]` in a FROM; the option `format` becomes the file's format."""
    file, given = parts
    options = dict(given or ())
    form = options.pop("format", None)
    source = statements.FileSource(str(file.value), options=tuple(options.items()), span=file.span)
    if form is None:
        return source
    name = Name(str(form.value) if isinstance(form, Literal) else "", span=form.span)
    return replace(source, format=format_of(source, name))


@rule("nearest_clause")
def nearest_clause(parts: Parts) -> Clause:
    """Build `NEAREST k TO place`."""
    return Clause("nearest", nearest(_count(parts[0]), parts[1]), "NEAREST")


@rule("altered_nearest")
def altered_nearest(parts: Parts) -> Clause:
    """Build `NEAREST k TO place` of ALTER QUERY."""
    return Clause("nearest", nearest(_count(parts[0]), parts[1]), "NEAREST")


@rule("knn_clause")
def knn_clause(parts: Parts) -> Clause:
    """Build `KNN (k, x, y)` or `KNN ('M', k, id)`."""
    first, second, third = parts
    if isinstance(first, Literal) and first.kind == "STRING":
        check_letter(first, "KNN", "KNN ('M', k, id)")
        return Clause("nearest", nearest(_count(second), third), "KNN", first.span)
    place = Coordinates(coordinate(second), coordinate(third), cover(first.span, third.span))
    return Clause("nearest", nearest(_count(first), place), "KNN", first.span)


@rule("order_item")
def order_item(parts: Parts) -> statements.OrderItem:
    """Build `expression [ASC|DESC] [NULLS FIRST|LAST]`."""
    expression, direction, nulls = parts
    return statements.OrderItem(expression, direction == "DESC", nulls == "FIRST", span=expression.span)


@rule("output")
def output(parts: Parts) -> Clause:
    """Build `FORMAT x`."""
    given = parts[0].text.lower()
    if given not in FORMATS:
        raise StatementSyntaxError(
            f"unknown format {parts[0].text!r}", parts[0].span, expected=FORMATS, near=near(given, FORMATS)
        )
    return Clause("format", given, "FORMAT", parts[0].span)


@rule("create_view")
def create_view(parts: Parts) -> statements.CreateView:
    """Build `CREATE VIEW [IF NOT EXISTS] name AS select`."""
    existing, name, body = parts
    if body.format is not None:
        raise StatementSyntaxError("a view shows no rows; say FORMAT with SELECT", name.span)
    return statements.CreateView(name, body, bool(existing))


@rule("register")
def register(parts: Parts) -> statements.RegisterQuery:
    """Build `REGISTER QUERY name clauses AS select`."""
    name, *clauses, body = parts
    if body.format is not None:
        raise StatementSyntaxError(_FORMAT_PLACE, name.span)
    return fill(statements.RegisterQuery(name, body), by_field(clauses))


@rule("register_queries")
def register_queries(parts: Parts) -> statements.RegisterQueries:
    """Build `REGISTER QUERIES [name] clauses AS select`."""
    name, *clauses, body = parts
    if body.format is not None:
        raise StatementSyntaxError(_FORMAT_PLACE, body.items[0].span)
    given = by_field(clauses)
    return fill(statements.RegisterQueries(body, name, pop_source(given)), given)


@rule("subscribe")
def subscribe(parts: Parts) -> statements.Subscribe:
    """Build `SUBSCRIBE select`; the format belongs to the whole statement."""
    return statements.Subscribe(replace(parts[0], format=None), format=parts[0].format)


@rule("explain")
def explain(parts: Parts) -> statements.Explain:
    """Build `EXPLAIN [ANALYZE] select`, or the same with a query's name."""
    analyze, body = parts
    if isinstance(body, statements.Select):
        return statements.Explain(replace(body, format=None), bool(analyze), format=body.format)
    query: statements.Explain = body
    return replace(query, analyze=bool(analyze))


@rule("explained_query")
def explained_query(parts: Parts) -> statements.Explain:
    """Build `[QUERY] name`."""
    name, output = parts
    return statements.Explain(query=name, format=None if output is None else output.value)


def _count(value: Literal | Parameter) -> Literal | Parameter:
    if isinstance(value, Literal) and value.kind != "INTEGER":
        raise StatementSyntaxError(f"{value.value!r} is not a whole number", value.span)
    return value


def _with_inside_clause(select: statements.Select) -> statements.Select:
    """Reinterpret `WHERE active INSIDE (…)` as the condition `active` and the clause `INSIDE (…)`.

    The grammar parses a column before INSIDE or INTERSECTS as the location. It must be a condition if it
    comes last, is not the location, and there is no second such clause.
    """
    if select.where is None:
        return select
    where, last = _without_last_inside(select.where)
    if last is None:
        return select
    if last.relation == "INTERSECTS":
        return select if select.intersects else replace(select, where=where, intersects=last.region)
    return select if select.region else replace(select, where=where, region=last.region)


def _without_last_inside(condition: Expression) -> tuple[Expression, Inside | None]:
    if isinstance(condition, Inside) and condition.column.name.lower() not in _LOCATION_NAMES:
        return condition.column, condition
    if isinstance(condition, And | Or):
        last, inside = _without_last_inside(condition.parts[-1])
        return replace(condition, parts=(*condition.parts[:-1], last)), inside
    if isinstance(condition, Not):
        operand, inside = _without_last_inside(condition.operand)
        return replace(condition, operand=operand), inside
    return condition, None
