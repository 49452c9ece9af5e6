"""Find the type of most of a column's values, so that a few bad records do not determine it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stqsh.sources.formats.casting import cast_column
from stqsh.sources.formats.csv_file import POINTED, CsvDialect
from stqsh.sources.formats.file_formats import first_fields
from stqsh.sources.formats.pyarrow_typing import Array
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.sources.source_files import find_files, format_of, options_of
from stqsh.spec.stream import FileSourceSpec, Options

#: The share of a column's values that must have a type for the column to have it.
MOST = 0.9


@dataclass(frozen=True, slots=True)
class TypeVote:
    """The share of a column's values that have a type, and the first other value ("" if none)."""

    seen: int
    fitting: int
    example: str

    @property
    def is_strong(self) -> bool:
        """Whether the column has this type."""
        return self.seen > 0 and self.fitting >= MOST * self.seen


def leaning(source: FileSourceSpec, column: str, kind: str) -> TypeVote | None:
    """Return the vote for a type of a column in a source's first file; None if that is not a CSV file.

    Raises:
        SourceError: there is no file, or its format is unknown.
    """
    values, options = _values(source, column)
    if values is None:
        return None
    written = CsvDialect.of(options).pointed(values) if kind in POINTED else values
    bad = cast_column(written, kind, TimeFormat.of(options)).bad
    wrong = np.flatnonzero(bad) if bad is not None else np.zeros(0, np.int64)
    example = values[int(wrong[0])].as_py().decode(errors="replace") if len(wrong) else ""
    return TypeVote(len(values), len(values) - len(wrong), example)


def _values(source: FileSourceSpec, column: str) -> tuple[Array | None, Options]:
    """Return the non-empty values of a column, binary, and the options of its source."""
    file = find_files(source)[0]
    options = options_of(file.path, source)
    if format_of(file.path, source) != "csv":
        return None, options
    values = first_fields(file.path, options).get(column)
    return (None if values is None else values.cast(pa.binary()).drop_null()), options
