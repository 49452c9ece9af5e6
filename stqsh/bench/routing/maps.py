"""Where records and queries are: four maps of the unit square, and a hot spot that goes round."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from stqsh.arrays import Floats
from stqsh.routing.cells import Bounds, Cells
from stqsh.routing.load import Load

Places = Callable[[np.random.Generator, int], Floats]
"""Draws places, float64 (n, 2)."""

UNIT: Bounds = (0.0, 0.0, 1.0, 1.0)

ROUND = 96
"""The windows in which the hot spot of `orbiting` goes round once."""

_INSIDE = 1 - 1e-9


def uniform(rng: np.random.Generator, count: int) -> Floats:
    """Draw places anywhere: float64 (n, 2)."""
    return rng.random((count, 2))


def hot_spots(
    rng: np.random.Generator,
    count: int,
    spots: int = 5,
    skew: float = 1.2,
    sd: float = 0.01,
    base: float = 0.2,
) -> Floats:
    """Draw places in spots, weighted by Zipf, and a share of them anywhere: float64 (n, 2)."""
    centres = np.random.default_rng(3).random((spots, 2))
    weights = 1 / np.arange(1, spots + 1) ** skew
    places = centres[rng.choice(spots, count, p=weights / weights.sum())] + rng.normal(0, sd, (count, 2))
    anywhere = rng.random(count) < base
    places[anywhere] = rng.random((int(anywhere.sum()), 2))
    return np.clip(places, 0, _INSIDE)


def towns(rng: np.random.Generator, count: int) -> Floats:
    """Draw places in twenty wide spots, and 30 % of them anywhere: float64 (n, 2)."""
    return hot_spots(rng, count, spots=20, skew=0.8, sd=0.05, base=0.3)


def condensed(rng: np.random.Generator, count: int) -> Floats:
    """Draw places of `towns`, scaled to 0.4 of each side: float64 (n, 2)."""
    return 0.3 + 0.4 * towns(rng, count)


def biased(rng: np.random.Generator, count: int) -> Floats:
    """Draw places of which 95 % are in 2.5 % of the area: float64 (n, 2)."""
    places = uniform(rng, count)
    many = rng.random(count) < 0.95
    places[many] = 0.5 + 0.158 * rng.random((int(many.sum()), 2))
    return places


FOUR_MAPS: dict[str, Places] = {
    "uniform": uniform,
    "hot spots": hot_spots,
    "condensed": condensed,
    "biased": biased,
}


def squares_around(places: Floats, side: float) -> Floats:
    """Return squares with their centres at places: boxes, float64 (n, 4)."""
    return np.column_stack([places - side / 2, places + side / 2])


def orbiting(rng: np.random.Generator, count: int, window: float) -> Floats:
    """Draw places of a window, half of them in a hot spot that goes round the plane: float64 (n, 2)."""
    turn = 2 * np.pi * window / ROUND
    places = rng.random((count, 2))
    hot = rng.random(count) < 0.5
    centre = 0.5 + 0.3 * np.array([np.cos(turn), np.sin(turn)])
    places[hot] = centre + rng.normal(0, 0.06, (int(hot.sum()), 2))
    return np.clip(places, 0, _INSIDE)


def orbit(windows: int, side: int = 128) -> Iterator[Load]:
    """Yield the load of each window of `orbiting`, under small queries anywhere."""
    rng = np.random.default_rng(5)
    cells = Cells(UNIT, side)
    queries = squares_around(rng.random((4_000, 2)), 1 / side)
    for window in range(windows):
        x, y = orbiting(rng, 60_000, window).T
        yield Load.of(cells, x, y, queries)
