"""The Spark session: settings that make small batches fast, and keep other users out.

With these settings two stateful Python operators, as on clusters, take 0.20 s a batch; without them 0.40 s.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import stqsh
from stqsh.engine.config import EngineSettings
from stqsh.engine.spark.cluster import (
    DRIVER_JAVA,
    EXECUTOR_JAVA,
    LOOPBACK,
    SOCKETS,
    executors_python,
    for_cluster,
    prepare_host,
    with_given,
    write_pythons,
)
from stqsh.engine.spark.java import JavaRuntime, find_java
from stqsh.engine.spark.java_gateway import archive_options, launch_java, submit_java
from stqsh.engine.spark.spark_internals import (
    GATEWAY_PORT,
    GATEWAY_SECRET,
    INTERNAL_CONFIGURATION,
    INTERPRETED_PLANS,
    NO_PYTHON,
    end_idle_java,
    keep_java_process,
)
from stqsh.engine.spark.worker_daemon import WITHOUT_PANDAS
from stqsh.storage.home import SessionHome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE_ROOT = Path(stqsh.__file__).resolve().parent.parent

#: Compile with Java's first compiler only: Spark's code for a batch of a few rows is never hot enough for the
#: second one, and the profiling code for it takes a fifth of the processor time of a session's start. In the
#: executors of a cluster the second compiler took more than half of their first minutes.
_JIT = ("-XX:TieredStopAtLevel=1",)

#: Return memory: Spark's live objects take about 60 MB, but Java would let the young generation grow to 60 %
#: of its heap, and keep the heap at its largest size. Java resizes its heap at the end of a full collection,
#: and does not run one by itself while it is busy. Spark requests one a minute (`_FIXED`), which runs
#: concurrently with batches and takes about 0.1 s of a core.
_HEAP = (
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:G1MaxNewSizePercent=15",
)

TASK_ATTEMPTS = 4
"""The number of times that Spark tries a task before its batch fails."""
_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)\])?")
"""Local masters without a number of attempts, which Spark takes as one attempt."""

#: Settings that do not depend on the session.
_FIXED = {
    "spark.app.name": "stqsh",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark collects data for its UI even if the UI is off: keep only the last few jobs, or Java's memory
    # grows for the first thousand batches.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    # Keep the plan of each batch for these pages in its short form.
    "spark.sql.ui.explainMode": "simple",
    # For the few files whose mode Spark sets itself; other files follow the engine's umask.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    "spark.locality.wait": "0",
    # The interval of the collection that bounds Java's memory, see `_HEAP`. Spark's default is half an hour.
    "spark.cleaner.periodicGC.interval": "1min",
    # A batch's plan, and the work of its tasks, is always the same: tasks are cut by the source, and no task
    # may run twice at the same time, because both attempts would write the same files.
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    # The attempts of a task before its batch fails. For local masters the number is part of the URL.
    "spark.task.maxFailures": str(TASK_ATTEMPTS),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def start_spark(settings: EngineSettings) -> SparkSession:
    """Start the JVM and return its session, with the process's environment set up for it and its workers.

    The Java process of a session that has stopped in this process is ended.

    Raises:
        JavaMissingError: there is no Java of version 17 or newer.
    """
    java = find_java()
    if not settings.java_options:
        settings = replace(settings, java_options=tuple(archive_options(java)))
    SessionHome(settings.home).make_scratch()
    os.environ.update(_environment(settings, java))
    given = {"spark.master": pinned_master(settings.master), **configuration(settings)}
    if settings.local:
        started = launch_java(java, settings.memory, _java_options(settings), settings.scratch)
    else:
        started = submit_java(given, settings.scratch)
    try:
        import_module("pyspark.sql")  # while Java starts, which takes longer
        end_idle_java()
        port, secret = started.reached_by()
        with _variables({GATEWAY_PORT: str(port), GATEWAY_SECRET: secret}):
            spark = _build_session(given)
    except BaseException:
        started.process.kill()
        raise
    keep_java_process(spark, started.process)
    return spark


def _build_session(given: Mapping[str, str]) -> SparkSession:
    builder = import_module("pyspark.sql").SparkSession.builder
    for key, value in given.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    return spark


@contextmanager
def _variables(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the context only, hidden from processes started later."""
    os.environ |= variables
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def without_generated_code(spark: SparkSession) -> SparkSession:
    """Return a session that shares Spark's context and interprets its plans instead of compiling them.

    Spark processes a few rows a batch, which hold arrays, while compiling generated code and the code itself
    take a fifth of Java's processor time at the start. Sorting large sources still uses generated code.
    """
    session = spark.newSession()
    for key, value in INTERPRETED_PLANS.items():
        session.conf.set(key, value)
    return session


