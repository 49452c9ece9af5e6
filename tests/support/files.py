"""Files of streams, tables and regions, in each format."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.cases import Area, Row, Spec
from support.sql import instant


def write_rows(path: Path, spec: Spec, rows: list[Row]) -> None:
    """Rows of the declared columns; the suffix says the format."""
    names = [name for name, _ in spec["columns"]]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, parquet_schema(spec)), path)
        return
    times = {name for name, kind in spec["columns"] if kind == "TIMESTAMP"}
    texts = [
        {n: instant(row[n]) if n in times and row[n] is not None else row[n] for n in names} for row in rows
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
        else:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(texts)


def write_regions(path: Path, area: Area) -> None:
    """A GeoJSON file of a set of regions; their names are in `zone_id`."""
    features = []
    for name, polygons in area.members.items():
        shape = {"type": "MultiPolygon", "coordinates": polygons}
        if len(polygons) == 1:
            shape = {"type": "Polygon", "coordinates": polygons[0]}
        features.append({"type": "Feature", "properties": {"zone_id": name}, "geometry": shape})
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def parquet_schema(spec: Spec) -> pa.Schema:
    """The types that a stream's columns have in a Parquet file."""
    types = {
        "STRING": pa.string(),
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "DOUBLE": pa.float64(),
        "FLOAT": pa.float32(),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, types[kind]) for name, kind in spec["columns"]])


def files_in(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their paths in it, without hidden ones."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
