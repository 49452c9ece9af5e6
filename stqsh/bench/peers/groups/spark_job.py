"""Answer aggregates of each minute in plain PySpark: a program that processors.py runs.

Posts come from a folder of Parquet files; a pandas UDF looks each one up in a broadcast shapely STRtree of
the squares; Spark's own windowed aggregation counts and averages by minute, square and topic. A minute is
complete, and sent to the sink, once the first post of the next one has passed the watermark. The program
prints the name and the seconds of each minute.

python spark_job.py FOLDER MINUTE…: FOLDER has squares.parquet and a Parquet file for each minute.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import shapely
from pyspark.sql.functions import avg, col, count, explode, window

from stqsh.bench.peers.plainspark_job import BASE_CONFIG, regions_around, start_spark

SCHEMA = "id bigint, x double, y double, ts timestamp, topic string, len double"


def main(folder: Path, minutes: list[str]) -> None:
    """Take in the minutes in order."""
    spark = start_spark({**BASE_CONFIG, "spark.sql.session.timeZone": "UTC"})
    squares = pq.read_table(folder / "squares.parquet")
    boxes = shapely.box(*(squares[name].to_numpy() for name in ("x1", "y1", "x2", "y2")))
    tree = spark.sparkContext.broadcast(shapely.STRtree(boxes))

    inside = regions_around(tree)
    come = folder / "in"
    come.mkdir()
    posts = spark.readStream.schema(SCHEMA).parquet(str(come)).withWatermark("ts", "0 seconds")
    found = posts.select("ts", "topic", "len", explode(inside("x", "y")).alias("query"))
    grouped = found.groupBy(window("ts", "1 minute"), "query", "topic")
    counted = grouped.agg(count("*").alias("n"), avg("len").alias("mean"))
    sink = counted.select(col("window.start").alias("minute"), "query", "topic", "n", "mean")
    query = (
        sink.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "out"))
    )
    for minute in minutes:
        begun = time.perf_counter()
        (folder / f"{minute}.parquet").rename(come / f"{minute}.parquet")
        query.processAllAvailable()
        print(f"done {minute} {time.perf_counter() - begun:.6f}", flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
