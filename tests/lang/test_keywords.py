"""The registry of statements against the living grammar."""

from __future__ import annotations

import pytest

from stqsh.lang.ast import statements
from stqsh.lang.ast_builder import RULES
from stqsh.lang.reference import ALL, IN_ORDER, PARTS, STATEMENTS, ReferenceEntry
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.expected import expected
from stqsh.lang.syntax.grammar import grammar
from stqsh.lang.syntax.parse import parse


@pytest.mark.parametrize("entry", ALL, ids=[one.name for one in ALL])
def test_each_has_a_sentence_a_cost_and_an_example_that_parses(entry: ReferenceEntry) -> None:
    assert entry.help.endswith(".")
    assert entry.cost.endswith(".")
    assert len(parse(entry.example)) == 1


@pytest.mark.parametrize("entry", STATEMENTS, ids=[one.name for one in STATEMENTS])
def test_syntax_and_example_begin_with_the_statements_words(entry: ReferenceEntry) -> None:
    assert entry.syntax.startswith(entry.name)
    assert " ".join(entry.example.upper().split()).startswith(entry.name)


@pytest.mark.parametrize("entry", PARTS, ids=[one.name for one in PARTS])
def test_the_example_of_a_part_has_that_part(entry: ReferenceEntry) -> None:
    assert entry.name in entry.syntax or entry.name in ("JOIN", "FUNCTIONS")
    assert entry.name in entry.example or entry.name in ("JOIN", "FUNCTIONS")


def test_names_are_told_apart_and_the_order_of_examples_has_them_all() -> None:
    assert len({one.name for one in ALL}) == len(ALL)
    assert sorted(IN_ORDER) == sorted(ALL)


def test_each_statement_of_the_language_is_there() -> None:
    kinds = {
        cls
        for cls in vars(statements).values()
        if isinstance(cls, type) and issubclass(cls, statements.Statement)
    }
    assert {type(parse(one.example)[0]) for one in STATEMENTS} == kinds - {statements.Statement}


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
