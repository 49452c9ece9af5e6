"""Streams of objects with an extent: their files, what is shown of them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely
from support import geo_files
from support.local import local_session
from support.running import rows, run_script
from support.streams import prepared

from stqsh.client.api import Session
from stqsh.client.map.scene import MapFeed
from stqsh.client.results import Answer, Message, Rows
from stqsh.lang.errors import BindError, LangError
from stqsh.shell.map.terminal.actions import nearest_to
from stqsh.shell.map.terminal.map_projection import MapProjection
from stqsh.sources.formats.geometries import extent_texts

BOXES = {f"b{i}": shapely.box(10 + i / 100, 50, 10.008 + i / 100, 50.008) for i in range(4)}
ROWS = [{"id": name, "ts": f"2024-01-01T00:00:0{i}Z"} for i, name in enumerate(BOXES)]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "session") as session:
        yield session


def write_boxes(path: Path) -> None:
    """Write the boxes in the format of a file's name; layers are in metres."""
    shapes = [*BOXES.values()]
    match path.suffix:
        case ".geojson":
            pairs = zip(ROWS, shapes, strict=True)
            features = [
                {"type": "Feature", "properties": row, "geometry": json.loads(shapely.to_geojson(shape))}
                for row, shape in pairs
            ]
            path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        case ".csv":
            lines = [
                f'{row["id"]},{row["ts"]},"{shape.wkt}"' for row, shape in zip(ROWS, shapes, strict=True)
            ]
            path.write_text("\n".join(["id,ts,geometry", *lines, ""]))
        case _:
            pyproj = pytest.importorskip("pyproj")
            change = pyproj.Transformer.from_crs("EPSG:4326", geo_files.UTM, always_xy=True).transform
            moved = [shapely.transform(shape, change, interleaved=False) for shape in shapes]
            geo_files.layer(path, "GPKG", ROWS, moved, geo_files.UTM)


@pytest.mark.parametrize("file", ["a.geojson", "a.csv", "a.gpkg"])
def test_a_file_of_polygons_is_a_stream_of_extents(session: Session, tmp_path: Path, file: str) -> None:
    write_boxes(tmp_path / file)
    [message, *_] = session.execute(f"CREATE MOVING STREAM boxes FROM FILE '{tmp_path / file}'; RUN;")
    assert isinstance(message, Message)
    assert "LOCATION (geometry): the objects have an extent, as they are no points" in message.text
    found = rows(session, "SELECT id, geometry shape, lon, lat FROM boxes;")
    for row, (name, box) in zip(found, BOXES.items(), strict=True):
        shape = shapely.from_wkt(row["shape"])
        assert row["id"] == name
        assert shape.equals_exact(box, 1e-6) or shape.symmetric_difference(box).area < 1e-9
        assert shape.touches(shapely.Point(row["lon"], row["lat"]))
    assert rows(session, "SELECT id FROM boxes INSIDE (10.005, 49, 10.025, 51);") == [{"id": "b1"}]
    touching = rows(session, "SELECT id FROM boxes INTERSECTS (10.005, 49, 10.025, 51);")
    assert [row["id"] for row in touching] == ["b0", "b1", "b2"]


def test_points_stay_points_unless_the_location_is_one_column(session: Session, tmp_path: Path) -> None:
    geo_files.write_json(tmp_path / "a.geojson", features=True)
    create = f"CREATE MOVING STREAM {{}} {{}} FROM FILE '{tmp_path}/a.geojson';"
    list(
        session.execute(create.format("plain", "") + create.format("shaped", "LOCATION (geometry)") + "RUN;")
    )
    plain, shaped = (rows(session, f"SELECT * FROM {name};") for name in ("plain", "shaped"))
    assert [{name: row[name] for name in plain[0]} for row in shaped] == plain
    assert shaped[0]["geometry"] == f"POINT ({shaped[0]['lon']!r} {shaped[0]['lat']:g})"
    for asked in ("INSIDE CIRCLE(10.017, 50.034, 300)", "INTERSECTS CIRCLE(10.017, 50.034, 300)"):
        select = f"SELECT oid, DISTANCE FROM {{}} {asked};"
        assert rows(session, select.format("plain")) == rows(session, select.format("shaped"))
    select = "SELECT oid, DISTANCE FROM {} NEAREST 2 TO (10.017, 50.034);"
    assert rows(session, select.format("plain")) == rows(session, select.format("shaped"))


