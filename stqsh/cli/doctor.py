"""`stqsh doctor`: checks that this machine has what stqsh needs; each problem comes with its remedy."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from stqsh.engine.config import EngineSettings
from stqsh.engine.spark.java import JavaMissingError, find_java
from stqsh.engine.spark.spark_errors import check_master
from stqsh.errors import StqshError
from stqsh.extensions import GROUPS, ExtensionError, extension_names, find_extension, package_of
from stqsh.profile import Profile, load_profile
from stqsh.program import program
from stqsh.settings import cores
from stqsh.storage.home import SHM, SHM_FREE_BYTES, open_home, remove_home, sessions_root
from stqsh.storage.processes import allow_many_files
from stqsh.units import parse_size

State = Literal["ok", "note", "bad"]
GB = 1 << 30
LEAST_DISK = GB
SPARK_OVERHEAD = GB // 2
"""Memory of an engine beside the heap: Python workers, and the arrays of the slots."""
OPEN_FILES = 512
"""How many files Spark's Java process has open, beside what slots need."""
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's subject, state, finding and remedy ("" where none is needed)."""

    what: str
    state: State
    found: str
    remedy: str = ""


def examine(profile_name: str | None = None) -> Iterator[Finding]:
    """Run all checks; those that need the profile are skipped where it cannot be read."""
    yield python()
    yield from packages()
    yield from additions()
    yield java()
    try:
        profile = load_profile(profile_name)
    except StqshError as error:
        yield Finding(
            "profile", "bad", error.message, error.hint or "correct it, or choose another with --profile"
        )
        return
    yield Finding("profile", "ok", f"{profile.name} ({profile.path or 'built in'})")
    for look in (memory, slots, ports, home):
        yield look(profile)
    yield shared_memory()
    yield open_files(profile)
    yield terminal()


