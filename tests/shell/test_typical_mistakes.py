"""Typical mistakes and their answers, to the letter: typical_mistakes.txt has what is typed and what is seen.

`> ` is typed at the prompt or in a script, `$ ` in the system's shell. Habits from other systems are
among them.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from support.local import local_session

from stqsh.cli.main import main
from stqsh.client.api import Session
from stqsh.errors import StqshError
from stqsh.shell.scripting.blocks import StatementBlock
from stqsh.shell.scripting.console import Console
from stqsh.shell.scripting.scripts import read_scripts

ROOT = Path(__file__).parents[2]
TRANSCRIPT = Path(__file__).with_name("typical_mistakes.txt").read_text("utf-8")
SETUP = """
CREATE MOVING STREAM taxis FROM FILE 'sample_data/taxis/*.csv';
CREATE EVENT STREAM posts FROM FILE 'sample_data/posts.jsonl' TEXT body KEEP 1 hour;
CREATE TABLE favourites FROM FILE 'sample_data/favourites.csv';
CREATE REGION square AS RECT(10.02, 50.01, 10.04, 50.02);
REGISTER QUERY near AS SELECT oid, speed FROM taxis INSIDE square;
"""


def told_at_prompt(session: Session, typed: str) -> str:
    """Return what a mistake in statements or commands is answered with."""
    console = Console(lambda _: None)
    with pytest.raises(StqshError) as caught:
        for step in read_scripts([(typed, None)], {}):
            if isinstance(step, StatementBlock):
                list(session.outcomes(step.statements))
            else:
                step.run(console)
    return caught.value.text(100)


def told_at_shell(words: str) -> str:
    """Return what a mistake on the command line is answered with."""
    said = io.StringIO()
    environ = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    with (
        mock.patch.object(sys, "argv", ["stqsh", *shlex.split(words)[1:]]),
        mock.patch.dict(os.environ, environ),
        contextlib.redirect_stderr(said),
        pytest.raises(SystemExit) as caught,
    ):
        main()
    assert caught.value.code in (1, 2)
    return said.getvalue().rstrip("\n")


def answered(session: Session, line: str, folder: Path) -> str:
    """Return what is seen, with the folder of the test by the name FOLDER."""
    told = told_at_prompt(session, line[2:]) if line.startswith("> ") else told_at_shell(line[2:])
    return "\n".join(one.rstrip() for one in told.replace(str(folder), "FOLDER").splitlines())


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[Session]:
    """Prepare a folder and a session in which the mistakes are made."""
    (folder / "sample_data").symlink_to(ROOT / "sample_data")
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, {"STQSH_HOME": str(folder / "home")}),
        local_session(folder / "local") as session,
    ):
        list(session.outcomes(SETUP))
        yield session


def test_there_are_at_least_fifty_of_all_sorts() -> None:
    typed = [line for line in TRANSCRIPT.splitlines() if line.startswith(("> ", "$ "))]
    assert len(typed) >= 50 and sum(line.startswith("$ ") for line in typed) >= 6
    assert len(set(typed)) == len(typed)


def test_typical_mistakes_are_answered_to_the_letter(tmp_path: Path) -> None:
    typed = [line for line in TRANSCRIPT.splitlines() if line.startswith(("> ", "$ "))]
    with prepared(tmp_path) as session:
        seen = [f"{line}\n{answered(session, line, tmp_path)}\n" for line in typed]
    assert "\n".join(seen) == TRANSCRIPT
