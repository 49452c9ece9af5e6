"""The tutorial: every lesson's statements run on the sample data, and show what the lesson speaks of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.terminal import Terminal, exit_status, kill
from stqsh.cli.lessons import LESSONS
from stqsh.client.statements.questions import answer_question
from stqsh.lang.syntax.parse import parse
from stqsh.shell.repl.guide import is_question

STQSH = (sys.executable, "-m", "stqsh")
ROOT = Path(__file__).parents[2]


def test_lessons_are_short_and_their_statements_parse() -> None:
    for lesson in LESSONS:
        assert max(map(len, lesson.statements.splitlines())) <= 74, "on 80 columns, indented"
        assert parse(lesson.statements)
        lines = [*lesson.text.splitlines(), *(f"    {line}" for line in lesson.statements.splitlines())]
        assert max(map(len, lines)) <= 110
        assert len(lines) < 16


@pytest.mark.spark
def test_each_lesson_shows_what_it_speaks_of(tmp_path: Path) -> None:
    environ = {**os.environ, "STQSH_HOME": str(tmp_path), "COLUMNS": "120"}
    done = subprocess.run(
        [*STQSH, "tutorial"],
        env=environ,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = re.split(rf"(?m)^\d+ of {len(LESSONS)}: ", done.stdout)[1:]
    assert len(pages) == len(LESSONS)
    for lesson, page in zip(LESSONS, pages, strict=True):
        shown = page.partition(lesson.statements.splitlines()[-1])[2]
        assert re.search(lesson.shows, shown), f"{lesson.title}\n{page}"
        assert "rror" not in shown, page
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


#: The tutorial at a terminal, as `stqsh tutorial` has it but for Spark.
AT_A_TERMINAL = """
import os
import sys
from stqsh.cli.tutorial import TutorialGuide, sample_folder
from stqsh.shell.repl.app import run_shell
from stqsh.shell.scripting.console import ShellOptions

class Guide(TutorialGuide):
    def open(self):
        session = super().open()
        session.start_engine = session.connection.wake = lambda *_, **__: None
        return session

os.chdir(sample_folder())
sys.exit(run_shell(ShellOptions(quiet=True, init=False), Guide()))
"""


@pytest.fixture
def learning(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with the tutorial."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "STQSH_HOME": str(tmp_path), "TERM": "xterm-256color"}
    terminal = Terminal(environ, program=[sys.executable, "-c", AT_A_TERMINAL])
    yield terminal
    kill(terminal.child)


def test_the_user_goes_through_lessons_at_a_prompt_and_may_try_things(learning: Terminal) -> None:
    learning.wait_so_far(r"(?s)1 of \d+: A stream of things that move.*stqsh>")
    learning.type("")
    learning.wait_so_far(r"(?s)stream taxis created.*2 of \d+: You control time.*stqsh>")
    learning.type("back")
    learning.wait_so_far(r"(?s)You have run this one: Enter goes on.*stqsh>")
    learning.type("")
    learning.wait_so_far(r"(?s)Enter goes on.*Enter runs it.*stqsh>")
    learning.type("SELECT oid FROM;")
    learning.wait_so_far("expected")
    learning.type("how do I delete a query?")
    learning.wait_so_far("DROP: Removes definitions and queries")
    learning.type("next")
    learning.wait_so_far(r"3 of \d+: Ask once")
    learning.type("q")
    assert exit_status(learning.child) == 0


def test_a_question_is_answered_from_the_manual() -> None:
    questions = {
        "how can I get notified when something enters a region?": "CREATE ALERT",
        "how do I make it play faster?": "PLAY",
        "how do I delete a query?": "DROP",
        "which stations are nearest to me?": "NEAREST",
        "where do I see the records that were set aside?": "DEAD LETTERS",
        "what is a closing step?": "closing step",
    }
    for question, words in questions.items():
        assert is_question(question)
        assert words in answer_question(question), question
    assert "nothing on that" in answer_question("what is xyzzy?")


@pytest.mark.parametrize("text", ["SHOW STREAMS;", "WITH a", "where", "help me", ""])
def test_statements_are_no_questions(text: str) -> None:
    assert not is_question(text)
