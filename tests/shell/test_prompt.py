"""Colour schemes, suggestions, and the toolbar of the prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import InMemoryHistory

from stqsh.settings import KEYS, SCHEMES, Setting
from stqsh.shell.repl.prompt import StatementSuggest, open_history, toolbar
from stqsh.shell.repl.session_thread import SessionSummary
from stqsh.shell.terminal.colours import STYLES, scheme_name


@pytest.mark.parametrize(
    ("wanted", "environ", "name"),
    [
        ("auto", {}, "dark"),
        ("auto", {"COLORFGBG": "15;0"}, "dark"),
        ("auto", {"COLORFGBG": "0;default;15"}, "light"),
        ("light", {"COLORFGBG": "15;0"}, "light"),
        ("dark", {"NO_COLOR": "1"}, "none"),
        ("auto", {"TERM": "dumb"}, "none"),
    ],
)
def test_the_scheme_is_the_users_or_the_terminals(
    wanted: str, environ: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("NO_COLOR", "TERM", "COLORFGBG"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    assert scheme_name(wanted) == name


def test_each_scheme_of_the_setting_has_a_style_with_the_same_classes() -> None:
    assert {*STYLES, "auto"} == set(SCHEMES)
    assert {name for name, _ in STYLES["dark"].style_rules} == {
        name for name, _ in STYLES["light"].style_rules
    }


def suggested(typed: str, *entries: str) -> str | None:
    history = InMemoryHistory()
    for entry in entries:
        history.append_string(entry)
    buffer = Buffer(history=history)
    buffer.text = typed
    list(history.get_strings())
    found = StatementSuggest().get_suggestion(buffer, buffer.document)
    return found.text if found else None


def test_the_latest_statement_is_suggested_whole() -> None:
    entries = ("SELECT *\nFROM taxis;", "SELECT *\nFROM cars;", "RUN;")
    assert suggested("SEL", *entries) == "ECT *\nFROM cars;"
    assert suggested("SELECT *\nFROM t", *entries) == "axis;"


def test_nothing_is_suggested_for_nothing_or_for_what_is_whole_already() -> None:
    assert suggested("", "RUN;") is None
    assert suggested("RUN;", "RUN;") is None
    assert suggested("FROM", "SELECT *\nFROM taxis;") is None


def test_a_dead_engine_stands_out_in_the_toolbar() -> None:
    [(style, text)] = toolbar(SessionSummary("mine", "engine stopped", failed=True))
    assert style == "class:bottom-toolbar.failed"
    assert "engine stopped" in text


@pytest.mark.parametrize("key", [key for key in KEYS if key.choices], ids=lambda key: key.name)
def test_what_completion_offers_for_a_setting_can_be_set(key: Setting) -> None:
    for choice in key.choices:
        key.read(choice.strip("'"))  # SET takes a text in quotes


def test_a_statement_with_a_secret_stays_out_of_the_file_of_the_history(tmp_path: Path) -> None:
    history = open_history(tmp_path / "history")
    for text in (
        "SHOW STATUS;",
        "SET sinks.http.authorization = 'x';",
        "SHOW SLOTS; set kafka.sasl.password = 'x';",
        "CREATE SINK s FOR q TO HTTP 'http://me:x@localhost/';",
    ):
        history.append_string(text)
    assert len(history.get_strings()) == 4
    assert list(open_history(tmp_path / "history").load_history_strings()) == ["SHOW STATUS;"]


def test_a_history_without_its_file_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    history = open_history(tmp_path / "history")
    assert list(history.load_history_strings()) == []
    history.append_string("SHOW STATUS;")
    assert history.get_strings() == ["SHOW STATUS;"]
