"""Aggregates over real data: a city's reports by district, hour and type; its buses by route and district.

Answers that are folded from the updates, and snapshots, equal what pandas and `math.fsum` say of the files.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import shapely
from support import buses, reports
from support.local import local_session
from support.running import parsed, run_script

from stqsh.sources.region_files import read_regions
from stqsh.spec.stream import FileSourceSpec

pytestmark = [pytest.mark.data, pytest.mark.slow]

Answer = dict[Hashable, dict[str, Any]]
"""The rows of an answer by their keys, as text: a key is a list of values."""
Rows = Callable[[pd.DataFrame], dict[str, Any]]

MINUTE_US = 60 * 1_000_000
LOOKS = 3
"""At so many random steps, and after the last one, the log so far is folded and compared."""


def districts_of(file: Path, x: pd.Series, y: pd.Series) -> npt.NDArray[Any]:
    """The first district by name that holds each place; None where there is none."""
    regions = read_regions(FileSourceSpec(str(file)), None)
    shapes = shapely.from_wkb(regions.geometry.column("wkb").to_pylist())
    places, found = shapely.points(x, y), np.full(len(x), None, object)
    for name, shape in sorted(zip(regions.members, shapes, strict=True), reverse=True):
        shapely.prepare(shape)
        found[shapely.intersects(shape, places)] = name
    return found


def mean(values: pd.Series) -> float | None:
    """The mean of real numbers, rounded once, and None of nothing."""
    known = values.dropna().tolist()
    return math.fsum(known) / len(known) if known else None


def frequent(texts: Iterable[object], k: int) -> list[list[Any]]:
    """The k terms that most texts have, with their numbers."""
    counts = Counter(term for text in texts for term in reports.terms(text))
    return [[term, n] for term, n in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:k]]


def grouped(members: pd.DataFrame, by: list[str], row: Rows) -> Answer:
    """The row of each group that has members, with the group's values first."""
    answer: Answer = {}
    for values, group in members.groupby(by, dropna=False, sort=False):
        key = [None if pd.isna(value) else np.array(value).item() for value in values]
        answer[json.dumps(key)] = dict(zip(by, key, strict=True)) | row(group)
    return answer


def folded(lines: list[dict[str, Any]], at_us: int) -> dict[str, Answer]:
    """The answers after the steps up to a time; each `-` must take back the row that stands."""
    held: dict[str, Answer] = {}
    last = f"{datetime.fromtimestamp(at_us / 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    for line in lines:
        if "statement" in line or line["at"] > last:
            continue
        answer, key = held.setdefault(line["query"], {}), json.dumps(line["key"])
        if line["op"] == "+":
            assert key not in answer
            answer[key] = line["row"]
        else:
            assert answer.pop(key) == line["row"]
    return held


def snapshots(lines: list[dict[str, Any]], by: list[list[str]]) -> list[Answer]:
    """The answers of the snapshots in their order; `by` names the groups' columns of each."""
    numbers = sorted({line["statement"] for line in lines if "statement" in line})
    answers: list[Answer] = [{} for _ in numbers]
    for line in lines:
        if "statement" in line:
            place = numbers.index(line["statement"])
            key = json.dumps([line["row"][name] for name in by[place]])
            assert key not in answers[place]
            answers[place][key] = line["row"]
    return answers


