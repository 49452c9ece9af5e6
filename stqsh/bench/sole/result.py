"""The result of a figure: a table with the paper's figures, charts, and the bars to be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stqsh.bench.figures import Row


@dataclass(frozen=True)
class Line:
    """A curve; y is None where there is no point. `paper` marks figures or expectations of the paper."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    paper: bool = False


@dataclass(frozen=True)
class Chart:
    """A pair of axes with curves. `log` names the logarithmic axes: x, y or xy."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log: str = ""


@dataclass(frozen=True)
class Bar:
    """A bar to be reached: `found` is at least (or at most) `wanted`; None: it was never reached."""

    what: str
    wanted: float
    found: float | None
    least: bool = True

    @property
    def holds(self) -> bool:
        """Whether the bar is reached."""
        if self.found is None:
            return False
        return self.found >= self.wanted if self.least else self.found <= self.wanted


@dataclass(frozen=True)
class FigureResult:
    """A figure as measured.

    Attributes:
        number: the number in the paper, such as 12 or 25a.
        columns: headings by the keys of the rows, in order; the key `paper` holds the paper's figure.
        notes: what the reader has to know for a comparison.
    """

    number: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    charts: Sequence[Chart] = ()
    bars: Sequence[Bar] = ()
    notes: Sequence[str] = ()
