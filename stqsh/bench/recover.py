"""Recovery: an engine is killed, and started again; how long until it is ready, and has taken a step.

One session: objects that have all reported, and range queries. The engine gets SIGKILL between two batches.
Once its arena is left to it, as after a crash of the engine; once the arena is taken away as well, as after a
crash of the machine, so that the slots' snapshots and logs have to be read.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stqsh
from stqsh.bench.drive import Say, execute, run
from stqsh.bench.figures import LESS, Better
from stqsh.bench.register import registrations
from stqsh.bench.workload import CREATE, Motion
from stqsh.session.client import Session
from stqsh.session.process import read_engine
from stqsh.session.procfs import exists

COLUMNS = {
    "what": "arena",
    "objects": "objects",
    "queries": "queries",
    "ready_s": "until ready s",
    "step_s": "until a step is taken s",
    "rebuilt": "slots rebuilt",
}
KEY = ("what", "objects", "queries")
FIGURES: dict[str, Better] = {"ready_s": LESS, "step_s": LESS}

_PER_TICK = 100_000


@dataclass(frozen=True)
class Options:
    """What there is to recover."""

    objects: int = field(default=1_000_000, metadata={"help": "Objects, all of which have reported."})
    queries: int = field(default=100_000, metadata={"help": "Range queries."})


QUICK = Options(200_000, 10_000)


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark; `say` is told what goes on. A row for each of the two crashes."""
    ticks = -(-options.objects // _PER_TICK)
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        reports = Path(folder) / "reports.parquet"
        Motion(options.objects, min(_PER_TICK, options.objects), ticks + 4).write(reports)
        execute(session, CREATE.format(file=reports))
        say(f"taking {options.objects:,} objects in, and {options.queries:,} queries")
        run(session, ticks)
        execute(session, "\n".join(registrations(options.queries)))
        run(session, 1)
        return [_crash(session, options, keep_arena=keep, say=say) for keep in (True, False)]


def _crash(session: Session, options: Options, *, keep_arena: bool, say: Say) -> dict[str, Any]:
    what = "left" if keep_arena else "lost"
    say(f"killing the engine, arena {what}")
    _kill(session)
    if not keep_arena:
        shutil.rmtree(session.home.arena(), ignore_errors=True)
    begun = time.perf_counter()
    session.start_engine()
    ready_s = time.perf_counter() - begun
    batches = run(session, 1)
    return {
        "what": what,
        "objects": options.objects,
        "queries": options.queries,
        "ready_s": ready_s,
        "step_s": time.perf_counter() - begun,
        "rebuilt": sum(int(progress.stats.get("rebuilt", 0)) for progress in batches),
    }


def _kill(session: Session) -> None:
    """Kill the engine and wait until it is gone."""
    engine = read_engine(session.home)
    if engine is None:
        raise RuntimeError("there is no engine to kill")
    os.kill(engine.pid, signal.SIGKILL)
    while exists(engine.pid):
        time.sleep(0.01)
