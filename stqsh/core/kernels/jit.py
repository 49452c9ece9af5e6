"""The one decorator that compiles kernels: cached on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numba
import numpy.typing as npt
from platformdirs import user_cache_path

Array: TypeAlias = npt.NDArray[Any]
Int: TypeAlias = Any
"""An integer of any width within a kernel, where numba and not Python says what it is."""
Float: TypeAlias = Any
"""A number within a kernel."""

Flag: TypeAlias = Any
"""A truth value within a kernel."""


def _cache_folder() -> str:
    """Where compiled kernels are kept: a folder for each state of their sources.

    Numba by itself compiles a kernel anew when its own file changes, but not when that of a kernel it calls
    does.
    """
    folder = Path(__file__).parent
    files = [*sorted(folder.rglob("*.py")), folder.parent / "base" / "clock.py"]
    digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    return str(user_cache_path("stqsh") / "kernels" / digest)


if not numba.config.CACHE_DIR:  # type: ignore[attr-defined]  # set from NUMBA_CACHE_DIR
    numba.config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with numba on its first call: nopython, cached on disk, the GIL released,
    division by zero as in numpy.

    A kernel takes and gives numpy arrays and numbers only. It keeps its Python signature for type checkers.
    """
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of kernels that is put into them where it is called.

    For what is called in inner loops with arrays: a call counts references to each, two atomic operations.
    """
    return cast(Callable[P, R], numba.njit(nogil=True, error_model="numpy", inline="always")(function))


def frozen(array: Array) -> Array:
    """The same array as a view that cannot be written to.

    Numba compiles a kernel anew for each mixture of writable and read-only arguments. What comes from Arrow
    is now the one and now the other, so it is frozen before it goes to a kernel.
    """
    view = array.view()
    view.flags.writeable = False
    return view
