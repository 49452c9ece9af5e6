"""The registry of the builders, and helpers that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from lark import Token

from stqsh.lang.ast.expressions import changed
from stqsh.lang.ast.source import NOWHERE, Span
from stqsh.lang.ast.statement import Statement, statement_fields
from stqsh.lang.errors import StatementSyntaxError

Parts = list[Any]
"""The results for the symbols of a rule, in order; None for an omitted optional symbol."""
Builder = Callable[[Parts], Any]
AnyStatement = TypeVar("AnyStatement", bound=Statement)

RULES: dict[str, Builder] = {}


def rule(*names: str) -> Callable[[Builder], Builder]:
    """Return a decorator that registers a function as the builder of the rules with these names."""

    def register(builder: Builder) -> Builder:
        RULES.update(dict.fromkeys(names, builder))
        return builder

    return register


def rules(builders: Mapping[str, Builder]) -> None:
    """Register builders by the names of their rules."""
    RULES.update(builders)


def node_of(kind: Callable[..., Any]) -> Builder:
    """Return a builder of a node whose fields are the symbols of its rule, in order."""
    return lambda parts: kind(*parts)


def statement_of(kind: type[Statement]) -> Builder:
    """Return a builder of a statement: its fields are the symbols of its rule, and FORMAT may follow."""
    count = len(statement_fields(kind))

    def build(parts: Parts) -> Statement:
        output = parts[count] if len(parts) > count else None
        return kind(*parts[:count], format=None if output is None else output.value)

    return build


def node_of_text(kind: Callable[..., Any], *before: object) -> Builder:
    """Return a builder of a node from the text and the span of a string, placed after other fields."""
    return lambda parts: kind(*before, parts[0].value, span=parts[0].span)


def only_part(parts: Parts) -> Any:
    """Return the result for the only symbol of a rule."""
    return parts[0]


class Clause(NamedTuple):
    """A clause of a statement whose clauses may come in any order: the field that it sets, and the value."""

    field: str
    value: Any
    label: str
    span: Span = NOWHERE


def clause_of(field: str, label: str) -> Builder:
    """Return a builder of a clause whose value is its only symbol."""
    return lambda parts: Clause(field, parts[0], label, getattr(parts[0], "span", NOWHERE))


def clause_of_list(field: str, label: str) -> Builder:
    """Return a builder of a clause whose value is the tuple of its symbols."""
    return lambda parts: Clause(field, tuple(parts), label, parts[0].span)


def by_field(clauses: Iterable[Clause]) -> dict[str, Clause]:
    """Return clauses by the fields that they set; raise if a clause is given twice."""
    given: dict[str, Clause] = {}
    for clause in clauses:
        if clause.field in given:
            raise StatementSyntaxError(f"{clause.label} is given twice", clause.span)
        given[clause.field] = clause
    return given


def fill(statement: AnyStatement, given: dict[str, Clause]) -> AnyStatement:
    """Return a statement with its fields set from clauses."""
    return changed(statement, **{field: clause.value for field, clause in given.items()})


def span_of(token: Token) -> Span:
    """Return the position of a token."""
    start = token.start_pos or 0
    return Span(start, start + len(token))


def capitals(parts: Parts) -> str:
    """Return the words of a rule that keeps its keywords, in capitals."""
    return " ".join(word.upper() for word in parts)
