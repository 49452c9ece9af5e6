"""Start Spark's Java process: locally without the scripts of `spark-submit`, for a cluster with them.

The scripts start a Java process of their own, which only composes a command line, and then `SparkSubmit`,
which searches for applications and packages to load. A session has neither: Java's main class here is the
server to which pyspark connects, and pyspark is imported while it starts. An archive of its classes makes the
start faster. Java accepts an archive only for the classpath with which it was made, so the classpath here is
the one of Spark's scripts: drivers and executors of a cluster on this machine use the same archive.

For a cluster the scripts handle much that a session needs: the input of YARN and Kubernetes, packages, and
the folders of Hadoop's configuration. pyspark would put all settings on the command line, which every user of
the machine can read, so here they are in a file.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import platformdirs

from stqsh.engine.spark.java import JavaRuntime
from stqsh.engine.spark.spark_internals import (
    GATEWAY_FILE,
    GATEWAY_SERVER,
    JAVA_MODULES,
    read_gateway,
    spark_classpath,
    spark_folder,
)
from stqsh.errors import StqshError
from stqsh.program import program

#: Prevent Java from printing messages about its archive.
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_PATIENCE_S = 120.0
_SUBMIT_PATIENCE_S = 600.0
"""The same time for a cluster, where packages of the profile may have to be downloaded first."""
_LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class JavaGateway:
    """A starting Java process, and the file into which it writes its port and secret."""

    process: subprocess.Popen[bytes]
    file: Path
    patience_s: float = _PATIENCE_S

    def reached_by(self) -> tuple[int, str]:
        """Wait until Java listens, and return its port and secret.

        Raises:
            StqshError: Java has exited, or takes too long.
        """
        deadline = time.monotonic() + self.patience_s
        while (found := read_gateway(self.file)) is None:
            if (code := self.process.poll()) is not None:
                raise StqshError(
                    f"Java ended with code {code} while starting",
                    hint=f"{program()} logs shows its output; {program()} doctor looks for the cause",
                )
            if time.monotonic() > deadline:
                self.process.kill()
                raise StqshError(
                    f"Java has not answered for {self.patience_s:.0f} s", hint=f"see {program()} logs"
                )
            time.sleep(_LOOK_S)
        self.file.unlink()
        return found


def launch_java(java: JavaRuntime, memory: str, options: Sequence[str], scratch: Path) -> JavaGateway:
    """Start Java, which exits when its standard input is closed; return at once.

    Args:
        java: the runtime.
        memory: the maximum size of its heap, in Java's notation.
        options: further options for Java.
        scratch: the folder for Java's file with port and secret; only this user may read it.
    """
    file = scratch / "gateway"
    command = [
        str(java.home / "bin" / "java"),
        *("-cp", spark_classpath(), f"-Xmx{memory}"),
        *(*options, *JAVA_MODULES, GATEWAY_SERVER),
    ]
    environment = {**os.environ, GATEWAY_FILE: str(file), "PYTHONHASHSEED": "0", "SPARK_CONNECT_MODE": "0"}
    return JavaGateway(subprocess.Popen(command, stdin=subprocess.PIPE, env=environment), file)


def submit_java(properties: Mapping[str, str], scratch: Path) -> JavaGateway:
    """Start Java by `spark-submit` with these settings; it exits when its standard input is closed.

    Args:
        properties: Spark's settings, including secrets.
        scratch: the folder for the files of settings and of Java's port and secret; only this user may read
            it.
    """
    file, given = scratch / "gateway", scratch / "spark.conf"
    given.write_text("".join(_property(*one) for one in properties.items()), encoding="utf-8")
    given.chmod(0o600)
    environment = {**os.environ, GATEWAY_FILE: str(file), "SPARK_CONNECT_MODE": "0"}
    submit = Path(environment.setdefault("SPARK_HOME", str(spark_folder()))) / "bin" / "spark-submit"
    command = [str(submit), "--load-spark-defaults", "--properties-file", str(given), "pyspark-shell"]
    # Run in the scratch folder, where the driver's Python may have the same name as on executors.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, cwd=scratch)
    return JavaGateway(process, file, _SUBMIT_PATIENCE_S)


def _property(name: str, value: str) -> str:
    """Return a setting as a line of a Java properties file."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{name}={escaped}\n"


def archive_options(java: JavaRuntime) -> list[str]:
    """Return the options with which Java uses the archive; none if this Java and Spark have no archive."""
    archive = archive_path(java)
    return [f"-XX:SharedArchiveFile={archive}", *SILENT] if archive.exists() else []


def archive_path(java: JavaRuntime) -> Path:
    """Return the path of the archive for a Java runtime and this installation of Spark.

    Java rejects an archive of jars at another path or in another order, so the archive belongs to the virtual
    environment and is deleted with it; without one it is in the user's cache.
    """
    java_is = f"{java.home.resolve()} {java.version} {GATEWAY_SERVER}"
    what = f"{java_is} {version('pyspark')} {spark_classpath()}"
    digest = hashlib.sha256(what.encode()).hexdigest()[:12]
    is_virtual = sys.prefix != sys.base_prefix
    folder = Path(sys.prefix) / "var" / "stqsh" if is_virtual else platformdirs.user_cache_path("stqsh")
    return folder / f"classes-{digest}.jsa"
