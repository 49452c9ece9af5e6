"""Compiled kernels: once for each state of their sources, wherever these lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stqsh
from stqsh.core import kernel_cache, kernel_warmup

_COMPILE = """
import numpy as np
from stqsh.core.kernels.index.hashing import hash_keys
import pyarrow as pa
hash_keys(pa.array(["a"]))
"""


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often kernels were compiled, with their cache in a folder of its own."""
    found: list[str] = []
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(kernel_cache.numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_warmup, "compile_in_two_processes", lambda niceness: found.append("compiled"))
    return found


def test_kernels_are_compiled_once(times: list[str]) -> None:
    kernel_cache.compile_kernels()
    kernel_cache.compile_kernels()
    assert times == ["compiled"]


def test_where_the_user_chose_the_folder_nothing_is_taken_for_compiled(
    times: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernel_cache.compile_kernels()
    kernel_cache.compile_kernels()
    assert len(times) == 2


def test_equal_checkouts_share_compiled_kernels_and_others_do_not(tmp_path: Path) -> None:
    def compiled_by(name: str, remark: str = "") -> set[Path]:
        package = tmp_path / name / "stqsh"
        shutil.copytree(Path(stqsh.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        with (package / "core" / "kernels" / "jit.py").open("a") as source:
            source.write(remark)
        environ = os.environ | {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        subprocess.run([sys.executable, "-c", _COMPILE], env=environ, cwd=package.parent, check=True)
        return set((tmp_path / "cache").rglob("*.nbi"))

    first = compiled_by("one")
    assert first
    assert compiled_by("other") == first
    assert len(compiled_by("changed", "# another state\n")) == 2 * len(first)
