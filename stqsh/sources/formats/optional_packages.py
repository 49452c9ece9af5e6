"""Import packages that only some files need; errors explain how to install a missing one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stqsh.errors import SourceError


def needed(package: str, what: str) -> Any:
    """Import a package of the extra `geo`.

    Raises:
        SourceError: it is not installed; the message contains `what`, which needs the package.
    """
    try:
        return import_module(package)
    except ImportError as problem:
        raise SourceError(f"{what} needs {package}", hint="pip install 'stqsh[geo]'") from problem
