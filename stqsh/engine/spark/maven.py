"""Download Java libraries from Maven Central with Ivy, which is part of Spark.

`STQSH_MAVEN` names another repository.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import platformdirs
import pyspark

from stqsh.engine.spark.java import find_java
from stqsh.errors import StqshError

_BRING_S = 300.0
_SETTINGS = """<ivysettings><settings defaultResolver="named"/>
<resolvers><ibiblio name="named" m2compatible="true" root="{root}"/></resolvers></ivysettings>
"""


class LibraryMissingError(StqshError):
    """A library is not available on this machine."""


def bring(
    folder: str, group: str, module: str, version: str, cache: Path | None = None, *, alone: bool = False
) -> Path:
    """Return the directory with the jars of a library and its dependencies; download them if needed.

    Args:
        folder: the directory's name in the cache.
        group: the library's group.
        module: its name.
        version: its version.
        cache: the folder of such directories; by default the user's cache of stqsh.
        alone: whether to omit the dependencies.

    Raises:
        LibraryMissingError: they cannot be downloaded.
    """
    cache = cache or Path(platformdirs.user_cache_dir("stqsh"))
    jars = cache / folder
    if jars.is_dir():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{folder}-") as work:
        _retrieve(Path(work), (group, module, version), alone=alone)
        try:
            (Path(work) / "lib").rename(jars)
        except OSError:
            if not jars.is_dir():  # unless another process was faster
                raise
    return jars


def java() -> str:
    """Return the path of Java."""
    return str(find_java().home / "bin" / "java")


def _retrieve(work: Path, library: tuple[str, str, str], *, alone: bool) -> None:
    _, module, version = library
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"), None)
    if ivy is None:
        raise LibraryMissingError(f"Spark brings no Ivy, which would bring {module}")
    command = [java(), "-jar", str(ivy), "-cache", str(work / "ivy"), "-confs", "default"]
    if root := os.environ.get("STQSH_MAVEN"):
        (work / "settings.xml").write_text(_SETTINGS.format(root=root), encoding="utf-8")
        command += ["-settings", str(work / "settings.xml")]
    command += ["-notransitive"] if alone else []
    command += ["-dependency", *library, "-retrieve", f"{work}/lib/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BRING_S, check=False)
    except subprocess.TimeoutExpired:
        raise LibraryMissingError(f"{module} did not come within {_BRING_S:.0f} s") from None
    if done.returncode or not (work / "lib" / f"{module}-{version}.jar").exists():
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise LibraryMissingError(f"{module} cannot be brought: {lines[-1] if lines else 'Ivy says nothing'}")
