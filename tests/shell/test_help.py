"""HELP against the manual: each section has its page, each word is found, each statement is carried out."""

from __future__ import annotations

import re

import pytest

from stqsh.client.statements import help
from stqsh.client.statements.dispatch import HANDLERS
from stqsh.client.statements.help_words import words
from stqsh.docs.manual import Section, parts, statements
from stqsh.lang.ast.statements import Help
from stqsh.lang.errors import BindError
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.parse import parse
from stqsh.settings import KEYS
from stqsh.shell.repl.help_text import help_text
from stqsh.spec.functions import FUNCTIONS
from stqsh.units import CANONICAL

KEY_NAMES = tuple(key.name for key in KEYS)

ALL = (*statements(), *parts())


def test_help_lists_all_that_it_knows() -> None:
    shown = help_text()
    assert all(f"  {entry.name} " in shown for entry in ALL)


def shown_words(page: str) -> list[str]:
    return sorted(re.findall(r"[^\s─]+", page))


@pytest.mark.parametrize("section", ALL, ids=[one.name for one in ALL])
def test_a_page_fits_the_terminal_and_loses_no_word(section: Section) -> None:
    page = help.help_text(section.name.lower(), 80)
    assert max(map(len, page.splitlines())) < 80
    if section.name != "SELECT from a query":  # a word of the grammar
        assert shown_words(page) == shown_words(help.help_text(section.name.lower(), 1000))


@pytest.mark.parametrize("section", ALL, ids=[one.name for one in ALL])
def test_a_page_begins_with_meaning_syntax_example_and_cost(section: Section) -> None:
    page = help.help_text(section.name.lower(), 1000)
    places = [page.index(f"{section.name}: ")]
    places += [page.index(f"  {line}\n") for line in section.syntax.splitlines()]
    if section.example:
        places += [page.index("for example\n"), page.index(section.example.splitlines()[-1])]
    if section.cost:
        places.append(page.index("\n\ncost: "))
    assert places == sorted(places)


def test_a_terminal_has_colours_and_the_same_words() -> None:
    coloured = help.help_text("play", 80, coloured=True)
    assert "\x1b[1mPLAY" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == help.help_text("play", 80)


def test_a_link_names_the_topic_that_shows_its_section() -> None:
    assert "see savepoints" not in help_text("save") and "see HELP savepoints" in help_text("save")
    assert help_text("savepoints").startswith("Savepoints")


def test_a_word_finds_every_statement_that_has_it_and_a_slip_is_understood() -> None:
    assert help_text("stream").count("for example") == 2
    with pytest.raises(
        BindError, match="there is no statement, clause, option, unit or function REGISTRE"
    ) as found:
        help_text("registre")
    assert found.value.exit_code == 2


def test_a_word_of_the_syntax_finds_where_it_is_written() -> None:
    assert help_text("knn") == help_text("nearest")
    assert "CREATE MOVING STREAM" in help_text("retain") and "TAIL" in help_text("from start")


@pytest.mark.parametrize(
    "word", [*sorted(KEYWORDS), *(word.name for word in words()), *FUNCTIONS, *CANONICAL, *KEY_NAMES]
)
def test_every_word_of_the_language_has_help(word: str) -> None:
    assert word.upper() in help.help_text(word, 1000).upper()
    [statement] = parse(f"HELP {word}")
    assert isinstance(statement, Help) and statement.topic and statement.topic.text == word.upper()


def test_a_word_has_its_meaning_its_syntax_and_where_it_is_written() -> None:
    assert help.help_text("km/h", 80) == (
        "km/h, a unit of speed: 0.277778 m/s; also written kmh, kph.\n\n  10 km/h"
    )
    assert help.help_text("limit", 80) == (
        "LIMIT, a clause: at most this many rows: the first of the order, else of the\nkeys.\n\n"
        "  ORDER BY speed DESC LIMIT 5\n\nsee HELP SELECT, HELP REGISTER QUERY, HELP TAIL, HELP GROUP BY"
    )
    with pytest.raises(BindError) as caught:
        help_text("min_acuracy")
    assert caught.value.near == "MIN_ACCURACY"


def test_every_statement_is_carried_out() -> None:
    shown = {type(statement) for section in statements() for statement in parse(section.example)}
    assert shown >= {*HANDLERS}