CREATE = """CREATE MOVING STREAM shapes (id STRING, shape STRING, ts TIMESTAMP)
  KEY id LOCATION (shape) TIME ts FROM FILE '{}/a.csv';"""


def created(session: Session, folder: Path, *lines: str) -> None:
    """Create a stream of shapes from lines of CSV."""
    (folder / "a.csv").write_text("\n".join(["id,shape,ts", *lines, ""]))
    list(session.execute(CREATE.format(folder)))


def test_what_is_no_extent_is_set_aside_and_an_empty_one_leaves(session: Session, tmp_path: Path) -> None:
    lines = [
        'bow,"POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))",1',
        "high,POINT Z (1 2 3),1",
        "none,,1",
        "empty,POLYGON EMPTY,1",
        "words,somewhere,1",
        'far,"LINESTRING (0 0, 361 0)",1',
        "gone,POINT (1 1),1",
        "gone,,2",
    ]
    created(session, tmp_path, *lines)
    [registered] = [found.spec for found in session.streams() if found.name == "shapes"]
    found = prepared(registered, tmp_path / "store")
    assert [reason for _, _, reason, _ in found.dead] == [
        "shape: 'somewhere' is not a geometry",
        "shape: the geometry reaches beyond 90 degrees of latitude, or more than once around the globe",
    ]
    list(session.execute("RUN;"))
    bow, high = rows(session, "SELECT id, shape FROM shapes;")
    halves = "MULTIPOLYGON (((1 1, 0 0, 0 2, 1 1)), ((2 0, 1 1, 2 2, 2 0)))"
    assert shapely.from_wkt(bow["shape"]).normalize() == shapely.from_wkt(halves).normalize()
    assert high == {"id": "high", "shape": "POINT (1 2)"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("POINT (190 1)", "POINT (-170 1)"),
        ("POINT (180 1)", "POINT (180 1)"),
        ("LINESTRING (179 0, 181 1)", "MULTILINESTRING ((179 0, 180 0.5), (-180 0.5, -179 1))"),
        ("LINESTRING (180 1, 181 1)", "LINESTRING (-180 1, -179 1)"),
        ("MULTIPOINT ((-181 1), (-179 1))", "MULTIPOINT ((-179 1), (179 1))"),
        (
            "POLYGON ((179 0, 181 0, 179 1, 179 0))",
            "MULTIPOLYGON (((179 0, 180 0, 180 0.5, 179 1, 179 0)), ((-180 0, -179 0, -180 0.5, -180 0)))",
        ),
        (
            "GEOMETRYCOLLECTION (POINT (181 0), LINESTRING (0 0, 0 4))",
            "GEOMETRYCOLLECTION (POINT (-179 0), LINESTRING (0 0, 0 4))",
        ),
    ],
)
def test_extents_are_cut_at_the_meridian(given: str, kept: str) -> None:
    found = extent_texts(pa.array(["POINT (1 2)", given, None]), geodetic=True)
    first, shape, nothing = found.texts.to_pylist()
    assert (first, nothing) == ("POINT (1 2)", None)
    assert shapely.from_wkt(shape).normalize() == shapely.from_wkt(kept).normalize()
    [planar] = extent_texts(pa.array([given]), geodetic=False).texts.to_pylist()
    assert shapely.from_wkt(planar) == shapely.from_wkt(given)


def test_geojson_shows_extents_and_so_does_geopandas(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, 'a,"LINESTRING (0 0, 1 1)",1')
    line = {"type": "LineString", "coordinates": [[0.0, 0.0], [1.0, 1.0]]}
    asked = "REGISTER QUERY q AS SELECT id, shape FROM shapes; RUN; SELECT id, shape FROM shapes;"
    asked += " SELECT id, lon, lat FROM shapes;"
    output = run_script(session, asked, form="geojson")
    assert [json.loads(one)["geometry"] for one in output.splitlines()] == [
        line,
        line,
        {"type": "Point", "coordinates": [0.0, 0.0]},
    ]
    pytest.importorskip("geopandas")
    assert session.sql("SELECT id, shape FROM shapes").geo().geometry.to_wkt()[0] == "LINESTRING (0 0, 1 1)"