def start_workers(spark: SparkSession, count: int) -> None:
    """Start Python workers and their imports, in a thread, while the query is planned."""
    spark.sparkContext.parallelize(range(count), count).map(bool).count()


def prepare_hosts(spark: SparkSession, settings: EngineSettings) -> None:
    """Prepare a cluster's hosts for the session; wait until there is an executor."""
    arena, count = SessionHome(settings.home).arena.on_hosts, settings.slots
    spark.sparkContext.parallelize([arena] * count, count).foreach(prepare_host)


def configuration(settings: EngineSettings) -> dict[str, str]:
    """Return all Spark settings of a session: stqsh's own, and those of the profile for Spark.

    Raises:
        ProfileError: the profile sets a setting that stqsh has to decide.
    """
    scratch = str(settings.scratch)
    own = {
        "spark.sql.shuffle.partitions": str(settings.slots),
        "spark.driver.memory": settings.memory,
        DRIVER_JAVA: shlex.join(_java_options(settings)),
    }
    if settings.local:
        # Nothing listens on a network: all ports that Spark opens are on the loopback.
        # Other users of this machine can also connect to the loopback. Spark generates the secret itself: set
        # here, it would be on the command line of its Java process.
        own |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.authenticate": "true",
            "spark.local.dir": scratch,
            SOCKETS: scratch,
        }
    else:
        own |= for_cluster(settings, _python_path())
        # Executors of this machine use the archive of Java's classes, too.
        here = settings.java_options if own.get("spark.driver.host") == LOOPBACK else ()
        own[EXECUTOR_JAVA] = shlex.join([*_JIT, *here, *_given_options(settings, EXECUTOR_JAVA)])
    return with_given(_FIXED | INTERNAL_CONFIGURATION | own, settings.of_spark)


def _java_options(settings: EngineSettings) -> list[str]:
    """Return the options of the driver's Java process."""
    vfork = "-Djdk.lang.Process.launchMechanism=VFORK"
    scratch = f"-Djava.io.tmpdir={settings.scratch}"
    given = _given_options(settings, DRIVER_JAVA)
    return [vfork, _log_option(), scratch, *_JIT, *_HEAP, *settings.java_options, *given]


def _given_options(settings: EngineSettings, setting: str) -> list[str]:
    """Return the options for Java that the profile adds by a setting."""
    given = settings.of_spark.get(setting)
    return shlex.split(str(given.value)) if given is not None else []


def _log_option() -> str:
    return f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"


def pinned_master(master: str) -> str:
    """Return a master URL; a local one has a number of attempts for each task.

    >>> pinned_master("local[3]"), pinned_master("local"), pinned_master("local[2,8]")
    ('local[3,4]', 'local[1,4]', 'local[2,8]')
    """
    found = _LOCAL.fullmatch(master)
    return f"local[{found['cores'] or 1},{TASK_ATTEMPTS}]" if found else master


def remove_scratch(settings: EngineSettings) -> None:
    """Delete Spark's temporary files, including those of a killed engine."""
    SessionHome(settings.home).remove_scratch()


def _environment(settings: EngineSettings, java: JavaRuntime) -> dict[str, str]:
    found = {
        "JAVA_HOME": str(java.home),
        "PYTHONPATH": _python_path(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if settings.local:
        _quick_python(quick := settings.scratch / "python")
        found |= {
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": str(quick),
            "PYSPARK_DRIVER_PYTHON": NO_PYTHON,
        }
        found[WITHOUT_PANDAS] = "1"
    elif executors_python(settings):
        found["PYSPARK_PYTHON"] = write_pythons(settings, _quick_python)
    return found


def _quick_python(script: Path) -> None:
    """Write a script that starts Python for workers with our own PYTHONPATH.

    Spark puts one of its jars first on the path, and each process searches it for every import: some 50 ms of
    processor time for each of the eight processes of a query's start.
    """
    script.parent.mkdir(parents=True, exist_ok=True)
    path, python = shlex.quote(_python_path()), shlex.quote(sys.executable)
    script.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {python} "$@"\n', encoding="utf-8")
    script.chmod(0o700)


def _python_path() -> str:
    """Return a PYTHONPATH with which workers can import stqsh, wherever they start."""
    rest = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return os.pathsep.join(dict.fromkeys([str(_PACKAGE_ROOT), *rest]))
