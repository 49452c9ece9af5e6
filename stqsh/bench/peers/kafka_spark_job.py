"""Answer range queries over a Kafka topic in plain PySpark: a program that kafka_spark.py runs.

Spark's own Kafka reader reads the messages, `from_json` decodes them, and the rest is the faster variant of
plainspark_job.py: a pandas UDF with an index of the regions, and answers by bucket in Spark's state store.

python kafka_spark_job.py FOLDER ADDRESS TOPIC BATCH JAR…: FOLDER has squares.npy, and a batch takes BATCH
messages. The program prints records and seconds of each batch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import shapely
from pyspark.sql.functions import from_json

from stqsh.bench.peers.plainspark_job import CONFIG, grouped, matched, start_spark


def main(folder: Path, address: str, topic: str, batch: int, jars: list[str]) -> None:
    """Read what the topic has."""
    spark = start_spark({**CONFIG, "spark.jars": ",".join(jars)})
    x1, y1, x2, y2 = np.load(folder / "squares.npy").T
    tree = spark.sparkContext.broadcast(shapely.STRtree(shapely.box(x1, y1, x2, y2)))
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .load()
    )
    # A report's time is the number of its tick in the load, from some moment on: a step.
    values = messages.selectExpr("CAST(value AS string) AS value")
    read = values.select(from_json("value", "oid string, x double, y double, ts bigint").alias("it"))
    records = read.selectExpr(
        "CAST(it.ts % 1000000000 AS int) AS step",
        "CAST(substring(it.oid, 2) AS bigint) AS oid",
        "it.x",
        "it.y",
    )
    query = (
        grouped(matched(records, tree), "buckets")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    for progress in query.recentProgress:
        if progress["numInputRows"]:
            seconds = progress["durationMs"]["triggerExecution"] / 1000
            print(f"batch {progress['numInputRows']} {seconds}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
