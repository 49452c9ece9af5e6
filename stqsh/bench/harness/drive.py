"""Driving a session for a measurement: statements, runs, and what each batch cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.client.api import Session
from stqsh.client.run import RunHandle
from stqsh.storage.rows import Progress

Say = Callable[[str], None]
"""Called with progress messages."""

REPETITIONS = 3
"""Portions that the measured steps are cut into, each a sample of the rate."""

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
    """RUN some steps and wait; yield the progress after each batch."""
    batches: dict[int, Progress] = {}
    before = session.progress().batch

    def note(progress: Progress) -> None:
        if progress.batch > before:
            batches[progress.batch] = progress

    for outcome in session.execute(f"RUN {steps} STEPS;"):
        if isinstance(outcome, RunHandle):
            note(outcome.wait(note))
    return [batches[number] for number in sorted(batches)]


def paced(session: Session, steps: int, per_step: int) -> tuple[list[Progress], list[float]]:
    """RUN some steps in `REPETITIONS` portions; return all batches, and each portion's records a second."""
    batches, rates = list[Progress](), list[float]()
    for portion in portions(steps):
        begun = time.perf_counter()
        batches += run(session, portion)
        rates.append(portion * per_step / (time.perf_counter() - begun))
    return batches, rates


def measured(session: Session, ticks: int, per_tick: int, what: str = "record") -> dict[str, Any]:
    """Run some ticks of a number of records each, called `what`, and return what they cost."""
    meter = ProcessorMeter(session)
    batches, rates = paced(session, ticks, per_tick)
    count = ticks * per_tick
    updates = sum(progress.stats.updates for progress in batches)
    return {
        f"{what}s_per_s": rates,
        f"{what}s": count,
        f"updates_per_{what}": updates / count,
        "batches": len(batches),
        **split(batches),
        **meter.per_million(count),
    }


def portions(steps: int) -> list[int]:
    """Cut a number of steps into `REPETITIONS` portions; none is empty."""
    ends = [steps * number // REPETITIONS for number in range(REPETITIONS + 1)]
    return [end - begin for begin, end in pairwise(ends) if end > begin]


def execute(session: Session, text: str) -> None:
    """Execute statements whose answers do not matter; an error is raised all the same."""
    for _ in session.execute(text):
        pass


def split(batches: Sequence[Progress]) -> dict[str, list[float] | None]:
    """Return each part of the batches' times in ms, one sample a batch; None where it was not measured."""
    found: dict[str, list[float] | None] = {}
    for key in SPLIT:
        part = key.replace("_ms", "_us")
        times = [getattr(time, part) / 1000 for time in (progress.stats.time for progress in batches) if time]
        found[key] = times or None
    return found
