"""What a page is made of: a state of columns, a sample of very many objects, nothing that could break out."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from support.specs import stream_spec

from shell.samples import query
from stqsh.client.map.history import Past
from stqsh.client.map.object_places import ObjectColumns
from stqsh.client.map.region_outlines import RegionOutline
from stqsh.client.map.scene import DrawnQuery, Scene
from stqsh.control_characters import has_controls
from stqsh.shell.map.page.page_state import PageHeader, page, scene_json
from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.drawing import MapOptionsShown
from stqsh.shell.map.terminal.frame import MapPicture
from stqsh.shell.map.terminal.palette import Palette
from stqsh.spec.query import with_members
from stqsh.spec.region import NearestSpec
from stqsh.storage.rows import Progress, StreamRow

KEYS = ["</script><script>alert(1)</script>", "plain", "two"]
_SIGHTING = [("step", int), ("object", int), ("x", float), ("y", float)]
_CHANGE = [("step", int), ("object", int), ("query", int), ("op", np.int8)]
PAST = Past(
    pa.array(["plain"]),
    np.array(
        [(5, 0, 9.5, 50.0), (6, 0, np.nan, np.nan)],
        [("step", int), ("object", int), ("x", float), ("y", float)],
    ),
    np.array(
        [(5, 0, 4, 1), (6, 0, 99, 1)], [("step", int), ("object", int), ("query", int), ("op", np.int8)]
    ),
)
HEADER: PageHeader = {
    "session": "s",
    "status": "",
    "ended": None,
    "written": 0,
    "stamp": "0.0",
    "every": 1,
    "patience": 20,
    "tiles": "off",
    "credit": "",
}


def scene() -> Scene:
    keys = pa.array(KEYS)
    records = pa.table({"oid": keys, "at": pa.array([0, 1_500_000, None], pa.timestamp("us", tz="UTC"))})
    x, y = np.array([10.123456789, 11, 12]), np.array([50.0, 51, 52])
    places = ObjectColumns(7, 6_000_000, keys, x, y, np.array([0, 1, -1], np.int32), 3_000, records)
    one = query(4, "q")
    region = NearestSpec(k=2, focal="two")
    one = replace(one, spec=with_members(msgspec.structs.replace(one.spec, text="SELECT …"), region=region))
    outline = RegionOutline("q", (), (12.0, 52.0), "two")
    drawn = DrawnQuery(one, outline, np.array([0, 1]), 2, 2)
    area = RegionOutline("corner", (np.array([[0, 0], [1, 0], [1, 1], [0, 0]], np.float64),))
    stream = StreamRow(1, "taxis", stream_spec(key="oid"))
    return Scene(stream, Progress(1, 7), places, (drawn,), (area,))


def test_a_state_has_a_scene_in_columns() -> None:
    value: dict[str, Any] = json.loads(scene_json(scene(), HEADER, PAST))
    assert value["objects"] == {
        "there": 3000,
        "shapes": None,
        "x": [10.1234568, 11.0, 12.0],
        "y": [50.0, 51.0, 52.0],
        "slot": [0, 1, -1],
        "keys": KEYS,
        "columns": {"oid": KEYS, "at": ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01.5Z", None]},
    }
    [told] = value["queries"]
    assert (told["letter"], told["members"], told["centre"], told["focal"]) == ("A", [0, 1], [12.0, 52.0], 2)
    assert (told["about"], told["focalKey"], told["size"]) == ("NEAREST 2 TO 'two'", "two", 2)
    assert value["areas"] == [{"name": "corner", "rings": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}]
    assert (value["step"], value["at"], value["session"]) == (7, "1970-01-01T00:00:06Z", "s")


def test_a_state_has_the_past_of_the_queries_that_are_drawn() -> None:
    value = json.loads(scene_json(scene(), HEADER, PAST))["past"]
    assert value == {
        "keys": ["plain"],
        "step": [5, 6],
        "object": [0, 0],
        "x": [9.5, None],
        "y": [50.0, None],
        "changes": {"step": [5], "object": [0], "query": [0], "op": [1]},
    }


def test_a_page_gets_images_from_where_its_tiles_are_only() -> None:
    state = scene_json(scene(), HEADER, PAST)
    assert b"img-src data: ;" in page(state)
    assert b"img-src data: https://tiles.example;" in page(state, "https://tiles.example/a/{z}/{x}/{y}.png")


def test_a_page_of_very_many_objects_has_their_keys_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stqsh.shell.map.page.page_state.MOST_RECORDS", 2)
    value = json.loads(scene_json(scene(), HEADER, PAST))["objects"]
    assert value["columns"] == {"oid": KEYS} and len(value["x"]) == 3


def test_a_picture_has_no_control_characters_of_names_and_keys() -> None:
    nasty = "n\x1b[41m\n"
    of, camera = scene(), Camera()
    of = replace(
        of,
        stream=replace(of.stream, name=nasty),
        drawn=tuple(replace(one, query=query(4, nasty)) for one in of.drawn),
        areas=tuple(replace(one, name=nasty) for one in of.areas),
    )
    camera.follow = nasty
    picture = MapPicture(of, camera, MapOptionsShown(picked="two"), Palette("none"))
    picture.record = {nasty: "two", "second": nasty}
    lines = ["".join(text for _, text in line) for line in picture.lines(100, 24)]
    assert not has_controls("".join(lines))
    shown = r"n\x1b[41m\n"
    assert lines[0].startswith(shown) and f"A {shown}" in lines[-2] and f"follows {shown}" in lines[-1]
    assert any(f" {shown}  two" in line for line in lines)


def test_a_page_holds_its_state_and_nothing_breaks_out_of_it() -> None:
    state = scene_json(scene(), HEADER, PAST)
    made = page(state).decode()
    begin = made.index('<script id="state" type="application/json">') + len(
        '<script id="state" type="application/json">'
    )
    held = made[begin : made.index("</script>", begin)]
    assert json.loads(held) == json.loads(state)
    assert "alert(1)</script>" not in made


def test_a_page_names_no_address_beyond_itself() -> None:
    made = page(b"{}").decode()
    assert "http:" not in made and "https:" not in made and "//" not in made.replace("// ", "")
    assert "default-src 'none'" in made
    assert SimpleNamespace(size=len(made)).size < 80_000