def test_what_is_said_of_a_stream_with_extents(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, "a,POINT (0 0),1")
    told = list(
        session.execute("DESCRIBE shapes; EXPLAIN SELECT id FROM shapes INTERSECTS (0, 0, 1, 1); DUMP;")
    )
    text = " ".join(map(str, told))
    assert "('shape', 'STRING', 'extent')" in text
    assert "('lon', 'DOUBLE', 'x, AS ST_X(loc)')" in text
    assert "of shape; every object is a candidate, tested for INTERSECTS" in text
    assert "KEY id LOCATION (shape) TIME ts" in " ".join(text.split())
    [explained] = session.execute("EXPLAIN SELECT id FROM shapes INSIDE (0, 0, 1, 1);")
    assert "first corner is in the region are candidates, tested for INSIDE" in str(explained)


def test_the_answer_of_a_query_has_extents_if_it_shows_them(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, 'a,"LINESTRING (0 0, 4 4)",1', "b,POINT (1 1),1")
    shown, hidden = "SELECT id, shape, lon, lat FROM shapes", "SELECT id, lon, lat FROM shapes"
    list(session.execute(f"REGISTER QUERY shown AS {shown}; REGISTER QUERY hidden AS {hidden}; RUN;"))
    assert rows(session, "SELECT id FROM shown INSIDE (0, 0, 1, 1);") == [{"id": "b"}]
    assert rows(session, "SELECT id FROM shown INTERSECTS (2, 2, 3, 3);") == [{"id": "a"}]
    with pytest.raises(LangError, match="the rows of hidden have no location"):
        list(session.execute("SELECT id FROM hidden INSIDE (0, 0, 1, 1);"))


def test_regions_over_the_meridian_hold_extents_on_both_sides(session: Session, tmp_path: Path) -> None:
    lines = ['e,"LINESTRING (178 0, 179.5 0)",1', 'w,"LINESTRING (-179.5 0, -177 0)",1']
    lines += ['both,"MULTIPOINT ((179.5 0), (-179.5 0))",1', "far,POINT (0 0),1"]
    created(session, tmp_path, *lines)
    (tmp_path / "q.csv").write_text("name,x1,x2\nover,179,182.5\nat,178,182.5\nhere,-1,1\n")
    template = "SELECT id FROM shapes {} RECT(:x1, -1, :x2, 1);"
    list(
        session.execute(f"REGISTER QUERIES FROM FILE '{tmp_path}/q.csv' AS {template.format('INSIDE')} RUN;")
    )
    expected = {"over": ["both"], "at": ["both", "e"], "here": ["far"]}
    for name, inside in expected.items():
        assert [row["id"] for row in rows(session, f"SELECT id FROM {name} ORDER BY id;")] == inside
    found = rows(session, "SELECT id FROM shapes INSIDE (179, -1, 182.5, 1);")
    assert [row["id"] for row in found] == ["both"]
    found = rows(session, "SELECT id FROM shapes INTERSECTS (179, -1, 182.5, 1);")
    assert [row["id"] for row in found] == ["both", "e", "w"]
    [row] = rows(session, "SELECT DISTANCE FROM shapes WHERE id = 'e' NEAREST 1 TO (-179.5, 0);")
    assert row["distance"] == pytest.approx(111_195.08, abs=1)


