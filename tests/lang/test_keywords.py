"""The manual's sections of statements, and the registries, against the living grammar."""

from __future__ import annotations

import pytest

from stqsh.docs.manual import Section, parts
from stqsh.docs.manual import statements as described
from stqsh.lang.ast import statements
from stqsh.lang.ast_builder import RULES
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.expected import expected
from stqsh.lang.syntax.grammar import grammar
from stqsh.lang.syntax.parse import parse

STATEMENTS, PARTS = described(), parts()
ALL = (*STATEMENTS, *PARTS)


def example_of(section: Section) -> statements.Statement:
    """The first statement of the example that is the section's own."""
    words = tuple(section.name.split())
    return next(
        one for one in parse(section.example) if tuple(one.text.upper().split())[: len(words)] == words
    )


@pytest.mark.parametrize("section", ALL, ids=[one.name for one in ALL])
def test_each_has_a_sentence_and_an_example_that_parses(section: Section) -> None:
    assert section.summary.endswith((".", "…"))
    assert section.cost.endswith(".") or not section.cost
    parse(section.example)


@pytest.mark.parametrize("section", STATEMENTS, ids=[one.name for one in STATEMENTS])
def test_each_statement_has_an_example_of_its_own(section: Section) -> None:
    assert " ".join(example_of(section).text.upper().split()).startswith(section.name)


@pytest.mark.parametrize("section", [one for one in PARTS if one.syntax], ids=lambda one: one.name)
def test_the_example_of_a_part_has_that_part(section: Section) -> None:
    words = [word for word in section.name.split() if word.isupper() and word != "JOIN"]
    assert all(word in section.syntax and word in f"{section.example} {section.rest}" for word in words)


def test_names_are_told_apart() -> None:
    assert len({one.name.upper() for one in ALL}) == len(ALL)


def test_each_statement_of_the_language_is_there() -> None:
    kinds = {
        cls
        for cls in vars(statements).values()
        if isinstance(cls, type) and issubclass(cls, statements.Statement)
    }
    assert {type(example_of(one)) for one in STATEMENTS} == kinds - {statements.Statement}


def test_each_first_word_of_the_grammar_is_there() -> None:
    assert {one.name.split()[0] for one in STATEMENTS} == expected("")


def test_keywords_are_those_of_the_grammar() -> None:
    lexer = grammar().parser.lexer  # type: ignore[attr-defined]
    assert frozenset(lexer.keywords) == KEYWORDS


def test_each_rule_has_a_builder_and_each_builder_a_rule() -> None:
    rules = {
        rule.alias or str(rule.origin.name)
        for rule in grammar().rules
        if not rule.origin.name.startswith("_")
    }
    inlined = {str(rule.origin.name) for rule in grammar().rules if rule.options.expand1 and not rule.alias}
    assert rules - inlined <= set(RULES)
    assert set(RULES) <= rules
