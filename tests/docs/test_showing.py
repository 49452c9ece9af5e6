"""`HELP topic;` and `stqsh docs` show the documents: drawn on a terminal, as they are in a pipe."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from stqsh.cli.commands import app
from stqsh.client.statements.help import help_text
from stqsh.docs import TOPICS, document
from stqsh.shell.repl import help_text as drawing


def test_without_a_topic_the_documents_are_listed() -> None:
    listed = CliRunner().invoke(app, ["docs"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_pipe_gets_the_text(topic: str) -> None:
    assert CliRunner().invoke(app, ["docs", topic.upper()]).stdout == document(topic)
    assert help_text(topic) == document(topic)


def test_a_document_that_is_not_there_is_a_wrong_command_line() -> None:
    assert CliRunner().invoke(app, ["docs", "nothing"]).exit_code == 2


@pytest.mark.parametrize("topic", TOPICS)
def test_a_terminal_gets_a_drawing_that_fits(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "70")
    drawn = drawing.help_text(topic)
    assert "```" not in drawn
    assert "\x1b" in drawn
    assert drawn.split()[0] not in ("#", "")


def test_help_lists_the_documents() -> None:
    assert all(f"  {topic} " in help_text() for topic in TOPICS)
