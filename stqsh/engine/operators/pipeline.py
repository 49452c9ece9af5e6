"""The one streaming query: source, Evaluate, Aggregate, Deliver."""

from __future__ import annotations

import uuid
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stqsh.engine.config import EngineSettings
from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.ingest.data_source import StqshSource
from stqsh.engine.operators.folds import AGGREGATE, EVALUATE
from stqsh.engine.operators.local_operators import LocalOperators
from stqsh.engine.operators.operator_context import OperatorContext
from stqsh.engine.operators.spark_operators import with_operator
from stqsh.engine.state.payload_files import PayloadFolders
from stqsh.storage.home import SessionHome


def start_query(spark: SparkSession, settings: EngineSettings, deliver: Delivery) -> StreamingQuery:
    """Start the query, from the session's checkpoint where there is one.

    Its first batch moves nothing: it brings workers, state and caches up, so that the session is ready after
    it.
    """
    home = SessionHome(settings.home)
    folders = arena_folders(home)
    spool = PayloadFolders(home.path, folders[0] / "spool", settings.spool_bytes) if settings.local else None
    if spool is not None:
        spool.prepare()
    deliver.spool = spool
    place = OperatorContext(settings.slots, folders, home.path, spool)
    spark.dataSource.register(StqshSource)
    chunks = (
        spark.readStream.format(StqshSource.name())
        .option("home", str(home.path))
        .option("slots", settings.slots)
        .option("max_records", settings.max_records)
        .option("max_bytes", settings.max_bytes)
        .option("boot", uuid.uuid4().hex)
        .option("transit", "" if spool is None else str(spool.transit))
        .option("spool_bytes", settings.spool_bytes)
        .load()
    )
    if settings.local:
        deliver.run = LocalOperators(EVALUATE, AGGREGATE, place).run
    else:
        for fold in (EVALUATE, AGGREGATE):
            chunks = with_operator(chunks, fold, place)
    return (
        chunks.writeStream.queryName("stqsh")
        .option("checkpointLocation", str(home.checkpoint))
        .trigger(processingTime="0 seconds")
        .foreachBatch(deliver)
        .start()
    )


def arena_folders(home: SessionHome) -> tuple[Path, ...]:
    """Give the folders for slot state: the session's arena, then a folder in the home for when it is full."""
    return tuple(dict.fromkeys([home.arena(), home.path / "arena-on-disk"]))
