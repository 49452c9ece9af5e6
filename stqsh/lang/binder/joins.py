"""Bind FROM: a query's stream, and the table joined with it on the table's key."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.lang.ast.expressions import Column, Comparison, Expression, Name
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import Relation, Select
from stqsh.lang.binder.conditions import conjuncts
from stqsh.lang.binder.names import stream_named
from stqsh.lang.binder.scope import JoinedTable, names_of
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, NotSupportedError, near
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import WHOLE_NUMBERS, a_type
from stqsh.spec.expression import Expr, IsNullExpr, NotExpr
from stqsh.spec.stream import ROW, FileSourceSpec, StreamSpec, TableSpec

NO_STREAM = StreamSpec(
    name="", kind="event", columns=(), key=ROW, x="", y="", time="", source=FileSourceSpec("")
)
"""What a SELECT without FROM asks: a row without columns."""


class FromClause(NamedTuple):
    """A query's stream and its names, its table if there is one, and the rest of its WHERE.

    `conditions` are the parts that AND joins, without the equality that makes the join.
    """

    stream: StreamSpec
    qualifiers: frozenset[str]
    joined: JoinedTable | None
    conditions: tuple[Expression, ...]


class _Equality(NamedTuple):
    """A join condition, `M.oid = F.oid`: a column of the stream and one of the table."""

    node: Expression
    of_stream: Column
    of_table: Column


def from_clause(select: Select, catalogue: CatalogueView) -> FromClause:
    """Return what a SELECT reads. Raises `BindError` and `NotSupportedError`."""
    conditions = conjuncts(select.where)
    if not select.relations:
        return FromClause(NO_STREAM, frozenset(), None, conditions)
    if len(select.relations) == 1:
        [relation] = select.relations
        stream = _stream(relation, catalogue)
        return FromClause(stream, names_of(stream, relation.alias), None, conditions)
    relation, other = _stream_and_table(select.relations, catalogue)
    stream, table = _stream(relation, catalogue), catalogue.table(other.name)
    assert table is not None
    names = names_of(stream, relation.alias), names_of(table, other.alias)
    _check_names(names, other)
    found = _equality(conditions, (stream, table), names, other.span)
    _check_types(found, stream, table)
    joined = JoinedTable(table, found.of_stream.name, names[1])
    return FromClause(stream, names[0], joined, tuple(part for part in conditions if part is not found.node))


def has_row(joined: JoinedTable) -> Expr:
    """Return the condition that the table has a row for the object."""
    return NotExpr(IsNullExpr(joined.value(joined.table.key)))


def _stream(relation: Relation, catalogue: CatalogueView) -> StreamSpec:
    stream = catalogue.stream(relation.name)
    if stream is not None:
        return stream
    if relation.file is not None:
        raise BindError(
            "a file is read once: only a SELECT that answers once can ask it",
            relation.span,
            hint="CREATE MOVING STREAM or CREATE EVENT STREAM … FROM FILE makes a stream of it",
        )
    if catalogue.query(relation.name) is not None:
        raise BindError(
            f"{relation.name} is a query: only a SELECT that answers once can ask its answer",
            relation.span,
            hint=f"a view over a stream may be followed, and TAIL {relation.name}; follows the query",
        )
    if catalogue.table(relation.name) is not None:
        raise BindError(
            f"{relation.name} is a table, but a query needs a stream",
            relation.span,
            hint=f"join it: FROM a stream, {relation.name} WHERE its key equals a column of the stream",
        )
    return stream_named(Name(relation.name, span=relation.span), catalogue)


def _stream_and_table(relations: tuple[Relation, ...], catalogue: CatalogueView) -> tuple[Relation, Relation]:
    for relation in relations:
        if catalogue.stream(relation.name) is None and catalogue.table(relation.name) is None:
            known = (*catalogue.names("stream"), *catalogue.names("table"))
            close = near(relation.name, known)
            hint = None if close else "SHOW STREAMS and SHOW TABLES list them"
            raise BindError(
                f"unknown stream or table {relation.name!r}", relation.span, near=close, hint=hint
            )
    streams = [relation for relation in relations if catalogue.stream(relation.name) is not None]
    tables = [relation for relation in relations if relation not in streams]
    if len(streams) > 1:
        raise NotSupportedError("joins of streams with each other", streams[1].span)
    if len(tables) > 1:
        raise NotSupportedError("joins with more than one table", tables[1].span)
    return streams[0], tables[0]


def _check_names(names: tuple[frozenset[str], frozenset[str]], other: Relation) -> None:
    both = names[0] & names[1]
    if both:
        raise BindError(f"{min(both)!r} may mean either one", other.span, hint="choose another alias")


def _equality(
    conditions: tuple[Expression, ...],
    specs: tuple[StreamSpec, TableSpec],
    names: tuple[frozenset[str], frozenset[str]],
    span: Span,
) -> _Equality:
    stream, table = specs
    equal = [found for part in conditions if (found := _as_equality(part, specs, names)) is not None]
    on_key = [found for found in equal if found.of_table.name == table.key]
    if len(on_key) == 1:
        return on_key[0]
    wanted = f"{stream.name}.column = {table.name}.{table.key}"
    if on_key:
        raise BindError(f"{table.name} is joined twice", on_key[1].node.span, expected=(f"one {wanted}",))
    if equal:
        message = f"{printed(equal[0].of_table)} is not the key of {table.name}"
        raise BindError(message, equal[0].of_table.span, hint=f"its key is {table.key}")
    raise BindError(f"no condition joins {stream.name} and {table.name}", span, expected=(f"WHERE {wanted}",))


def _as_equality(
    part: Expression, specs: tuple[StreamSpec, TableSpec], names: tuple[frozenset[str], frozenset[str]]
) -> _Equality | None:
    """Return the part as an equality between a column of the stream and one of the table, or None."""
    if not isinstance(part, Comparison) or part.operator != "=":
        return None
    left, right = part.left, part.right
    if not isinstance(left, Column) or not isinstance(right, Column):
        return None
    for mine, yours in ((left, right), (right, left)):
        if _belongs(mine, specs[0], names[0], specs[1]) and _belongs(yours, specs[1], names[1], specs[0]):
            return _Equality(part, mine, yours)
    return None


def _belongs(
    column: Column, spec: StreamSpec | TableSpec, names: frozenset[str], other: StreamSpec | TableSpec
) -> bool:
    """Return whether a column is of that stream or table; without a qualifier, of no other."""
    if column.qualifier is not None:
        return column.qualifier in names and column.name in spec.types
    return column.name in spec.types and column.name not in other.types


def _check_types(found: _Equality, stream: StreamSpec, table: TableSpec) -> None:
    left = stream.types[found.of_stream.name]
    right = table.types[found.of_table.name]
    if left == right or {left, right} <= WHOLE_NUMBERS:
        return
    mine, yours = printed(found.of_stream), printed(found.of_table)
    raise BindError(
        f"cannot join: {mine} is {a_type(left)}, {yours} is {a_type(right)}",
        found.node.span,
        hint="the types of the columns of a stream or a table may be listed after its name",
    )
