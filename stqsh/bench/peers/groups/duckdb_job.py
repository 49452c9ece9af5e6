"""Answer aggregates of each minute in DuckDB: a program that databases.py runs.

A table holds the posts of the last minute. Each minute its posts are read from Parquet, and the questions,
rows of a table of squares, are asked again: a join on ranges, then the groups. The sums are of decimal
numbers with one digit, which DuckDB adds exactly. It prints the name and the seconds of each minute.

python duckdb_job.py FOLDER MINUTE…: FOLDER has squares.parquet and a Parquet file for each minute.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

SQL = """
COPY (
  SELECT s.query, p.topic, count(*) AS n, sum(p.len::DECIMAL(9, 1))::DOUBLE / count(*) AS mean
  FROM posts p JOIN squares s
    ON p.x >= s.x1 AND p.x <= s.x2 AND p.y >= s.y1 AND p.y <= s.y2
  GROUP BY s.query, p.topic
) TO '{file}' (FORMAT PARQUET)
"""


def main(folder: Path, minutes: list[str]) -> None:
    """Take in the minutes in order, and answer after each of them."""
    duckdb: Any = import_module("duckdb")
    base = duckdb.connect(config={"threads": 2})
    base.execute(f"CREATE TABLE squares AS SELECT * FROM '{folder}/squares.parquet'")
    base.execute(f"CREATE TABLE posts AS SELECT * FROM '{folder}/{minutes[0]}.parquet' LIMIT 0")
    for minute in minutes:
        begun = time.perf_counter()
        base.execute("DELETE FROM posts")
        base.execute(f"INSERT INTO posts SELECT * FROM '{folder}/{minute}.parquet'")
        base.execute(SQL.format(file=folder / f"{minute}-answer.parquet"))
        print(f"done {minute} {time.perf_counter() - begun:.6f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
