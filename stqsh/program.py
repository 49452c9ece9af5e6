"""The command that starts stqsh, for hints."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path

_NAME = "stqsh"


@cache
def program() -> str:
    """Return the command to type for `stqsh`: its name if it is on the PATH, or else its path."""
    script = _script()
    if script is None:
        return f"{sys.executable} -m {_NAME}"
    found = shutil.which(_NAME)
    if found is not None and Path(found).resolve() == script.resolve():
        return _NAME
    return str(script.relative_to(Path.cwd())) if script.is_relative_to(Path.cwd()) else str(script)


def _script() -> Path | None:
    """Return the file that starts stqsh; None if it runs as a Python module."""
    begun = Path(sys.argv[0])
    places = (begun, Path(sys.executable).with_name(_NAME))
    return next((one.absolute() for one in places if one.name == _NAME and one.is_file()), None)
