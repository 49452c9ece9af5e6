"""Sum up repeated figures and decide how much of a difference is noise.

The noise of a median is that of McGill, Tukey and Larsen's notched box plots (The American Statistician 32,
1978): 1.57 IQR / sqrt(n), about a 95 % interval for the difference of two medians. Samples of one session
agree better with each other than with those of the next one, so a ratio within `BETWEEN_RUNS` of 1 never
counts as a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

Better = Literal["more", "less"]
MORE: Better = "more"
LESS: Better = "less"
"""Which way a figure is better."""

BETWEEN_RUNS = 0.05
"""How much two sessions of the same code differ on an otherwise idle machine (measured: 0.04)."""

_NOTCH = 1.57


@dataclass(frozen=True, slots=True)
class Figure:
    """The median, the quartiles, the minimum and the maximum of n samples."""

    median: float
    q1: float
    q3: float
    min: float
    max: float
    n: int

    @property
    def noise(self) -> float | None:
        """Half the width of the median's notch; None for a single sample."""
        return _NOTCH * (self.q3 - self.q1) / self.n**0.5 if self.n > 1 else None


Value: TypeAlias = str | int | float | Figure | Sequence[float] | None
"""A value of a row; a list of floats holds the samples of a figure that is not summed up yet."""

Row: TypeAlias = Mapping[str, Value]
"""A row of a benchmark: its values by the keys of the benchmark's COLUMNS."""


def numbers_of(rows: Iterable[Row], key: str) -> list[float]:
    """Return the numbers of a column, without rows that have none.

    >>> numbers_of([{"gain": 2}, {"gain": None}, {}], "gain")
    [2.0]
    """
    return [float(str(row[key])) for row in rows if row.get(key) is not None]


def figure(samples: Sequence[float]) -> Figure:
    """Sum up one or more samples."""
    low, q1, median, q3, high = np.percentile(samples, [0, 25, 50, 75, 100]).tolist()
    return Figure(median, q1, q3, low, high, len(samples))


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure now over the same figure then, and its bounds under noise (None: unknown)."""

    value: float
    low: float | None
    high: float | None

    @property
    def differs(self) -> bool | None:
        """Whether the ratio is more than noise; None where the noise is unknown."""
        if self.low is None or self.high is None:
            return None
        return self.low > 1 + BETWEEN_RUNS or self.high < 1 - BETWEEN_RUNS

    def worsening(self, better: Better) -> float:
        """Return the factor by which the figure got worse; under 1 where it got better."""
        if better == LESS:
            return self.value
        return 1 / self.value if self.value else float("inf")


def ratio(now: Figure, then: Figure) -> Ratio | None:
    """Compare two figures; None where the earlier one was 0."""
    if then.median == 0:
        return None
    value = now.median / then.median
    if now.noise is None or then.noise is None:
        return Ratio(value, None, None)
    low = max(now.median - now.noise, 0.0) / (then.median + then.noise)
    least = then.median - then.noise
    return Ratio(value, low, (now.median + now.noise) / least if least > 0 else float("inf"))


def pool(measured: Sequence[Sequence[Row]], key: Sequence[str], figures: Mapping[str, Better]) -> list[Row]:
    """Pool the rows of all repetitions.

    Lists of numbers, and single numbers that `figures` names, become a `Figure` over all repetitions. Other
    values are facts and come from the first repetition. Rows belong together where their `key` agrees.
    """
    together: dict[tuple[str, ...], list[Row]] = {}
    for row in (row for rows in measured for row in rows):
        together.setdefault(identity(row, key), []).append(row)
    return [{name: _pooled(rows, name, name in figures) for name in rows[0]} for rows in together.values()]


def identity(row: Row, key: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a row's key as text, which survives JSON."""
    return tuple(str(row.get(name)) for name in key)


def _pooled(rows: Sequence[Row], name: str, is_figure: bool) -> Value:
    first = rows[0].get(name)
    if not is_figure and not _is_list(first):
        return first
    values = [row.get(name) for row in rows]
    several = [value if _is_list(value) else [value] for value in values]
    samples = [float(sample) for some in several for sample in some if _is_number(sample)]
    return figure(samples) if samples else None


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, np.ndarray))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
