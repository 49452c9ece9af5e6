"""CheetahGIS, Fig. 8a to c: how long snapshots take if more and more of them come a second.

Slots answer one question after the other, as if each had a processor of its own. What a question takes each
of the slots that it asks is measured, and how long it waits there is modelled. A snapshot is answered when
the last of its slots has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.cheetah.questions import (
    BY_CELL,
    BY_KEY,
    counts,
    lookups,
    neighbours,
    objects_of,
    routed,
)
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.asked import Asked, check_equal
from stqsh.bench.papers.routing.maps import uniform
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import Records
from stqsh.spec.query import SnapshotSpec

_OBJECTS, _ASKED, _TURNS, _SECONDS = 111_488, 100, 3, 60
"""The objects of the paper's Shopping, and the sizes of a full run."""
_AREA, _K = 0.0016, 8


@dataclass(frozen=True)
class _Kind:
    """A kind of snapshots.

    Attributes:
        what: its name.
        rates: how many of them come a second, as in the paper.
        paper: what the paper reports of the greatest rate.
        wanted_ms: what a snapshot may take then, in the mean.
        specs: returns as many snapshots as there are places, float64 (n, 2), of objects.
    """

    what: str
    rates: tuple[int, ...]
    paper: str
    wanted_ms: float
    specs: Callable[[Records, Floats], list[SnapshotSpec]]


_KINDS = (
    _Kind(
        "an object",
        (1_000, 2_000, 4_000),
        "50 ms",
        50.0,
        lambda objects, places: lookups(objects, len(places)),
    ),
    _Kind("a count", (8_000, 16_000, 24_000), "best", 500.0, lambda _, places: counts(places, _AREA)),
    _Kind("neighbours", (400, 6_400, 25_600), "292 ms", 292.0, lambda _, places: neighbours(places, _K)),
)

COLUMNS = {
    "asking": "asking for",
    "rate": "a second",
    "most": "all slots: at most a second",
    "most_near": "near slots: at most",
    "broadcast_ms": "all slots, ms",
    "near_ms": "near slots, ms",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure what snapshots take the slots, and model how long they wait."""
    slots, rng = scale.biased_slots, np.random.default_rng(41)
    drawn = objects_of(uniform, scale.count(_OBJECTS), 42)
    on = {strategy: routed(drawn, slots, strategy) for strategy in (BY_KEY, BY_CELL)}
    centres = uniform(rng, scale.count(_ASKED, 8))
    seconds = max(1.0, _SECONDS * scale.share)
    rows: list[Row] = []
    goals = []
    for kind in _KINDS:
        say(f"cheetah8: {kind.what}")
        specs = kind.specs(drawn, centres)
        found = {name: [some.ask(spec, _TURNS) for spec in specs] for name, some in on.items()}
        for one, other in zip(*found.values(), strict=True):
            check_equal([one.answer, other.answer], kind.what)
        spent = {name: _spent(asked, slots) for name, asked in found.items()}
        most = {name: float(1e3 / each.mean(axis=0).max()) for name, each in spent.items()}
        for rate in kind.rates:
            took = {name: _latency(each, found[name], rate, seconds) for name, each in spent.items()}
            rows.append(
                {
                    "asking": kind.what,
                    "rate": rate,
                    "most": most[BY_KEY],
                    "most_near": most[BY_CELL],
                    "broadcast_ms": took[BY_KEY],
                    "near_ms": took[BY_CELL],
                    "paper": kind.paper if rate == kind.rates[-1] else "",
                }
            )
        what = f"{kind.what}, {kind.rates[-1]:,} a second, near slots, ms"
        goals.append(Goal(what, kind.paper, kind.wanted_ms, float(str(rows[-1]["near_ms"])), least=False))
    notes = [
        f"{len(drawn):,} objects anywhere on {slots} slots; squares of {_AREA:.2%} of the area, the {_K} "
        f"nearest. {len(centres)} snapshots of a kind are measured, the least of {_TURNS} turns each; they "
        f"come evenly for {seconds:.0f} s, in random order. Finding slots and merging is added: each client "
        "does that for itself. Slots take in no records meanwhile. An object is sought on all slots."
    ]
    return [FigureResult("cheetah8", "how long snapshots take, by their number", COLUMNS, rows, goals, notes)]


def _spent(asked: Sequence[Asked], slots: int) -> Floats:
    """Return what each snapshot takes each slot, ms, float64 (snapshots, slots); 0 if it does not ask it."""
    spent = np.zeros((len(asked), slots))
    for at, one in enumerate(asked):
        for phase in one.phases:
            spent[at, phase.slots] += phase.spent / 1e6
    return spent


def _latency(spent: Floats, asked: Sequence[Asked], rate: float, seconds: float) -> float:
    """Return how long snapshots take in the mean, ms, if they come evenly."""
    coming = np.arange(max(1, round(rate * seconds)), dtype=np.float64) * (1000 / rate)
    which = np.random.default_rng(43).integers(0, len(spent), len(coming))
    own = np.array([one.finding + one.merging for one in asked])[which] / 1e6
    return float((answered(coming, which, spent) - coming + own).mean())


def answered(coming: Floats, which: NDArray[np.int64], spent: Floats) -> Floats:
    """Return when the last slot that a snapshot asks has answered, float64 (n,).

    Slots answer in the order of asking. If a slot began with some question as it came, and took all since
    without a pause, it would end this one then; the latest of these times is the right one (Lindley).

    Args:
        coming: when snapshots come, ascending, float64 (n,).
        which: the row of each of them in `spent`, int64 (n,).
        spent: what a snapshot takes each slot, float64 (m, slots); 0 if it does not ask it.
    """
    ended = coming.copy()
    for takes in spent.T:
        mine = np.flatnonzero(takes[which])
        if len(mine):
            busy = takes[which[mine]].cumsum()
            waiting = np.maximum.accumulate(coming[mine] - (busy - takes[which[mine]]))
            ended[mine] = np.maximum(ended[mine], waiting + busy)
    return ended
