"""Print a statement by its rule of the grammar: its keywords, and the fields in their order."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statement import Statement, statement_fields
from stqsh.lang.printer import queries
from stqsh.lang.printer.values import constant, identifier, pace


class Form(NamedTuple):
    """One way to write a statement: an alternative of its rule, with or without each optional part.

    Attributes:
        words: The keywords, and "" for each field that is given.
        given: Whether each field is given, in the order of the fields.
    """

    words: tuple[str, ...]
    given: tuple[bool, ...]


def by_rule(statement: Statement) -> str:
    """Return a statement as its rule reads it, without its FORMAT.

    >>> from stqsh.lang.ast.statements import Play
    >>> by_rule(Play(Name("taxis"), 10.0)), by_rule(Play(Name("taxis")))
    ('PLAY taxis AT 10x', 'PLAY taxis')
    """
    values = [getattr(statement, name) for name in statement_fields(type(statement))]
    given = tuple(value is not None for value in values)
    name = next(name for name, kind in statements.by_rule().items() if kind is type(statement))
    form = next(one for one in _forms(name, len(values)) if one.given == given)
    texts = iter([_text(value) for value in values if value is not None])
    return " ".join(word or next(texts) for word in form.words)


def _text(value: Any) -> str:
    """Return a field as text."""
    match value:
        case Name():
            return identifier(value.text)
        case statements.Select():
            return queries.select(value)
        case float() | "MAX":
            return pace(value)
    return constant(value)


@cache
def _forms(name: str, count: int) -> tuple[Form, ...]:
    """Return the forms of a rule that do not end with FORMAT, for a statement with `count` fields."""
    from stqsh.lang.syntax.grammar import grammar  # which needs the trees

    keywords = {one.name: str(one.pattern.value) for one in grammar().terminals}
    forms = []
    for rule in grammar().rules:
        symbols = [one for one in rule.expansion if one.name != "output"]
        if str(rule.origin.name) != name or len(symbols) < len(rule.expansion):
            continue
        words = tuple(keywords[one.name] if one.is_term else "" for one in symbols)
        forms.append(Form(words, _given(words, rule.options.empty_indices)[:count]))
    return tuple(forms)


def _given(words: tuple[str, ...], omitted: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return which fields a form has; `omitted` says where it leaves out an optional part of its rule."""
    left, found = list(words), list[bool]()
    for is_omitted in omitted or (False,) * len(words):
        if is_omitted:
            found.append(False)
        elif not left.pop(0):
            found.append(True)
    return tuple(found)
