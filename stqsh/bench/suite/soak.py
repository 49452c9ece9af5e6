"""Measure what grows in an hour at a steady load: memory, shared memory, disk and open files.

Moving objects come, report and leave at the pace of the clock; so do events, which the stream keeps for a
minute and archives. Queries are registered and dropped, a sink writes files, and clients come, look and go,
as in `stqsh.bench.harness.busy_session`. What the session holds is measured at intervals. A straight line is
laid through what was seen after the warm-up: `growth` is by how much it rises until the end, as a share of
where it begins, and `unsure` is the standard error of that: some sizes go up and down by half, such as a log
that is folded whenever it has doubled. All of it should stay flat. The archive and the files of the sink lie
elsewhere and are not measured, as their purpose is to grow.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.busy_session import BusyLoad, BusySession, busy_session
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.held import HeldNow, held_now
from stqsh.bench.options import option

COLUMNS = {
    "what": "what",
    "early": "after the warm-up",
    "late": "at the end",
    "noise": "noise",
    "most": "most",
    "growth": "growth",
    "unsure": "unsure",
}
KEY = ("what",)
FIGURES: dict[str, Better] = {"growth": LESS}


@dataclass(frozen=True)
class SoakOptions:
    """What to play; see the help of each option."""

    minutes: float = option(60.0, "How long.")
    warm_up: float = option(15.0, "Minutes of it that do not count.")
    objects: int = option(110_000, "Moving objects.")
    coming: int = option(250, "Objects that come each second; as many leave.")
    report: int = option(3, "Seconds between two reports of an object.")
    events: int = option(2_000, "Events a second.")
    queries: int = option(10_000, "Range queries that stay.")
    passing: int = option(100, "Range queries that come with each look, and go three looks later.")
    every: float = option(10.0, "Seconds between two looks.")

    def __post_init__(self) -> None:
        if (self.minutes - self.warm_up) * 60 < 6 * self.every:
            raise ValueError("a soak takes six looks after the warm-up at least")

    @property
    def load(self) -> BusyLoad:
        """What comes and goes; the events last a few minutes longer."""
        seconds = int(60 * (self.minutes + 5))
        return BusyLoad(
            self.objects, self.coming, self.report, self.events, self.queries, self.passing, seconds
        )


FULL = SoakOptions()
QUICK = SoakOptions(0.7, 0.2, 20_000, 50, 3, 200, 1_000, 20, 3.0)


_LOOKS = 3
"""The least number of looks after the warm-up, however long the first one has taken."""


@dataclass(frozen=True, slots=True)
class SoakSample:
    """What a session holds `at_s` seconds after the beginning, and what its engine does then."""

    at_s: float
    held: HeldNow
    records_per_s: float
    batch_s: float
    lag_s: float

    def values(self) -> dict[str, float]:
        """Return all that was measured, by name."""
        others = {"records_per_s": self.records_per_s, "batch_s": self.batch_s, "lag_s": self.lag_s}
        return {**asdict(self.held), **others}


def measure(options: SoakOptions, say: Say) -> list[Row]:
    """Return a row for each size that was measured."""
    with busy_session(options.load) as busy:
        return rows(list(_looks(busy, options, say)), 60 * options.warm_up)


def rows(looks: list[SoakSample], warm_up_s: float) -> list[Row]:
    """Lay a straight line through each size from `warm_up_s` on, and say how much it rises."""
    counted = [look for look in looks if look.at_s >= warm_up_s]
    at = np.array([look.at_s for look in counted])
    found: list[Row] = []
    for name in looks[0].values():
        values = np.array([look.values()[name] for look in counted], np.float64)
        slope, level = np.polyfit(at, values, 1)
        early, late = (float(slope * when + level) for when in (at[0], at[-1]))
        noise = statistics.pstdev(values - (slope * at + level))
        found.append(
            {
                "what": name,
                "early": early,
                "late": late,
                "noise": noise,
                "most": max(look.values()[name] for look in looks),
                "growth": late / early - 1 if early else None,
                "unsure": noise * math.sqrt(12 / len(at)) / early if early else None,
            }
        )
    return found


def _looks(busy: BusySession, options: SoakOptions, say: Say) -> Iterator[SoakSample]:
    begun, counted = time.monotonic(), 0
    while (at := time.monotonic() - begun) < 60 * options.minutes or counted < _LOOKS:
        busy.round()
        look = _look(busy, at)
        say(f"{at:,.0f} s: " + ", ".join(f"{name} {value:,.2f}" for name, value in look.values().items()))
        yield look
        counted += at >= 60 * options.warm_up
        time.sleep(max(0.0, begun + at + options.every - time.monotonic()))


def _look(busy: BusySession, at_s: float) -> SoakSample:
    progress = busy.session.progress()
    stats = progress.stats
    batch_s = stats.time.total_us / 1e6 if stats.time else 0.0
    lag_s = (progress.wall_us - stats.due_us) / 1e6 if stats.due_us else 0.0
    return SoakSample(at_s, held_now(busy.session), float(stats.records_per_s or 0), batch_s, lag_s)
