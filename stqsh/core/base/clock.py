"""The clock of a batch: its steps and their times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stqsh.arrays import Array

NEVER = 1 << 62
"""A step that never comes."""


class Floors(NamedTuple):
    """The times before which events are gone because their stream keeps a limited number of bytes.

    Attributes:
        step: The steps from which each floor holds, int64 (k,), ascending.
        least: From then on events older than this are gone, µs, int64 (k,), ascending.
    """

    step: Array
    least: Array

    def at(self, steps: Array) -> Array:
        """Return the floor at each step, µs, int64 (n,); -NEVER for none."""
        found: Array = np.append(-NEVER, self.least)[np.searchsorted(self.step, steps, side="right")]
        return found


NO_FLOORS = Floors(np.empty(0, np.int64), np.empty(0, np.int64))
"""The floors of a stream that keeps events regardless of their bytes."""


class BatchTiming(NamedTuple):
    """The steps of a batch and the times of a stream; all int64.

    Attributes:
        first, last: The batch's steps; last is first - 1 if there are none.
        base: The tick of step 1.
        tick: µs.
        report: The stream's REPORT EVERY (for an event stream, its KEEP) in µs; -1 for none.
        silent: Why an object with an older record is in no answer; a position in `stqsh.spec.chunk.WHY`.
        floors: The floors of a stream that keeps a limited number of bytes, from the step before `first` on.
    """

    first: int
    last: int
    base: int
    tick: int
    report: int
    silent: int = 3
    floors: Floors = NO_FLOORS

    def at(self, step: Any) -> Any:
        """Return the time of a step in µs, `(base + step - 1) * tick`; `step` may be an array."""
        return (self.base + step - 1) * self.tick

    @property
    def unending(self) -> BatchTiming:
        """The same timing without an age or a floor at which records expire."""
        return self._replace(report=-1, floors=NO_FLOORS)

    @property
    def expires(self) -> bool:
        """Whether records may expire."""
        return self.report >= 0 or len(self.floors.step) > 0

    def least(self, step: int) -> int:
        """Return the time before which records have expired at a step, µs; -NEVER for none."""
        by_size = int(self.floors.at(np.array([step]))[0])
        return by_size if self.report < 0 else max(by_size, self.at(step) - self.report)

    def seen_at(self, seen: int) -> BatchTiming:
        """Return the same timing with the floor of the step `seen` at all steps."""
        floor = self.floors.at(np.array([seen]))
        is_known = bool(floor[0] > -NEVER)
        return self._replace(floors=Floors(np.array([-NEVER]), floor) if is_known else NO_FLOORS)

    def step_reaching(self, t_us: Any) -> Any:
        """Return the first step n with at(n) >= t_us; `t_us` may be an array."""
        return -(-t_us // self.tick) - self.base + 1
