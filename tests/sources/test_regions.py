"""Regions from GeoJSON: polygons with names, made valid; clear words where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import shapely

from stqsh.errors import SourceError
from stqsh.sources.region_files import (
    RegionSet,
    read_regions,
    region_of_member,
    region_of_rectangle,
    region_of_rings,
)
from stqsh.spec.stream import FileSourceSpec

SQUARE = [[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]
HOLE = [[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 1], [0.5, 0.5]]
BOWTIE = [[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]
LINE = [[0, 0], [1, 1], [2, 2], [0, 0]]


def feature(coordinates: Any, kind: str = "Polygon", **properties: Any) -> dict[str, Any]:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def source(path: Path, *features: dict[str, Any]) -> FileSourceSpec:
    if features:
        path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return FileSourceSpec(str(path))


def shapes(regions: RegionSet) -> list[Any]:
    return list(shapely.from_wkb(regions.geometry.column("wkb").to_pylist()))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "zones.geojson"


def test_polygons_with_holes_and_several_parts_come_with_their_names(file) -> None:
    moved = [[[x + 5, y] for x, y in SQUARE]]
    given = source(
        file,
        feature([SQUARE, HOLE], zone=7, color="red"),
        feature([[SQUARE], moved], "MultiPolygon", zone="b"),
    )
    regions = read_regions(given, "zone")
    assert (regions.members, regions.notes) == (["7", "b"], ())
    one, two = shapes(regions)
    assert (one.area, two.area) == (3.75, 8.0)


def test_one_feature_a_line_and_heights_are_read_too(file) -> None:
    high = [[[x, y, 9] for x, y in SQUARE]]
    file.write_text("\n".join(json.dumps(feature(high, id=n)) for n in range(3)))
    regions = read_regions(source(file), None)
    assert regions.members == ["0", "1", "2"]
    assert not any(shape.has_z for shape in shapes(regions))


@pytest.mark.parametrize(
    ("properties", "column"),
    [
        ([{"Name": "a", "id": 1}, {"Name": "b", "id": 2}], "Name"),
        ([{"name": "a", "id": 1}, {"name": "a", "id": 2}], "id"),
        ([{"name": None, "zone_id": 1}, {"name": "a", "zone_id": 2}], "zone_id"),
    ],
)
def test_names_are_guessed_where_they_differ(file, properties, column) -> None:
    regions = read_regions(source(file, *(feature([SQUARE], **each) for each in properties)), None)
    assert regions.notes == (f"guessed: NAME {column}",)
    assert regions.members == [str(each[column]) for each in properties]


def test_the_identity_of_a_feature_may_name_it(file) -> None:
    regions = read_regions(source(file, feature([SQUARE]) | {"id": "z1"}), "id")
    assert regions.members == ["z1"]


def test_invalid_polygons_are_made_valid_and_named(file) -> None:
    regions = read_regions(source(file, feature([SQUARE], id="a"), feature([BOWTIE], id="b")), "id")
    assert regions.notes == ("made valid: b",)
    assert shapes(regions)[1].area == pytest.approx(2.0) and shapes(regions)[1].is_valid


def test_what_has_no_area_or_no_name_is_left_out_and_noted(file) -> None:
    given = source(
        file,
        feature([SQUARE], id="a"),
        feature([LINE], id="b"),
        feature([1, 2], "Point", id="c"),
        feature([SQUARE]),
        {"type": "Feature", "properties": {"id": "d"}, "geometry": None},
    )
    regions = read_regions(given, "id")
    assert regions.members == ["a"]
    assert regions.notes == (
        "1 feature without polygons is left out (Point)",
        "1 feature without polygons is left out (without a geometry)",
        "1 regions without id are left out",
        "left out, they enclose nothing: b",
    )


def test_several_files_make_one_set(tmp_path) -> None:
    source(tmp_path / "b.geojson", feature([SQUARE], id="b"))
    source(tmp_path / "a.json", feature([SQUARE], id="a"))
    assert read_regions(source(tmp_path / "*.*json"), "id").members == ["a", "b"]


@pytest.mark.parametrize(
    ("features", "column", "message", "hint"),
    [
        (
            [feature([SQUARE], id="a"), feature([BOWTIE], id="a")],
            "id",
            "more than one region has the id 'a'",
            "NAME column",
        ),
        ([feature([SQUARE], zone="a")], "zon", "no region has a property zon", "did you mean zone"),
        ([feature([SQUARE], color="a")], None, "no property looks like the name", "one of: color"),
        ([feature([1, 2], "Point", id="a")], None, "there is no polygon in", "those of GeoJSON"),
        ([feature([LINE], id="a")], None, "no region encloses anything", None),
    ],
)
def test_what_cannot_be_is_one_clear_error(file, features, column, message, hint) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        read_regions(source(file, *features), column)
    assert hint is None or hint in (caught.value.hint or "")


def test_other_formats_and_broken_files_are_refused(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(SourceError, match="has no column of geometries"):
        read_regions(source(tmp_path / "a.csv"), None)
    (tmp_path / "b.geojson").write_text('{"type":"FeatureCollection","features":[')
    with pytest.raises(SourceError, match="cannot be read"):
        read_regions(source(tmp_path / "b.geojson"), None)


def test_single_regions_are_made_of_polygons_rectangles_and_members(file) -> None:
    assert [shape.area for shape in shapes(region_of_rings([SQUARE, HOLE]))] == [3.75]
    assert region_of_rings([BOWTIE]).notes == ("made valid: the region",)
    box = region_of_rectangle(0, 0, 3, 1)
    assert (shapes(box)[0].area, box.members) == (3.0, [])
    zones = read_regions(source(file, feature([SQUARE], id="a"), feature([BOWTIE], id="b")), "id")
    member = region_of_member(zones.geometry, "b")
    assert shapes(member)[0].equals(shapes(zones)[1]) and member.members == []


@pytest.mark.parametrize("corners", [(0, 0, 0, 1), (1, 1, 1, 1)])
def test_a_region_that_encloses_nothing_is_refused(corners) -> None:
    with pytest.raises(SourceError, match="the region encloses nothing"):
        region_of_rectangle(*corners)
