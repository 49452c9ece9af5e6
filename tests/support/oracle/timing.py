"""What a reader holds of a query after each step, given the answers of its SELECT, by brute force.

A tick is a second, step 1 is the tick of second 0, and everything is registered in step 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Answer = dict[str, Any]
"""The row of each member."""


@dataclass(frozen=True)
class Timing:
    """When a query looks at its members, and what holds its updates back; 0 for what is not asked for.

    dwell, sync, window, slide, lasts: seconds; `lasts` is FOR. paused, resumed: before which steps.
    """

    changes: bool = False
    dwell: int = 0
    sync: int = 0
    window: int = 0
    slide: int = 0
    lasts: int = 0
    paused: int = 0
    resumed: int = 0

    @property
    def every(self) -> int:
        """The seconds between two refreshes; 0 for each step."""
        return self.sync or self.slide or self.window

    def options(self, *, rows: bool) -> str:
        """What comes before AS; `rows`: whether the answer has a row for each member."""
        told = [f"dwell => {self.dwell} s"] * bool(self.dwell) + ["changes => true"] * (self.changes and rows)
        return f" FOR {self.lasts} s" * bool(self.lasts) + f" WITH ({', '.join(told)})" * bool(told)

    @property
    def clauses(self) -> str:
        """What comes at the end of a continuous SELECT."""
        slide = f" SLIDE {self.slide} s" * bool(self.slide)
        return f"{self.span}{slide}{f' SYNC {self.sync} s' * bool(self.sync)}"

    @property
    def span(self) -> str:
        """What comes at the end of a SELECT that is asked once."""
        return f" WINDOW {self.window} s" * bool(self.window)

    def look(self, step: int) -> int | None:
        """After which step a query looks at its answer in a step; None if it does not look."""
        if self.has_ended(step) or self.paused <= step < self.resumed:
            return None
        if not self.every:
            return step
        return None if (step - 1) % self.every else step - 1

    def has_ended(self, step: int) -> bool:
        """Whether the time of its FOR is over."""
        return bool(self.lasts) and step - 1 >= self.lasts


@dataclass
class Reader:
    """What is held of a query's answer.

    waits_as_row: whether the rows of its answer wait, and not the objects in its region. A row that waits is
    as it was when it was last in the answer.
    """

    timing: Timing
    waits_as_row: bool
    held: Answer = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)

    def step(self, step: int, answers: Sequence[Answer], current: Callable[[str, int], Any]) -> Answer:
        """Take a step.

        Args:
            step: Its number.
            answers: The answers of its SELECT, as it is in this step, after each step from 0 on.
            current: Returns an object's row after a step, wherever it is; None if it has gone away.
        """
        timing = self.timing
        if timing.has_ended(step):
            self.held = {}
        if timing.paused <= step < timing.resumed:
            self.waiting.clear()
        at = timing.look(step)
        if at is None:
            return self.held
        answer = answers[at]
        for key in answer.keys() | self.held.keys() | self.waiting.keys():
            if (key in answer) == (key in self.held):
                self.waiting.pop(key, None)
                continue
            waits = step - self.waiting.setdefault(key, step) < timing.dwell
            if waits and (key in answer or current(key, at) is not None):
                continue
            del self.waiting[key]
            if key in answer:
                self.held[key] = answer[key]
            else:
                del self.held[key]
        for key in self.held:
            if key in answer:
                self.held[key] = answer[key]
            elif not self.waits_as_row:
                self.held[key] = current(key, at)
        return self.held
