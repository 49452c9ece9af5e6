"""Executors of this machine share the archive of Java's classes, and tasks run in those that locations name.

No other Spark session is open in this module.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import psutil
import pytest
from pyspark import SparkContext

from stqsh.engine.config import EngineSettings
from stqsh.engine.spark import spark_internals
from stqsh.engine.spark.java import find_java
from stqsh.engine.spark.java_gateway import archive_options
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
        assert_archive_is_used(spark_internals.java_process(spark))
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


def assert_archive_is_used(driver: subprocess.Popen[bytes] | None) -> None:
    """The driver and its executors have the classpath and the options with which Java accepts the archive."""
    assert driver is not None
    shell = psutil.Process(driver.pid)
    javas = [one for one in (shell, *shell.children(recursive=True)) if one.name() == "java"]
    assert len(javas) == 3
    for command in (java.cmdline() for java in javas):
        entries = command[command.index("-cp") + 1].split(":")
        there = [entry for entry in entries if entry.endswith("*") or Path(entry).exists()]
        assert there == spark_internals.spark_classpath().split(":")
        assert set(archive_options(find_java())) <= set(command)


@pytest.mark.parametrize("is_open", [False, True])
def test_java_of_a_stopped_session_is_ended_and_that_of_an_open_one_is_not(is_open: bool) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        gateway = SimpleNamespace(proc=process, shutdown=mock.Mock())
        with mock.patch.multiple(
            SparkContext, _gateway=gateway, _jvm=object(), _active_spark_context=object() if is_open else None
        ):
            spark_internals.end_idle_java()
            assert (SparkContext._gateway is None) == (not is_open)
        assert gateway.shutdown.called != is_open
        assert (process.poll() is None) == is_open
        process.kill()
