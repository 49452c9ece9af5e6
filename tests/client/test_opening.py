"""What files are opened as: their patterns, names, kinds, and the pace at which something happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.local import local_session

from stqsh.client.opening import Opening
from stqsh.errors import StqshError
from stqsh.spec.source_facts import SourceFacts, playing_pace

HEAD = "id,lon,lat,ts\n"
MOVING = HEAD + "".join(f"{n % 4},10.{n},50.{n},2025-01-01T00:{n:02}:00Z\n" for n in range(60))
EVENTS = HEAD + "".join(f"{n},10.{n},50.{n},2025-01-01T00:{n:02}:00Z\n" for n in range(60))
SQUARE = [[[0, 0], [1, 0], [1, 1], [0, 0]]]


def opened(folder: Path, *names: str) -> Opening:
    with local_session(folder / "home") as session:
        return session.plan_opening([str(folder / name) for name in names])


def test_objects_move_where_their_keys_come_again_and_else_they_are_events(tmp_path: Path) -> None:
    (tmp_path / "boat-positions.csv").write_text(MOVING)
    (tmp_path / "calls.csv").write_text(EVENTS.replace("lon", "lng", 1))
    boats, calls = opened(tmp_path, "boat-positions.csv", "calls.csv", "calls.csv").files
    assert (boats.kind, calls.kind) == ("objects that move", "events")
    assert boats.text == (
        f"CREATE MOVING STREAM boat_positions FROM FILE '{tmp_path}/boat-positions.csv' PACE 200x;"
    )
    assert calls.text == f"CREATE EVENT STREAM calls FROM FILE '{tmp_path}/calls.csv' PACE 200x;"
    assert boats.notes[1] == "guessed: KEY id  LOCATION (lon, lat)  TIME ts"
    assert "60 records of 4 objects" in boats.notes[2]


def test_files_of_a_folder_are_one_stream_where_a_pattern_names_them_and_no_others(tmp_path: Path) -> None:
    days = tmp_path / "buses"
    days.mkdir()
    for name in ("2016-01.csv", "2016-02.csv", "2017-01.csv"):
        (days / name).write_text(MOVING)
    (days / "LICENSE").write_text("no records")
    [some] = opened(tmp_path, "buses/2016-01.csv", "buses/2016-02.csv").files
    assert some.name == "buses" and f"'{days}/2016-0*.csv'" in some.text
    [whole] = opened(tmp_path, "buses").files
    assert f"'{days}/*.csv'" in whole.text
    [pattern] = opened(tmp_path, "buses/*-01.csv").files
    assert f"'{days}/*-01.csv'" in pattern.text
    ends = opened(tmp_path, "buses/2016-01.csv", "buses/2017-01.csv").files
    assert [one.name for one in ends] == ["buses", "buses_2"], "201*.csv would name the third, too"


def test_polygons_are_regions_and_come_first(tmp_path: Path) -> None:
    feature = {"type": "Feature", "properties": {"name": "a"}, "geometry": {"type": "Polygon"}}
    feature["geometry"]["coordinates"] = SQUARE  # type: ignore[index]
    (tmp_path / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    (tmp_path / "calls.csv").write_text(EVENTS)
    found = opened(tmp_path, "calls.csv", "zones.geojson")
    assert [one.kind for one in found.files] == ["regions", "events"]
    assert found.files[0].text == f"CREATE REGIONS zones FROM FILE '{tmp_path}/zones.geojson';"


def test_what_cannot_be_opened_is_refused_with_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("a,b\n1,x\n")
    with pytest.raises(StqshError, match="odd has no column that looks like its") as caught:
        opened(tmp_path, "odd.csv")
    assert f"CREATE EVENT STREAM odd FROM FILE '{tmp_path}/odd.csv' KEY" in (caught.value.hint or "")
    with pytest.raises(StqshError, match=r"no file matches .*nothing\.csv"):
        opened(tmp_path, "nothing.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StqshError, match=r"no file in .*empty has a name like one with records"):
        opened(tmp_path, "empty")


@pytest.mark.parametrize(
    ("records", "span_s", "busy_s", "pace"),
    [
        (23_000, 53 * 31_557_600, 53 * 31_557_600, 10_000_000),  # a year in 3 s
        (600_000, 700 * 86_400, 22 * 86_400, 10_000),  # days that are far apart
        (200, 20 * 60, 20 * 60, 50),  # few records pass within seconds
        (18_000, 900, 900, 5),
        (100, 10, 10, 1),  # never slower than the time itself
        (100_000_000, 86_400, 86_400, 50),  # nor faster than an engine
    ],
)
def test_a_pace_lets_all_pass_in_some_minutes(records: int, span_s: int, busy_s: int, pace: float) -> None:
    facts = SourceFacts(records, first_us=0, last_us=span_s * 1_000_000, busy_s=float(busy_s))
    assert playing_pace([facts]) == pace


def test_records_of_one_moment_have_no_pace() -> None:
    assert playing_pace([SourceFacts(5, first_us=7, last_us=7)]) is None
