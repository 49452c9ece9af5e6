"""Ask DuckDB and PostGIS again for each refresh, as a user does who has a database and no stream processor.

DuckDB runs in the Python that `DUCKDB_PYTHON` names, else in this one; see duckdb_job.py. In PostGIS two
connections load the posts of a minute with COPY, half of them each, into a table without a log; the table
computes the points. The squares have an index, and their join with the posts may use both cores, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from stqsh.bench.peers import postgis
from stqsh.bench.peers.groups.case import GroupCase, GroupOutcome, GroupPeer, halves, timed
from stqsh.bench.peers.peer import write_csv

_DUCKDB_JOB = Path(__file__).with_name("duckdb_job.py")
_COLUMNS = ("id", "x", "y", "ts", "topic", "len")
_SCHEMA = """
CREATE EXTENSION postgis;
CREATE TABLE squares (query int, x1 float8, y1 float8, x2 float8, y2 float8,
  area geometry GENERATED ALWAYS AS (ST_MakeEnvelope(x1, y1, x2, y2)) STORED);
CREATE UNLOGGED TABLE posts (id bigint, x float8, y float8, ts timestamp, topic text, len float8,
  place geometry GENERATED ALWAYS AS (ST_Point(x, y)) STORED);
\\copy squares (query, x1, y1, x2, y2) FROM '{squares}' CSV
CREATE INDEX ON squares USING gist (area);
VACUUM ANALYZE squares;
"""
_ANSWER = (
    "SELECT query, topic, count(*), avg(len) FROM posts JOIN squares ON ST_Intersects(area, place) "
    "GROUP BY query, topic"
)


def _duckdb_python() -> str:
    return os.environ.get("DUCKDB_PYTHON", sys.executable)


def _without_duckdb() -> str:
    remedy = "pip install duckdb, or name a Python that has it in DUCKDB_PYTHON"
    try:
        tried = subprocess.run([_duckdb_python(), "-c", "import duckdb"], capture_output=True, check=False)
    except OSError as error:
        return f"{error}; {remedy}"
    return "" if tried.returncode == 0 else remedy


def _duckdb(case: GroupCase, folder: Path) -> GroupOutcome:
    seconds = timed([_duckdb_python(), str(_DUCKDB_JOB), str(folder), *case.names], folder)
    answer = pq.read_table(folder / f"{case.names[-1]}-answer.parquet").to_pandas()
    return GroupOutcome(seconds, answer)


def _postgis(case: GroupCase, folder: Path) -> GroupOutcome:
    own = folder / "postgis"
    own.mkdir()
    squares, schema, answer = own / "squares.csv", own / "schema.sql", own / "answer.csv"
    write_csv(pq.read_table(folder / "squares.parquet"), squares)
    schema.write_text(_SCHEMA.format(squares=squares))
    loads = {name: _loads(folder, own, name) for name in case.names}
    seconds = []
    with postgis.cluster(folder) as database:
        database.run("-f", str(schema))
        for name in case.names:
            begun = time.perf_counter()
            database.run("-c", "TRUNCATE posts")
            database.together(loads[name])
            database.run("-c", f"\\copy ({_ANSWER}) TO '{answer}' CSV")
            seconds.append(time.perf_counter() - begun)
    return GroupOutcome(seconds[1:], pd.read_csv(answer, names=["query", "topic", "n", "mean"]))


def _loads(folder: Path, own: Path, name: str) -> list[Path]:
    """Write a script for each connection that takes in its half of a minute."""
    scripts = []
    for number, posts in enumerate(halves(folder, name)):
        file, script = own / f"{name}-{number}.csv", own / f"{name}-{number}.sql"
        write_csv(posts.select(list(_COLUMNS)), file)
        script.write_text(f"\\copy posts ({', '.join(_COLUMNS)}) FROM '{file}' CSV\n")
        scripts.append(script)
    return scripts


DUCKDB = GroupPeer("DuckDB", _without_duckdb, _duckdb)
POSTGIS = GroupPeer("PostGIS", postgis.missing, _postgis)
