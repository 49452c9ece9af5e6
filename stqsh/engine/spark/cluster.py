"""Differences of Spark on a cluster: the driver's address, and hosts that share only the home.

There large payloads are blobs of the session's storage (`stqsh.engine.state.payload_files`). Each slot's
arena is in the shared memory of the slot's host, and is rebuilt from the slot's files when the slot moves.
Snapshots whose slots are on other hosts go through the log (`stqsh.client.read.snapshots`).
"""

from __future__ import annotations

import re
import secrets
import shlex
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.core import compile_kernels
from stqsh.engine.config import TUNING, EngineSettings
from stqsh.engine.spark.object_store import JARS, for_store
from stqsh.engine.spark.spark_internals import CHECKPOINT_MANAGER
from stqsh.errors import ProfileError
from stqsh.fs import DURABILITY
from stqsh.storage.arena_cleanup import host_folders, remove_lost_arenas
from stqsh.storage.private_files import make_private_folder

if TYPE_CHECKING:
    from stqsh.profile import Value

LOOPBACK = "127.0.0.1"
DRIVER_JAVA, EXECUTOR_JAVA = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
"""The settings with options for Java; those of the profile come after stqsh's own."""
PYTHON = "spark.pyspark.python"
"""The setting with the executors' Python: a path on their hosts, or in an archive: `./NAME/bin/python`."""
CALLED = "stqsh-python"
"""The script that driver and executors run as Python if their Pythons differ in path; each has its own."""
_FILES = "spark.files"
ARCHIVE = "stqsh"
"""The name under which executors unpack the archive of `stqsh pack`: `spark.archives: FILE#stqsh`."""
SOCKETS = "spark.python.unix.domain.socket.dir"
"""The setting with the folder of the sockets by which Java and Python talk to each other."""
_SECRET, _SECRET_FILE = "spark.authenticate.secret", "spark.authenticate.secret.file"
_PYTHONPATH = "spark.executorEnv.PYTHONPATH"

#: Settings that a profile may override.
_FREE = frozenset(
    [
        "spark.app.name",
        "spark.cleaner.periodicGC.interval",
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.executor.syncLogLevel.enabled",
        "spark.locality.wait",
        "spark.local.dir",
        "spark.log.level",
        SOCKETS,
        CHECKPOINT_MANAGER,
        "spark.ui.enabled",
        _PYTHONPATH,
        *JARS,
    ]
)
_FREE_PREFIX = "spark.hadoop.fs.s3a."
#: Settings that stqsh sets itself or cannot work with.
_ELSEWHERE = {
    "spark.driver.memory": "engine.memory says it",
    "spark.sql.shuffle.partitions": "engine.slots says it",
    "spark.submit.deployMode": "the driver is the session's own process, wherever that runs",
}
STANDALONE = re.compile(r"spark://(?P<host>[^:/,]+):(?P<port>\d+)")


def driver_address(master: str) -> str:
    """Return the address at which executors reach the driver: the one from which it reaches the master.

    Spark's default, the host's name, may resolve to another network, and a cluster on the loopback needs no
    other address. "" leaves the choice to Spark: for other kinds of master, for IPv6, which has several
    notations, and for a master that does not respond, which is reported elsewhere.
    """
    if master.startswith("local-cluster["):
        return LOOPBACK
    named = STANDALONE.match(master)
    if named is None:
        return ""
    try:
        with socket.create_connection(
            (named["host"], int(named["port"])), TUNING.master_connect_s
        ) as reached:
            address = str(reached.getsockname()[0])
    except OSError:
        return ""
    return "" if ":" in address else address


def for_cluster(settings: EngineSettings, python_path: str) -> dict[str, str]:
    """Return the settings for the executors of a cluster and for authentication between its processes.

    Args:
        settings: the engine's settings.
        python_path: the PYTHONPATH of executors, if they use the driver's Python at the same path.

    Raises:
        ProfileError: the file with the secret cannot be read.
    """
    address = driver_address(settings.master)
    options = {
        "spark.executor.memory": settings.executor_memory,
        "spark.executor.cores": settings.executor_cores,
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        _PYTHONPATH: "" if executors_python(settings) else python_path,
        f"spark.executorEnv.{DURABILITY}": settings.durability,
        _FILES: _files(settings),
        # Executors log only problems; otherwise they log some sixty lines a batch.
        "spark.log.level": "ERROR",
        "spark.executor.syncLogLevel.enabled": "true",
        _SECRET: _secret(settings),
        # A core that becomes free is offered to a snapshot before the next task of a batch.
        "spark.scheduler.mode": "FAIR",
        # Slots stay where their arrays are, unless their executor is busy for longer.
        "spark.locality.wait": "1s",
    }
    if settings.master == "yarn":
        # YARN's temporary folder, several long names deep, is too long for the path of a socket.
        options[SOCKETS] = "/tmp"
    if settings.master.startswith("local-cluster["):
        # Other users of this machine can also connect to the loopback.
        options |= {"spark.authenticate": "true", _SECRET: secrets.token_hex(32)}
    options |= for_store(settings.storage, settings.of_spark)
    return {key: value for key, value in options.items() if value}


