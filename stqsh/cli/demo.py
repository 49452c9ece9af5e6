"""`stqsh demo`: the script of the sample data, told step by step, with the live map on a terminal."""

from __future__ import annotations

import re
import sys
import textwrap
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stqsh.cli.tutorial import sample_folder
from stqsh.client.map.scene import MapFeed
from stqsh.program import program
from stqsh.shell.exit_codes import INTERRUPTED
from stqsh.shell.map.terminal.app import show_map
from stqsh.shell.messages import print_message
from stqsh.shell.scripting.backslash_commands import BackslashCommand
from stqsh.shell.scripting.batch import run_steps
from stqsh.shell.scripting.blocks import CommandCall, StatementBlock
from stqsh.shell.scripting.console import Console, ShellOptions
from stqsh.shell.scripting.scripts import read_scripts
from stqsh.shell.terminal.capabilities import is_interactive, terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stqsh.client.api import Session

_MAP = "-- The same on a map, at thirty times the pace of the clock: q leaves it, and it ends by itself."
_MAP_STATEMENTS = "PLAY taxis AT 30x; PLAY posts AT 30x;\nMAP taxis station, caller, make_way;"
_MAP_S = 12.0
"""How long the map stays, unless the user leaves it before."""

_LEGEND = (
    "How to read what comes: + is a row that comes into an answer, - one that leaves it, and why. "
    "A query's first rows are its whole answer; after them come changes only."
)


def run_demo(profile: str | None = None) -> int:
    """Run the demo and return the exit code; data go to standard output, all else to standard error.

    Raises:
        StqshError: The sample data are missing, or the run fails.
    """
    script = sample_folder() / "demo.stq"
    text = script.read_text(encoding="utf-8")
    on_terminal = sys.stdin.isatty() and is_interactive(sys.stdout)
    console = Console(print_message, tells_phases=not is_interactive(sys.stderr))

    def steps_in(session: Session) -> list[StatementBlock | CommandCall]:
        session.start_engine(wait=False)  # while the first steps are read
        shown = (lambda: _play_on_map(session)) if on_terminal else None
        return list(_steps(text, str(script), shown))

    code = run_steps(steps_in, (), console, ShellOptions(profile=profile))
    if code != INTERRUPTED:
        print_message(farewell())
    return code


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A part of the script between blank lines: what its comments say, and its statements."""

    said: str
    statements: str


def paragraphs(text: str) -> list[Paragraph]:
    """Cut a script into its paragraphs."""
    found = []
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = part.splitlines()
        said = " ".join(line[2:].strip() for line in lines if line.startswith("--"))
        found.append(Paragraph(said, "\n".join(line for line in lines if not line.startswith("--"))))
    return found


def _steps(
    text: str, file: str, show_on_map: Callable[[], None] | None
) -> Iterator[StatementBlock | CommandCall]:
    """Yield the script's statements, each paragraph told before it is run."""
    count = 0
    is_first_run = True
    for paragraph in paragraphs(text):
        if show_on_map is not None and "DROP QUERY" in paragraph.statements:
            yield _telling(Paragraph(_MAP[3:], _MAP_STATEMENTS))
            yield _calling(show_on_map)
        yield _telling(paragraph)
        if is_first_run and paragraph.statements.startswith("RUN"):
            is_first_run = False
            yield _telling(Paragraph(_LEGEND, ""))
        for block in read_scripts([(paragraph.statements, file)], {}):
            assert isinstance(block, StatementBlock), "the demo has no backslash commands"
            yield replace(block, number=count + 1)
            count += len(block.statements)


def _telling(paragraph: Paragraph) -> CommandCall:
    """Return the step that says what comes."""
    said = [f"\n{paragraph.said}"] if paragraph.said else []
    return _calling(lambda: print_message("\n".join([*said, *_indented(paragraph.statements)])))


def _indented(statements: str) -> Iterator[str]:
    """Yield the lines of statements, folded to the terminal's width."""
    width = terminal_width(sys.stderr) or sys.maxsize
    for line in statements.splitlines():
        indent = " " * (4 + len(line) - len(line.lstrip()))
        fold = textwrap.TextWrapper(width - 1, break_long_words=False, break_on_hyphens=False)
        fold.initial_indent, fold.subsequent_indent = indent, f"{indent}    "
        yield from fold.wrap(line.strip())


def _calling(action: Callable[[], None]) -> CommandCall:
    return CommandCall(BackslashCommand((), "", "", lambda console, argument: action()), "")


def _play_on_map(session: Session) -> None:
    """Let the streams play under a map, until they end, the time is up or the user leaves it."""
    deadline = time.monotonic() + _MAP_S
    *_, feed = session.execute(_MAP_STATEMENTS)
    assert isinstance(feed, MapFeed), "MAP answers with it"
    show_map(
        feed,
        session.settings().text("shell.scheme"),
        lambda: time.monotonic() > deadline or session.progress().ended,
    )


def farewell() -> str:
    """Return what to try next."""
    name = program()
    return f"""
That was the demo. What next?

  {name}
      the shell; its session goes on when you leave it
  {name} open FILE
      your own file on the map, then in the shell; its columns are guessed
  {name} tutorial
      the language in ten minutes, at your own pace
  {name} docs
      what else there is to read"""
