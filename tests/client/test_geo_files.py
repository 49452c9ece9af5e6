"""Each format of files with places: as a stream, in SELECT … FROM 'file', and as regions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import shapely
from support import geo_files
from support.geo_files import COUNT, FILES, LAT, LON, ROWS, UTM
from support.local import local_session
from support.running import rows
from support.streams import prepared, stream

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message
from stqsh.lang.errors import LangError


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "session") as session:
        yield session


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_its_places(session: Session, tmp_path: Path, name: str) -> None:
    file, write = FILES[name]
    write(tmp_path / file)
    found = rows(session, f"SELECT speed, lon, lat FROM '{tmp_path / file}' ORDER BY speed;")
    assert [row["speed"] for row in found] == [row["speed"] for row in ROWS]
    assert [row["lon"] for row in found] == pytest.approx(LON, abs=1e-9)
    assert [row["lat"] for row in found] == pytest.approx(LAT, abs=1e-9)
    inside = f"SELECT COUNT(*) FROM '{tmp_path / file}' INSIDE (9.9, 49.9, 10.0045, 50.1);"
    assert rows(session, inside) == [{"count": 5}]


@pytest.mark.parametrize(
    "name",
    ["geopackage in metres", "shapefile in metres", "geoparquet", "csv with wkt", "geojson in metres", "gpx"],
)
def test_a_file_becomes_a_stream_without_a_column_list(session: Session, tmp_path: Path, name: str) -> None:
    file, write = FILES[name]
    write(tmp_path / file)
    list(session.execute(f"CREATE MOVING STREAM cars FROM FILE '{tmp_path / file}'; RUN;"))
    key = "track" if name == "gpx" else "oid"
    found = rows(session, f"SELECT {key} k, speed, lon, lat FROM cars;")
    assert [row["k"] for row in found] == ["o0", "o1", "o2", "o3"]
    assert [row["speed"] for row in found] == [row["speed"] for row in ROWS[-4:]]
    assert [row["lon"] for row in found] == pytest.approx(LON[-4:], abs=1e-9)


def test_declared_columns_are_filled_from_geometries(session: Session, tmp_path: Path) -> None:
    geo_files.write_csv(tmp_path / "a.csv", shapely.to_wkt)
    create = f"""CREATE EVENT STREAM seen (oid STRING, where_x DOUBLE, where_y DOUBLE, ts TIMESTAMP)
        KEY oid LOCATION (where_x, where_y) TIME ts FROM FILE '{tmp_path}/a.csv'; RUN;"""
    list(session.execute(create))
    assert rows(session, "SELECT COUNT(*) FROM seen INSIDE (9.9, 49.9, 10.0045, 50.1);")[0]["count"] == 4


def test_coordinates_of_another_system_become_degrees(session: Session, tmp_path: Path) -> None:
    geo_files.write_plane_csv(tmp_path / "a.csv")
    create = f"""CREATE MOVING STREAM cars FROM FILE '{tmp_path}/a.csv' FORMAT CSV (crs => '{UTM}'); RUN;"""
    list(session.execute(create))
    found = rows(session, "SELECT x, y FROM cars;")
    assert [row["x"] for row in found] == pytest.approx(LON[-4:], abs=1e-9)
    assert [row["y"] for row in found] == pytest.approx(LAT[-4:], abs=1e-9)
    found = rows(session, f"SELECT x FROM '{tmp_path}/a.csv' (crs => '{UTM}') LIMIT 1;")
    assert found[0]["x"] == pytest.approx(LON[0], abs=1e-9)


def test_coordinates_stay_as_they_are_on_the_plane(session: Session, tmp_path: Path) -> None:
    geo_files.write_layer(tmp_path / "a.gpkg", "GPKG", UTM)
    create = (
        f"CREATE MOVING STREAM cars PLANAR FROM FILE '{tmp_path}/a.gpkg' FORMAT GPKG (crs => 'none'); RUN;"
    )
    list(session.execute(create))
    expected = [x for x, _ in geo_files.points(UTM)][-4:]
    assert [row["x"] for row in rows(session, "SELECT x FROM cars;")] == expected


def test_a_table_of_any_file(session: Session, tmp_path: Path) -> None:
    geo_files.write_layer(tmp_path / "a.gpkg", "GPKG")
    [message] = session.execute(f"CREATE TABLE t KEY oid FROM FILE '{tmp_path}/a.gpkg';")
    assert isinstance(message, Message)
    assert message.text.startswith("table t created")


ZONES = {"west": shapely.box(9.9, 49.9, 10.0095, 50.1), "east": shapely.box(10.0095, 49.9, 10.2, 50.1)}


def write_zones(path: Path, kind: str) -> None:
    shapes = list(ZONES.values())
    rows = [{"name": name, "size": 1} for name in ZONES]
    if kind in ("GPKG", "ESRI Shapefile"):
        pyproj = pytest.importorskip("pyproj")
        change = pyproj.Transformer.from_crs("EPSG:4326", UTM, always_xy=True).transform
        layer = [
            shapely.transform(shape, lambda at: list(zip(*change(*at.T), strict=True))) for shape in shapes
        ]
        geo_files.layer(path, kind, rows, layer, UTM)
    else:
        lines = [f'{name},"{shape.wkt}"' for name, shape in ZONES.items()]
        path.write_text("\n".join(["name,wkt", *lines, ""]))


@pytest.mark.parametrize(
    ("file", "kind"), [("z.gpkg", "GPKG"), ("z.shp", "ESRI Shapefile"), ("z.csv", "CSV")]
)
def test_polygons_of_a_file_are_regions(session: Session, tmp_path: Path, file: str, kind: str) -> None:
    write_zones(tmp_path / file, kind)
    geo_files.write_csv(tmp_path / "a.csv", shapely.to_wkt)
    [message] = session.execute(f"CREATE REGIONS zones FROM FILE '{tmp_path / file}';")
    assert isinstance(message, Message)
    assert message.text == "regions zones of 2 created\nguessed: NAME name"
    text = f"SELECT REGION(zones) z, COUNT(*) c FROM '{tmp_path}/a.csv' GROUP BY REGION(zones);"
    assert rows(session, text) == [{"z": "east", "c": 10}, {"z": "west", "c": 10}]


def test_a_row_with_another_geometry_is_nowhere(session: Session, tmp_path: Path) -> None:
    lines = ["a,POINT (1 2)", 'b,"LINESTRING (0 0, 1 1)"', "c,POINT 1 2", "d,", "e,MULTIPOINT ((3 4))"]
    (tmp_path / "a.csv").write_text("\n".join(["id,wkt", *lines, ""]))
    message, answer = session.execute(f"SELECT id, lon, lat FROM '{tmp_path}/a.csv';")
    assert isinstance(message, Message) and isinstance(answer, Answer)
    assert message.text.startswith("1 record was set aside")
    assert message.text.endswith("a.csv:4: 'POINT 1 2' is not a geometry")
    assert answer.table.to_pylist() == [
        {"id": "a", "lon": 1.0, "lat": 2.0},
        {"id": "b", "lon": None, "lat": None},
        {"id": "d", "lon": None, "lat": None},
        {"id": "e", "lon": 3.0, "lat": 4.0},
    ]


BROKEN = {
    "a.gpkg": (b"no database", "cannot be read: "),
    "a.shp": (b"nothing", "cannot be read: "),
    "a.fgb": (b"nothing", "cannot be read: "),
    "a.parquet": (b"nothing", "cannot be read: "),
    "a.gpx": (b"<gpx><trk><trkseg><trkpt", "cannot be read: no GPX: "),
    "b.gpx": (b"<kml></kml>", "cannot be read: no GPX: its root element is kml"),
    "a.geojson": (b'{"type": "FeatureCollection", "features": [', "cannot be read: "),
    "a.json": (b"nothing", "contains no records"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_one_sentence(session: Session, tmp_path: Path, name: str) -> None:
    content, said = BROKEN[name]
    if name.endswith(("gpkg", "shp", "fgb")):
        pytest.importorskip("pyogrio")
    (tmp_path / name).write_bytes(content)
    for text in (
        f"SELECT * FROM '{tmp_path / name}'",
        f"CREATE MOVING STREAM s FROM FILE '{tmp_path / name}'",
    ):
        with pytest.raises(LangError) as error:
            list(session.execute(f"{text};"))
        assert said in error.value.message
        assert "\n" not in error.value.message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("crs => 'EPSG:99999999'", "there is no reference system 'EPSG:99999999'"),
        ("layer => 'roads'", "has no layer 'roads'"),
        ("colour => 'red'", "has no option colour"),
    ],
)
def test_an_option_that_makes_no_sense_is_told(
    session: Session, tmp_path: Path, options: str, said: str
) -> None:
    geo_files.write_layer(tmp_path / "a.gpkg", "GPKG")
    with pytest.raises(LangError) as error:
        list(session.execute(f"SELECT * FROM '{tmp_path}/a.gpkg' ({options});"))
    assert said in error.value.message


@pytest.mark.parametrize("package", ["pyogrio", "pyproj"])
def test_a_missing_package_is_named(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    from stqsh.sources.formats import optional_packages

    def missing(name: str) -> None:
        raise ImportError(name)

    (tmp_path / "a.gpkg").write_bytes(b"")
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    monkeypatch.setattr(optional_packages, "import_module", missing)
    file = "a.gpkg" if package == "pyogrio" else "a.csv"
    options = "" if package == "pyogrio" else "(crs => 'EPSG:3857')"
    with pytest.raises(LangError) as error:
        list(session.execute(f"SELECT * FROM '{tmp_path / file}' {options};"))
    assert error.value.message.endswith(f"needs {package}")
    assert error.value.hint == "pip install 'stqsh[geo]'"


def test_several_layers_ask_for_one(session: Session, tmp_path: Path) -> None:
    pyogrio = pytest.importorskip("pyogrio")
    geo_files.write_layer(tmp_path / "a.gpkg", "GPKG")
    table, shapes = [{"n": 1}], [shapely.Point(1, 2)]

    rows_ = pa.Table.from_pylist(table).append_column(
        "geometry", pa.array(shapely.to_wkb(shapes), pa.binary())
    )
    pyogrio.write_arrow(
        rows_, tmp_path / "a.gpkg", layer="more", geometry_name="geometry", geometry_type="Point",
        crs="EPSG:4326", append=True,
    )  # fmt: skip
    with pytest.raises(LangError, match="has several layers: a, more"):
        list(session.execute(f"SELECT * FROM '{tmp_path}/a.gpkg';"))
    found = rows(session, f"SELECT * FROM '{tmp_path}/a.gpkg' (layer => 'more');")
    assert found == [{"n": 1, "lon": 1.0, "lat": 2.0}]


def test_a_large_layer_is_read_in_batches(tmp_path: Path) -> None:
    from stqsh.sources.formats.layer_file import read_layer_blocks
    from stqsh.sources.formats.record_schema import RecordSchema
    from stqsh.spec.stream import ColumnSpec

    geo_files.write_layer(tmp_path / "a.gpkg", "GPKG")
    layout = RecordSchema((ColumnSpec("oid", "STRING"),), "")
    blocks = list(read_layer_blocks(tmp_path / "a.gpkg", layout, {}, 6))
    assert [len(block.ordinals) for block in blocks] == [6, 6, 6, 2]
    assert [at.line for at in blocks[1].locate(blocks[1].ordinals[:1])] == [7]
    assert json.loads(blocks[1].locate(blocks[1].ordinals[:1])[0].text) == {"oid": ROWS[6]["oid"]}
    assert COUNT == 20


def test_a_record_of_a_stream_is_set_aside_with_another_geometry(tmp_path: Path) -> None:
    lines = ["oid,ts,n,wkt", "a,1,1,POINT (1 2)", 'b,2,2,"LINESTRING (0 0, 1 1)"', ""]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    result = prepared(stream(tmp_path / "a.csv"), tmp_path / "store")
    assert result.column("lon") == [1.0]
    assert [(line, reason) for _, line, reason, _ in result.dead] == [
        (3, "the geometry is no Point but a LineString")
    ]
