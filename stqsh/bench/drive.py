"""Driving a session for a measurement: statements, runs, and what each batch cost."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from stqsh.session.client import Session
from stqsh.session.records import Progress
from stqsh.session.running import Running

Say = Callable[[str], None]
"""Told what goes on."""

SPLIT = {
    "total_ms": "batch ms",
    "source_ms": "source",
    "transfer_ms": "transfer",
    "kernel_ms": "kernel",
    "state_ms": "state",
    "deliver_ms": "deliver",
}
"""Where a batch's time goes: the keys of the engine's statistics, and their headings."""


def run(session: Session, steps: int) -> list[Progress]:
    """RUN so many steps and wait; give the progress after each batch."""
    batches: dict[int, Progress] = {}
    before = session.progress().batch

    def note(progress: Progress) -> None:
        if progress.batch > before:
            batches[progress.batch] = progress

    for outcome in session.execute(f"RUN {steps} STEPS;"):
        if isinstance(outcome, Running):
            note(outcome.wait(note))
    return [batches[number] for number in sorted(batches)]


def execute(session: Session, text: str) -> None:
    """Execute statements whose answers do not matter; an error is raised all the same."""
    for _ in session.execute(text):
        pass


def medians(batches: Sequence[Progress]) -> dict[str, float | None]:
    """Give the median over batches of each part of a batch's time, in ms; None where it was not measured."""
    found: dict[str, float | None] = {}
    for key in SPLIT:
        part = key.replace("_ms", "_us")
        times = [progress.stats["time"][part] / 1000 for progress in batches if "time" in progress.stats]
        found[key] = statistics.median(times) if times else None
    return found
