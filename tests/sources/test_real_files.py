"""Real files with their traps: disorder, blanks in names, byte-order marks, other countries' dates."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import shapely
from msgspec.structs import replace
from support.streams import prepared, stream

from stqsh.sources.inference import infer
from stqsh.sources.region_files import read_regions

DATA = Path(os.environ.get("STQSH_DATA") or Path(__file__).parents[3] / "shared" / "data")
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not here; set STQSH_DATA"),
]

BUS_ROLES = {"key": "vehicle_id", "x": "longitude", "y": "latitude", "time": "timestamp"}
REPORT_COLUMNS = [
    ["CASE_ENQUIRY_ID", "BIGINT"],
    ["OPEN_DT", "TIMESTAMP"],
    ["LATITUDE", "DOUBLE"],
    ["LONGITUDE", "DOUBLE"],
    ["TYPE", "STRING"],
]
REPORT_ROLES = {"key": "CASE_ENQUIRY_ID", "x": "LONGITUDE", "y": "LATITUDE", "time": "OPEN_DT"}


def micros(times: pd.Series) -> np.ndarray:
    return times.to_numpy("datetime64[us]").astype(np.int64)


def test_buses_come_in_the_order_of_time_whatever_their_offsets(tmp_path) -> None:
    glob = DATA / "capmetrics_austin_bus" / "*.csv.gz"
    columns = infer(stream(glob).source)
    assert ["timestamp", "TIMESTAMP"] in columns and ["latitude", "DOUBLE"] in columns
    columns = [[name, "STRING" if name.endswith(("id", "headsign")) else kind] for name, kind in columns]
    result = prepared(stream(glob, columns=columns, **BUS_ROLES), tmp_path / "store")
    assert (result.store.rows, result.dead) == (599_807, [])
    rows = result.store.read(0, result.store.rows)
    frames = [pd.read_csv(path, dtype={"vehicle_id": str}) for path in sorted(glob.parent.glob(glob.name))]
    expected = pd.concat(frames, ignore_index=True)
    expected["at"] = micros(
        pd.to_datetime(expected.timestamp, utc=True, format="ISO8601").dt.tz_localize(None)
    )
    expected = expected.sort_values("at", kind="stable")
    assert np.array_equal(rows["timestamp"].cast("int64").to_numpy(), expected["at"])
    assert rows["vehicle_id"].to_pylist() == expected.vehicle_id.tolist()
    assert np.array_equal(rows["latitude"].to_numpy(), expected.latitude)
    assert int(((expected.latitude == 0) & (expected.longitude == 0)).sum()) == 80


def test_files_with_blanks_in_their_names_and_american_dates(tmp_path) -> None:
    glob = DATA / "boston_311" / "*.csv.gz"
    result = prepared(stream(glob, columns=REPORT_COLUMNS, **REPORT_ROLES), tmp_path / "store")
    assert (result.store.rows, len(result.dead)) == (0, 121_145)
    file, line, reason, text = result.dead[0]
    assert (file, line) == ("Abandoned Bicycle.csv.gz", 2)
    assert reason == "OPEN_DT: '01/05/2015 12:40:41 PM' is not a time (ISO 8601, or seconds since the epoch)"
    assert text.startswith("470600,101001242404,01/05/2015 12:40:41 PM")
    assert dict(infer(stream(glob).source))["OPEN_DT"] == "STRING"


def test_american_local_times_are_read_as_events(tmp_path) -> None:
    glob = DATA / "boston_311" / "*.csv.gz"
    options = {"timestamp": "%m/%d/%Y %I:%M:%S %p", "zone": "America/New_York"}
    spec = stream(glob, columns=REPORT_COLUMNS, options=options, kind="event", keep_us=None, **REPORT_ROLES)
    result = prepared(spec, tmp_path / "store")
    frames = [pd.read_csv(path, usecols=["OPEN_DT"]) for path in sorted(glob.parent.glob(glob.name))]
    naive = pd.to_datetime(pd.concat(frames).OPEN_DT, format=options["timestamp"])
    local = naive.dt.tz_localize("America/New_York", ambiguous=True, nonexistent="shift_forward")
    rows = result.store.read(0, result.store.rows)
    assert (result.store.rows, result.dead, result.store.manifest.duplicates) == (121_145, [], 0)
    utc = micros(local.dt.tz_convert("UTC").dt.tz_localize(None))
    assert np.array_equal(rows["OPEN_DT"].cast("int64").to_numpy(), np.sort(utc))
    x1, y1, x2, y2 = result.store.manifest.bounds or (0, 0, 0, 0)
    assert -71.3 < x1 < -71.1 and 42.1 < y1 < 42.3 and -71.1 < x2 < -70.9 and 42.3 < y2 < 42.5
    assert dict(infer(spec.source))["OPEN_DT"] == "TIMESTAMP"


def test_a_merge_of_158_files(tmp_path) -> None:
    """Quoted line ends, commas and quotes stay, once the dates are written as ISO 8601 has them."""
    (tmp_path / "in").mkdir()
    frames = []
    for path in sorted((DATA / "boston_311").glob("*.csv.gz")):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        frame["OPEN_DT"] = pd.to_datetime(frame.OPEN_DT, format="%m/%d/%Y %I:%M:%S %p")
        frame.to_csv(tmp_path / "in" / path.name.removesuffix(".gz"), index=False)
        frames.append(frame)
    texts = [[name, "STRING"] for name in ("CLOSURE_REASON", "CASE_TITLE", "neighborhood")]
    columns = [*REPORT_COLUMNS, *texts]
    result = prepared(stream(tmp_path / "in/*.csv", columns=columns, **REPORT_ROLES), tmp_path / "store")
    expected = pd.concat(frames).sort_values("OPEN_DT", kind="stable")
    rows = result.store.read(0, result.store.rows)
    assert [reason for *_, reason, _ in result.dead] == []
    assert len(frames) == 158 and result.store.rows == len(expected) == 121_145
    assert rows["CASE_ENQUIRY_ID"].to_pylist() == expected.CASE_ENQUIRY_ID.astype(int).tolist()
    for name, _ in texts:
        assert [value or "" for value in rows[name].to_pylist()] == expected[name].tolist()


def test_a_byte_order_mark_and_european_dates(tmp_path) -> None:
    path = DATA / "ais_suez_boats" / "boat-positions.csv"
    columns = [
        ["ID", "BIGINT"],
        ["longitude", "DOUBLE"],
        ["latitude", "DOUBLE"],
        ["ais_pos_timestamp", "TIMESTAMP"],
    ]
    roles = {"key": "ID", "x": "longitude", "y": "latitude", "time": "ais_pos_timestamp"}
    result = prepared(stream(path, columns=columns, **roles), tmp_path / "store")
    assert (result.store.rows, len(result.dead), result.dead[0][1]) == (0, 22_287, 2)
    options = {"timestamp": "%d/%m/%Y %H:%M"}
    told = prepared(stream(path, columns=columns, options=options, **roles), tmp_path / "told")
    frame = pd.read_csv(path, encoding="utf-8-sig")
    frame["ais_pos_timestamp"] = pd.to_datetime(frame.ais_pos_timestamp, format="%d/%m/%Y %H:%M")
    frame.to_csv(tmp_path / "iso.csv", index=False, encoding="utf-8-sig")
    result = prepared(stream(tmp_path / "iso.csv", columns=columns, **roles), tmp_path / "iso")
    assert (result.store.rows, result.dead) == (22_287, [])
    assert told.store.read(0, 10**6).equals(result.store.read(0, 10**6))
    assert result.column("ID") == frame.sort_values("ais_pos_timestamp", kind="stable").ID.tolist()


def test_aircraft_in_json(tmp_path) -> None:
    rows = json.loads(gzip.decompress((DATA / "adsb" / "switzerland.json.gz").read_bytes()))
    text = "\n".join(json.dumps(row | {"timestamp": row["timestamp"] / 1000}) for row in rows)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode(), 1))
    columns = [["icao24", "STRING"], *([name, "DOUBLE"] for name in ("latitude", "longitude", "altitude"))]
    columns.append(["timestamp", "TIMESTAMP"])
    spec = stream(tmp_path / "*.gz", columns=columns, **(BUS_ROLES | {"key": "icao24"}))
    result = prepared(spec, tmp_path / "store")
    assert (result.store.rows, result.dead) == (139_098, [])
    assert len(set(result.column("icao24"))) == 842
    assert result.store.first_tick == min(row["timestamp"] for row in rows) // 1000


def test_times_before_the_epoch(tmp_path) -> None:
    frame = pd.read_csv(DATA / "earthquakes_world" / "earthquakes-23k.csv")
    dates = pd.to_datetime(frame.Date.str.slice(0, 10), format="mixed", utc=True)
    frame.assign(Date=micros(dates.dt.tz_localize(None)) // 1_000_000, id=frame.index).to_csv(
        tmp_path / "q.csv"
    )
    columns = [["id", "INT"], ["Date", "TIMESTAMP"], ["Latitude", "DOUBLE"], ["Longitude", "DOUBLE"]]
    roles = {"key": "id", "x": "Longitude", "y": "Latitude", "time": "Date"}
    result = prepared(
        stream(tmp_path / "q.csv", columns=columns, tick_us=86_400_000_000, **roles), tmp_path / "s"
    )
    assert (result.store.rows, result.dead) == (23_412, [])
    assert result.store.first_tick == -1825, "2 January 1965"


def test_earthquakes_in_geojson_with_milliseconds(tmp_path) -> None:
    path = DATA / "earthquakes_world" / "earthquakes_week_places.json"
    columns = [["id", "STRING"], ["place", "STRING"], ["time", "TIMESTAMP"], ["mag", "DOUBLE"]]
    columns += [["lon", "DOUBLE"], ["lat", "DOUBLE"]]
    spec = stream(path, columns=columns, key="id", time="time", format="geojson")
    result = prepared(spec, tmp_path / "store")
    assert len(result.dead) == 1707 and result.dead[0][1:3] == (
        1,
        "time: '1517966773840' is not a time (ISO 8601, or seconds since the epoch)",
    )
    told = prepared(
        replace(spec, source=replace(spec.source, options={"timestamp": "ms"})), tmp_path / "told"
    )
    whole = json.loads(path.read_text())
    for feature in whole["features"]:
        feature["properties"]["time"] /= 1000
    (tmp_path / "s.geojson").write_text(json.dumps(whole))
    spec = stream(tmp_path / "s.geojson", columns=columns, key="id", time="time")
    result = prepared(spec, tmp_path / "seconds")
    assert (result.store.rows, result.dead) == (1707, [])
    assert told.store.read(0, 10**6).equals(result.store.read(0, 10**6))
    assert "4km W of Castaic, CA" in result.column("place")


@pytest.mark.parametrize(
    ("city", "count", "repaired"),
    [("austin", 70, 0), ("boston", 26, 4), ("oakland", 131, 0), ("san-francisco", 37, 3)],
)
def test_districts_are_read_and_made_valid(city: str, count: int, repaired: int) -> None:
    regions = read_regions(stream(DATA / "districts" / f"{city}.geojson").source, None)
    shapes = shapely.from_wkb(regions.geometry.column("wkb").to_pylist())
    assert len(regions.members) == len(set(regions.members)) == count
    assert shapely.is_valid(shapes).all() and (shapely.area(shapes) > 0).all()
    assert regions.notes[0] == "guessed: NAME name"
    assert sum(len(note.split(", ")) for note in regions.notes[1:]) == repaired
