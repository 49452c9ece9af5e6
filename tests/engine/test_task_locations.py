"""Tasks run in the executors that their locations name; no other Spark session is open in this module."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stqsh.engine.config import EngineSettings
from stqsh.engine.spark import spark_internals
from stqsh.engine.spark.spark_session import remove_scratch, start_spark


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_tasks_run_in_the_executors_that_their_locations_name(tmp_path: Path) -> None:
    def location(_: object) -> str:  # a worker cannot import a test
        from stqsh.engine.spark.spark_internals import executor_location

        return executor_location()

    settings = EngineSettings(
        tmp_path, master="local-cluster[2,1,1024]", memory="1g", slots=2, executor_memory="512m"
    )
    spark = start_spark(settings)
    try:
        context = spark.sparkContext
        context.setLocalProperty(spark_internals.POOL_PROPERTY, "located")
        assert spark_internals.executor_location() == ""
        while len(found := set(context.parallelize(range(8), 8).map(location).collect())) < 2:
            time.sleep(0.2)  # the second executor may come later
        locations = sorted(found)
        assert all(location.startswith("executor_") for location in locations)
        for order in (locations, locations[::-1]) * 10:
            parts = [((number, place), place) for number, place in enumerate(order)]
            ran = spark_internals.located_tasks(context, parts).map(lambda part: (part, location(0)))
            assert ran.collect() == [((number, place), place) for number, place in enumerate(order)]
        assert str(context._jsc.sc().getSchedulingMode()) == "FAIR"
        assert context._jsc.sc().getPoolForName("located").isDefined()
        # A location that is gone keeps no task from running.
        gone = spark_internals.located_tasks(context, [("x", "executor_nowhere_77")]).map(location)
        assert gone.collect()[0] in locations
    finally:
        spark.stop()
        remove_scratch(settings)
