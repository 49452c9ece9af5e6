"""Repeated figures: their median and spread, and how much of a difference is noise.

The noise of a median is that of McGill, Tukey and Larsen's notched box plots (The American Statistician 32,
1978): 1.57 IQR / sqrt(n), about a 95 % interval for the difference of two medians. Samples of one session
agree better with each other than with those of the next one, so a ratio within `BETWEEN_RUNS` of 1 is never
called a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeGuard

import numpy as np

Better = Literal["more", "less"]
MORE: Better = "more"
LESS: Better = "less"
"""Which way a figure is better."""

BETWEEN_RUNS = 0.05
"""How far two sessions of the same code lie apart on a machine that does nothing else (measured: 0.04)."""

_NOTCH = 1.57


@dataclass(frozen=True, slots=True)
class Figure:
    """What n samples of one figure say: median, quartiles, smallest and largest."""

    median: float
    q1: float
    q3: float
    min: float
    max: float
    n: int

    @property
    def noise(self) -> float | None:
        """Half the width of the median's notch; None for a single sample, of which nothing is known."""
        return _NOTCH * (self.q3 - self.q1) / self.n**0.5 if self.n > 1 else None


def figure(samples: Sequence[float]) -> Figure:
    """Sum up samples, one at least."""
    low, q1, median, q3, high = np.percentile(samples, [0, 25, 50, 75, 100]).tolist()
    return Figure(median, q1, q3, low, high, len(samples))


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure now over the same figure then, and the bounds that noise leaves for it (None: not known)."""

    value: float
    low: float | None
    high: float | None

    @property
    def differs(self) -> bool | None:
        """Whether it is more than noise; None where the noise is not known."""
        if self.low is None or self.high is None:
            return None
        return self.low > 1 + BETWEEN_RUNS or self.high < 1 - BETWEEN_RUNS

    def worsening(self, better: Better) -> float:
        """By which factor the figure got worse; under 1 where it got better."""
        if better == LESS:
            return self.value
        return 1 / self.value if self.value else float("inf")


def ratio(now: Figure, then: Figure) -> Ratio | None:
    """Compare two figures; None where the one then was 0."""
    if then.median == 0:
        return None
    value = now.median / then.median
    if now.noise is None or then.noise is None:
        return Ratio(value, None, None)
    low = max(now.median - now.noise, 0.0) / (then.median + then.noise)
    least = then.median - then.noise
    return Ratio(value, low, (now.median + now.noise) / least if least > 0 else float("inf"))


def pool(
    measured: Sequence[Sequence[Mapping[str, Any]]], key: Sequence[str], figures: Mapping[str, Better]
) -> list[dict[str, Any]]:
    """Make one list of rows out of the rows of each repetition.

    Lists of numbers, and single numbers that `figures` names, become a `Figure` over all repetitions. Other
    values are facts, and those of the first repetition stand. Rows belong together where their `key` agrees.
    """
    together: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in (row for rows in measured for row in rows):
        together.setdefault(identity(row, key), []).append(row)
    return [{name: _pooled(rows, name, name in figures) for name in rows[0]} for rows in together.values()]


def identity(row: Mapping[str, Any], key: Sequence[str]) -> tuple[str, ...]:
    """Return what tells a row from others, as text: it survives JSON."""
    return tuple(str(row.get(name)) for name in key)


def _pooled(rows: Sequence[Mapping[str, Any]], name: str, is_figure: bool) -> Any:
    first = rows[0].get(name)
    if not is_figure and not _is_list(first):
        return first
    values = [row.get(name) for row in rows]
    several = [value if _is_list(value) else [value] for value in values]
    samples = [float(sample) for some in several for sample in some if _is_number(sample)]
    return figure(samples) if samples else None


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, np.ndarray))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """Return a value of a row as JSON takes it."""
    return asdict(value) if isinstance(value, Figure) else value


def revived(value: Any) -> Any:
    """Return the value that `plain` wrote."""
    return Figure(**value) if isinstance(value, dict) and "median" in value else value
