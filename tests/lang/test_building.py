"""A text of a form that was parsed before is built as the parser's tables build it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from stqsh.lang.ast.expressions import Node
from stqsh.lang.ast.source import Piece
from stqsh.lang.errors import StatementSyntaxError
from stqsh.lang.syntax.driver import Driver
from stqsh.lang.syntax.grammar import grammar
from stqsh.lang.syntax.lexer import ScannedText
from stqsh.lang.syntax.split import split

STATEMENTS = split(Path(__file__).with_name("statements.stq").read_text(encoding="utf-8"))
SELECT = "SELECT oid FROM taxis WHERE {name} > {number} NEAREST {count} TO {place}"


@pytest.fixture
def driver() -> Driver:
    return Driver(grammar().parser)


def in_full(value: Any) -> Iterator[object]:
    """Yield all that a tree has, its places included, which comparisons leave out."""
    if isinstance(value, Node):
        yield type(value)
        for each in fields(value):
            yield from in_full(getattr(value, each.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from in_full(part)
    else:
        yield None if isinstance(value, Piece) else value


@pytest.mark.parametrize("piece", STATEMENTS, ids=lambda piece: piece.text[:40])
def test_each_statement_is_built_again_with_all_its_places(driver: Driver, piece: Piece) -> None:
    whole = driver.scan(ScannedText(piece.text)).value
    first, again = (driver.parse(ScannedText(piece.text)) for _ in range(2))
    assert list(in_full(first)) == list(in_full(again)) == list(in_full(whole))
    spread = piece.text.replace(" ", "  \n")
    if "'" not in piece.text and '"' not in piece.text and "--" not in piece.text:
        assert list(in_full(driver.parse(ScannedText(spread)))) == list(
            in_full(driver.scan(ScannedText(spread)).value)
        )


def test_other_names_and_constants_take_the_places_of_those_before(driver: Driver) -> None:
    driver.parse(ScannedText(SELECT.format(name="speed", number="1", count="3", place="'a'")))
    other = SELECT.format(name='"of all"', number="2.5", count="7", place="'it''s'")
    built = driver.parse(ScannedText(other))
    assert list(in_full(built)) == list(in_full(driver.scan(ScannedText(other)).value))
    assert (built.nearest.k.value, built.nearest.focal.value, built.where.left.name) == (7, "it's", "of all")


@pytest.mark.parametrize("name", ["status", "time", "key"])
def test_a_keyword_that_stands_for_a_name_is_one_again(driver: Driver, name: str) -> None:
    text = SELECT.format(name=name, number="1", count="3", place="'a'")
    assert driver.parse(ScannedText(text)).where.left.name == name
    assert driver.parse(ScannedText(text.upper())).where.left.name == name.upper()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": "9" * 30}, "does not fit 64 bits"),
        ({"count": "2.5"}, "is not a whole number"),
        ({"place": "1.5"}, "a key is a string or a whole number"),
        ({"name": "n" * 256}, "at most 255 characters"),
    ],
)
def test_a_wrong_constant_is_found_in_a_known_form_too(
    driver: Driver, wrong: dict[str, str], message: str
) -> None:
    right = {"name": "speed", "number": "1", "count": "3", "place": "7"}
    text = SELECT.format(**right | wrong)
    errors = []
    for _ in range(2):
        with pytest.raises(StatementSyntaxError, match=message) as error:
            driver.parse(ScannedText(text))
        errors.append((error.value.message, error.value.span))
        driver.parse(ScannedText(SELECT.format(**right)))
        driver.parse(ScannedText(SELECT.format(**right | {"count": "30", "place": "8"})))
    assert errors[0] == errors[1]


def test_a_syntax_error_comes_after_what_a_builder_rejects_before_it(driver: Driver) -> None:
    text = "SELECT oid FROM taxis NEAREST 2.5 TO 'a' WHERE WHERE"
    with pytest.raises(StatementSyntaxError, match="not a whole number"):
        driver.parse(ScannedText(text))
