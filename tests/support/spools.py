"""Lines for the spools of tests."""

from __future__ import annotations

from stqsh.sources.live.line_spool import SpoolWriter


def write(spool: SpoolWriter, data: bytes) -> None:
    """Append bytes, as a source does whose disk has room."""
    spool.add(data)
    spool.flush()
