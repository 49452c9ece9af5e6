"""Boston's reports of a year: the data, seeded keyword queries over them, brute-force answers."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from support.oracle import EARTH_M

DATA = Path(os.environ.get("STQSH_DATA") or Path(__file__).parents[3] / "shared" / "data")
FOLDER = DATA / "boston_311"
DAY_US = 24 * 3600 * 1_000_000
KEEP_DAYS = 30
STREAM = f"""
CREATE EVENT STREAM reports (CASE_ENQUIRY_ID BIGINT, OPEN_DT TIMESTAMP, LATITUDE DOUBLE, LONGITUDE DOUBLE,
    CASE_TITLE STRING)
  KEY CASE_ENQUIRY_ID LOCATION (LONGITUDE, LATITUDE) TIME OPEN_DT TEXT CASE_TITLE
  FROM FILE '{FOLDER}/*.csv.gz'
  FORMAT CSV (timestamp => '%m/%d/%Y %I:%M:%S %p', zone => 'America/New_York')
  TICK 1 hour  KEEP {KEEP_DAYS} days;
"""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """A keyword query: a rectangle of 2 · reach degrees a side around (x, y), or the k nearest to it."""

    name: str
    x: float
    y: float
    words: tuple[str, ...]
    any: bool
    reach: float
    k: int
    days: int | None

    @property
    def statement(self) -> str:
        where = f"CASE_TITLE CONTAINS {'ANY ' if self.any else ''}'{' '.join(self.words)}'"
        place = f"NEAREST {self.k} TO ({self.x}, {self.y})"
        if not self.k:
            place = "INSIDE ({}, {}, {}, {})".format(*self.box)
        lasts = f"FOR {self.days} days " if self.days else ""
        select = f"SELECT CASE_ENQUIRY_ID FROM reports WHERE {where} {place}"
        return f"REGISTER QUERY {self.name} {lasts}AS {select};\n"

    @property
    def box(self) -> tuple[float, float, float, float]:
        """x1, y1, x2, y2, with five decimals as in its text."""
        x1, y1, x2, y2 = self.x - self.reach, self.y - self.reach, self.x + self.reach, self.y + self.reach
        return round(x1, 5), round(y1, 5), round(x2, 5), round(y2, 5)


def load(*more: str) -> pd.DataFrame:
    """All reports in the order of their replay: by time, file name, place in the file; `t` is int µs.

    more: names of further columns.
    """
    columns = ["CASE_ENQUIRY_ID", "OPEN_DT", "LATITUDE", "LONGITUDE", "CASE_TITLE", *more]
    frames = [pd.read_csv(path, usecols=columns) for path in sorted(FOLDER.glob("*.csv.gz"))]
    found = pd.concat(frames, ignore_index=True).dropna(subset=["LATITUDE", "LONGITUDE"])
    local = pd.to_datetime(found["OPEN_DT"], format="%m/%d/%Y %I:%M:%S %p")
    earlier = np.ones(len(found), np.bool_)
    utc = local.dt.tz_localize("America/New_York", ambiguous=earlier, nonexistent="shift_forward")
    found["t"] = utc.dt.tz_convert("UTC").dt.as_unit("us").astype("int64")
    found = found.sort_values("t", kind="stable", ignore_index=True)
    assert found["CASE_ENQUIRY_ID"].is_unique
    return found


def terms(title: object) -> frozenset[str]:
    """The terms of a title in plain ASCII, as these are."""
    return frozenset(re.findall(r"[^\W_]+", title.lower())) if isinstance(title, str) else frozenset()


def queries(reports: pd.DataFrame, count: int, seed: int = 7) -> list[Asked]:
    """Seeded queries near where reports are, with words of their titles."""
    draw = np.random.default_rng(seed)
    titled = reports[reports["CASE_TITLE"].notna()]
    out = []
    for number, row in enumerate(titled.iloc[draw.choice(len(titled), count)].itertuples()):
        words = sorted(terms(row.CASE_TITLE))
        some = draw.choice(words, min(len(words), int(draw.integers(1, 4))), replace=False)
        x, y = round(row.LONGITUDE + draw.normal(0, 0.002), 5), round(row.LATITUDE + draw.normal(0, 0.002), 5)
        k = int(draw.integers(1, 8)) if number % 4 == 0 else 0
        days = int(draw.integers(10, 90)) if number % 3 == 0 else None
        by_one = bool(draw.random() < 0.2)
        reach = round(float(draw.uniform(0.001, 0.006)), 5)
        out.append(Asked(f"q{number}", x, y, tuple(map(str, some)), by_one, reach, k, days))
    return out


class Brute:
    """Answers by looking at all reports."""

    def __init__(self, reports: pd.DataFrame) -> None:
        self.ids, self.t = (reports[name].to_numpy() for name in ("CASE_ENQUIRY_ID", "t"))
        self.x, self.y = (reports[name].to_numpy() for name in ("LONGITUDE", "LATITUDE"))
        titles = reports["CASE_TITLE"].astype("category")
        self._title = titles.cat.codes.to_numpy()
        self._terms = [terms(title) for title in titles.cat.categories]
        self.matching = cache(self._matching)

    def _matching(self, words: tuple[str, ...], one_is_enough: bool) -> Bools:
        """Which reports have all of the words (or one of them)."""
        wanted = set(words)
        fits = [bool(wanted & found) if one_is_enough else wanted <= found for found in self._terms]
        return np.array([*fits, False])[self._title]

    def answers(self, asked: list[Asked], at_us: int, tick_us: int, since_us: int) -> dict[str, set[int]]:
        """What is in each answer after the step that starts at `at_us`; all registered at `since_us`."""
        kept = (self.t < at_us + tick_us) & (self.t >= at_us - KEEP_DAYS * DAY_US)
        out = {}
        for query in asked:
            if query.days is not None and at_us >= since_us + query.days * DAY_US:
                continue
            fits = np.flatnonzero(kept & self.matching(query.words, query.any))
            out[query.name] = set(self.ids[self._placed(query, fits)].tolist())
        return {name: members for name, members in out.items() if members}

    def _placed(self, query: Asked, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        x, y = self.x[rows], self.y[rows]
        if not query.k:
            x1, y1, x2, y2 = query.box
            return rows[(x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)]
        up, side = np.sin(np.radians(y - query.y) / 2), np.sin(np.radians(x - query.x) / 2)
        a = up * up + np.cos(np.radians(query.y)) * np.cos(np.radians(y)) * (side * side)
        far = 2 * EARTH_M * np.arcsin(np.sqrt(a))
        return rows[np.lexsort((self.ids[rows], far))[: query.k]]
