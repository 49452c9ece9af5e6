"""Generate the sample data: fifteen minutes of a small town's taxis, and one ambulance.

`python -m stqsh.sources.generator.sample_taxis DIR` writes DIR/taxis/*.csv, with one file for each object,
and posts.jsonl, chat.jsonl, favourites.csv, drivers.csv, stands.csv, zones.geojson and quarters.geojson. The
output is always the same, byte by byte. The town and its traffic come from GENERATOR 'network'.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from stqsh.sources.generator.network import COLUMNS, NetworkGenerator
from stqsh.sources.generator.sample_chat import chat_lines, quarters_text
from stqsh.sources.generator.sample_extras import (
    closure_lines,
    driver_lines,
    favourite_lines,
    post_lines,
    zones_text,
)
from stqsh.spec.stream import ColumnSpec, GeneratorSourceSpec, Options, StreamSpec

HEADER = "oid,lon,lat,ts,status,speed"
#: The bounds of the town, about 4 by 3.5 km; the station is in its middle.
TOWN = "10.0, 50.0, 10.056, 50.0315"
STATION = (10.0255, 50.0135, 10.0325, 50.018)
TAXIS = 200
#: The taxi stands, for REGISTER QUERIES.
_STANDS = [
    "name,lon,lat,radius,wanted",
    "stand_station,10.0290,50.0157,150,free",
    "stand_market,10.0230,50.0120,100,free",
    "stand_hospital,10.0360,50.0190,120,taken",
]
_START = "2025-06-14T18:00:00Z"
_SECOND = 1_000_000
#: Two unreadable records are inserted in the file of this taxi, at this row.
_ROUGH_TAXI, _ROUGH_ROW = "taxi-042", 40


class SampleRecord(NamedTuple):
    """A record of the sample; a record without a place makes its object leave."""

    oid: str
    place: tuple[float, float] | None
    time: datetime
    status: str
    speed: float

    def line(self) -> str:
        """Return the record as a line of CSV."""
        place = "," if self.place is None else f"{self.place[0]:.6f},{self.place[1]:.6f}"
        return f"{self.oid},{place},{self.time:%Y-%m-%dT%H:%M:%SZ},{self.status},{self.speed:.2f}"

    def at_station(self) -> bool:
        """Return whether the record is of a free taxi at the station."""
        x1, y1, x2, y2 = STATION
        inside = self.place is not None and x1 <= self.place[0] <= x2 and y1 <= self.place[1] <= y2
        return inside and self.status == "free"


def write_sample(directory: Path) -> None:
    """Write the sample data into `directory`."""
    taxis, town = taxi_tracks(), [float(side) for side in TOWN.split(",")]
    _write_tracks(directory / "taxis", taxis | ambulance_track())
    _write(directory / "posts.jsonl", post_lines(datetime.fromisoformat(_START), town, STATION))
    _write(directory / "favourites.csv", favourite_lines(list(taxis)))
    _write(directory / "drivers.csv", driver_lines())
    _write(directory / "stands.csv", _STANDS)
    _write(directory / "closures.csv", closure_lines(datetime.fromisoformat(_START)))
    _write(directory / "chat.jsonl", chat_lines(datetime.fromisoformat(_START), town))
    (directory / "zones.geojson").write_bytes(zones_text(town).encode())
    (directory / "quarters.geojson").write_bytes(quarters_text(town).encode())


def _write_tracks(directory: Path, tracks: dict[str, list[SampleRecord]]) -> None:
    """Write a file for each object, with two unreadable records among them."""
    lines = {oid: [report.line() for report in track] for oid, track in tracks.items()}
    rough = lines[_ROUGH_TAXI]
    rough[_ROUGH_ROW:_ROUGH_ROW] = [
        f"{_ROUGH_TAXI},10.030000,95.200000,2025-06-14T18:06:41Z,free,8.10",
        f"{_ROUGH_TAXI},10.030000,50.015000,18:06:99,free,8.10",
    ]
    directory.mkdir(parents=True, exist_ok=True)
    for oid, rows in lines.items():
        _write(directory / f"{oid}.csv", [HEADER, *rows])


def _write(path: Path, lines: list[str]) -> None:
    path.write_bytes("\n".join([*lines, ""]).encode())


def taxi_tracks() -> dict[str, list[SampleRecord]]:
    """Return the reports of all taxis; one is silent for a while, and one goes home."""
    tracks: dict[str, list[SampleRecord]] = {}
    for report in _reports({"objects": TAXIS, "kinds": "taxi", "report_every": 10 * _SECOND}):
        number = int(report.oid.rpartition("-")[2])
        named = report._replace(oid=f"taxi-{number:03d}")
        tracks.setdefault(named.oid, []).append(named)
    _fall_silent(tracks, _waiting_at_station(tracks, "18:05"))
    _go_home(tracks, _waiting_at_station(tracks, "18:10"))
    return tracks


def ambulance_track() -> dict[str, list[SampleRecord]]:
    """Return the reports of the ambulance."""
    options: Options = {"objects": 1, "kinds": "ambulance", "report_every": 5 * _SECOND}
    return {"ambulance": [report._replace(oid="ambulance") for report in _reports(options)]}


def _reports(options: Options) -> Iterator[SampleRecord]:
    fixed: Options = {"start": _START, "duration": 900 * _SECOND, "bounds": TOWN, "nodes": 300, "seed": 7}
    source = GeneratorSourceSpec("network", fixed | options)
    columns = tuple(ColumnSpec(*column) for column in COLUMNS)
    spec = StreamSpec(name="taxis", columns=columns, key="oid", x="lon", y="lat", time="ts", source=source)
    generator = NetworkGenerator(spec)
    while not generator.ended:
        batch = generator.advance()
        values = [batch.column(name).to_pylist() for name in ("oid", "lon", "lat", "ts", "status", "speed")]
        for oid, lon, lat, time, status, speed in zip(*values, strict=True):
            yield SampleRecord(oid, (lon, lat), time.astimezone(UTC), status, speed)


def _waiting_at_station(tracks: dict[str, list[SampleRecord]], minute: str) -> tuple[str, int]:
    """Find a free taxi that reports from the station in a minute; return its name and the report's index."""
    for oid, track in tracks.items():
        for row, report in enumerate(track):
            if f"{report.time:%H:%M}" == minute and report.at_station():
                return oid, row
    raise LookupError(f"no free taxi at the station at {minute}")


def _fall_silent(tracks: dict[str, list[SampleRecord]], found: tuple[str, int]) -> None:
    """Remove a minute and a half of a taxi's reports, which is longer than REPORT EVERY allows."""
    oid, row = found
    del tracks[oid][row + 1 : row + 10]


def _go_home(tracks: dict[str, list[SampleRecord]], found: tuple[str, int]) -> None:
    """End the shift of a taxi with a report without a place."""
    oid, row = found
    tracks[oid][row + 1 :] = [tracks[oid][row + 1]._replace(place=None)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m stqsh.sources.generator.sample_taxis DIR")
    write_sample(Path(sys.argv[1]))
