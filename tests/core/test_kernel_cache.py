"""The mark that says that all kernels are compiled: for the sources as they lie there, and for no others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stqsh.core import kernel_cache, kernel_warmup
from stqsh.core.kernels import jit


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often kernels were compiled, with kernels and their cache in folders of their own."""
    found: list[str] = []
    sources = tmp_path / "one"
    shutil.copytree(Path(jit.__file__).parent, sources)
    (tmp_path / "cache").mkdir()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(kernel_cache.numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(jit, "__file__", str(sources / "jit.py"))
    monkeypatch.setattr(kernel_warmup, "compile_in_two_processes", lambda: found.append("compiled"))
    return found


def test_kernels_are_compiled_once(times: list[str]) -> None:
    kernel_cache.compile_kernels()
    kernel_cache.compile_kernels()
    assert times == ["compiled"]


def test_another_checkout_of_the_same_state_is_compiled_as_well(
    times: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_cache.compile_kernels()
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "other" / "jit.py"))
    kernel_cache.compile_kernels()
    assert len(times) == 2


def test_files_that_were_written_anew_are_compiled_anew(times: list[str], tmp_path: Path) -> None:
    kernel_cache.compile_kernels()
    os.utime(tmp_path / "one" / "jit.py", (1, 1))
    kernel_cache.compile_kernels()
    assert len(times) == 2
