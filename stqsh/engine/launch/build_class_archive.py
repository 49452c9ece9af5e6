"""Archive the classes that the engine's Java process loads, so that it starts faster.

Run `python -m stqsh.engine.launch.build_class_archive` once for an installation.

Java spends more than half of Spark's start loading some 20 000 classes from jars. A class data archive stores
them in a form that is mapped into memory. To make one, an engine is started on an empty home and stopped. Its
Java process writes the archive when it exits, and later engines use it as long as Java and Spark stay the
same. The kernels are compiled in parallel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from stqsh.core import compile_kernels
from stqsh.engine.config import EngineSettings
from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.operators.pipeline import payload_spool, start_query
from stqsh.engine.spark.java import find_java
from stqsh.engine.spark.java_gateway import SILENT, archive_path
from stqsh.engine.spark.spark_internals import java_process
from stqsh.engine.spark.spark_session import remove_scratch, start_spark
from stqsh.errors import StqshError
from stqsh.fs import replacing
from stqsh.profile import load_profile
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome, remove_home

_PATIENCE_S = 300.0
_TELL_S = 10.0
"""Time between two progress lines about the kernels."""


class _NoArchiveError(Exception):
    """This Java did not write an archive."""


def make_archive() -> Path | None:
    """Write the archive unless it exists; return None if this Java cannot make one.

    Raises:
        StqshError: there is no Java, or the engine does not start.
    """
    java = find_java()
    archive = archive_path(java)
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="stqsh-") as folder, replacing(archive) as new:
            _run_engine(Path(folder), new)
            if not new.exists():
                raise _NoArchiveError
    except _NoArchiveError:
        return None
    return archive


def _run_engine(folder: Path, archive: Path) -> None:
    """Start Spark and the query on an empty home, and stop Java cleanly, so that it writes the archive."""
    home = SessionHome(folder)
    home.updates.mkdir()
    control = ControlDb(folder, create=True)
    options = (f"-XX:ArchiveClassesAtExit={archive}", *SILENT)
    settings = replace(EngineSettings.from_profile(folder, load_profile(None, {})), java_options=options)
    done: list[float] = []
    spark = start_spark(settings)
    try:
        spool = payload_spool(settings)
        delivery = Delivery(home, control, spool=spool, on_first=lambda: done.append(time.time()))
        query = start_query(spark, settings, delivery, spool)
        deadline = time.monotonic() + _PATIENCE_S
        while not done and query.isActive and time.monotonic() < deadline:
            time.sleep(0.1)
        if not done:
            raise StqshError("the engine did not start", hint="see its output")
        query.stop()
    finally:
        process = java_process(spark)
        spark.stop()
        if process is not None:
            _end_java(process)
        remove_scratch(settings)
        control.close()
        remove_home(home)


def _end_java(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of Spark's Java process, which makes it exit."""
    if process.stdin is not None:
        process.stdin.close()
    process.wait(_PATIENCE_S)


def main() -> int:
    """Compile the kernels, make the archive and print its path; print progress to standard error."""
    with ThreadPoolExecutor(1) as beside:
        kernels = beside.submit(compile_kernels, on_progress=_Told().tell)
        try:
            archive = make_archive()
            kernels.result()
        except StqshError as error:
            print(error.text(), file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as error:
            print(f"the kernels were not compiled: {error}", file=sys.stderr)
            return 1
    print(archive or "this Java keeps no class archive; the engine starts without one")
    return 0


class _Told:
    """Prints the number of compiled kernels periodically."""

    def __init__(self) -> None:
        self._next = 0.0

    def tell(self, number: int, whole: int) -> None:
        """Print the number of compiled kernels, unless that was done within the last seconds."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_S
            print(f"     {number} of {whole} kernels are compiled", file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
