"""Where records and queries are: four maps of the unit square, and a hot spot that goes round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from glob import glob

import numpy as np
from pyarrow import concat_tables
from pyarrow.csv import read_csv

from stqsh.arrays import Floats
from stqsh.routing.cells import Bounds, Cells
from stqsh.routing.load import Load

Places = Callable[[np.random.Generator, int], Floats]
"""Draws places, float64 (n, 2)."""

UNIT: Bounds = (0.0, 0.0, 1.0, 1.0)

ROUND = 96
"""The windows in which the hot spot of `orbiting` goes round once."""

_INSIDE = 1 - 1e-9

_FAR = 0.002
"""The share of real places that is left out at either end of each axis."""


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
    return condensed_to(rng, count, 0.4)


def condensed_to(rng: np.random.Generator, count: int, factor: float) -> Floats:
    """Draw places of `towns`, scaled about the centre: float64 (n, 2)."""
    return 0.5 + factor * (towns(rng, count) - 0.5)


def biased(rng: np.random.Generator, count: int) -> Floats:
    """Draw places of which 95 % are in 2.5 % of the area: float64 (n, 2)."""
    places = uniform(rng, count)
    many = rng.random(count) < 0.95
    places[many] = 0.5 + 0.158 * rng.random((int(many.sum()), 2))
    return places


def roads(rng: np.random.Generator, count: int, streets: int = 60) -> Floats:
    """Draw places on streets, half of them from south to north and half from west to east: float64 (n, 2)."""
    lines = np.random.default_rng(4).random(streets)
    street = rng.choice(streets, count)
    places = np.column_stack([lines[street], rng.random(count)])
    places[street % 2 == 1] = places[street % 2 == 1, ::-1]
    return places


def resampled(known: Floats) -> Places:
    """Return what draws places from known ones, float64 (n, 2), again and again."""
    return lambda rng, count: known[rng.choice(len(known), count)]


def read_places(pattern: str) -> Floats:
    """Read the places of real objects from CSV files with columns longitude and latitude: float64 (n, 2).

    They are scaled to the unit square. Places that are far from nearly all others are left out.

    Raises:
        ValueError: there are no such files.
    """
    files = sorted(glob(pattern))  # noqa: PTH207  # Path.glob takes no absolute pattern
    if not files:
        raise ValueError(f"no files {pattern}")
    tables = [read_csv(file).select(["longitude", "latitude"]) for file in files]
    places: Floats = np.column_stack(
        [concat_tables(tables)[axis].to_numpy() for axis in ("longitude", "latitude")]
    )
    places = places[~np.isnan(places).any(axis=1)]
    low, high = np.quantile(places, [_FAR, 1 - _FAR], axis=0)
    inside = ((places >= low) & (places <= high)).all(axis=1)
    found: Floats = np.clip((places[inside] - low) / (high - low), 0, _INSIDE)
    return found


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
