"""Answer questions in DuckDB or SedonaDB: a program that `stqsh bench snapshot-peers` runs.

The objects are in a table in memory. DuckDB is asked by the columns x and y, and by its R-tree over points
(`duckdb-rtree`, with the extension `spatial`). SedonaDB has no index over a table. Times are those of a
question until all rows are here as columns.

python job.py SYSTEM FOLDER: FOLDER has objects.parquet and questions.json; the answers and the times
go to SYSTEM.json in it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

IN_COLUMNS = "x BETWEEN {x1!r} AND {x2!r} AND y BETWEEN {y1!r} AND {y2!r}"
IN_DUCKDB = "ST_Within(place, ST_MakeEnvelope({x1!r}, {y1!r}, {x2!r}, {y2!r}))"
IN_SEDONA = (
    "ST_Intersects(place, ST_GeomFromText("
    "'POLYGON(({x1!r} {y1!r}, {x2!r} {y1!r}, {x2!r} {y2!r}, {x1!r} {y2!r}, {x1!r} {y1!r}))'))"
)
DISTANCE = "ST_Distance(place, ST_Point({x!r}, {y!r}))"
BY_NUMBERS = "(x - {x!r}) * (x - {x!r}) + (y - {y!r}) * (y - {y!r})"


def texts(condition: str, distance: str) -> dict[str, str]:
    """Return the SQL of each kind of question, by the condition of a box and the distance from a place."""
    groups = "SELECT topic, count(*) AS n, avg(x) AS mean FROM objects{where} GROUP BY topic ORDER BY topic"
    return {
        "range, 1 %": f"SELECT oid, topic, x, y, ts FROM objects WHERE {condition}",
        "count, 1 %": f"SELECT count(*) AS n FROM objects WHERE {condition}",
        "kNN, k = 10": f"SELECT oid FROM objects ORDER BY {distance} LIMIT 10",
        "count and mean by topic, 1 %": groups.replace("{where}", f" WHERE {condition}"),
        "count and mean by topic, everywhere": groups.replace("{where}", ""),
    }


def numbers(kind: str, columns: list[list[Any]]) -> list[float]:
    """Return an answer in the form in which answers are compared."""
    if kind.startswith("range"):
        return sorted(columns[0])
    return [value for row in zip(*columns, strict=True) for value in row]


def duckdb(folder: Path, *, by_tree: bool) -> tuple[dict[str, str], Callable[[str], Any]]:
    """Take in the objects; return the texts of questions, and what asks one."""
    base: Any = import_module("duckdb").connect(config={"threads": 2})
    base.execute(f"CREATE TABLE objects AS SELECT * FROM '{folder}/objects.parquet'")
    if not by_tree:
        return texts(IN_COLUMNS, BY_NUMBERS), lambda text: base.execute(text).to_arrow_table()
    load_spatial(base)
    base.execute("ALTER TABLE objects ADD COLUMN place GEOMETRY")
    base.execute("UPDATE objects SET place = ST_Point(x, y)")
    base.execute("CREATE INDEX places ON objects USING RTREE (place)")
    return texts(IN_DUCKDB, DISTANCE), lambda text: base.execute(text).to_arrow_table()


def load_spatial(base: Any) -> None:
    """Load the extension, from the package that brings it, if there is one."""
    try:
        package = import_module("duckdb_extension_spatial")
    except ImportError:
        base.execute("INSTALL spatial; LOAD spatial")
        return
    found = next(Path(str(package.__file__)).parent.rglob("spatial.duckdb_extension"))
    base.execute(f"LOAD '{found}'")


def sedonadb(folder: Path) -> tuple[dict[str, str], Callable[[str], Any]]:
    """Take in the objects; return the texts of questions, and what asks one."""
    base: Any = import_module("sedonadb").connect()
    base.read_parquet(f"{folder}/objects.parquet").to_view("raw")
    base.sql("SELECT oid, topic, x, y, ts, ST_Point(x, y) AS place FROM raw").to_memtable().to_view("objects")
    return texts(IN_SEDONA, DISTANCE), lambda text: base.sql(text).to_arrow_table()


def main(system: str, folder: Path) -> None:
    """Ask a system all questions in turn, and write what it answers and how long it takes."""
    sql, ask = sedonadb(folder) if system == "sedonadb" else duckdb(folder, by_tree=system == "duckdb-rtree")
    answers, milliseconds = [], []
    for kind, x1, y1, x2, y2 in json.loads((folder / "questions.json").read_text()):
        text = sql[kind].format(x1=x1, y1=y1, x2=x2, y2=y2, x=(x1 + x2) / 2, y=(y1 + y2) / 2)
        begun = time.perf_counter()
        table = ask(text)
        milliseconds.append((time.perf_counter() - begun) * 1000)
        answers.append(numbers(kind, [column.to_pylist() for column in table.columns]))
    (folder / f"{system}.json").write_text(json.dumps([answers, milliseconds]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