def test_regions_around_an_object_have_the_centre_of_its_box(session: Session, tmp_path: Path) -> None:
    lines = ['way,"LINESTRING (0 0, 2 0, 2 2)",1', "mid,POINT (1 1),1", '"end","LINESTRING (2 2.5, 3 3)",1']
    created(session, tmp_path, *lines, 'way,"LINESTRING (4 4, 4 6)",2')
    template = "SELECT id FROM shapes INTERSECTS CIRCLE(:r) AROUND :who;"
    (tmp_path / "q.csv").write_text("name,who,r\nnear,way,10000\nwide,way,250000\nself,mid,100000\n")
    list(session.execute(f"REGISTER QUERIES FROM FILE '{tmp_path}/q.csv' AS {template} RUN 1 STEPS;"))

    def members() -> dict[str, list[str]]:
        found = {one: rows(session, f"SELECT id FROM {one} ORDER BY id;") for one in ("near", "wide", "self")}
        return {name: [row["id"] for row in some] for name, some in found.items()}

    assert members() == {"near": ["mid"], "wide": ["end", "mid"], "self": []}
    measured = "SELECT id, DISTANCE FROM shapes INTERSECTS CIRCLE(250 km) AROUND 'way';"
    assert [row["distance"] for row in rows(session, measured) if row["id"] == "mid"] == [0.0]
    list(session.execute("RUN;"))
    assert members() == {"near": [], "wide": ["end"], "self": []}
    inside = "SELECT id FROM shapes INSIDE RECT(450 km, 600 km) AROUND 'way';"
    assert rows(session, inside) == [{"id": "end"}]
    [shown] = session.execute("SHOW QUERY wide;")
    assert isinstance(shown, Rows)
    assert ("region", "INTERSECTS CIRCLE(250000) AROUND 'way'") in [row[:2] for row in shown.rows]


def test_a_parameter_may_name_the_member_of_a_set(session: Session, tmp_path: Path) -> None:
    lines = ['low,"LINESTRING (10.001 50.001, 10.002 50.002)",1', "west,POINT (10.001 50.02),1"]
    created(session, tmp_path, *lines, '"over","LINESTRING (10.001 50.001, 10.001 50.02)",1')
    zones = Path(__file__).parents[2] / "sample_data" / "zones.geojson"
    list(session.execute(f"CREATE REGIONS zones FROM FILE '{zones}' NAME zone;"))
    expected = {
        "INSIDE zones[:z]": {"a": ["low"], "b": ["west"], "c": []},
        "INTERSECTS zones[:z]": {"a": ["low", "over"], "b": ["over", "west"], "c": []},
        "WHERE NOT loc INTERSECTS zones[:z]": {"a": ["west"], "b": ["low"], "c": ["low", "over", "west"]},
    }
    for number, (where, members) in enumerate(expected.items()):
        zones_of = {"a": "south-west", "b": "north-west", "c": "north-east"}
        lines = [f"{name}{number},{zones_of[name]}" for name in members]
        (tmp_path / "q.csv").write_text("\n".join(["name,z", *lines, ""]))
        select = f"SELECT id FROM shapes {where}"
        list(session.execute(f"REGISTER QUERIES FROM FILE '{tmp_path}/q.csv' AS {select};"))
    list(session.execute("RUN;"))
    for number, members in enumerate(expected.values()):
        for name, inside in members.items():
            found = rows(session, f"SELECT id FROM {name}{number} ORDER BY id;")
            assert [row["id"] for row in found] == inside, (name, number)


