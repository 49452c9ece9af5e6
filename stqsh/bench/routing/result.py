"""The result of a figure: a table, and goals beside what the papers report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stqsh.bench.figures import Row


@dataclass(frozen=True)
class Goal:
    """A goal: `found` is at least (or at most) `wanted`.

    Attributes:
        paper: what the paper reports, "-" for nothing.
    """

    what: str
    paper: str
    wanted: float
    found: float
    least: bool = True

    @property
    def is_reached(self) -> bool:
        """Whether the goal is reached."""
        return self.found >= self.wanted if self.least else self.found <= self.wanted


@dataclass(frozen=True)
class FigureResult:
    """A figure as measured.

    Attributes:
        name: its name, as --figure takes it.
        columns: headings by the keys of the rows, in order.
        notes: what the reader has to know.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    goals: Sequence[Goal]
    notes: Sequence[str] = ()
