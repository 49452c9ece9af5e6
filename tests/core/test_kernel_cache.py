"""Compiled kernels: once for each state of their sources, wherever these lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import stqsh
from stqsh.core import kernel_cache, kernel_warmup
from stqsh.core.kernels.kernel_files import COMMON_CPU, CheckedFiles, runs_common_code

_COMPILE = """
import numpy as np
from stqsh.core.kernels.index.hashing import hash_keys
import pyarrow as pa
hash_keys(pa.array(["a"]))
"""

_COUNT = """
from numba.core.registry import CPUDispatcher
from stqsh.core.kernels.index import hashing
kernels = [one for one in vars(hashing).values() if isinstance(one, CPUDispatcher)]
print(sum(sum(one.stats.cache_misses.values()) for one in kernels))
"""


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often kernels were compiled, with their cache in a folder of its own."""
    found: list[str] = []
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(kernel_cache.numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(
        kernel_warmup, "compile_in_two_processes", lambda niceness, look: found.append("compiled")
    )
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


@pytest.fixture
def files(tmp_path: Path) -> CheckedFiles:
    """The files of a kernel with code for two signatures."""
    files = CheckedFiles(str(tmp_path), "kernel-1.py311", "stamp")
    files.save("int", b"code for int")
    files.save("float", b"code for float")
    return files


def test_code_is_read_as_it_was_saved(files: CheckedFiles) -> None:
    assert [files.load(key) for key in ("int", "float", "other")] == [
        b"code for int",
        b"code for float",
        None,
    ]


@pytest.mark.parametrize("damage", [lambda code: code[:-1], lambda code: b"", lambda code: bytes(len(code))])
@pytest.mark.parametrize("ending", ["nbc", "nbi"])
def test_damaged_code_counts_as_missing_and_is_replaced(
    files: CheckedFiles, tmp_path: Path, damage: Callable[[bytes], bytes], ending: str
) -> None:
    for file in tmp_path.glob(f"*.{ending}"):
        file.write_bytes(damage(file.read_bytes()))
    assert [files.load(key) for key in ("int", "float")] == [None, None]
    files.save("int", b"again")
    assert files.load("int") == b"again"


def test_code_of_another_signature_is_not_taken(files: CheckedFiles, tmp_path: Path) -> None:
    one, other = sorted(tmp_path.glob("*.nbc"))
    one.write_bytes(other.read_bytes())
    assert files.load("int") is None
    assert files.load("float") == b"code for float"


def test_two_processes_compile_a_kernel_once(tmp_path: Path) -> None:
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    environ.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", _COMPILE + _COUNT]
    both = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    compiled = sum(int(process.communicate()[0]) for process in both)
    assert compiled == len(list(tmp_path.rglob("hashing.*.nbc"))) > 0


@pytest.mark.skipif(not runs_common_code(), reason="this processor is of another kind")
def test_kernels_that_a_package_brings_are_not_compiled(tmp_path: Path) -> None:
    package = tmp_path / "stqsh"
    shutil.copytree(Path(stqsh.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def compiled(cache: str, **more: str) -> int:
        environ = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / cache), **more}
        environ.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-c", _COMPILE + _COUNT]
        return int(subprocess.run(command, env=environ, cwd=tmp_path, check=True, capture_output=True).stdout)

    assert compiled("built", NUMBA_CPU_NAME=COMMON_CPU, NUMBA_CPU_FEATURES="") > 0
    (tmp_path / "built" / "stqsh" / "kernels").rename(package / "core" / "compiled")
    assert compiled("used") == 0
    with (package / "core" / "kernels" / "jit.py").open("a") as source:
        source.write("# another state\n")
    assert compiled("used") > 0
