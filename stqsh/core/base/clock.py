"""The clock of a batch: its steps and their times."""

from __future__ import annotations

from typing import Any, NamedTuple

NEVER = 1 << 62
"""A step that never comes."""


class BatchTiming(NamedTuple):
    """The steps of a batch and the times of a stream; all int64.

    Attributes:
        first, last: The batch's steps; last is first - 1 if there are none.
        base: The tick of step 1.
        tick: µs.
        report: The stream's REPORT EVERY (for an event stream, its KEEP) in µs; -1 for none.
        silent: Why an object with an older record is in no answer; a position in `stqsh.spec.chunk.WHY`.
    """

    first: int
    last: int
    base: int
    tick: int
    report: int
    silent: int = 3

    def at(self, step: Any) -> Any:
        """Return the time of a step in µs, `(base + step - 1) * tick`; `step` may be an array."""
        return (self.base + step - 1) * self.tick

    @property
    def unending(self) -> BatchTiming:
        """The same timing without an age at which records expire."""
        return self._replace(report=-1)

    def step_reaching(self, t_us: Any) -> Any:
        """Return the first step n with at(n) >= t_us; `t_us` may be an array."""
        return -(-t_us // self.tick) - self.base + 1
