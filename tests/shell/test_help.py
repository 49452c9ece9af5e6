"""HELP against the living registry: every statement is carried out, and every example runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.local import local_session

import stqsh
from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Message
from stqsh.client.statements import help
from stqsh.client.statements.dispatch import HANDLERS
from stqsh.client.statements.help import is_built
from stqsh.lang.ast.statements import Help
from stqsh.lang.errors import BindError
from stqsh.lang.reference import ALL, IN_ORDER
from stqsh.lang.reference.words import words
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.parse import parse
from stqsh.profile import load_profile
from stqsh.settings import KEYS
from stqsh.shell.repl.help_text import help_text
from stqsh.spec.functions import FUNCTIONS
from stqsh.units import CANONICAL

KEY_NAMES = tuple(key.name for key in KEYS)

ROOT = Path(__file__).parents[2]


def test_help_lists_all_that_it_knows() -> None:
    shown = help_text()
    assert all(f"  {entry.name} " in shown for entry in ALL)


@pytest.mark.parametrize("entry", ALL, ids=[one.name for one in ALL])
def test_a_page_fits_the_terminal_and_loses_no_word(entry: stqsh.lang.reference.Entry) -> None:
    page = help.help_text(entry.name.lower(), 60)
    assert max(map(len, page.splitlines())) <= 60
    assert page.split() == help.help_text(entry.name.lower(), 1000).split()


@pytest.mark.parametrize("entry", ALL, ids=[one.name for one in ALL])
def test_a_page_has_syntax_example_and_cost(entry: stqsh.lang.reference.Entry) -> None:
    page = help.help_text(entry.name.lower(), 1000)
    assert all(line in page for line in entry.syntax.splitlines())
    assert f"{entry.example.splitlines()[-1]};" in page
    assert f"cost: {entry.cost}" in page
    assert ("not supported yet" in page) != is_built(entry)


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
        "  ORDER BY speed DESC LIMIT 5\n\nsee HELP REGISTER QUERY, HELP SELECT, HELP TAIL"
    )
    with pytest.raises(BindError) as caught:
        help_text("min_acuracy")
    assert caught.value.near == "MIN_ACCURACY"


def test_what_is_carried_out_has_a_page() -> None:
    assert {*HANDLERS} <= {type(parse(entry.example)[0]) for entry in ALL}


def test_each_example_runs_on_the_sample_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    monkeypatch.chdir(tmp_path)  # an example writes a file
    with local_session(tmp_path / "home", published=True) as of_scripts:
        connection = of_scripts.connection
        session = Session(
            of_scripts.home, load_profile(None, {}), autoplay=False, allow_run=True, connection=connection
        )
        for entry in (one for one in IN_ORDER if is_built(one) and one.name != "INSERT INTO"):
            outcomes = list(session.execute(f"{entry.example};"))
            assert outcomes, entry.name
            for outcome in outcomes:
                if isinstance(outcome, Subscription):
                    assert list(outcome), entry.name
                    outcome.close()
        assert {query.name for query in session.queries()} == {
            *("next", "steady"),
            *("stand_station", "stand_market", "stand_hospital"),
        }


def test_the_example_of_insert_runs_in_a_live_session(tmp_path: Path) -> None:
    [entry] = [one for one in IN_ORDER if one.name == "INSERT INTO"]
    with local_session(tmp_path) as session:
        columns = "(oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)"
        list(session.execute(f"CREATE MOVING STREAM buses {columns} FROM INSERTS;"))
        [told] = session.execute(f"{entry.example};")
        assert told == Message("2 records inserted into buses")
