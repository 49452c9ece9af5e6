"""Answer range queries in plain PySpark, as its users write them: a program that plainspark.py runs.

Records come from a folder of Parquet files; a pandas UDF looks each one up in a broadcast shapely STRtree of
the regions; `applyInPandasWithState` keeps for each object the regions that it is in and emits the changes to
a Parquet sink. The program prints the name and the seconds of each portion.

python plainspark_job.py WAY FOLDER PORTION…: FOLDER has squares.npy and a folder of Parquet files for each
portion.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import shapely
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BUCKETS = 8
BASE_CONFIG = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
CONFIG = {
    **BASE_CONFIG,
    "spark.sql.streaming.stateStore.providerClass": _STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def start_spark(config: Mapping[str, str]) -> SparkSession:
    """Start a quiet Spark."""
    builder: Any = SparkSession.builder
    for key, value in config.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def regions_around(tree: Broadcast[shapely.STRtree]) -> Callable[[str, str], Column]:
    """Return the function of a place's columns, x and y, whose value is the regions that it is in."""

    @pandas_udf("array<int>")  # type: ignore[call-overload, untyped-decorator]
    def inside(x: pd.Series, y: pd.Series) -> pd.Series:
        points = shapely.points(x.to_numpy(), y.to_numpy())
        which, regions = tree.value.query(points, predicate="intersects")
        ends = np.searchsorted(which, np.arange(1, len(points)))
        return pd.Series(np.split(regions.astype(np.int32), ends))

    return inside  # type: ignore[no-any-return]


def matched(records: DataFrame, tree: Broadcast[shapely.STRtree]) -> DataFrame:
    """Add the column `regions`, the regions that the record is in."""
    return records.select("step", "oid", regions_around(tree)("x", "y").alias("regions"))


def changed(key: tuple[int], parts: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Emit which regions an object has entered and left, report by report."""
    before = set(np.frombuffer(state.get[0], np.int32).tolist()) if state.exists else set()
    reports = sorted(
        (
            (step, set(regions.tolist()))
            for part in parts
            for step, regions in part[["step", "regions"]].itertuples(index=False)
        ),
        key=lambda report: report[0],
    )
    rows: list[tuple[int, int, int, int]] = []
    for step, now in reports:
        rows += [(step, region, key[0], 1) for region in now - before]
        rows += [(step, region, key[0], -1) for region in before - now]
        before = now
    if rows or not state.exists:
        state.update((np.array(sorted(before), np.int32).tobytes(),))
    if rows:
        yield pd.DataFrame(rows, columns=["step", "query", "oid", "op"])


def changed_in_bucket(
    key: tuple[int], parts: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Emit the same for all objects of a bucket; a pair is object * 2**32 + region."""
    reports = pd.concat(list(parts), ignore_index=True)
    pairs = np.frombuffer(state.get[0], np.int64) if state.exists else np.empty(0, np.int64)
    found = []
    for step, some in reports.groupby("step"):
        who = some["oid"].to_numpy()
        sizes = some["regions"].map(len).to_numpy()
        now = np.repeat(who << 32, sizes) + np.concatenate(some["regions"].to_numpy())
        is_theirs = np.isin(pairs >> 32, who)
        before = pairs[is_theirs]
        for op, which in ((1, np.setdiff1d(now, before)), (-1, np.setdiff1d(before, now))):
            rows = {"step": step, "query": which & 0xFFFFFFFF, "oid": which >> 32, "op": op}
            found.append(pd.DataFrame(rows))
        pairs = np.concatenate([pairs[~is_theirs], now])
    state.update((pairs.tobytes(),))
    yield pd.concat(found)


def grouped(records: DataFrame, way: str) -> DataFrame:
    """Turn matched records into updates, with the state by object or by bucket."""
    is_by_object = way == "objects"
    keyed = records if is_by_object else records.withColumn("bucket", col("oid") % BUCKETS)
    return keyed.groupBy("oid" if is_by_object else "bucket").applyInPandasWithState(
        changed if is_by_object else changed_in_bucket,
        "step int, query int, oid bigint, op int",
        "regions binary",
        "append",
        GroupStateTimeout.NoTimeout,
    )


def main(way: str, folder: Path, names: list[str]) -> None:
    """Process the portions in order."""
    spark = start_spark(CONFIG)
    x1, y1, x2, y2 = np.load(folder / "squares.npy").T
    tree = spark.sparkContext.broadcast(shapely.STRtree(shapely.box(x1, y1, x2, y2)))
    come = folder / "in"
    come.mkdir()
    records = spark.readStream.schema("step int, oid bigint, x double, y double").parquet(f"{come}/*")
    sink = (
        grouped(matched(records, tree), way)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    query = sink.start(str(folder / "out"))
    for name in names:
        begun = time.perf_counter()
        (folder / name).rename(come / name)
        query.processAllAvailable()
        print(f"done {name} {time.perf_counter() - begun:.6f}", flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
