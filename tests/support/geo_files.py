"""The same twenty reports in each format that has places."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

COUNT = 20
LON = [10 + i * 0.001 for i in range(COUNT)]
LAT = [50 + i * 0.002 for i in range(COUNT)]
TIMES = [f"2024-01-01T00:{i // 6:02}:{i % 6 * 10:02}Z" for i in range(COUNT)]
ROWS = [{"oid": f"o{i % 4}", "speed": i * 1.5, "ts": TIMES[i]} for i in range(COUNT)]
UTM = "EPSG:25832"


def points(crs: str = "EPSG:4326") -> list[tuple[float, float]]:
    """Return the places in a reference system."""
    if crs == "EPSG:4326":
        return list(zip(LON, LAT, strict=True))
    pyproj = pytest.importorskip("pyproj")
    change = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    return list(zip(*change.transform(LON, LAT), strict=True))


def write_layer(path: Path, driver: str, crs: str = "EPSG:4326") -> None:
    """Write the reports as a layer."""
    shapes = [shapely.Point(*point) for point in points(crs)]
    layer(path, driver, ROWS, shapes, crs)


def layer(path: Path, driver: str, rows: Iterable[Mapping[str, Any]], shapes: Any, crs: str | None) -> None:
    """Write rows with geometries as a layer."""
    pyogrio = pytest.importorskip("pyogrio")
    table = pa.Table.from_pylist([dict(row) for row in rows])
    table = table.append_column("geometry", pa.array(shapely.to_wkb(shapes), pa.binary()))
    kind = shapes[0].geom_type
    pyogrio.write_arrow(table, path, driver=driver, geometry_name="geometry", geometry_type=kind, crs=crs)


def write_parquet(path: Path, crs: str = "EPSG:4326", encoding: str = "WKB") -> None:
    """Write the reports as GeoParquet."""
    shapes = [shapely.Point(*point) for point in points(crs)]
    table = pa.Table.from_pylist(ROWS)
    times: Any = table["ts"].cast(pa.timestamp("us", tz="UTC"))
    table = table.set_column(2, "ts", times)
    if encoding == "WKB":
        column: Any = pa.array(shapely.to_wkb(shapes), pa.binary())
    else:
        column = pa.array([{"x": shape.x, "y": shape.y} for shape in shapes])
    geo: dict[str, Any] = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": {}}}
    geo["columns"]["geom"] = {"encoding": encoding, "geometry_types": ["Point"]}
    if crs != "EPSG:4326":
        pyproj = pytest.importorskip("pyproj")
        geo["columns"]["geom"]["crs"] = pyproj.CRS(crs).to_json_dict()
    table = table.append_column("geom", column)
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)


def write_csv(path: Path, shown: Callable[[Any], str]) -> None:
    """Write the reports as CSV with a column `geom`."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["oid", "speed", "ts", "geom"])
        for row, point in zip(ROWS, points(), strict=True):
            writer.writerow([*row.values(), shown(shapely.Point(*point))])


def write_plane_csv(path: Path) -> None:
    """Write the reports as CSV with columns `x` and `y` in metres."""
    lines = [
        f"{row['oid']},{row['speed']},{row['ts']},{x!r},{y!r}"
        for row, (x, y) in zip(ROWS, points(UTM), strict=True)
    ]
    path.write_text("\n".join(["oid,speed,ts,x,y", *lines, ""]))


def write_json(path: Path, crs: str = "EPSG:4326", *, features: bool) -> None:
    """Write the reports as a FeatureCollection, or as an array whose objects have a geometry."""
    places = [{"type": "Point", "coordinates": list(point)} for point in points(crs)]
    pairs = list(zip(ROWS, places, strict=True))
    if not features:
        path.write_text(json.dumps([{**row, "location": place} for row, place in pairs]))
        return
    found = [{"type": "Feature", "properties": row, "geometry": place} for row, place in pairs]
    named = {"type": "name", "properties": {"name": crs.replace(":", "::").join(("urn:ogc:def:crs:", ""))}}
    head = {"type": "FeatureCollection"} | ({} if crs == "EPSG:4326" else {"crs": named})
    path.write_text(json.dumps(head | {"features": found}))


def write_gpx(path: Path) -> None:
    """Write the reports as one track for each object, with a segment for each report."""
    tracks = []
    for name in ("o0", "o1", "o2", "o3"):
        reports = [i for i in range(COUNT) if ROWS[i]["oid"] == name]
        inner = "".join(
            f'<trkseg><trkpt lon="{LON[i]!r}" lat="{LAT[i]!r}"><time>{TIMES[i]}</time>'
            f"<extensions><speed>{ROWS[i]['speed']}</speed></extensions></trkpt></trkseg>"
            for i in reports
        )
        tracks.append(f"<trk><name>{name}</name>{inner}</trk>")
    body = "\n".join(tracks)
    path.write_text(
        f'<?xml version="1.0"?>\n<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">{body}</gpx>'
    )


FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "geopackage": ("a.gpkg", lambda path: write_layer(path, "GPKG")),
    "geopackage in metres": ("a.gpkg", lambda path: write_layer(path, "GPKG", UTM)),
    "shapefile in metres": ("a.shp", lambda path: write_layer(path, "ESRI Shapefile", UTM)),
    "flatgeobuf": ("a.fgb", lambda path: write_layer(path, "FlatGeobuf")),
    "geoparquet": ("a.parquet", write_parquet),
    "geoparquet in metres": ("a.parquet", lambda path: write_parquet(path, UTM)),
    "geoparquet of structs": ("a.geoparquet", lambda path: write_parquet(path, encoding="point")),
    "csv with wkt": ("a.csv", lambda path: write_csv(path, shapely.to_wkt)),
    "csv with ewkt": ("a.csv", lambda path: write_csv(path, lambda point: f"SRID=4326;{point.wkt}")),
    "csv with wkb": ("a.csv", lambda path: write_csv(path, lambda point: shapely.to_wkb(point, hex=True))),
    "json with geometries": ("a.json", lambda path: write_json(path, features=False)),
    "geojson": ("a.json", lambda path: write_json(path, features=True)),
    "geojson in metres": ("a.geojson", lambda path: write_json(path, UTM, features=True)),
    "gpx": ("a.gpx", write_gpx),
}
"""Each format with a name of its file and what writes it."""
