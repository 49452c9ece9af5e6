"""Answer the questions of snapshot-peers in PostGIS: a table with a GiST index over points, asked by psql."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from stqsh.bench.peers.peer import write_csv
from stqsh.bench.peers.postgis import cluster
from stqsh.bench.peers.snapshots.case import Numbers, SnapshotQuestion
from stqsh.bench.peers.snapshots.job import numbers, texts

_BOX = "ST_Intersects(place, ST_MakeEnvelope({x1!r}, {y1!r}, {x2!r}, {y2!r}))"
_DISTANCE = "place <-> ST_Point({x!r}, {y!r})"
_TIME = re.compile(r"^Time: ([0-9.]+) ms", re.MULTILINE)
_NEXT = "--"
_LOAD = """
CREATE EXTENSION postgis;
CREATE TEMP TABLE raw (oid bigint PRIMARY KEY, topic bigint, x float8, y float8, ts timestamp);
CREATE UNLOGGED TABLE objects (LIKE raw INCLUDING INDEXES, place geometry);
\\copy raw FROM '{file}' CSV
INSERT INTO objects SELECT oid, topic, x, y, ts, ST_Point(x, y) FROM raw;
CREATE INDEX ON objects USING gist (place);
VACUUM ANALYZE objects;
"""


def ask(questions: Sequence[SnapshotQuestion], folder: Path) -> tuple[list[Numbers], list[float]]:
    """Return the answers to questions about the objects in a folder, and the milliseconds of each."""
    with cluster(folder) as database:
        objects = pq.read_table(folder / "objects.parquet")
        ts = pc.strftime(objects.column("ts"), "%Y-%m-%d %H:%M:%S")
        write_csv(objects.set_column(4, "ts", ts), folder / "objects.csv")
        load, asking = folder / "load.sql", folder / "ask.sql"
        load.write_text(_LOAD.format(file=folder / "objects.csv"))
        database.run("-f", str(load))
        sql, answers = texts(_BOX, _DISTANCE), folder / "answers.csv"
        lines = ["\\pset format csv", "\\pset tuples_only on", "\\timing on", f"\\o {answers}"]
        for question in questions:
            lines += [sql[question.kind].format(**question.words) + ";", f"\\qecho {_NEXT}"]
        asking.write_text("\n".join(lines) + "\n")
        milliseconds = [float(found) for found in _TIME.findall(database.run("-f", str(asking)))]
    blocks = answers.read_text().split(f"{_NEXT}\n")[:-1]
    return [_numbers(one.kind, block) for one, block in zip(questions, blocks, strict=True)], milliseconds


def _numbers(kind: str, block: str) -> Numbers:
    """Return an answer in the form in which answers are compared; times of objects are left out."""
    rows = [[float(value) for value in row[:4]] for row in csv.reader(block.splitlines())]
    return numbers(kind, [list(column) for column in zip(*rows, strict=True)])