def test_a_parameter_may_name_the_only_member_of_a_set(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, "a,POINT (1 1),1", '"b","LINESTRING (1 1, 9 9)",1')
    zone = {
        "type": "Feature",
        "properties": {"zone": "z"},
        "geometry": shapely.box(0, 0, 2, 2).__geo_interface__,
    }
    (tmp_path / "z.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [zone]}))
    list(session.execute(f"CREATE REGIONS one FROM FILE '{tmp_path}/z.geojson' NAME zone;"))
    (tmp_path / "q.csv").write_text("name,z\nq,z\n")
    select = "SELECT id FROM shapes WHERE id <> 'c' AND loc INTERSECTS one[:z] INSIDE one[:z]"
    list(session.execute(f"REGISTER QUERIES FROM FILE '{tmp_path}/q.csv' AS {select}; RUN;"))
    assert rows(session, "SELECT id FROM q;") == [{"id": "a"}]


def test_a_region_around_an_object_over_the_meridian_goes_on(session: Session, tmp_path: Path) -> None:
    lines = ['ship,"LINESTRING (179 0, 181 0)",1', "east,POINT (-179.5 0.2),1", "west,POINT (179.5 0.2),1"]
    created(session, tmp_path, *lines, '"both","LINESTRING (179.8 0.1, 180.2 0.1)",1', "far,POINT (0 0),1")
    list(session.execute("RUN;"))
    for region in ("RECT(130 km, 60 km)", "CIRCLE(70 km)"):
        for relation in ("INSIDE", "INTERSECTS"):
            found = rows(session, f"SELECT id FROM shapes {relation} {region} AROUND 'ship' ORDER BY id;")
            assert [row["id"] for row in found] == ["both", "east", "west"], (relation, region)


def test_alter_changes_a_region(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, "a,POINT (0 0),1", '"b","LINESTRING (1 1, 3 3)",1', "c,POINT (2 2),2")
    list(session.execute("REGISTER QUERY q AS SELECT id FROM shapes INSIDE (0, 0, 1, 1); RUN 1 STEPS;"))
    assert [row["id"] for row in rows(session, "SELECT id FROM q;")] == ["a"]
    list(session.execute("ALTER QUERY q INSIDE (1, 1, 3, 3); RUN;"))
    assert [row["id"] for row in rows(session, "SELECT id FROM q;")] == ["b", "c"]


def test_alter_changes_the_place_of_neighbours(session: Session, tmp_path: Path) -> None:
    lines = ["a,POINT (0 0),1", '"b","LINESTRING (1 1, 3 3)",1', "c,POINT (2 2.5),1", "c,POINT (9 9),3"]
    created(session, tmp_path, *lines, "d,POINT (8 8),1", "d,POINT (7 7),5")
    selects = {"near": "id, DISTANCE", "total": "COUNT(*) AS n, MIN(DISTANCE) AS least"}
    for name, select in selects.items():
        list(session.execute(f"REGISTER QUERY {name} AS SELECT {select} FROM shapes NEAREST 1 TO (0, 0);"))
    list(session.execute("RUN 1 STEPS;"))
    assert rows(session, "SELECT id FROM near;") == [{"id": "a"}]
    for name in selects:
        list(session.execute(f"ALTER QUERY {name} NEAREST 2 TO 'c';"))
    list(session.execute("RUN 1 STEPS;"))
    assert rows(session, "SELECT id FROM near ORDER BY id;") == [{"id": "a"}, {"id": "b"}]
    list(session.execute("RUN 2 STEPS;"))
    assert rows(session, "SELECT id FROM near ORDER BY id;") == [{"id": "b"}, {"id": "d"}]
    [total] = rows(session, "SELECT n, least FROM total;")
    assert [{"id": "d", "distance": total["least"]}] == rows(
        session, "SELECT id, DISTANCE FROM shapes NEAREST 1 TO 'c';"
    )
    assert rows(session, "SELECT * FROM total;") == rows(
        session, f"SELECT {selects['total']} FROM shapes NEAREST 2 TO 'c';"
    )


SHAPES = (
    'pond,"POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))",1',
    'way,"LINESTRING (5 5, 6 7)",1',
    'both,"GEOMETRYCOLLECTION (MULTIPOINT ((8 8), (9 9)), POLYGON ((7 0, 8 0, 8 1, 7 0)))",1',
)


def test_a_map_draws_shapes(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, *SHAPES)
    list(session.execute("CREATE REGION zone AS POLYGON ((0 0, 1 0, 1 1, 0 0));"))
    asked = "REGISTER QUERY q{} AS SELECT id FROM shapes INTERSECTS {};"
    around = "REGISTER QUERY near AS SELECT id FROM shapes NEAREST 1 TO 'pond';"
    around += "REGISTER QUERY round AS SELECT id FROM shapes INTERSECTS CIRCLE(10 km) AROUND 'pond';"
    regions = ["RECT(0, 0, 1, 2)", "CIRCLE(5, 5, 10 km)", "zone"]
    list(session.execute("".join(map(asked.format, range(3), regions)) + around + "RUN;"))
    [feed] = session.execute("MAP shapes;")
    assert isinstance(feed, MapFeed)
    scene = feed.look(1000, records=True)
    assert scene is not None
    places = scene.places
    keys = places.keys.to_pylist()
    moving = {query.outline.name: query.outline for query in scene.drawn if query.outline.focal}
    assert {name: (one.centre, one.focal) for name, one in moving.items()} == {
        "near": ((2, 2), "pond"),
        "round": ((2, 2), "pond"),
    }
    assert len(moving["round"].rings[0]) == 73
    fixed = [query for query in scene.drawn if not query.outline.focal]
    assert places.within((5.5, 5.5, 7, 7)).tolist() == [key != "pond" for key in keys]
    way = places.edges(np.array([keys.index("way")]))
    assert way.tolist() == [[5, 5, 6, 7]]
    of, solid, lines = places.lines()
    drawn = sorted(
        (keys[one], bool(ring), len(line)) for one, ring, line in zip(of, solid, lines, strict=True)
    )
    assert drawn == [
        ("both", False, 1),
        ("both", False, 1),
        ("both", True, 4),
        ("pond", True, 5),
        ("pond", True, 5),
        ("way", False, 2),
    ]
    assert [query.members.tolist() for query in fixed] == [
        [keys.index("pond")],
        [keys.index("way")],
        [keys.index("pond")],
    ]
    assert [len(query.outline.rings[0]) for query in fixed] == [5, 73, 4]
    projection = MapProjection(5, 5, 0.1, 100, 100, planar=True)
    for (x, y), nearest in {(3, 3): "pond", (1.5, 1.1): "pond", (5.4, 6): "way", (8, 8): "both"}.items():
        dot = tuple(float(one[0]) for one in projection.dots(np.array([x]), np.array([y])))
        found = nearest_to(scene, projection, (dot[0], dot[1]), 5.0)
        assert found is not None
        assert keys[found] == nearest
    beyond = projection.dots(np.array([1.0]), np.array([8.0]))
    assert nearest_to(scene, projection, (float(beyond[0][0]), float(beyond[1][0])), 5.0) is None


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("INTERSECTS (20, 20, 30, 30)", "the region lies outside of the data: shapes has longitude 0 to 9"),
        ("INTERSECTS (4.5, 0, 5, 1)", "none of the 3 objects present intersects the region"),
        (
            "INSIDE (3, 3, 6, 6)",
            "none of the 3 objects present is entirely in the region; 2 of them are found with INTERSECTS",
        ),
        ("WHERE id LIKE 'x%' INSIDE zone", "1 object is in the region, and none satisfies the condition"),
        ("WHERE id LIKE 'x%' INTERSECTS zone", "3 objects intersect the region, and none satisfies"),
        ("WHERE id LIKE 'x%'", "3 objects are present, and none satisfies the condition"),
        ("WHERE id = 'y' INSIDE zone", "no object 'y' of shapes has reported so far"),
    ],
)
def test_an_empty_answer_says_why(tmp_path: Path, query: str, said: str) -> None:
    with local_session(tmp_path / "home", slots=2, published=True) as session:
        created(session, tmp_path, *SHAPES)
        list(session.execute("CREATE REGION zone AS POLYGON ((4 4, 9 4, 9 9, 4 9, 4 4)); RUN;"))
        [answer] = [
            one for one in session.execute(f"SELECT id FROM shapes {query};") if isinstance(one, Answer)
        ]
        assert answer.remark.startswith(said)


