r"""How the shell shows what statements answer: on the terminal (or in a pager), or where `\o` says."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from stqsh.shell.messages import fold, watch_needs_terminal
from stqsh.shell.terminal.capabilities import has_colour, is_interactive, terminal_width

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.read.subscription import Subscription
    from stqsh.client.results import Outcome, WaitNotice
    from stqsh.shell.scripting.console import Console
    from stqsh.shell.scripting.scripts import StatementBlock
    from stqsh.shell.scripting.watch_command import WatchInterval
    from stqsh.shell.terminal.screen import Screen
    from stqsh.shell.writers.writer import Writer


class Renderer:
    """Shows answers as `console` says."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def text(self, text: str) -> None:
        """Show some text, however long."""
        print(fold(text, terminal_width(sys.stdout)), flush=True)

    def status_screen(self) -> Screen:
        """Where a status line may stand while an answer is waited for."""
        from stqsh.shell.terminal.screen import Screen

        return Screen(sys.stdout.buffer, colour=has_colour(sys.stdout), visible=is_interactive(sys.stdout))

    def paged(self, text: str) -> None:
        """Show some text, a long one in the pager."""
        from stqsh.shell.terminal.capabilities import encode_for_terminal
        from stqsh.shell.terminal.pager import show

        show(lambda width: encode_for_terminal(text.rstrip("\n") + "\n"), paged=self._console.pager)

    def outcome(
        self, session: Session, outcome: Outcome, statement: int = 1, format_: str | None = None
    ) -> bool:
        """Show one answer; `False` where the user interrupted it and the rest is not to be run.

        `statement` is its number, `format_` what its own FORMAT asks for.
        """
        from stqsh.client import results, run
        from stqsh.client.read import subscription as following
        from stqsh.client.read import watch

        match outcome:
            case results.WaitNotice():
                self._wait(session, outcome)
            case results.Message():
                self.text(outcome.text)
            case results.Script():
                script = outcome.text
                self._data(lambda writer: writer.script(script), format_)
            case results.Rows():
                rows = outcome
                self._data(lambda writer: writer.rows(statement, rows), format_)
            case results.Answer():
                answer = outcome
                self._data(lambda writer: writer.answer(answer.statement or statement, answer), format_)
            case following.Subscription():
                self._following(outcome, format_, self._scheme(session))
            case watch.WatchFeed():
                from stqsh.shell.watch.dashboard import watch_board

                if not is_interactive(sys.stdout):
                    raise watch_needs_terminal()
                self.text(watch_board(outcome, self._scheme(session)))
            case run.RunHandle():
                from stqsh.shell.live.run_progress import run_with_progress

                text, finished = run_with_progress(session, outcome, self._screen())
                self.text(text)
                return finished
            case _:
                from stqsh.shell.map.dispatch import show

                self.text(show(outcome, self._screen(), self._scheme(session)))
        return True

    def repeated(
        self, session: Session, block: StatementBlock, how: WatchInterval, once: Callable[[], object]
    ) -> None:
        r"""Show again and again what a statement answers: in place where eyes read it, else by `once`.

        Raises `KeyboardInterrupt` where the user leaves with Ctrl-C.
        """
        from stqsh.shell.scripting import watch_command

        statement = block.statements[-1]
        format_ = self._format(statement.format)
        if (
            self._console.outlet is not None
            or format_ not in watch_command.DRAWN
            or not is_interactive(sys.stdout)
        ):
            watch_command.repeat(how, once)
            return

        def lines() -> list[str]:
            return watch_command.lines_of(session.execute([statement], file=block.file), format_)

        title = " ".join(statement.text.split())
        watch_command.repeat_in_place(how, title, lines, sys.stdout.buffer)

    def _wait(self, session: Session, waiting: WaitNotice) -> None:
        """Show that the session is alive while something is waited for."""
        from stqsh.shell.status import alive_text

        screen = self._screen()
        try:
            waiting.wait(
                lambda progress: screen.status(f"{waiting.text}  {alive_text(session.home, progress)}")
            )
        finally:
            screen.close()

    def _data(self, write: Callable[[Writer], None], format_: str | None) -> None:
        """Write an answer where it is to go."""
        if self._console.outlet is not None:
            write(self._outlet_writer(format_))
            return
        from stqsh.shell.terminal.pager import show
        from stqsh.shell.writers.writer import Target, open_writer

        def render(width: int) -> bytes:
            paper = io.BytesIO()
            target = Target(paper, one_query=True, colour=has_colour(sys.stdout), width=width - 1)
            write(open_writer(self._format(format_), target))
            return paper.getvalue()

        show(render, paged=self._console.pager)

    def _scheme(self, session: Session) -> str:
        return session.settings().text("shell.scheme")

    def _following(self, following: Subscription, format_: str | None, scheme: str) -> None:
        from stqsh.shell.live.tail import drain, watch

        if self._console.outlet is not None:
            from stqsh.shell.live.export import export

            writer = self._outlet_writer(format_)
            text = export(following, writer, self._screen(), self._console.outlet.name)
        elif self._format(format_) == "table" and is_interactive(sys.stdout):
            text = watch(following, self._screen(), scheme)
        else:
            from stqsh.shell.writers.writer import open_writer

            text = drain(following, open_writer(self._format(format_), self._screen().target(one_query=True)))
        if text:
            self.text(text)

    def _outlet_writer(self, format_: str | None) -> Writer:
        outlet = self._console.outlet
        assert outlet is not None, "asked for where there is one"
        wanted = format_ or outlet.format or self._format(None)
        return outlet.writer(wanted, one_query=True, asked=format_ is not None)

    def _format(self, format_: str | None) -> str:
        return format_ or self._console.format or "table"

    def _screen(self) -> Screen:
        from stqsh.shell.terminal.screen import Screen

        return Screen(sys.stdout.buffer, colour=has_colour(sys.stdout), visible=is_interactive(sys.stdout))
