"""The registry of the builders, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from lark.lexer import Token

from stqsh.lang.ast.source import NOWHERE, Span
from stqsh.lang.errors import StatementSyntaxError

Parts = list[Any]
"""What the symbols of a rule were built into, in order; None for an optional one that is missing."""
Builder = Callable[[Parts], Any]

RULES: dict[str, Builder] = {}


def rule(*names: str) -> Callable[[Builder], Builder]:
    """Register a function as the builder of the rules of these names."""

    def register(builder: Builder) -> Builder:
        RULES.update(dict.fromkeys(names, builder))
        return builder

    return register


class Clause(NamedTuple):
    """One clause of a statement whose clauses come in any order: the field it fills, and its value."""

    field: str
    value: Any
    label: str
    span: Span = NOWHERE


def fields_of(clauses: Iterable[Clause]) -> dict[str, Any]:
    """Return the values by field; raises where a clause is given twice."""
    fields: dict[str, Any] = {}
    for clause in clauses:
        if clause.field in fields:
            raise StatementSyntaxError(f"{clause.label} is given twice", clause.span)
        fields[clause.field] = clause.value
    return fields


def span_of(token: Token) -> Span:
    """Return where a token stands."""
    start = token.start_pos or 0
    return Span(start, start + len(token))


def capitals(parts: Parts) -> str:
    """Return the words of a rule that keeps its keywords, in capitals."""
    return " ".join(word.upper() for word in parts)
