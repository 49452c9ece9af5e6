"""What the engine assumes about Spark's internals, checked against the Spark that is installed."""

from __future__ import annotations

import inspect
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pyspark.daemon
import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from support.toy_engine import ToySource

from stqsh.engine.config import EngineSettings
from stqsh.engine.spark import spark_internals, worker_daemon
from stqsh.engine.spark.java import JavaRuntime
from stqsh.engine.spark.java_gateway import launch_java
from stqsh.engine.spark.spark_session import (
    configuration,
    remove_scratch,
    start_spark,
    without_generated_code,
)
from stqsh.errors import StqshError
from stqsh.spec.chunk import CHUNK
from stqsh.storage.blobs import checkpoint_blobs, home_blobs, later_checkpoint, place_later_checkpoint

TESTS = Path(__file__).resolve().parent.parent
SLOTS = 3
CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."


@dataclass(frozen=True)
class Ran:
    """A session in which a streaming query has run, as the engine's does, for three batches."""

    spark: SparkSession
    settings: EngineSettings
    checkpoint: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    home = tmp_path_factory.mktemp("home")
    settings = EngineSettings(home, master="local[2]", memory="1g", slots=SLOTS)
    allowed = home / "allowed"
    allowed.write_text("3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        spark = start_spark(settings)
        spark.dataSource.register(ToySource)
        source = spark.readStream.format("toy").option("allowed", str(allowed)).option("slots", SLOTS).load()
        writer = source.writeStream.option("checkpointLocation", str(home / "checkpoint"))
        query = writer.foreachBatch(lambda batch, _: batch.select(*CHUNK.names).toArrow()).start()
        query.processAllAvailable()
        query.stop()
        yield Ran(spark, settings, home / "checkpoint")
        spark.stop()
    remove_scratch(settings)


def java_of(ran: Ran) -> JavaObject:
    """The classes of Spark's Java process."""
    return ran.spark.sparkContext._jvm


def tree() -> list[psutil.Process]:
    """This process, Java's, and the Python workers."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def test_the_version_is_the_one_that_was_checked() -> None:
    assert pyspark.__version__.startswith(f"{spark_internals.CHECKED_VERSION}.")


def test_the_daemon_is_sparks_own_with_a_prologue() -> None:
    assert inspect.signature(pyspark.daemon.manager).parameters == {}
    assert "os.fork()" in inspect.getsource(pyspark.daemon.manager)
    assert "sys.argv[1]" in inspect.getsource(pyspark.daemon.worker)


@pytest.mark.spark
def test_offsets_and_commits_are_files_of_the_checkpoint(ran: Ran) -> None:
    numbers = sorted(int(path.name) for path in (ran.checkpoint / "offsets").glob("[0-9]*"))
    assert numbers == list(range(len(numbers))) and len(numbers) >= 1
    last = numbers[-1]
    assert spark_internals.last_commit(home_blobs(ran.checkpoint)) == last
    assert (ran.checkpoint / spark_internals.commit_file(last)).is_file()
    first_line = (ran.checkpoint / "offsets" / "0").read_text().splitlines()[0]
    assert first_line == "v1"
    assert json.loads(spark_internals.read_offset(home_blobs(ran.checkpoint), last)) == {"batch": 3}


def test_a_checkpoint_that_goes_on_from_another_one_counts_on_from_it(tmp_path: Path) -> None:
    begun = later_checkpoint(home_blobs(tmp_path), 57)
    spark_internals.begin_checkpoint(begun, '{"step": 9}', {"evaluate": {"0": "aGVhZA=="}})
    place_later_checkpoint(tmp_path, home_blobs(tmp_path), 57)
    checkpoint = checkpoint_blobs(tmp_path)
    assert spark_internals.has_metadata(checkpoint)
    assert spark_internals.first_batch(checkpoint) == 57
    assert spark_internals.last_commit(checkpoint) == spark_internals.last_offset(checkpoint) == 56
    assert spark_internals.read_offset(checkpoint, 56) == '{"step": 9}'
    for name in (spark_internals.commit_file(56, 57), spark_internals.offset_file(56, 57)):
        assert spark_internals.is_intact(checkpoint, name)
    checkpoint.put(spark_internals.offset_file(58, 57), [b'v1\n{}\n{"step": 11}'])
    checkpoint.put(spark_internals.commit_file(57, 57), [b"v1\n{}"])
    assert (spark_internals.last_commit(checkpoint), spark_internals.last_offset(checkpoint)) == (57, 58)
    assert spark_internals.read_offset(checkpoint, 58) == '{"step": 11}'
    assert (tmp_path / "checkpoints" / "57" / "offsets" / "1").is_file()
    assert spark_internals.initial_heads(checkpoint) == {"evaluate": {"0": "aGVhZA=="}}


@pytest.mark.spark
def test_tasks_are_told_the_number_of_their_batch(ran: Ran) -> None:
    numbers = [path.name for path in (ran.checkpoint / "offsets").glob("[0-9]*")]
    assert (ran.settings.home / "numbers").read_text().split() == sorted(numbers)


@pytest.mark.spark
def test_java_is_the_process_of_the_gateway(ran: Ran) -> None:
    process = spark_internals.java_process(ran.spark)
    assert process is not None
    assert "java" in psutil.Process(process.pid).name()
    assert spark_internals.java_exit_code(ran.spark) is None


@pytest.mark.spark
def test_spark_knows_every_setting_and_has_it(ran: Ran) -> None:
    known = java_of(ran).org.apache.spark.internal.config.ConfigEntry
    set_here = configuration(ran.settings)
    unknown = {key for key in set_here if known.findEntry(key) is None and ".hadoop." not in key}
    # These have no entry but are read by name; the tests below look at the internal ones.
    unlisted = {"spark.app.name", "spark.executorEnv.PYTHONPATH", "spark.local.dir", CHECKPOINT_MANAGER}
    assert unknown <= unlisted | {key for key in set_here if key.startswith(ROCKSDB)}
    has = dict(ran.spark.sparkContext.getConf().getAll())
    assert set_here.pop("spark.driver.extraJavaOptions").split()[0] in has.pop(
        "spark.driver.extraJavaOptions"
    )
    assert {key: has.get(key) for key in set_here} == set_here
    assert ran.spark.sparkContext.master == "local[2,4]"


@pytest.mark.spark
def test_the_checkpoint_manager_is_the_one_that_is_named(ran: Ran) -> None:
    java = java_of(ran)
    path = java.org.apache.hadoop.fs.Path(str(ran.checkpoint))
    conf = ran.spark._jsparkSession.sessionState().newHadoopConf()
    managers = java.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    used = managers.create(path, conf).getClass().getName()
    assert used == spark_internals.INTERNAL_CONFIGURATION[CHECKPOINT_MANAGER]


def test_the_state_store_reads_the_settings_that_it_is_given() -> None:
    keys = [key.removeprefix(ROCKSDB) for key in spark_internals.INTERNAL_CONFIGURATION if ROCKSDB in key]
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as classes:
        code = classes.read("org/apache/spark/sql/execution/streaming/state/RocksDBConf$.class")
    assert len(keys) == 2
    assert [key for key in keys if key.encode() not in code] == []


@pytest.mark.spark
def test_spark_compiles_no_code_for_the_plans_of_a_session_that_interprets_them(ran: Ran) -> None:
    metrics = ran.spark._jvm.org.apache.spark.metrics.source.CodegenMetrics

    def compiled(spark: SparkSession) -> int:
        before = metrics.METRIC_COMPILATION_TIME().getCount()
        rows = spark.range(7).selectExpr("id % 3 k", "sin(id) s").repartition(SLOTS, "k").collect()
        assert len(rows) == 7
        return metrics.METRIC_COMPILATION_TIME().getCount() - before

    interpreting = without_generated_code(ran.spark)
    assert interpreting.conf.get("spark.sql.shuffle.partitions") == str(SLOTS)
    assert compiled(interpreting) == 0
    assert compiled(ran.spark) > 0


@pytest.mark.spark
def test_workers_come_from_our_daemon_and_import_what_is_installed(ran: Ran) -> None:
    def look(_: int) -> tuple[bool, str, str, int]:
        import sys

        import pyspark

        daemon = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        return (
            worker_daemon.__name__ in sys.modules,
            pyspark.__file__,
            sys.executable,
            daemon.count(spark_internals.WORKER_MODULE),
        )

    found = ran.spark.sparkContext.parallelize([0], 1).map(look).collect()
    assert found == [(True, pyspark.__file__, sys.executable, 1)]


@pytest.mark.spark
def test_slots_keys_lead_to_their_partitions(ran: Ran) -> None:
    keys = list(enumerate(spark_internals.slot_keys(SLOTS)))
    frame = ran.spark.createDataFrame(keys, "slot int, slot_key int").repartition(SLOTS, "slot_key")
    dealt = frame.rdd.mapPartitionsWithIndex(
        lambda number, rows: [(number, row.slot) for row in rows]
    ).collect()
    assert sorted(dealt) == [(slot, slot) for slot in range(SLOTS)]


@pytest.mark.spark
def test_only_the_loopback_is_listened_on_and_a_secret_is_asked_for(ran: Ran) -> None:
    hadoop = java_of(ran).org.apache.hadoop
    drawn = hadoop.security.UserGroupInformation.getCurrentUser().getCredentials()
    secret = drawn.getSecretKey(hadoop.io.Text("sparkCookie"))
    assert len(secret) >= 32, "Spark has drawn a secret, which it asks of all that connect"
    living = [one for one in tree() if one.status() != psutil.STATUS_ZOMBIE]
    ports = [
        connection.laddr
        for process in living
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert ports, "Spark listens somewhere"
    assert {address.ip.removeprefix("::ffff:") for address in ports} <= {"127.0.0.1", "::1"}
    assert ran.spark.sparkContext.uiWebUrl is None
    words = [word for process in living for word in process.cmdline()]
    assert not [word for word in words if "authenticate.secret" in word]


@pytest.mark.spark
def test_java_takes_the_options_that_bound_its_memory(ran: Ran) -> None:
    management = java_of(ran).java.lang.management
    options = management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert {"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxHeapFreeRatio=30"} <= set(options)
    assert ran.spark.sparkContext.getConf().get("spark.cleaner.periodicGC.interval") == "1min"


@pytest.mark.spark
def test_java_is_started_with_sparks_own_options_but_the_vector_module(ran: Ran) -> None:
    of_spark = java_of(ran).org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()
    assert list(of_spark) == [
        spark_internals.JAVA_MODULES[0],
        spark_internals.VECTOR_MODULE,
        *spark_internals.JAVA_MODULES[1:],
    ]
    main = java_of(ran).java.lang.System.getProperty("sun.java.command")
    assert main == spark_internals.GATEWAY_SERVER


@pytest.mark.spark
def test_java_has_the_jar_first_that_sparks_scripts_put_first(ran: Ran) -> None:
    first, *others = java_of(ran).java.lang.System.getProperty("java.class.path").split(os.pathsep)
    assert Path(first).name.startswith("slf4j-api-")
    assert {first, *others} == {str(jar) for jar in (spark_internals.spark_folder() / "jars").glob("*.jar")}


@pytest.mark.spark
def test_nobody_is_asked_for_packaged_data_sources(ran: Ran) -> None:
    ran.spark.range(1).count()
    commands = []
    for process in tree():
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # it has just ended
            commands.append(" ".join(process.cmdline()))
    assert [command for command in commands if "create_data_source" in command] != []
    assert [command for command in commands if "lookup_data_sources" in command] == []


@pytest.mark.spark
def test_the_gateways_secret_is_not_left_in_the_environment(ran: Ran) -> None:
    assert not {spark_internals.GATEWAY_PORT, spark_internals.GATEWAY_SECRET} & set(os.environ)
    assert spark_internals.read_gateway(ran.settings.scratch / "gateway") is None


def test_java_that_does_not_start_is_told_with_its_code(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o700)
    started = launch_java(JavaRuntime(tmp_path, 17, "a test"), "1g", [], tmp_path)
    with pytest.raises(StqshError, match="Java ended with code 3 while starting"):
        started.reached_by()


def test_gateways_say_how_to_reach_them(tmp_path: Path) -> None:
    file = tmp_path / "gateway"
    assert spark_internals.read_gateway(file) is None
    file.write_bytes(b"\0\0\x9c\x41\0\0\0\x03abc")
    assert spark_internals.read_gateway(file) == (40001, "abc")


@pytest.mark.spark
def test_workers_have_no_pandas_unless_they_ask_for_it(ran: Ran) -> None:
    def look(_: int) -> tuple[bool, bool, str]:
        import sys

        import pyarrow as pa

        pa.array([1.5])
        before = "pandas" in sys.modules
        import pandas

        return before, "pandas" in sys.modules, type(pandas.Series([1])).__name__

    assert ran.spark.sparkContext.parallelize([0], 1).map(look).collect() == [(False, True, "Series")]
