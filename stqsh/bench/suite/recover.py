"""Measure recovery: kill the engine, start it again, and time it until it has taken a step.

The session has objects that have all reported, and range queries. The engine gets SIGKILL between two
batches. The first time its arena stays, as after a crash of the engine; the second time the arena is removed,
as after a crash of the machine, so that the slots' snapshots and logs have to be read. A slot has two states
to open, Evaluate's and Aggregate's, and opens them in the first batch of the new engine.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import dataclass

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.drive import Say, moving_session, run
from stqsh.bench.harness.workload import Motion, ticks_to_fill
from stqsh.bench.options import option
from stqsh.bench.suite.register import SQUARE, squares
from stqsh.client.api import Session
from stqsh.engine.spark.spark_internals import commit_file
from stqsh.storage.engine_info import read_engine
from stqsh.storage.processes import exists
from stqsh.storage.rows import Progress

COLUMNS = {
    "what": "arena",
    "objects": "objects",
    "queries": "queries",
    "ready_s": "until ready s",
    "step_s": "until a step is taken s",
    "rebuilt": "states rebuilt",
}
KEY = ("what", "objects", "queries")
FIGURES: dict[str, Better] = {"ready_s": LESS, "step_s": LESS}

_PER_TICK = 100_000
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class RecoverOptions:
    """What there is to recover; see the help of each option."""

    objects: int = option(1_000_000, "Objects, all of which have reported.")
    queries: int = option(100_000, "Range queries.")


FULL = RecoverOptions()
QUICK = RecoverOptions(200_000, 10_000)


def measure(options: RecoverOptions, say: Say) -> list[Row]:
    """Return a row for each of the two crashes."""
    ticks = ticks_to_fill(options.objects, _PER_TICK)
    motion = Motion(options.objects, min(_PER_TICK, options.objects), ticks + 4)
    with moving_session(motion) as session:
        say(f"taking {options.objects:,} objects in, and {options.queries:,} queries")
        run(session, ticks)
        session.register_many(f"SELECT oid FROM m {SQUARE}", squares(options.queries))
        run(session, 1)
        return [_crash(session, options, keep_arena=keep, say=say) for keep in (True, False)]


def _crash(session: Session, options: RecoverOptions, *, keep_arena: bool, say: Say) -> Row:
    what = "left" if keep_arena else "lost"
    say(f"killing the engine, arena {what}")
    _kill(session)
    if not keep_arena:
        shutil.rmtree(session.home.arena.folder, ignore_errors=True)
    before, begun = session.progress().batch, time.perf_counter()
    session.start_engine()
    ready_s = time.perf_counter() - begun
    batches = [_batch_after(session, before), *run(session, 1)]
    return {
        "what": what,
        "objects": options.objects,
        "queries": options.queries,
        "ready_s": ready_s,
        "step_s": time.perf_counter() - begun,
        "rebuilt": sum(progress.stats.rebuilt for progress in batches),
    }


def _batch_after(session: Session, number: int) -> Progress:
    """Wait for a batch after the one with this number, and return its progress."""
    return next(progress for progress in session.connection.watch() if progress.batch > number)


def _kill(session: Session) -> None:
    """Kill the engine once its last batch is committed, so that it is not repeated; wait for its end."""
    engine = read_engine(session.home)
    if engine is None:
        raise RuntimeError("there is no engine to kill")
    commit = session.home.checkpoint / commit_file(session.progress().batch)
    deadline = time.monotonic() + _PATIENCE_S
    while not commit.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(engine.pid, signal.SIGKILL)
    while exists(engine.pid):
        time.sleep(0.01)
