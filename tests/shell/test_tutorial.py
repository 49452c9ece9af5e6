"""The tutorial: every lesson's statements run on the sample data, and show what the lesson speaks of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from stqsh.cli.lessons import LESSONS
from stqsh.lang.syntax.parse import parse
from tests.shell.terminal import exit_status

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
import sys
from pathlib import Path
from support.local import local_session
from stqsh.cli.tutorial import Tutorial, sample_folder
with local_session(Path(sys.argv[1])) as session:
    Tutorial(session, str(sample_folder() / "tutorial.stq"), asks=sys.stdin.isatty()).run()
"""


def test_the_user_goes_at_their_own_pace_and_may_try_things(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "TERM": "dumb"}
    words = ["-c", AT_A_TERMINAL, str(tmp_path)]
    child = pexpect.spawn(sys.executable, words, env=environ, cwd=str(ROOT), timeout=120, encoding="utf-8")
    child.expect("q quits > ")
    child.sendline("SELECT nonsense;")
    child.expect("expected")
    child.expect("q quits > ")
    child.sendline("")
    child.expect("stream taxis created")
    child.expect("q quits > ")
    child.sendline("q")
    assert exit_status(child) == 0
