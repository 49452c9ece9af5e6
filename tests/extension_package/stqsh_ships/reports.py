"""Files of position reports: oid|lon|lat|seconds since 1970, a line each; lines with # are comments."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.formats.file_formats import FileFormat
from stqsh.sources.formats.record_parser import RowBlock, RowLocation
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names

COLUMNS = {"oid": "STRING", "lon": "DOUBLE", "lat": "DOUBLE", "seconds": "TIMESTAMP"}


def read_reports(
    path: Path, layout: RecordSchema, options: Mapping[str, Any], size: int | None = None
) -> Iterator[RowBlock]:
    """Read a file as one block, whatever `size` asks for; its cells are text, which others cast and check."""
    check_options(options, ("timestamp", "zone"), "FORMAT REPORTS")
    places = match_names(layout.names, list(COLUMNS), str(path))
    rows, lines = [], []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line and not line.startswith(b"#"):
            rows.append((line.split(b"|") + [b""] * len(COLUMNS))[: len(COLUMNS)])
            lines.append(number)
    columns = [pa.array([row[place] for row in rows], pa.binary()) for place in places]
    locate = partial(_locate, lines, rows)
    yield RowBlock(columns, np.arange(len(rows)), locate, size=path.stat().st_size)


def _locate(lines: list[int], rows: list[list[bytes]], ordinals: NDArray[np.int64]) -> list[RowLocation]:
    """Return the line and the text of bad rows, for their dead letters."""
    return [RowLocation(lines[at], b"|".join(rows[at]).decode(errors="replace")) for at in ordinals.tolist()]


REPORTS = FileFormat(read_reports, endings=(".rep",), columns=lambda path, options: COLUMNS)