def test_show_tells_the_regions_that_extents_must_meet(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, *SHAPES)
    list(session.execute("CREATE REGION zone AS POLYGON ((4 4, 9 4, 9 9, 4 9, 4 4));"))
    where = "WHERE loc INTERSECTS CIRCLE(1, 2, 300 m) INTERSECTS zone"
    list(session.execute(f"REGISTER QUERY q AS SELECT id FROM shapes {where};"))
    [shown] = session.execute("SHOW QUERY q;")
    assert isinstance(shown, Rows)
    items = {item: value for item, value, *_ in shown.rows}
    assert items["region"] == "INTERSECTS zone AND INTERSECTS CIRCLE(1, 2, 300)"
    list(session.execute("REGISTER QUERY near AS SELECT id FROM shapes INTERSECTS zone NEAREST 2 TO (1, 2);"))
    [shown] = session.execute("SHOW QUERY near;")
    assert isinstance(shown, Rows)
    assert ("region", "NEAREST 2 TO (1, 2) AND INTERSECTS zone") in [row[:2] for row in shown.rows]


def test_region_is_the_first_one_that_holds_all_of_an_extent(session: Session, tmp_path: Path) -> None:
    lines = ['low,"LINESTRING (10.001 50.001, 10.002 50.002)",1', "west,POINT (10.001 50.02),1"]
    lines += ['over,"LINESTRING (10.001 50.001, 10.001 50.02)",1', 'far,"LINESTRING (0 0, 1 1)",1']
    created(session, tmp_path, *lines)
    zones = Path(__file__).parents[2] / "sample_data" / "zones.geojson"
    list(session.execute(f"CREATE REGIONS zones FROM FILE '{zones}' NAME zone;"))
    grouped = "SELECT REGION(zones) AS zone, COUNT(*) AS n FROM shapes GROUP BY REGION(zones)"
    list(session.execute(f"REGISTER QUERY q AS {grouped}; RUN;"))
    found = [{"zone": None, "n": 2}, {"zone": "north-west", "n": 1}, {"zone": "south-west", "n": 1}]
    for text in (f"{grouped};", "SELECT * FROM q;"):
        answer = [row | {"n": int(row["n"])} for row in rows(session, text)]
        assert sorted(answer, key=lambda row: row["zone"] or "") == found
    listed = rows(session, "SELECT id, REGION(zones) AS zone FROM shapes WHERE REGION(zones) IS NOT NULL;")
    assert listed == [{"id": "low", "zone": "south-west"}, {"id": "west", "zone": "north-west"}]
    features = run_script(session, f"{grouped};", form="geojson").decode().splitlines()
    assert "Polygon" in [(json.loads(feature)["geometry"] or {}).get("type") for feature in features]
    with pytest.raises(BindError, match="GROUP BY"):
        list(session.execute("SELECT REGION(zones), COUNT(*) FROM shapes GROUP BY id;"))


