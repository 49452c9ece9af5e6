"""`stqsh tutorial`: ten minutes on the sample data, in a temporary session."""

from __future__ import annotations

import sys
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.cli.lessons import FAREWELL, LESSONS, Lesson
from stqsh.client.api import connect
from stqsh.client.run import RunHandle
from stqsh.errors import StqshError
from stqsh.shell.messages import fold
from stqsh.shell.outcomes import render
from stqsh.shell.render import PromptRenderer
from stqsh.shell.repl.app import run_shell
from stqsh.shell.scripting.backslash_commands import ExitShell
from stqsh.shell.scripting.console import Console, ShellOptions
from stqsh.shell.terminal.capabilities import terminal_width

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.shell.repl.guide import GuidedShell

ASK = "Enter runs it. next, back; a question is answered from the manual; q leaves."
_WIDTH = 100
"""Width of the lessons in columns where there is no terminal."""


def run_tutorial(profile: str | None = None) -> int:
    """Run the lessons: on a terminal in a shell, elsewhere one after the other. Raises `StqshError`."""
    folder = sample_folder()
    if sys.stdin.isatty() and sys.stdout.isatty():
        with chdir(folder):  # for the files that lessons name, and that users complete
            return run_shell(ShellOptions(profile=profile, quiet=True, init=False), TutorialGuide(profile))
    with connect(temporary=True, profile=profile, autoplay=False) as session:
        session.start_engine(wait=False)  # while the user reads
        Tutorial(session, str(folder / "tutorial.stq")).run()
    return 0


def sample_folder() -> Path:
    """Return the sample data in the working directory, else in the working copy, else in the package.

    Raises:
        StqshError: There are none.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (Path.cwd(), package.parent, package):
        folder = root / "sample_data"
        if (folder / "taxis").is_dir():
            return folder
    raise StqshError(
        "the sample data are missing here",
        hint="python -m stqsh.sources.generator.sample_taxis sample_data creates them",
    )


class Tutorial:
    """The lessons in a session, where nobody types.

    Args:
        session: The session.
        script: A path in the folder of the sample data.
    """

    def __init__(self, session: Session, script: str) -> None:
        self._session, self._script = session, script
        console = Console(_tell, "table")
        console.pager = False
        self._renderer = PromptRenderer(console, session)

    def run(self) -> None:
        """Run all lessons."""
        for number, lesson in enumerate(LESSONS, 1):
            _tell(_page(number, lesson))
            self._execute(lesson.statements)
        _tell(FAREWELL)

    def _execute(self, statements: str) -> None:
        numbers = [1]
        for outcome in self._session.outcomes(statements, file=self._script, on_statement=numbers.append):
            if isinstance(outcome, RunHandle):
                continue  # the next statement waits for it; no progress bar without a terminal
            self._renderer.statement = numbers[-1]
            render(outcome, self._renderer)


@dataclass
class TutorialGuide:
    """The lessons in a shell, at the user's pace.

    Attributes:
        profile: The name or path of the settings.
        at: The number of the lesson that is shown, from 0; that of all lessons after the last.
    """

    profile: str | None = None
    at: int = 0
    _run: set[int] = field(default_factory=set)

    def open(self) -> Session:
        """Open a session in which streams wait for RUN."""
        session = connect(temporary=True, profile=self.profile, autoplay=False)
        session.attend()
        return session

    def begin(self, shell: GuidedShell) -> None:
        """Show the first lesson."""
        shell.tell(_WELCOME)
        self._show(shell)

    def take(self, text: str, shell: GuidedShell) -> bool:
        """Run the lesson, or go to another one; return whether that was typed."""
        match text.lower().rstrip("; "):
            case "" if self.at < len(LESSONS):
                self._go_on(shell)
            case "next" if self.at < len(LESSONS):
                self.at += 1
                self._show(shell)
            case "back":
                self.at = max(0, self.at - 1)
                self._show(shell)
            case "q":
                raise ExitShell
            case _:
                return False
        return True

    def _go_on(self, shell: GuidedShell) -> None:
        """Run the lesson that is shown, unless it was run before, and show the next one."""
        number, self.at = self.at, self.at + 1
        if number not in self._run:
            self._run.add(number)
            shell.execute(LESSONS[number].statements)
        self._show(shell)

    def _show(self, shell: GuidedShell) -> None:
        if self.at == len(LESSONS):
            shell.tell(f"\n{FAREWELL}\n\nback goes back; or go on as you like, and leave with q.")
            return
        hint = "You have run this one: Enter goes on." if self.at in self._run else ASK
        shell.tell(f"{_page(self.at + 1, LESSONS[self.at])}\n{hint}")


_WELCOME = "The tutorial: lessons in a shell of your own, which is gone when you leave it."


def _tell(text: str) -> None:
    print(text, flush=True)


def _page(number: int, lesson: Lesson) -> str:
    head = f"{number} of {len(LESSONS)}: {lesson.title}"
    statements = "\n".join(f"    {line}" for line in lesson.statements.splitlines())
    text = fold(" ".join(lesson.text.split()), terminal_width(sys.stdout) or _WIDTH)
    return f"\n{head}\n{'-' * len(head)}\n{text}\n\n{statements}\n"
