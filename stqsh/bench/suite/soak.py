"""Measure what grows in minutes at full load: memory, shared memory, disk and open files.

An endless generator plays as fast as possible against range queries, and everything that the session holds is
measured at intervals; memory is the proportional share (PSS) of the engine's processes. The first third is
warm-up; `growth` is the mean of the last third over that of the second. All of it should stay flat: the
update log is compacted beyond `updates.keep`, and the replay store drops what nobody will read again.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import stqsh
from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.cpu import processes_of
from stqsh.bench.harness.drive import Say, execute
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import rectangles
from stqsh.bench.options import option
from stqsh.client.api import Session
from stqsh.storage.engine_info import read_engine

COLUMNS = {
    "what": "what",
    "early": "second third",
    "late": "last third",
    "most": "most",
    "growth": "growth",
}
KEY = ("what",)
FIGURES: dict[str, Better] = {"growth": LESS}

CREATE = (
    "CREATE MOVING STREAM m FROM GENERATOR 'network' (objects => {objects}, report_every => {report} s) "
    "TICK 1 s REPORT EVERY 1 min;"
)
TOWN = (10.0, 50.0, 10.14, 50.09)
"""The area in which the generator's objects move: x1, y1, x2, y2."""
_MB = 1 << 20


@dataclass(frozen=True)
class SoakOptions:
    """What to play; see the help of each option."""

    minutes: float = option(30.0, "How long.")
    objects: int = option(200_000, "Moving objects.")
    report: int = option(4, "Seconds between two reports of an object.")
    queries: int = option(10_000, "Range queries.")
    every: float = option(5.0, "Seconds between two looks.")

    def __post_init__(self) -> None:
        if self.minutes * 60 < 6 * self.every:
            raise ValueError("a soak takes six looks at least")


FULL = SoakOptions()
QUICK = SoakOptions(minutes=0.5, objects=50_000, queries=1_000, every=3.0)


@dataclass(frozen=True, slots=True)
class SoakSample:
    """What a session holds: sizes in MB, open files, and the load of the last batch."""

    java: float
    python: float
    shared: float
    checkpoint: float
    updates: float
    streams: float
    files: int
    records_per_s: float
    batch_s: float


def measure(options: SoakOptions, say: Say) -> list[Row]:
    """Return a row for each size that was measured."""
    with stqsh.connect(temporary=True, autoplay=False) as session:
        execute(session, CREATE.format(objects=options.objects, report=options.report))
        x1, y1, x2, y2 = TOWN
        squares = rectangles(options.queries) * [x2 - x1, y2 - y1, x2 - x1, y2 - y1] + [x1, y1, x1, y1]
        execute(session, statements(squares))
        execute(session, "PLAY m AT MAX;")
        looks = list(_looks(session, options, say))
    return rows(looks)


def rows(looks: list[SoakSample]) -> list[Row]:
    """Compare the second third of the samples with the last."""
    third = len(looks) // 3
    found: list[Row] = []
    for name in asdict(looks[0]):
        values = [float(getattr(look, name)) for look in looks]
        early, late = statistics.mean(values[third : 2 * third]), statistics.mean(values[2 * third :])
        growth = late / early if early else None
        found.append({"what": name, "early": early, "late": late, "most": max(values), "growth": growth})
    return found


def _looks(session: Session, options: SoakOptions, say: Say) -> Iterable[SoakSample]:
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        time.sleep(options.every)
        look = look_at(session)
        say(", ".join(f"{name} {value:,.1f}" for name, value in asdict(look).items()))
        yield look


def look_at(session: Session) -> SoakSample:
    """Measure what a session's engine and home hold now."""
    engine = read_engine(session.home)
    tree = processes_of(engine.pid) if engine else {}
    stats = session.progress().stats
    return SoakSample(
        java=sum(_pss_mb(pid) for pid, is_java in tree.items() if is_java),
        python=sum(_pss_mb(pid) for pid, is_java in tree.items() if not is_java),
        shared=_size_mb(session.home.arena()),
        checkpoint=_size_mb(session.home.checkpoint),
        updates=_size_mb(session.home.updates),
        streams=_size_mb(session.home.path / "streams"),
        files=sum(_open_files(pid) for pid in tree),
        records_per_s=float(stats.records_per_s or 0),
        batch_s=stats.time.total_us / 1e6 if stats.time else 0.0,
    )


def _pss_mb(pid: int) -> float:
    """Return the PSS of a process; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _open_files(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def _size_mb(folder: Path) -> float:
    """Return the size of all files below a folder; files that vanish do not count."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(where, name).lstat().st_size
            except OSError:
                continue
    return total / _MB
