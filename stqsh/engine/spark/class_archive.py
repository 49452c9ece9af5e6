"""The archive of Java's classes that speeds up the engine's start: where it is, and how Java uses it."""

from __future__ import annotations

import hashlib
import sys
from importlib.metadata import version
from pathlib import Path

import platformdirs

from stqsh.engine.spark.java import JavaRuntime
from stqsh.engine.spark.spark_internals import GATEWAY_SERVER, spark_folder

#: Keep Java from printing messages about its archive.
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive_options(java: JavaRuntime) -> list[str]:
    """Return the options with which Java uses the archive; none if there is none for this Java and Spark."""
    archive = archive_path(java)
    return [f"-XX:SharedArchiveFile={archive}", *SILENT] if archive.exists() else []


def archive_path(java: JavaRuntime) -> Path:
    """Return the path of the archive for a Java runtime and this installation of Spark.

    Java refuses an archive of jars from another place, so it belongs to the virtual environment and is
    deleted with it; without one it is in the user's cache.
    """
    java_is = f"{java.home.resolve()} {java.version} {GATEWAY_SERVER}"
    what = f"{java_is} {version('pyspark')} {spark_folder()}"
    digest = hashlib.sha256(what.encode()).hexdigest()[:12]
    is_virtual = sys.prefix != sys.base_prefix
    folder = Path(sys.prefix) / "var" / "stqsh" if is_virtual else platformdirs.user_cache_path("stqsh")
    return folder / f"classes-{digest}.jsa"