def python() -> Finding:
    """Report the interpreter; one that is too old cannot run this."""
    return Finding("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def packages() -> Iterator[Finding]:
    """Check that the required packages are installed; report the versions of the large ones."""
    found, missing = [], []
    for requirement in _requirements():
        name = re.split(r"[^\w.-]", requirement)[0]
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(requirement)
    if missing:
        quoted = " ".join(f"'{requirement}'" for requirement in missing)
        yield Finding("packages", "bad", f"missing: {', '.join(missing)}", f"pip install {quoted}")
    else:
        shown = [text for text in found if text.split()[0] in ("pyspark", "pyarrow", "numpy", "numba")]
        yield Finding("packages", "ok", ", ".join(shown))


def _requirements() -> list[str]:
    try:
        return [text for text in requires("stqsh") or () if "extra ==" not in text]
    except PackageNotFoundError:  # run from a folder that was never installed
        return []


def additions() -> Iterator[Finding]:
    """Load what other packages add to stqsh."""
    for group, what in GROUPS.items():
        for name in extension_names(group):
            found = f"{what} {name!r} of {package_of(group, name)}"
            try:
                find_extension(group, name)
            except ExtensionError as error:
                yield Finding("addition", "bad", str(error), "install the package again, or remove it")
            else:
                yield Finding("addition", "ok", found)


def java() -> Finding:
    """Find the Java runtime that the engine would use."""
    try:
        found = find_java()
    except JavaMissingError as error:
        return Finding("Java", "bad", error.message, error.hint or "")
    return Finding("Java", "ok", f"{found.version}, from {found.origin}")


def memory(profile: Profile, meminfo: Path = _MEMINFO) -> Finding:
    """Check that the memory for engine.memory is free."""
    wanted = parse_size(profile.text("engine.memory")) + SPARK_OVERHEAD
    free = _available(meminfo)
    found = f"engine.memory is {profile.text('engine.memory')}"
    if free is None:
        return Finding("memory", "note", f"{found}; the free memory of this system is unknown")
    found += f", {free / GB:.1f} GB free"
    if free < wanted:
        remedy = "stop other engines (stqsh sessions lists them), or SET engine.memory = '1g'"
        return Finding("memory", "note", found, remedy)
    return Finding("memory", "ok", found)


def _available(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def slots(profile: Profile) -> Finding:
    """Check that the slots can keep all cores busy."""
    number = profile.number("engine.slots")
    found = f"{number} on {cores()} cores"
    if number % cores() and number > 1:
        return Finding("slots", "note", found, f"SET engine.slots = {cores()}, one for each core")
    return Finding("slots", "ok", found)


def ports(profile: Profile, host: str = "127.0.0.1") -> Finding:
    """Check the ports of this machine, and those of the cluster where the profile names one."""
    try:
        with socket.create_server((host, 0)) as server:
            socket.create_connection(server.getsockname(), 2).close()
        check_master(EngineSettings.from_profile(Path(), profile))
    except OSError as error:
        found = f"no port on {host} can be opened: {error.strerror or error}"
        return Finding(
            "ports",
            "bad",
            found,
            "enable the loopback interface (ip link set lo up), or allow stqsh to use it",
        )
    except StqshError as error:
        return Finding("ports", "bad", error.message, error.hint or "")
    return Finding("ports", "ok", f"{host} accepts connections; stqsh listens on no other address")


def home(profile: Profile) -> Finding:
    """Check that the folder of the sessions is writable and has free space."""
    root = sessions_root(default=profile.text("session.home_root") or None)
    elsewhere = "set STQSH_HOME, or session.home_root in the profile, to another folder"
    try:
        remove_home(open_home(root=root, temporary=True))
    except (StqshError, OSError) as error:
        return Finding("home", "bad", getattr(error, "message", str(error)), elsewhere)
    free = shutil.disk_usage(root).free
    found = f"{root}, {free / GB:.1f} GB free"
    if free < LEAST_DISK:
        return Finding(
            "home", "bad", found, f"free some space (stqsh sessions lists the sessions), or {elsewhere}"
        )
    return Finding("home", "ok", found)


def shared_memory(folder: Path = SHM) -> Finding:
    """Check that the state of the slots fits in shared memory; in files it is slower."""
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Finding(
            "shared memory", "note", f"no {folder}; the state of the slots is kept in files", "none needed"
        )
    free = shutil.disk_usage(folder).free
    found = f"{folder}, {free / GB:.1f} GB free"
    if free < SHM_FREE_BYTES:
        remedy = f"enlarge it (in a container: docker run --shm-size=4g), or stop a session: {program()} stop"
        return Finding("shared memory", "note", f"{found}; the state of the slots is kept in files", remedy)
    return Finding("shared memory", "ok", found)


def open_files(profile: Profile) -> Finding:
    """Check that processes may have enough files open: a client that reads locks each slot."""
    most = allow_many_files()
    needed = OPEN_FILES + 2 * profile.number("engine.slots")
    found = f"a process may have {most:,} open, {needed:,} are needed"
    if most < needed:
        return Finding("open files", "bad", found, f"ulimit -Hn {needed}, or fewer engine.slots")
    return Finding("open files", "ok", found)


def terminal() -> Finding:
    """Report what the terminal can show."""
    name, encoding = os.environ.get("TERM", ""), (sys.stdout.encoding or "").lower()
    found = f"TERM is {name or 'not set'}, {encoding or 'no encoding'}"
    if "utf" not in encoding:
        return Finding(
            "terminal", "note", found, "export LANG=C.UTF-8 to draw lines and maps with all characters"
        )
    return Finding("terminal", "ok", found)


_MARKS: dict[State, str] = {"ok": "ok  ", "note": "note", "bad": "BAD "}


def doctor(profile_name: str | None, show: Callable[[str], None] = print) -> int:
    """Print the findings as they come; return 1 where there is a problem, else 0."""
    worst = 0
    for finding in examine(profile_name):
        show(f"{_MARKS[finding.state]}  {finding.what:<14} {finding.found}")
        if finding.remedy:
            show(f"      {'':<14} remedy: {finding.remedy}")
        worst = max(worst, finding.state == "bad")
    show("problems found" if worst else "everything that stqsh needs is available")
    return worst
