"""`--help` of every command has examples, and these are command lines that are understood."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from stqsh.cli.commands import app
from stqsh.cli.help_pages import EXAMPLES

GROUP = typer.main.get_command(app)
COMMANDS = sorted(set(GROUP.commands) - {"bench"})  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_of_each_command_shows_its_examples_within_80_columns(command: str) -> None:
    told = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80"})
    assert told.exit_code == 0
    assert all(line in told.stdout for line, _ in EXAMPLES[command])
    assert max(map(len, told.stdout.splitlines())) <= 80


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line, _ in lines])
def test_an_example_is_understood(line: str) -> None:
    # What a shell passes on: the last command of a pipe, without redirections.
    program, *words = shlex.split(re.split(" [<>]", line.rpartition(" | ")[2])[0])
    assert program == "stqsh"
    context = GROUP.make_context("stqsh", words)
    name = context._protected_args[0] if context._protected_args else None  # as typer itself goes on
    if name is not None:
        command = GROUP.commands[name]  # type: ignore[attr-defined]
        command.make_context(name, [*context._protected_args[1:], *context.args], parent=context)


def test_no_command_is_without_a_page() -> None:
    assert set(EXAMPLES) == {"", *COMMANDS}