def _secret(settings: EngineSettings) -> str:
    """Return the secret of a standalone cluster; "" if there is none, or if Spark generates it.

    Spark reads the file on Kubernetes only.
    """
    file = settings.of_spark.get(_SECRET_FILE)
    if settings.secret or file is None or settings.master.startswith("k8s://"):
        return settings.secret
    try:
        found = Path(str(file.value)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{file.origin}: cannot read the secret: {error}", hint=None) from error
    if not found:
        raise ProfileError(f"{file.origin}: the file with the secret is empty: {file.value}", hint=None)
    return found


def write_pythons(settings: EngineSettings, driver: Callable[[Path], None]) -> str:
    """Write the scripts that run the Pythons of driver and executors; return what Spark calls Python.

    Spark uses one name of Python for all hosts, and the driver needs it, too, for the process of the planner.
    The name is a file in the working folder of the driver's Java or of an executor.

    Args:
        settings: the engine's settings, with another Python for executors.
        driver: writes a script that runs the driver's Python.
    """
    python = executors_python(settings)
    if not Path(python).is_absolute():
        driver(settings.scratch / python)
        return f"./{python}"
    sent = sent_python(settings)
    sent.parent.mkdir()
    sent.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n', encoding="utf-8")
    driver(settings.scratch / CALLED)
    return f"./{CALLED}"


def sent_python(settings: EngineSettings) -> Path:
    """Return the path of the script that Spark sends to executors whose Python has another path."""
    return settings.scratch / "sent" / CALLED


def _files(settings: EngineSettings) -> str:
    """Return the files that Spark sends to executors: those of the profile, and `sent_python`."""
    given = settings.of_spark.get(_FILES)
    own = str(sent_python(settings)) if Path(executors_python(settings)).is_absolute() else ""
    return ",".join(name for name in (str(given.value) if given else "", own) if name)


def executors_python(settings: EngineSettings) -> str:
    """Return the path of the executors' Python on their hosts; "" if it is the driver's path."""
    if PYTHON in settings.of_spark:
        return str(settings.of_spark[PYTHON].value).removeprefix("./")
    archives = settings.of_spark.get("spark.archives")
    names = str(archives.value).split(",") if archives is not None else []
    is_packed = any(name.strip().endswith(f"#{ARCHIVE}") for name in names)
    return f"{ARCHIVE}/bin/python" if is_packed and not settings.local else ""


def with_given(own: Mapping[str, str], given: Mapping[str, Value]) -> dict[str, str]:
    """Return Spark's settings: stqsh's own, and those of the profile unchanged.

    Raises:
        ProfileError: the profile sets a setting that stqsh has to decide.
    """
    found = dict(own)
    for name, value in given.items():
        text = str(value.value)
        why = _ELSEWHERE.get(name, "stqsh's answers or its memory rest on it" if name in own else "")
        if name == _FILES or (name == _SECRET_FILE and _SECRET in own):
            continue
        is_added = name in (DRIVER_JAVA, EXECUTOR_JAVA) and name in own
        is_free = name in _FREE or name.startswith(_FREE_PREFIX) or is_added
        if why and not is_free and own.get(name) != text:
            raise ProfileError(f"{value.origin}: {name} cannot be set: {why}", hint="leave it out")
        if not is_added:
            found[name] = text
    return found


def prepare_host(arena: tuple[Path, ...]) -> None:
    """Prepare this host for a session, in a worker: make its arena, and compile or load the kernels.

    Arenas of dead sessions are removed, because none of their clients ran on this host. The session's own
    arena does not name its home, which this host may be unable to access: it is removed after a day without
    use.
    """
    for folder in host_folders(arena):
        make_private_folder(folder)
    remove_lost_arenas()
    compile_kernels()
