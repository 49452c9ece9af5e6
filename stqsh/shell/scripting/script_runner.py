"""A run of scripts in an open session: what statements bring goes to its writer, and what a RUN brings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from stqsh.shell.messages import print_message
from stqsh.shell.scripting.backslash_commands import ExitShell
from stqsh.shell.scripting.console import Stopwatch
from stqsh.shell.scripting.output_choice import OutputChoice
from stqsh.shell.scripting.scripts import CommandCall, StatementBlock, statements_in

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.read.subscription import OnIdle, Subscription
    from stqsh.client.results import Outcome, Updates
    from stqsh.client.run import RunHandle
    from stqsh.lang.ast.statements import Statement
    from stqsh.shell.live.prefetch import Source
    from stqsh.shell.live.tail import LiveView
    from stqsh.shell.scripting.watch_command import WatchInterval
    from stqsh.shell.terminal.screen import Screen
    from stqsh.shell.writers.writer import Writer
    from stqsh.storage.rows import Progress


class ScriptRunner:
    """One run of scripts in an open session."""

    def __init__(
        self, session: Session, steps: list[StatementBlock | CommandCall], place: OutputChoice
    ) -> None:
        self._session = session
        self._steps = steps
        self._place = place
        self.console = place.console
        self.console.repeater = self._repeat
        self._one_query = _is_single(statements_in(steps), len(session.queries(2)))
        self.screen = place.screen()
        self._view = _live_view(self.screen, session, one_query=self._one_query) if place.live else None
        self._statement = 1
        self._asked: str | None = None
        self._running: RunHandle | None = None

    def run(self, opening: Sequence[StatementBlock | CommandCall] = ()) -> None:
        """Execute `opening`, the statements and commands, then what the end of a script implies."""
        with suppress(ExitShell):
            for step in (*opening, *self._steps):
                if isinstance(step, StatementBlock):
                    self._execute(step)
                else:
                    step.run(self.console)
        self._asked = None
        last = None if not opening and self._only_looks() else self._session.finish_script()
        if last is not None:
            self._follow_run(last)

    def _only_looks(self) -> bool:
        """Whether the script does nothing: then it brings no session to its end that others use."""
        from stqsh.lang.ast import statements as ast
        from stqsh.shell.scripting.watch_command import looks

        return all(looks(one) or isinstance(one, ast.Tail) for one in statements_in(self._steps))

    def _repeat(self, block: StatementBlock, how: WatchInterval) -> None:
        r"""Do what `\watch` says."""
        from stqsh.shell.renderer import Renderer
        from stqsh.shell.scripting import watch_command

        if self._place.terminal:
            Renderer(self.console).repeated(self._session, block, how, lambda: self._execute(block))
        else:
            watch_command.repeat(how, lambda: self._execute(block))

    def _execute(self, block: StatementBlock) -> None:
        self.console.last = replace(
            block, statements=block.statements[-1:], number=block.number + len(block.statements) - 1
        )
        watch = Stopwatch(self.console)

        def begins(number: int) -> None:
            watch.begin()
            self._statement = block.number + number - 1
            self._asked = block.statements[number - 1].format

        for outcome in self._session.execute(block.statements, file=block.file, on_statement=begins):
            self._take(outcome)
        watch.done()

    def interrupted(self) -> None:
        """Stop the RUN under way, and say what goes on."""
        name = self._session.home.name
        if self._session.home.temporary:
            print_message("interrupted; the script's session is stopped")
            return
        stopped = self._running is not None and not self._running.finished
        if self._running is not None and stopped:
            self._running.cancel()
        print_message(
            f"interrupted; {'RUN is stopped, ' if stopped else ''}session {name} and its queries go on"
        )

    def _take(self, outcome: Outcome) -> None:
        from stqsh.client import results
        from stqsh.client import run as running
        from stqsh.client.read import subscription as following
        from stqsh.client.read import watch as watching

        match outcome:
            case results.Message():
                self._remark(outcome.text)
            case results.Rows():
                self.screen.close()
                self._writer(self._asked).rows(self._statement, outcome)
            case results.Answer():
                self.screen.close()
                self._writer(self._asked).answer(self._statement, outcome)
            case results.Script():
                self._writer(None).script(outcome.text)
            case following.Subscription():
                self._follow(outcome)
            case watching.WatchFeed():
                from stqsh.shell.watch.dashboard import watch_board

                scheme = self._session.settings().text("shell.scheme")
                self._remark(watch_board(outcome, scheme))
            case running.RunHandle():
                self._follow_run(outcome)
            case _:
                from stqsh.shell.map.dispatch import print_or_write

                self.screen.close()
                self._remark(print_or_write(outcome, self.screen))

    def _follow(self, following: Subscription) -> None:
        """Show what a TAIL or SUBSCRIBE brings."""
        from stqsh.shell.live.tail import source_of

        view = self._live(self._asked)
        if view is not None:
            view.warning = lambda: following.accuracy_text
        else:
            following.on_notice = self._remark
        try:
            self._show(source_of(following), self._asked)
        finally:
            following.close()

    def _follow_run(self, running: RunHandle) -> None:
        """Show the updates of all registered queries until the RUN is done."""
        self._running = running

        def source(on_idle: OnIdle) -> Iterator[Updates]:
            return map(_registered, self._session.updates(until=running, on_idle=on_idle))

        self._show(source, None)
        self.screen.close()
        worth = self._session.accuracy()
        if not worth.is_exact:
            self._remark(f"answers: {worth.text()}")

    def _remark(self, text: str) -> None:
        """Say something that is no data."""
        if text and not self.console.quiet:
            self.screen.message(text)

    def _writer(self, asked: str | None) -> Writer:
        return self._place.writer(self._session, one_query=self._one_query, asked=asked)

    def _show(self, source: Source, asked: str | None) -> None:
        """Show what a source brings: in the live view, where there is one and no format was asked for."""
        from stqsh.client.results import SnapshotMark

        view = self._live(asked)
        if view is not None:
            view.follow(source)
            return
        for item in source(self._status):
            if isinstance(item, SnapshotMark):
                self._writer(asked).mark(item)
            else:
                self._writer(asked).updates(item)

    def _live(self, asked: str | None) -> LiveView | None:
        return self._view if asked is None and self.console.outlet is None else None

    def _status(self, progress: Progress) -> None:
        from stqsh.shell.status import alive_text

        self.screen.status(alive_text(self._session.home, progress))


def _live_view(screen: Screen, session: Session, *, one_query: bool) -> LiveView:
    from stqsh.shell.live.tail import LiveView

    return LiveView(screen, "", session.home, one_query, scheme=session.settings().text("shell.scheme"))


def _registered(updates: Updates) -> Updates:
    """The updates without those of subscriptions, which were shown where they stood."""
    import numpy as np
    import pyarrow as pa

    from stqsh.shell.writers.text_columns import occurring

    away = [query.id for query in occurring(updates) if query.owner is not None]
    if not away:
        return updates
    keep = ~np.isin(updates.table.column("query").to_numpy(), away)
    return replace(updates, table=updates.table.filter(pa.array(keep)))


def _is_single(statements: list[Statement], there: int) -> bool:
    """Whether the updates of one query only can come of a script, `there` queries being in the session."""
    from stqsh.lang.ast import statements as ast

    names = {statement.name.text for statement in statements if isinstance(statement, ast.RegisterQuery)}
    subscriptions = sum(isinstance(statement, ast.Subscribe) for statement in statements)
    return len(names) + subscriptions + there <= 1
