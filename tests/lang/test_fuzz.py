"""Whatever is typed, the language answers with a statement or an error of its own, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stqsh.errors import StqshError
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.expected import expected
from stqsh.lang.syntax.parse import parse, split
from stqsh.lang.syntax.split import is_complete

PIECES = [p.text for p in split(Path(__file__).with_name("statements.stq").read_text(encoding="utf-8"))]
SIGNS = [*"()[],.;*+-/=<>'\"#\\", "<>", "!=", "=>", "--", "/*", "*/", "\n", "\t", "\x00", "é", "🚕"]
VALUES = [
    "0",
    "1.5",
    "1e9",
    "5 min",
    "2 km",
    "60 km/h",
    "10x",
    "5 sex",
    "'a'",
    "'M'",
    "taxis",
    "oid",
    "ts",
    "free",
]

words = st.one_of(st.sampled_from(sorted(KEYWORDS)), st.sampled_from(SIGNS), st.sampled_from(VALUES))
soups = st.lists(words, max_size=25).map(" ".join)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A statement with a piece cut out, doubled, or replaced by a word."""
    text = draw(st.sampled_from(PIECES))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 12)))
    return text[:start] + draw(st.one_of(st.just(""), words, st.just(text[start:end] * 2))) + text[end:]


def answers(text: str, catalogue: Catalogue) -> None:
    """Everything that the language does with a text; only its own errors may come of it."""
    is_complete(text)
    expected(text)
    try:
        for statement in parse(text, "fuzz.stq"):
            parse(to_sql(statement))
            bind(statement, catalogue)
    except StqshError as error:
        assert str(error)


@given(st.text(max_size=60))
def test_any_text(taxis: Catalogue, text: str) -> None:
    answers(text, taxis)


@settings(max_examples=300)
@given(soups)
def test_any_words(taxis: Catalogue, text: str) -> None:
    answers(text, taxis)


@settings(max_examples=300)
@given(damaged())
def test_any_damage(taxis: Catalogue, text: str) -> None:
    answers(text, taxis)


def test_very_deep_nesting(taxis: Catalogue) -> None:
    for depth in (50, 5_000):
        query = "SUBSCRIBE SELECT * FROM taxis WHERE "
        answers(query + "(" * depth + "1 = 1" + ")" * depth, taxis)
        answers(query + "NOT " * depth + "active", taxis)
        answers(query + "1 = " + "- " * depth + "n", taxis)
        answers(query + "1 = " + "n + " * depth + "n", taxis)
        answers(query + "(active AND (n = 1 OR " * depth + "active" + "))" * depth, taxis)


@pytest.mark.timeout(20)
def test_time_is_linear_in_the_length_of_a_number_a_string_and_a_name(taxis: Catalogue) -> None:
    """With quadratic time, each of these numbers would take hours."""
    many = 300_000
    for number in ("9" * many, "9." + "9" * many, "." + "9" * many, "1e" + "9" * many, "9" * many + " x y"):
        answers(f"SELECT * FROM taxis LIMIT {number};", taxis)
    answers("SELECT * FROM taxis WHERE status = '" + "it''s " * many + "';", taxis)
    answers('SELECT "' + 'a""' * many + '" FROM taxis;', taxis)
