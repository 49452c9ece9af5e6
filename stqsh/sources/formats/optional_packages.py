"""Import packages that only some files need, and say how to install one that is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stqsh.errors import SourceError


def needed(package: str, what: str) -> Any:
    """Return a package of the extra `geo`.

    Raises:
        SourceError: it is not installed; the message says that `what` needs it.
    """
    try:
        return import_module(package)
    except ImportError as problem:
        raise SourceError(f"{what} needs {package}", hint="pip install 'stqsh[geo]'") from problem
