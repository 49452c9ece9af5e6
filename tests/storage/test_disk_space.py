"""When a disk counts as full: without room for bytes, or for another file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from stqsh.shell.exit_codes import FAILED, run_guarded
from stqsh.storage import disk_space
from stqsh.storage.disk_space import RESERVE, RESERVE_FILES, DiskFullError, is_full


@pytest.mark.parametrize(
    ("free", "files", "limit", "told"),
    [
        (RESERVE, RESERVE_FILES, 1000, None),
        (RESERVE, 0, 0, None),
        (RESERVE - 1, RESERVE_FILES, 1000, "only 256 MB are free"),
        (RESERVE, RESERVE_FILES - 1, 1000, f"only {RESERVE_FILES - 1} files (inodes) are free"),
    ],
)
def test_a_disk_is_full_without_bytes_or_without_files(
    free: int, files: int, limit: int, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(f_bavail=free, f_frsize=1, f_favail=files, f_files=limit)
    monkeypatch.setattr(disk_space.os, "statvfs", lambda path: found)
    assert is_full(tmp_path) == (told is not None)
    if told is not None:
        assert str(DiskFullError(tmp_path)).startswith(told)


def test_a_file_that_has_no_room_is_no_internal_error(capsys: pytest.CaptureFixture[str]) -> None:
    def write() -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/home/x/readers/1")

    assert run_guarded(write) == FAILED
    assert capsys.readouterr().err.startswith("no space left on device at /home/x/readers/1\nhint: free some")
