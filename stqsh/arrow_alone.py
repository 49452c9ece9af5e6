"""Use pyarrow without pandas in processes that have no data frames."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import get_ident
from types import ModuleType


class _Refusal(MetaPathFinder):
    """Reports pandas as not installed, to the thread that created it."""

    def __init__(self) -> None:
        self.thread = get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> None:
        """Raise for pandas in that thread; leave other modules and threads to the next finders."""
        if fullname == "pandas" and get_ident() == self.thread:
            raise ModuleNotFoundError(name=fullname)


def keep_pandas_out() -> None:
    """Keep pyarrow from importing pandas in this process and its forks.

    pyarrow imports pandas when it makes its first array, to check whether the values are pandas objects. That
    costs half a second of processor time and 30 MB. pyarrow checks only once, and this makes the check fail.
    Later imports find pandas, and conversions from and to data frames still work.
    """
    if "pandas" in sys.modules:
        return
    refusal = _Refusal()
    sys.meta_path.insert(0, refusal)
    try:
        import_module("pyarrow").array([])
    finally:
        sys.meta_path.remove(refusal)
