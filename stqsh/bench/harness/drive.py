"""Drive a session for a measurement: statements, runs, and the cost of each batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import stqsh
from stqsh.bench.figures import Row
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.workload import Motion
from stqsh.client.api import Session
from stqsh.client.read.subscription import OnIdle, Subscription
from stqsh.client.results import Updates
from stqsh.client.run import RunHandle
from stqsh.storage.rows import Progress

Say = Callable[[str], None]
"""A function that takes progress messages."""

_CREATE = (
    "CREATE MOVING STREAM m (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid LOCATION (x, y) "
    "TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1) TICK 1 s;"
)
"""The stream of a file that `Motion.write` wrote."""

REPETITIONS = 3
"""The number of portions of the measured steps; each portion is a sample of the rate."""

SPLIT = {
    "total_ms": "batch ms",
    "source_ms": "source",
    "transfer_ms": "transfer",
    "kernel_ms": "kernel",
    "state_ms": "state",
    "deliver_ms": "deliver",
}
"""The parts of a batch's time: the keys of the rows, and their headings."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for the files of a benchmark, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="stqsh-bench-") as name:
        yield Path(name)


def create_stream(file: Path) -> str:
    """Return the statement that creates a stream `m` of the reports in a file."""
    return _CREATE.format(file=file)


@contextmanager
def stream_session(file: Path) -> Iterator[Session]:
    """Open a temporary session with a stream `m` of the reports in a file."""
    with stqsh.connect(temporary=True, autoplay=False) as session:
        execute(session, create_stream(file))
        yield session


@contextmanager
def moving_session(motion: Motion) -> Iterator[Session]:
    """Open a temporary session with a stream `m` of the reports of moving objects."""
    with temporary_folder() as folder:
        motion.write(folder / "reports.parquet")
        with stream_session(folder / "reports.parquet") as session:
            yield session


def tailed(session: Session, query: str, look: OnIdle) -> Iterator[Updates]:
    """Yield the updates of a query by TAIL; `look` is called at each poll, and may end it by an error."""
    for following in session.outcomes(f"TAIL {query};"):
        assert isinstance(following, Subscription)
        following.on_idle = look
        yield from (some for some in following if isinstance(some, Updates))


def run(session: Session, steps: int) -> list[Progress]:
    """RUN some steps, wait for their end, and return the progress after each batch."""
    batches: dict[int, Progress] = {}
    before = session.progress().batch

    def note(progress: Progress) -> None:
        if progress.batch > before:
            batches[progress.batch] = progress

    for outcome in session.outcomes(f"RUN {steps} STEPS;"):
        if isinstance(outcome, RunHandle):
            note(outcome.wait(note))
    return [batches[number] for number in sorted(batches)]


def paced(session: Session, steps: int, per_step: int) -> tuple[list[Progress], list[float]]:
    """RUN some steps in `REPETITIONS` portions.

    Returns:
        The progress after each batch, and the records a second of each portion.
    """
    batches, rates = list[Progress](), list[float]()
    for portion in portions(steps):
        begun = time.perf_counter()
        batches += run(session, portion)
        rates.append(portion * per_step / (time.perf_counter() - begun))
    return batches, rates


def measured(session: Session, ticks: int, per_tick: int, what: str = "record") -> Row:
    """Run some ticks of a number of records each, which the keys call `what`; return what they cost."""
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
    """Cut a number of steps into `REPETITIONS` portions, none of them empty."""
    ends = [steps * number // REPETITIONS for number in range(REPETITIONS + 1)]
    return [end - begin for begin, end in pairwise(ends) if end > begin]


def execute(session: Session, text: str) -> None:
    """Execute statements and ignore their answers. Errors are raised."""
    for _ in session.outcomes(text):
        pass


def split(batches: Sequence[Progress]) -> Row:
    """Return each part of the batches' times in ms, one sample a batch; None where it was not measured."""
    times = [time for progress in batches if (time := progress.stats.time)]
    return {
        key: [getattr(time, key.replace("_ms", "_us")) / 1000 for time in times] if times else None
        for key in SPLIT
    }