def looks(times: pd.Series, tick_us: int, seed: int) -> list[int]:
    """The starts of some ticks in which there are records."""
    drawn = np.random.default_rng(seed).choice(times, LOOKS)
    return sorted({int(t) // tick_us * tick_us for t in drawn})


DAY_US = reports.DAY_US
BOSTON = reports.DATA / "districts" / "boston.geojson"
REPORTS = f"""
CREATE EVENT STREAM reports (CASE_ENQUIRY_ID BIGINT, OPEN_DT TIMESTAMP, LATITUDE DOUBLE, LONGITUDE DOUBLE,
    CASE_TITLE STRING, TYPE STRING, neighborhood STRING)
  KEY CASE_ENQUIRY_ID LOCATION (LONGITUDE, LATITUDE) TIME OPEN_DT TEXT CASE_TITLE
  FROM FILE '{reports.FOLDER}/*.csv.gz'
  FORMAT CSV (timestamp => '%m/%d/%Y %I:%M:%S %p', zone => 'America/New_York')
  TICK 1 day  KEEP {reports.KEEP_DAYS} days;
CREATE REGIONS districts FROM FILE '{BOSTON}';
REGISTER QUERY kinds AS {{kinds}};
REGISTER QUERY talk AS {{talk}} SYNC 7 days;
REGISTER QUERY places AS {{places}} WINDOW 14 days SLIDE 5 days;
RUN;
{{kinds}};
{{talk}};
{{places}} WINDOW 14 days;
"""
KINDS = (
    "SELECT REGION(districts) AS district, HOUR(OPEN_DT) AS hour, TYPE, COUNT(*) AS n,"
    " AVG(LATITUDE) AS mean, SUM(LONGITUDE) AS sum FROM reports"
    " GROUP BY REGION(districts), HOUR(OPEN_DT), TYPE"
)
TALK = (
    "SELECT REGION(districts) AS district, COUNT(*) AS n, TOPK(CASE_TITLE, 5) AS words FROM reports"
    " GROUP BY REGION(districts)"
)
PLACES = (
    "SELECT TYPE, COUNT(CASE_TITLE) AS titled, COUNT(DISTINCT neighborhood) AS places,"
    " MIN(CASE_TITLE) AS least, MAX(LATITUDE) AS north, AVG(LONGITUDE) AS mean FROM reports GROUP BY TYPE"
    " HAVING COUNT(*) > 3"
)


def kinds_row(group: pd.DataFrame) -> dict[str, Any]:
    latitude, longitude = group["LATITUDE"], group["LONGITUDE"]
    return {"n": len(group), "mean": mean(latitude), "sum": math.fsum(longitude)}


def talk_row(group: pd.DataFrame) -> dict[str, Any]:
    return {"n": len(group), "words": frequent(group["CASE_TITLE"], 5)}


def places_row(group: pd.DataFrame) -> dict[str, Any]:
    titles = group["CASE_TITLE"].dropna()
    return {
        "titled": len(titles),
        "places": group["neighborhood"].nunique(),
        "least": min(titles, default=None),
        "north": group["LATITUDE"].max(),
        "mean": mean(group["LONGITUDE"]),
    }


def posted(events: pd.DataFrame, since_us: int, until_us: int) -> pd.DataFrame:
    """The reports of `[since_us, until_us)`."""
    return events[(events["t"] >= since_us) & (events["t"] < until_us)]


def report_answers(events: pd.DataFrame, at_us: int, *, at_end: bool) -> dict[str, Answer]:
    """The answers after the step that starts at `at_us`; `at_end`: all are refreshed in that step."""
    keep_us = reports.KEEP_DAYS * DAY_US
    talk_us = at_us if at_end else at_us // (7 * DAY_US) * 7 * DAY_US
    places_us = at_us if at_end else at_us // (5 * DAY_US) * 5 * DAY_US
    now = posted(events, at_us - keep_us, at_us + DAY_US)
    recent = posted(events, places_us - 14 * DAY_US, places_us)
    many = recent[recent.groupby("TYPE")["t"].transform("size") > 3]
    return {
        "kinds": grouped(now, ["district", "hour", "TYPE"], kinds_row),
        "talk": grouped(posted(events, talk_us - keep_us, talk_us), ["district"], talk_row),
        "places": grouped(many, ["TYPE"], places_row),
    }


@pytest.mark.skipif(not reports.FOLDER.is_dir(), reason=f"{reports.FOLDER} is not there")
def test_a_citys_reports_by_district_hour_and_type(tmp_path: Path) -> None:
    events = reports.load("TYPE", "neighborhood")
    events["district"] = districts_of(BOSTON, events["LONGITUDE"], events["LATITUDE"])
    events["hour"] = events["t"] // (3600 * 1_000_000) % 24
    with local_session(tmp_path, slots=3, max_records=20_000) as session:
        lines = parsed(run_script(session, REPORTS.format(kinds=KINDS, talk=TALK, places=PLACES)))
    end_us = (int(events["t"].max()) // DAY_US + 1) * DAY_US
    for at_us in looks(events["t"], DAY_US, 3):
        assert folded(lines, at_us) == report_answers(events, at_us, at_end=False)
    last = report_answers(events, end_us, at_end=True)
    assert folded(lines, end_us) == last
    asked = snapshots(lines, [["district", "hour", "TYPE"], ["district"], ["TYPE"]])
    assert asked == [last["kinds"], last["talk"], last["places"]]


AUSTIN = reports.DATA / "districts" / "austin.geojson"
DAY = "2015-09-06"
BUSES = f"""
CREATE MOVING STREAM buses (vehicle_id STRING, "timestamp" TIMESTAMP, speed DOUBLE, route_id STRING,
    latitude DOUBLE, longitude DOUBLE)
  KEY vehicle_id  LOCATION (longitude, latitude)  TIME "timestamp"
  FROM FILE '{buses.FOLDER}/{DAY}.csv.gz'  TICK 1 min  REPORT EVERY 2 hours;
CREATE REGIONS zones FROM FILE '{AUSTIN}';
REGISTER QUERY routes AS {{routes}};
REGISTER QUERY quarters AS {{quarters}} SYNC 10 min;
REGISTER QUERY lately AS {{quarters}} WINDOW 15 min SLIDE 5 min;
RUN;
{{routes}};
{{quarters}};
{{quarters}} WINDOW 15 min;
"""
ROUTES = (
    "SELECT route_id, REGION(zones) AS zone, COUNT(*) AS n, AVG(speed) AS mean FROM buses"
    " GROUP BY route_id, REGION(zones)"
)
QUARTERS = (
    "SELECT REGION(zones) AS zone, COUNT(DISTINCT route_id) AS routes, AVG(speed) AS mean,"
    " MAX(speed) AS fastest FROM buses WHERE speed > 0 GROUP BY REGION(zones)"
)


def routes_row(group: pd.DataFrame) -> dict[str, Any]:
    return {"n": len(group), "mean": mean(group["speed"])}


def quarters_row(group: pd.DataFrame) -> dict[str, Any]:
    speeds = group["speed"]
    return {"routes": group["route_id"].nunique(), "mean": mean(speeds), "fastest": speeds.max()}


def present(fixes: pd.DataFrame, now_us: int, until_us: int, span_us: int) -> pd.DataFrame:
    """The last fix before `until_us` of each bus that has sent one since `now_us - span_us`."""
    last = fixes[fixes["t"] < until_us].groupby("vehicle_id").tail(1)
    return last[last["t"] >= now_us - span_us]


def bus_answers(fixes: pd.DataFrame, at_us: int, *, at_end: bool) -> dict[str, Answer]:
    """The answers after the step that starts at `at_us`; `at_end`: all are refreshed in that step."""
    sync_us, slide_us = (
        at_us if at_end else at_us // (minutes * MINUTE_US) * minutes * MINUTE_US for minutes in (10, 5)
    )
    every_us = buses.REPORT_EVERY_US
    now = present(fixes, at_us, at_us + MINUTE_US, every_us)
    found = {"routes": grouped(now, ["route_id", "zone"], routes_row)}
    for name, then_us, span_us in (
        ("quarters", sync_us, every_us),
        ("lately", slide_us, 15 * MINUTE_US),
    ):
        driving = present(fixes, then_us, then_us, span_us)
        found[name] = grouped(driving[driving["speed"] > 0], ["zone"], quarters_row)
    return found


@pytest.mark.skipif(not buses.FOLDER.is_dir(), reason=f"{buses.FOLDER} is not there")
def test_a_citys_buses_by_route_and_district(tmp_path: Path) -> None:
    fixes = buses.load(f"{DAY}.csv.gz")
    fixes["zone"] = districts_of(AUSTIN, fixes["longitude"], fixes["latitude"])
    with local_session(tmp_path, slots=3, max_records=10_000) as session:
        lines = parsed(run_script(session, BUSES.format(routes=ROUTES, quarters=QUARTERS)))
    end_us = (int(fixes["t"].max()) // MINUTE_US + 1) * MINUTE_US
    for at_us in looks(fixes["t"], MINUTE_US, 3):
        assert folded(lines, at_us) == bus_answers(fixes, at_us, at_end=False)
    last = bus_answers(fixes, end_us, at_end=True)
    assert folded(lines, end_us) == last
    asked = snapshots(lines, [["route_id", "zone"], ["zone"], ["zone"]])
    after = bus_answers(fixes, end_us + MINUTE_US, at_end=True)  # the last step begins at the end
    assert asked == [last["routes"], last["quarters"], after["lately"]]
