"""The engine's one streaming query: source, Evaluate, Aggregate, Deliver."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stqsh.engine.config import EngineSettings
from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.ingest.dealer_seeds import take_seeds
from stqsh.engine.operators.data_source import StqshSource
from stqsh.engine.operators.local_operators import LocalOperators, collect
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE, OperatorContext
from stqsh.engine.operators.spark_operators import stored_heads, with_operators
from stqsh.engine.spark.spark_internals import (
    begin_checkpoint,
    checkpoint_place,
    first_batch,
    initial_heads,
    last_commit,
    last_offset,
    read_offset,
    settle_batch,
)
from stqsh.engine.spark.spark_session import without_generated_code
from stqsh.engine.state.payload_files import Spool, open_spool
from stqsh.fs import settle
from stqsh.spec.offset import Offset
from stqsh.storage.blobs import Blobs, checkpoint_blobs, later_checkpoint, place_later_checkpoint
from stqsh.storage.home import SessionHome
from stqsh.units import parse_size

WatchBatch: TypeAlias = "Callable[[int], AbstractContextManager[object]]"
"""Returns a context manager to hold during a batch, by the batch's number."""


def start_query(
    spark: SparkSession,
    settings: EngineSettings,
    delivery: Delivery,
    spool: Spool,
    watch: WatchBatch = nullcontext,
    outgrown: Callable[[], None] = lambda: None,
) -> StreamingQuery:
    """Start the query, from the session's checkpoint if one exists.

    Its first batch processes no data. It starts workers and loads state, so the session is ready after it. On
    a cluster the query has dealers if the last batch created any.

    Args:
        spark: the session that runs the query.
        settings: the settings of the engine.
        delivery: delivers each batch.
        spool: where large payloads are, see `payload_spool`.
        watch: watches each batch.
        outgrown: called after a batch that creates the first dealer of a cluster. This query runs no other
            batch then, and must be stopped and restarted.
    """
    home = SessionHome(settings.home)
    if not settings.local:
        _begin_dealers(spark, settings)
    checkpoint = checkpoint_blobs(settings.home)
    first = first_batch(checkpoint)
    spool.prepare()
    arena = home.arena.folders if settings.local else home.arena.on_hosts
    context = OperatorContext(settings.slots, arena, home.path, settings.blobs, spool, first)
    spark = without_generated_code(spark)
    chunks = _read_source(spark, settings, spool, checkpoint)
    operators = None
    if settings.local:
        operators = LocalOperators(EVALUATE, AGGREGATE, context)
    else:
        chunks = with_operators(spark, chunks, context, initial_heads(checkpoint))

    def process_batch(batch: DataFrame, of_query: int) -> None:
        begun, number = time.perf_counter_ns(), first + of_query
        with watch(number):
            settle_batch(checkpoint, number)
            table = run_batch(batch, number, operators)
            if operators is not None:
                settle(home.state)  # the directory entries of new slots
            elif (others := take_seeds(table, settings.blobs, spool)) is not None:
                table = others
                if not first:
                    outgrown()
            delivery.deliver(table, number, (time.perf_counter_ns() - begun) // 1000)

    return (
        chunks.writeStream.queryName("stqsh")
        .option("checkpointLocation", checkpoint_place(checkpoint))
        .trigger(processingTime="0 seconds")
        .foreachBatch(process_batch)
        .start()
    )


def run_batch(batch: DataFrame, number: int, operators: LocalOperators | None) -> pa.Table:
    """Run the operators on a batch and return their chunks, a table of the schema CHUNK.

    Args:
        batch: the chunks of the source, or of the query's own operators.
        number: Spark's number of the batch.
        operators: the operators to run; None if they are part of the query, so that its chunks are only
            collected.
    """
    return collect(batch) if operators is None else operators.run(batch, number)


def _begin_dealers(spark: SparkSession, settings: EngineSettings) -> None:
    """Begin a checkpoint with dealers from one without, if the last complete batch created the first."""
    before = checkpoint_blobs(settings.home)
    batch = last_commit(before)
    if first_batch(before) or batch < 0 or batch != last_offset(before):
        return
    offset = read_offset(before, batch)
    if Offset.from_json(json.loads(offset)).dealers:
        after = later_checkpoint(settings.blobs, batch + 1)
        begin_checkpoint(after, offset, stored_heads(spark, before, settings.slots))
        place_later_checkpoint(settings.home, settings.blobs, batch + 1)


def payload_spool(settings: EngineSettings) -> Spool:
    """Return the spool for large payloads: folders, or blobs of the session's storage on a cluster."""
    home = SessionHome(settings.home)
    if settings.local:
        return open_spool(home.path, str(home.arena.folder / "spool"), settings.spool_bytes)
    return open_spool(home.path, settings.blobs.below("transit").uri, settings.blob_bytes)


def _cores(spark: SparkSession, settings: EngineSettings) -> int:
    """Return the number of cores that Spark has.

    Executors of a cluster may still be starting. The number of slots approximates the number of cores.
    """
    found = spark.sparkContext.defaultParallelism
    return found if settings.local else max(found, settings.slots)


def _max_results(spark: SparkSession) -> int:
    """Return the maximum size of a job's results that Spark lets the driver collect; 0 for any."""
    told = spark.sparkContext.getConf().get("spark.driver.maxResultSize", "1g") or "1g"
    return int(told) if told.isdigit() else parse_size(told)


def _read_source(spark: SparkSession, settings: EngineSettings, spool: Spool, checkpoint: Blobs) -> DataFrame:
    """Return the chunks of the source `stqsh` as a streaming data frame."""
    first = first_batch(checkpoint)
    spark.dataSource.register(StqshSource)
    return (
        spark.readStream.format(StqshSource.name())
        .option("home", str(settings.home))
        .option("slots", settings.slots)
        .option("max_records", settings.max_records)
        .option("max_bytes", settings.max_bytes)
        .option("cores", _cores(spark, settings))
        .option("max_results", _max_results(spark))
        .option("boot", uuid.uuid4().hex)
        .option("storage", settings.storage)
        .option("cache", settings.cache)
        .option("transit", spool.place)
        .option("spool_bytes", spool.least)
        .option("folds", settings.local)
        .option("deals", settings.local or first > 0)
        .option("initial", read_offset(checkpoint, first - 1) if first else "")
        .load()
    )
