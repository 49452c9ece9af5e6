"""The name by which the user can start stqsh, for hints."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path

_NAME = "stqsh"


@cache
def program() -> str:
    """Return what to type for `stqsh`: its name where that is on the PATH, else its path."""
    script = _script()
    if script is None:
        return f"{sys.executable} -m {_NAME}"
    found = shutil.which(_NAME)
    if found is not None and Path(found).resolve() == script.resolve():
        return _NAME
    return str(script.relative_to(Path.cwd())) if script.is_relative_to(Path.cwd()) else str(script)


def _script() -> Path | None:
    """Return the file that starts stqsh, None where it is run as a module of Python alone."""
    begun = Path(sys.argv[0])
    places = (begun, Path(sys.executable).with_name(_NAME))
    return next((one.absolute() for one in places if one.name == _NAME and one.is_file()), None)
