"""Use pyarrow without pandas in processes that have no data frames."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import get_ident
from types import ModuleType


class _Refusal(MetaPathFinder):
    """Says to the thread that made it that pandas is not installed."""

    def __init__(self) -> None:
        self.thread = get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> None:
        """Refuse pandas, and leave other modules and threads to other finders."""
        if fullname == "pandas" and get_ident() == self.thread:
            raise ModuleNotFoundError(name=fullname)


def keep_pandas_out() -> None:
    """Make pyarrow pass over pandas in this process and its forks.

    pyarrow imports pandas at the first array that it makes, to see whether it is one of pandas' own: half a
    second of processor time, and 30 MB. It looks once, and finds none; later imports find pandas, and arrays
    still come from data frames and become them.
    """
    if "pandas" in sys.modules:
        return
    refusal = _Refusal()
    sys.meta_path.insert(0, refusal)
    try:
        import_module("pyarrow").array([])
    finally:
        sys.meta_path.remove(refusal)
