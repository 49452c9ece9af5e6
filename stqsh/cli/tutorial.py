"""`stqsh tutorial`: ten minutes on the sample data, in a temporary session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.cli.lessons import FAREWELL, LESSONS, Lesson
from stqsh.client.api import connect
from stqsh.client.run import RunHandle
from stqsh.errors import StqshError
from stqsh.shell.messages import fold, format_error
from stqsh.shell.outcomes import render
from stqsh.shell.render import PromptRenderer
from stqsh.shell.scripting.console import Console
from stqsh.shell.terminal.capabilities import terminal_width

if TYPE_CHECKING:
    from stqsh.client.api import Session

ASK = "Enter runs it; or type your own statement; q quits > "
_WIDTH = 100
"""Width of the lessons in columns where there is no terminal."""


def run_tutorial(profile: str | None = None) -> int:
    """Run the lessons; without a terminal, do not wait for Enter. Raises `StqshError`."""
    script = sample_folder() / "tutorial.stq"
    with connect(temporary=True, profile=profile, autoplay=False) as session:
        session.start_engine(wait=False)  # while the user reads
        Tutorial(session, str(script), asks=sys.stdin.isatty() and sys.stdout.isatty()).run()
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
    """The lessons in a session.

    Args:
        session: The session.
        script: A path in the folder of the sample data.
        asks: Whether to wait for Enter.
    """

    def __init__(self, session: Session, script: str, *, asks: bool) -> None:
        self._session, self._script, self._asks = session, script, asks
        console = Console(self.tell, "table")
        console.pager = False  # Enter continues the tutorial and nothing else
        self._renderer = PromptRenderer(console, session)

    def run(self) -> None:
        """Run all lessons, until the user quits."""
        for number, lesson in enumerate(LESSONS, 1):
            self.tell(_page(number, lesson))
            if not self._user_goes_on():
                return
            self._execute(lesson.statements)
        self.tell(FAREWELL)

    def tell(self, text: str) -> None:
        """Print a text."""
        print(text, flush=True)

    def _user_goes_on(self) -> bool:
        """Wait for Enter and run what the user types; return False where the user quits."""
        while self._asks:
            try:
                typed = input(ASK).strip()
            except (EOFError, KeyboardInterrupt):
                return False
            if not typed:
                break
            if typed.lower().rstrip(";") in ("q", "quit", "exit", "\\q"):
                return False
            try:
                self._execute(typed)
            except StqshError as error:
                self.tell(format_error(error, sys.stdout))
        return True

    def _execute(self, statements: str) -> None:
        numbers = [1]
        for outcome in self._session.outcomes(statements, file=self._script, on_statement=numbers.append):
            if isinstance(outcome, RunHandle) and not self._asks:
                continue  # the next statement waits for it; no progress bar without a terminal
            self._renderer.statement = numbers[-1]
            render(outcome, self._renderer)


def _page(number: int, lesson: Lesson) -> str:
    head = f"{number} of {len(LESSONS)}: {lesson.title}"
    statements = "\n".join(f"    {line}" for line in lesson.statements.splitlines())
    text = fold(" ".join(lesson.text.split()), terminal_width(sys.stdout) or _WIDTH)
    return f"\n{head}\n{'-' * len(head)}\n{text}\n\n{statements}\n"
