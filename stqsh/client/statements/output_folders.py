"""Folders that statements name for what a session writes."""

from __future__ import annotations

from pathlib import Path

from stqsh.lang.ast.source import Span
from stqsh.lang.errors import BindError
from stqsh.storage.control_log import wall_clock_us


def make_folder(folder: Path, span: Span) -> None:
    """Make a folder; raise `BindError` at a place of the statement if files cannot be written to it."""
    probe = folder / f".stqsh-{wall_clock_us()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BindError(f"files cannot be written to {folder}: {reason}", span) from error
