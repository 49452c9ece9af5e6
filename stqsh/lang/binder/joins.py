"""Bind FROM: a query's stream, and the tables joined to it by their keys."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.lang.ast.expressions import Column, Comparison, Expression, Name
from stqsh.lang.ast.statements import Relation, Select
from stqsh.lang.binder.conditions import conjuncts
from stqsh.lang.binder.names import stream_named
from stqsh.lang.binder.scope import JoinedTable, names_of
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, NotSupportedError, near
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import WHOLE_NUMBERS, a_type
from stqsh.spec.expression import ColumnExpr, Expr, IsNullExpr, JoinExpr, NotExpr
from stqsh.spec.stream import ROW, FileSourceSpec, StreamSpec, TableSpec

NO_STREAM = StreamSpec(
    name="", kind="event", columns=(), key=ROW, x="", y="", time="", source=FileSourceSpec("")
)
"""The relation of a SELECT without FROM: one row without columns."""


class FromClause(NamedTuple):
    """A query's stream with its names, its tables in join order, and the rest of its WHERE.

    `conditions` are the operands of AND, without the equalities that define the joins.
    """

    stream: StreamSpec
    qualifiers: frozenset[str]
    joined: tuple[JoinedTable, ...]
    conditions: tuple[Expression, ...]


class _Source(NamedTuple):
    """A stream or a table in FROM: its names and, once it is joined, what its columns refer to."""

    relation: Relation
    spec: StreamSpec | TableSpec
    names: frozenset[str]
    joined: JoinedTable | None = None

    def column(self, name: str) -> ColumnExpr | JoinExpr:
        """Return the expression for a column."""
        return ColumnExpr(name) if self.joined is None else self.joined.value(name)


class _Equality(NamedTuple):
    """A join condition, `M.oid = F.oid`: a column of a joined source, and one of the table to join."""

    node: Expression
    source: _Source
    of_source: Column
    of_table: Column


def from_clause(select: Select, catalogue: CatalogueView) -> FromClause:
    """Return the sources that a SELECT reads. Raises `BindError` and `NotSupportedError`."""
    conditions = conjuncts(select.where)
    if not select.relations:
        return FromClause(NO_STREAM, frozenset(), (), conditions)
    if len(select.relations) == 1:
        [relation] = select.relations
        stream = _stream(relation, catalogue)
        return FromClause(stream, names_of(stream, relation.alias), (), conditions)
    relation, others = _stream_and_tables(select.relations, catalogue)
    stream = _stream(relation, catalogue)
    sources = [_Source(relation, stream, names_of(stream, relation.alias))]
    for other in others:
        table = catalogue.table(other.name)
        assert table is not None
        sources.append(_Source(other, table, names_of(table, other.alias)))
    _check_names(sources)
    joined, nodes = _joined(sources, conditions)
    return FromClause(
        stream, sources[0].names, joined, tuple(part for part in conditions if part not in nodes)
    )


def _joined(
    sources: list[_Source], conditions: tuple[Expression, ...]
) -> tuple[tuple[JoinedTable, ...], list[Expression]]:
    """Return the tables in an order in which they can be joined, and the equalities that join them.

    A table is joined by its key, which must equal a column of the stream or of a table joined before it.
    """
    known, waiting = sources[:1], sources[1:]
    joined: list[JoinedTable] = []
    nodes: list[Expression] = []
    while waiting:
        equal = [(one, _equalities(one, known, sources, conditions)) for one in waiting]
        on_key = [(one, [e for e in some if e.of_table.name == _key(one)]) for one, some in equal]
        source, found = next(((one, some) for one, some in on_key if some), (waiting[0], []))
        if not found:
            raise _no_join(known, equal)
        if len(found) > 1:
            wanted = f"{sources[0].spec.name}.column = {source.spec.name}.{_key(source)}"
            raise BindError(
                f"{source.spec.name} is joined twice", found[1].node.span, expected=(f"one {wanted}",)
            )
        [equality] = found
        _check_types(equality, source)
        assert isinstance(source.spec, TableSpec)
        by = equality.source.column(equality.of_source.name)
        joined.append(JoinedTable(source.spec, by, source.names))
        nodes.append(equality.node)
        known = [*known, source._replace(joined=joined[-1])]
        waiting = [one for one in waiting if one is not source]
    return tuple(joined), nodes


def _no_join(known: list[_Source], equal: list[tuple[_Source, list[_Equality]]]) -> BindError:
    """Return the error that no remaining table can be joined; `equal` has the equalities of each."""
    for source, some in equal:
        if some:
            message = f"{printed(some[0].of_table)} is not the key of {source.spec.name}"
            return BindError(message, some[0].of_table.span, hint=f"its key is {_key(source)}")
    source, _ = equal[0]
    wanted = f"WHERE {known[0].spec.name}.column = {source.spec.name}.{_key(source)}"
    among = " or ".join([known[0].spec.name, *(["a table before it"] if len(known) > 1 else [])])
    return BindError(
        f"no condition joins {among} and {source.spec.name}", source.relation.span, expected=(wanted,)
    )


def _key(source: _Source) -> str:
    return source.spec.key


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


def check_sources(relations: tuple[Relation, ...], catalogue: CatalogueView) -> None:
    """Check that sources exist, if there are several, and that only one of them is a stream or a view.

    Raises:
        BindError: there is no such stream, table or view.
        NotSupportedError: streams would be joined with each other.
    """
    streams = []
    for relation in relations if len(relations) > 1 else ():
        if catalogue.stream(relation.name) is not None or catalogue.view(relation.name) is not None:
            streams.append(relation)
        elif catalogue.table(relation.name) is None:
            known = (*catalogue.names("stream"), *catalogue.names("table"))
            close = near(relation.name, known)
            hint = None if close else "SHOW STREAMS and SHOW TABLES list them"
            raise BindError(
                f"unknown stream or table {relation.name!r}", relation.span, near=close, hint=hint
            )
    if len(streams) > 1:
        raise NotSupportedError("joins of streams with each other", streams[1].span)


def _stream_and_tables(
    relations: tuple[Relation, ...], catalogue: CatalogueView
) -> tuple[Relation, list[Relation]]:
    check_sources(relations, catalogue)
    streams = [relation for relation in relations if catalogue.stream(relation.name) is not None]
    tables = [relation for relation in relations if relation not in streams]
    if not streams:
        _stream(relations[0], catalogue)
    return streams[0], tables


def _check_names(sources: list[_Source]) -> None:
    for number, source in enumerate(sources):
        for other in sources[:number]:
            both = source.names & other.names
            if both:
                raise BindError(
                    f"{min(both)!r} may mean either one", source.relation.span, hint="choose another alias"
                )


def _equalities(
    table: _Source, known: list[_Source], sources: list[_Source], conditions: tuple[Expression, ...]
) -> list[_Equality]:
    """Return the conditions by which a column of a joined source equals a column of the table."""
    found = []
    for part in conditions:
        if not isinstance(part, Comparison) or part.operator != "=":
            continue
        left, right = part.left, part.right
        if not isinstance(left, Column) or not isinstance(right, Column):
            continue
        found += [
            _Equality(part, source, mine, yours)
            for source in known
            for mine, yours in ((left, right), (right, left))
            if _belongs(mine, source, sources) and _belongs(yours, table, sources)
        ][:1]
    return found


def _belongs(column: Column, source: _Source, sources: list[_Source]) -> bool:
    """Return whether a column belongs to a source; if unqualified, it must belong to no other."""
    if column.qualifier is not None:
        return column.qualifier in source.names and column.name in source.spec.types
    others = (one for one in sources if one.relation is not source.relation)
    return column.name in source.spec.types and all(column.name not in one.spec.types for one in others)


def _check_types(found: _Equality, table: _Source) -> None:
    left = found.source.spec.types[found.of_source.name]
    right = table.spec.types[found.of_table.name]
    if left == right or {left, right} <= WHOLE_NUMBERS:
        return
    mine, yours = printed(found.of_source), printed(found.of_table)
    raise BindError(
        f"cannot join: {mine} is {a_type(left)}, {yours} is {a_type(right)}",
        found.node.span,
        hint="the types of the columns of a stream or a table may be listed after its name",
    )