def test_the_number_of_a_nearest_may_be_a_parameter(session: Session, tmp_path: Path) -> None:
    created(session, tmp_path, *SHAPES)
    (tmp_path / "q.csv").write_text("name,x,k\none,0,1\ntwo,0,2\nall,9,5\nfirst,9,1\n")
    select = "SELECT id, DISTANCE FROM shapes NEAREST :k TO (:x, 0.5)"
    list(session.execute(f"REGISTER QUERIES FROM FILE '{tmp_path}/q.csv' AS {select}; RUN;"))
    expected = {"one": ["pond"], "two": ["pond", "way"], "all": ["both", "pond", "way"], "first": ["both"]}
    for name, members in expected.items():
        assert [row["id"] for row in rows(session, f"SELECT id FROM {name} ORDER BY id;")] == members
    limited = "SELECT id FROM shapes NEAREST :k TO (:x, 0.5) ORDER BY id DESC LIMIT 1"
    (tmp_path / "q.csv").write_text("name,x,k\nlast,0,2\nfar,9,1\n")
    list(session.execute(f"REGISTER QUERIES FROM FILE '{tmp_path}/q.csv' AS {limited}; RUN;"))
    assert [rows(session, f"SELECT id FROM {name};") for name in ("last", "far")] == [
        [{"id": "way"}],
        [{"id": "both"}],
    ]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("LOCATION (place)", "there is no column 'place'"),
        ("LOCATION (v)", "v is a BIGINT, and has no extents"),
        ("LOCATION (shape) LOCATION (v, v)", "LOCATION is given twice"),
    ],
)
def test_a_location_that_is_none(session: Session, tmp_path: Path, location: str, reason: str) -> None:
    (tmp_path / "a.csv").write_text("id,shape,v,ts\na,POINT (0 0),1,1\n")
    columns = "id STRING, shape STRING, v BIGINT, ts TIMESTAMP"
    create = f"CREATE MOVING STREAM s ({columns}) KEY id {location} TIME ts FROM FILE '{tmp_path}/a.csv';"
    with pytest.raises(BindError, match=reason):
        list(session.execute(create))


def test_columns_called_lon_and_lat_stay_what_they_are(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,lon,lat,ts\na,10,50,1\n")
    columns = "id STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, shape STRING AS {}"
    box = "CONCAT('LINESTRING (', lon, ' ', lat, ', ', lon + 0.5, ' ', lat, ')')"
    create = f"""CREATE MOVING STREAM s ({columns.format(box)}) KEY id LOCATION (shape) TIME ts
      FROM FILE '{tmp_path}/a.csv'; RUN;"""
    list(session.execute(create))
    expected = {"lon": 10.0, "corner_lon": 10.0, "shape": "LINESTRING (10 50, 10.5 50)"}
    assert rows(session, "SELECT lon, corner_lon, shape FROM s INTERSECTS (10.25, 49, 11, 51);") == [expected]
