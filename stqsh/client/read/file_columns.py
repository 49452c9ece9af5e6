"""Columns of a file that an unfinished statement names, for completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stqsh.client.statements.source_paths import find_files
from stqsh.errors import StqshError
from stqsh.spec.stream import FileSourceSpec

Columns = tuple[tuple[str, str], ...]
"""Names of columns and their types."""


def file_columns(glob: str, format_: str | None, options: Mapping[str, Any]) -> Columns:
    """Return the columns of the files that match; () if there are none, or they cannot be read."""
    # pyarrow: only when needed
    from stqsh.sources.inference import infer

    try:
        source = FileSourceSpec(find_files(glob), format_, dict(options))
        return tuple((name, kind) for name, kind in infer(source))
    except (StqshError, OSError):
        return ()
