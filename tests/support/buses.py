"""Austin's buses: the data, seeded queries over them, and their answers by vectorised brute force."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from support.oracle import EARTH_M

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "capmetrics_austin_bus"
REPORT_EVERY_US = 2 * 3600 * 1_000_000
STREAM = f"""
CREATE MOVING STREAM buses (vehicle_id STRING, "timestamp" TIMESTAMP, speed DOUBLE, route_id STRING,
    trip_id STRING, latitude DOUBLE, longitude DOUBLE, trip_headsign STRING)
  KEY vehicle_id  LOCATION (longitude, latitude)  TIME "timestamp"
  FROM FILE '{FOLDER}/*.csv.gz'  TICK 1 s  REPORT EVERY 2 hours;
"""


@dataclass(frozen=True)
class Query:
    """A rectangle of width w and height h around (x, y), or of w by h metres around the bus `focal`."""

    name: str
    x: float
    y: float
    w: float
    h: float
    focal: str | None = None

    @property
    def region(self) -> str:
        if self.focal is not None:
            return f"RECT({self.w:.0f} m, {self.h:.0f} m) AROUND '{self.focal}'"
        return "({}, {}, {}, {})".format(*self.rectangle(self.x, self.y))

    @property
    def statement(self) -> str:
        return f"REGISTER QUERY {self.name} AS SELECT vehicle_id FROM buses INSIDE {self.region};\n"

    def rectangle(self, x: float, y: float) -> tuple[float, float, float, float]:
        """x1, y1, x2, y2 with the centre in (x, y); a static one's have six decimals, as in its text."""
        if self.focal is None:
            ends = x - self.w / 2, y - self.h / 2, x + self.w / 2, y + self.h / 2
            return tuple(round(float(end), 6) for end in ends)
        dx = float(np.degrees(self.w / 2 / (EARTH_M * np.cos(np.radians(y)))))
        dy = float(np.degrees(self.h / 2 / EARTH_M))
        return x - dx, y - dy, x + dx, y + dy


def load(files: str = "*.csv.gz") -> pd.DataFrame:
    """All fixes of files in the order of their replay: by time, file, place in the file; `t` is int µs."""
    texts = {"vehicle_id": str, "route_id": str}
    frames = [pd.read_csv(path, dtype=texts) for path in sorted(FOLDER.glob(files))]
    fixes = pd.concat(frames, ignore_index=True)
    times = pd.to_datetime(fixes["timestamp"], utc=True, format="ISO8601")
    fixes["t"] = times.dt.as_unit("us").astype("int64")
    return fixes.sort_values("t", kind="stable", ignore_index=True)


def queries(fixes: pd.DataFrame, static: int, moving: int, seed: int = 7) -> list[Query]:
    """Seeded rectangles where buses go, a tenth of them far off, and rectangles around buses."""
    draw = np.random.default_rng(seed)
    out = []
    for i, row in enumerate(draw.choice(len(fixes), static)):
        x, y = fixes.at[row, "longitude"], fixes.at[row, "latitude"]
        w, h = draw.uniform(0.002, 0.08, 2).round(4)
        away = draw.uniform(-20, 20) if i % 10 == 0 else 0.0
        out.append(Query(f"s{i:04}", round(x + away, 4), round(y, 4), float(w), float(h)))
    for i, key in enumerate(draw.choice(fixes["vehicle_id"].unique(), moving)):
        w, h = draw.integers(200, 8000, 2)
        out.append(Query(f"m{i:03}", 0, 0, float(w), float(h), key))
    return out


def answers(
    fixes: pd.DataFrame, asked: list[Query], at_us: int, tick_us: int = 1_000_000
) -> dict[str, set[str]]:
    """Each query's answer after the step that starts at `at_us`."""
    known = fixes[fixes["t"] < at_us + tick_us].groupby("vehicle_id").tail(1)
    present = known[known["t"] >= at_us - REPORT_EVERY_US]
    keys, x, y = (present[c].to_numpy() for c in ("vehicle_id", "longitude", "latitude"))
    places = dict(zip(keys, zip(x, y, strict=True), strict=True))
    out = {}
    for query in asked:
        centre = (query.x, query.y) if query.focal is None else places.get(query.focal)
        if centre is None:
            out[query.name] = set()
            continue
        x1, y1, x2, y2 = query.rectangle(*centre)
        out[query.name] = set(keys[(x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)]) - {query.focal}
    return out
