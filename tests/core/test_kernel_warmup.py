"""The warm-up reaches every kernel, so that no batch of a session waits for the compiler."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import subprocess
import sys

import pytest
from numba.core.registry import CPUDispatcher

from stqsh import core
from stqsh.core import kernels
from stqsh.core.kernel_warmup import compile_in_two_processes, warm_up


def kernels_called_from_python() -> dict[str, CPUDispatcher]:
    """Return the functions compiled by numba that modules outside the kernels import, by their full name.

    Functions that only other kernels call are compiled with these.
    """
    found = {}
    for info in pkgutil.walk_packages(core.__path__, f"{core.__name__}."):
        if not info.name.startswith(f"{kernels.__name__}."):
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, CPUDispatcher):
                    found[f"{value.py_func.__module__}.{value.py_func.__name__}"] = value
    return found


def test_the_warm_up_reaches_every_kernel() -> None:
    warm_up()
    functions = kernels_called_from_python()
    assert len(functions) > 50
    assert [name for name, function in functions.items() if not function.signatures] == []


def test_a_failure_of_a_process_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(subprocess.CalledProcessError):
        compile_in_two_processes()
