"""A RUN in the shell: draw a progress bar, and stop the RUN at Ctrl-C."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stqsh.client.show.unread import much_unread
from stqsh.shell.status import (
    clock_text,
    engine_text,
    first_batch_text,
    rate_text,
    shedding_part,
    takes_steps,
)
from stqsh.spec.log import RunFor, RunSteps, RunUntil
from stqsh.storage.progress import stream_statuses
from stqsh.units import counted, format_instant, group_digits

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.run import RunHandle
    from stqsh.shell.terminal.screen import Screen
    from stqsh.storage.rows import Progress

BAR = 20
_STOP_WAIT_S = 3.0
_PATIENCE_S = 1.0
"""The time after which a RUN without a step reports that."""


def run_with_progress(session: Session, running: RunHandle, screen: Screen) -> tuple[str, bool]:
    """Wait for a RUN; return a summary, and whether it was completed.

    The first Ctrl-C stops it after the batch under way; the second does not wait for that batch.

    Raises:
        EngineDeadError: The engine has stopped.
        SourceError: A stream cannot be read.
    """
    view = RunView(session, running, screen)
    try:
        end = running.wait(view.show)
    except KeyboardInterrupt:
        return _stopped(view), False
    finally:
        screen.close()
    worth = session.accuracy()
    remark = "" if worth.is_exact else f"; answers: {worth.text()}"
    unread = much_unread(session.connection)
    aside = f"\n{unread}; SHOW DEAD LETTERS lists them" if unread else ""
    return f"ran {view.summary(end)}{remark}{aside}", True


def _stopped(view: RunView) -> str:
    """Stop a RUN, wait for the batch under way unless Ctrl-C is pressed again, and return the message."""
    view.screen.status("RUN  stops after the batch under way…  Ctrl-C again leaves at once", now=True)
    running, deadline = view.running, time.monotonic() + _STOP_WAIT_S
    running.cancel()
    if not view.is_stepping:  # a batch that waits for kernels or its first rows may take long
        deadline = 0.0
    try:
        while not running.finished and time.monotonic() < deadline:
            time.sleep(0.05)
    except KeyboardInterrupt:
        deadline = 0.0
    done = view.summary(view.session.progress())
    if not running.finished:
        return f"left RUN, which stops after the batch under way; so far: {done}"
    return f"RUN is stopped after {done}"


@dataclass
class RunView:
    """Draws the progress bar of a RUN, from the step at which it began."""

    session: Session
    running: RunHandle
    screen: Screen
    start: Progress = field(init=False)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.start, self.began = self.session.progress(), time.monotonic()

    def show(self, progress: Progress) -> None:
        """Redraw the progress bar."""
        engine = engine_text(self.session.home)
        if not takes_steps(engine, progress):
            self.screen.status(f"RUN  {engine}  Ctrl-C stops")
            return
        preparing = self._preparing()
        if preparing and progress.step == self.start.step:
            self.screen.status(f"RUN  {preparing}")
            return
        spent = time.monotonic() - self.began
        if progress.step == self.start.step == 0 and spent > _PATIENCE_S:
            self.screen.status(f"RUN  {first_batch_text(spent)}  Ctrl-C stops")
            return
        done = self.share(progress)
        bar = "" if done is None else f"{bar_text(done)} {done:4.0%}  "
        sheds = "".join(f"  {part}" for part in [shedding_part(progress)] if part)
        step = f"step {group_digits(progress.step)}  {clock_text(progress)}  {rate_text(progress)}"
        self.screen.status(f"RUN  {bar}{step}{self._remaining(done)}{sheds}  Ctrl-C stops")

    @property
    def is_stepping(self) -> bool:
        """Whether the engine has taken a step, so that the batch under way is a short one."""
        progress = self.session.progress()
        return progress.step > 0 and takes_steps(engine_text(self.session.home), progress)

    def share(self, progress: Progress) -> float | None:
        """Return the completed share of the RUN, 0 to 1; None if it is unknown."""
        steps = progress.step - self.start.step
        spec = self.running.spec
        if isinstance(spec, RunSteps):
            return _ratio(steps, spec.n)
        if isinstance(spec, RunFor) and progress.tick_us:
            return _ratio(steps * progress.tick_us, spec.us)
        at, begin = progress.at_us(), self.start.at_us() or progress.at_us(1)
        if isinstance(spec, RunUntil) and at is not None and begin is not None:
            return _ratio(at - begin, spec.t_us - begin)
        return self._rows_done(progress)

    def summary(self, end: Progress) -> str:
        """Return the number of steps, the last step and its time, and the time that the RUN took."""
        steps, at = end.step - self.start.step, format_instant(end.at_us())
        records = end.stats.records_total - self.start.stats.records_total
        taken = f", {counted(records, 'record')}" if records > 0 else ""
        where = f" to step {group_digits(end.step)}" + (f" ({at})" if at else "")
        return f"{counted(steps, 'step')}{where}{taken} in {time.monotonic() - self.began:.1f} s"

    def _rows_done(self, progress: Progress) -> float | None:
        taken = sum(progress.stats.rows.values())
        total = sum(status.rows for status in stream_statuses(self.session.connection.db).values())
        return _ratio(taken, total) if total else None

    def _preparing(self) -> str:
        statuses = stream_statuses(self.session.connection.db)
        reading = [(s.name, statuses[s.id]) for s in self.session.streams() if s.id in statuses]
        words = [
            f"reading {name} {status.progress:.0%}" for name, status in reading if status.state == "reading"
        ]
        return ", ".join(words)

    def _remaining(self, done: float | None) -> str:
        spent = time.monotonic() - self.began
        if done is None or done <= 0.02 or done >= 1 or spent < 2:
            return ""
        return f"  {spent / done - spent:.0f} s to go"


def _ratio(done: int, whole: int) -> float:
    return min(1.0, max(0.0, done / max(1, whole)))


def bar_text(done: float) -> str:
    """Return a bar of `BAR` characters; `done` is the filled share."""
    full = round(done * BAR)
    return "━" * full + "─" * (BAR - full)
