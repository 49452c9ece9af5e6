"""A Spark cluster of one's own on the loopback: a master and workers, as the package pyspark brings them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from stqsh.engine.spark.java import find_java
from support.hosts import tied

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY = "org.apache.spark.deploy"
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_PATIENCE_S = 180.0


@contextmanager
def standalone(
    folder: Path, workers: int, memory: str, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a master and `workers` workers of one core and `memory` each; the master's URL.

    Their logs, and their executors', lie in `folder`. All are gone afterwards. `settings` are Spark's, for
    master and workers.
    """
    file = folder / "spark-daemons.conf"
    file.write_text("".join(f"{key} {value}\n" for key, value in (settings or {}).items()), encoding="utf-8")
    given = ("--properties-file", str(file))
    with ExitStack() as running:
        main = f"{_DEPLOY}.master.Master"
        log = running.enter_context(_daemon(folder, "master", main, "--port", "0", *given))
        url = _waited(log, _STARTED)
        for number in range(workers):
            name, work = f"worker-{number}", str(folder / f"work-{number}")
            options = ("--cores", "1", "--memory", memory, "--work-dir", work, *given, url)
            log = running.enter_context(_daemon(folder, name, f"{_DEPLOY}.worker.Worker", *options))
            _waited(log, re.compile(r"(Successfully registered) with master"))
        yield url


@contextmanager
def _daemon(folder: Path, name: str, *command: str) -> Iterator[Path]:
    """Run one of Spark's daemons in a process group of its own, which ends with it; the daemon's log."""
    environ = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    main, *options = command
    places = ["--host", "127.0.0.1", "--webui-port", "0"]
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            tied([str(_SPARK_CLASS), main, *places, *options]),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _waited(log: Path, sought: re.Pattern[str]) -> str:
    """Wait for a line in a log; what the pattern's group found in it."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if found := sought.search(log.read_text(errors="replace")):
            return found.group(1)
        time.sleep(0.1)
    raise AssertionError(f"no line {sought.pattern!r} in:\n{log.read_text(errors='replace')}")
