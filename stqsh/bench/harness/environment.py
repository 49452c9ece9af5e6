"""Describe what figures depend on: the machine, its load, versions, the commit and the settings."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import stqsh
from stqsh.engine.spark.java import find_java
from stqsh.errors import StqshError
from stqsh.profile import load_profile
from stqsh.settings import cores

_PACKAGES = ("pyspark", "numba", "numpy", "pyarrow", "pandas", "shapely")
_BUSY = 0.5
"""The load of a core beyond which figures are useful only as ratios within a run."""


def environment() -> Mapping[str, Any]:
    """Return the machine, versions and settings."""
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "java": _java(),
        **{name: _version(name) for name in _PACKAGES},
        "commit": _commit(Path(stqsh.__file__).parents[1]),
        "settings": {name: value.value for name, value in load_profile(None).items()},
    }


def load() -> list[float] | None:
    """Return the machine's load over 1, 5 and 15 minutes; None where unknown."""
    try:
        return [round(average, 2) for average in os.getloadavg()]
    except OSError:
        return None


def busy(found: list[float] | None) -> str:
    """Return a warning that the machine has other work, "" if it has none."""
    if not found or found[0] <= _BUSY * cores():
        return ""
    return (
        f"the machine is busy: load {found[0]:.1f} on {cores()} cores; "
        "compare figures of this run with each other, and processor time, nothing else"
    )


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")  # only Linux has it
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _java() -> str:
    try:
        found = find_java()
    except StqshError as error:
        return f"none: {error.message}"
    return f"{found.version} ({found.origin})"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit(folder: Path) -> str | None:
    """Return the commit of a working copy, with a + if files differ; None for an installed package."""
    if not (folder / ".git").exists():
        return None
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", "stqsh") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()
