"""The instants at which queries with SYNC are refreshed: a function of the clock (language.md section 7).

Refreshes are at multiples of the query's SYNC since the epoch; of several in one tick only the last counts.
In the closing step, the one after the end of all streams, the refresh is at the step's start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming


class Refresh(NamedTuple):
    """A refresh in a step, as of an instant in µs."""

    step: int
    instant: int


def refreshes_since(timing: BatchTiming, every_us: int, instants: Array, closing: int = 0) -> list[Refresh]:
    """Return the first refresh at or after each instant, within a batch's steps; distinct and in order.

    Args:
        timing: The steps.
        every_us: SYNC.
        instants: The instants of changes, µs, int64 (n,).
        closing: The closing step, 0 for none; its refresh is always included.
    """
    begin, end = timing.at(timing.first), timing.at(timing.last + 1)
    within = instants[(instants >= begin) & (instants < end)]
    multiples = np.unique(-(-within // every_us) * every_us)
    steps = np.unique(multiples // timing.tick - timing.base + 1)
    steps = steps[(steps <= timing.last) & (steps != closing)]
    last = (timing.at(steps + 1) - 1) // every_us * every_us
    found = [Refresh(*pair) for pair in zip(steps.tolist(), last.tolist(), strict=True)]
    if timing.first <= closing <= timing.last:
        found.append(Refresh(closing, timing.at(closing)))
    return found


def next_refresh(timing: BatchTiming, every_us: int, first: int, last: int, closing: int = 0) -> int:
    """Return the first of the steps `first` .. `last` in which there is a refresh; NEVER if there is none."""
    multiple = -(-timing.at(first) // every_us) * every_us
    step = int(multiple // timing.tick - timing.base + 1)
    if first <= closing <= min(step, last):
        return closing
    return step if step <= last else NEVER


def timing_at(timing: BatchTiming, refresh: Refresh) -> BatchTiming:
    """Return a timing of the one step of a refresh, whose time is its instant."""
    step, instant = refresh
    return timing._replace(first=step, last=step, base=instant - step + 1, tick=1)
