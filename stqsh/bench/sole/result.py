"""What a figure comes to: a table with the paper's words beside, curves, and the bars that it is held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A curve: its points, None where there is none; `paper` marks what the paper says or expects."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    paper: bool = False


@dataclass(frozen=True)
class Chart:
    """One pair of axes with curves; `log` names the axes that are logarithmic: x, y or xy."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log: str = ""


@dataclass(frozen=True)
class Bar:
    """What must be reached: `found` at least `wanted`, or at most; found is None where it was not met."""

    what: str
    wanted: float
    found: float | None
    least: bool = True

    @property
    def holds(self) -> bool:
        """Whether it is reached."""
        if self.found is None:
            return False
        return self.found >= self.wanted if self.least else self.found <= self.wanted


@dataclass(frozen=True)
class FigureResult:
    """A figure as measured.

    number: as in the paper, such as 12 or 25a. columns: headings by the keys of rows, in order; the key
    `paper` holds what the paper says, where its text does. notes: what has to be known to compare.
    """

    number: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    charts: Sequence[Chart] = ()
    bars: Sequence[Bar] = ()
    notes: Sequence[str] = ()
