"""The decorators that compile kernels: cached on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numba
from numba.core.caching import CacheImpl, UserProvidedCacheLocator
from platformdirs import user_cache_path

from stqsh.arrays import Array
from stqsh.core.kernels.kernel_files import compile_alone

Int: TypeAlias = Any
"""An integer of any width within a kernel; numba infers its type."""

Float: TypeAlias = Any
"""A number within a kernel."""

Flag: TypeAlias = Any
"""A truth value within a kernel."""


def _state_of_sources() -> str:
    """Return a text that differs for each state of the kernels' sources; compiled code belongs to it.

    Numba itself recompiles a kernel when its own file changes, but not when the file of a kernel that it
    calls changes.
    """
    folder = Path(__file__).parent
    files = [*sorted(folder.rglob("*.py")), folder.parent / "base" / "clock.py"]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


_PACKAGE = Path(__file__).parents[2]


class _SharedLocator(UserProvidedCacheLocator):
    """Find compiled kernels by their source's path within the package, so that equal checkouts share them."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        return str(Path(py_file).parent.relative_to(_PACKAGE))

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _SharedLocator | None:
        if not Path(py_file).is_relative_to(_PACKAGE):
            return None
        found = super().from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        return cast(_SharedLocator | None, found)


SHIPPED: Path | None = None
"""The folder of compiled kernels in a wheel; None if the user chose the folder of all compiled kernels."""

if not numba.config.CACHE_DIR:  # type: ignore[attr-defined]  # set from NUMBA_CACHE_DIR
    _state = _state_of_sources()
    numba.config.CACHE_DIR = str(user_cache_path("stqsh") / "kernels" / _state)  # type: ignore[attr-defined]
    SHIPPED = _PACKAGE / "core" / "compiled" / _state
    CacheImpl._locator_classes.insert(0, _SharedLocator)

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with numba on its first call.

    Compiled kernels are cached on disk, release the GIL, and divide by zero as numpy does. A kernel takes and
    returns numpy arrays, numbers and NamedTuples of them. It keeps its Python signature for type checkers.
    """
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set from NUMBA_DISABLE_JIT
        compile_alone(compiled, function, SHIPPED)
    return cast(Callable[P, R], compiled)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into the kernels that call it.

    Use it for functions that inner loops call with arrays: a real call counts references to each array, which
    takes two atomic operations.
    """
    return cast(Callable[P, R], numba.njit(nogil=True, error_model="numpy", inline="always")(function))


def frozen(array: Array) -> Array:
    """Return a read-only view of an array.

    Numba compiles a kernel for each combination of writable and read-only arguments. Arrays from Arrow may be
    either, so they are frozen before they are passed to a kernel.
    """
    view = array.view()
    view.flags.writeable = False
    return view
