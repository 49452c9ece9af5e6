"""Read the rows of REGISTER QUERIES from files or from a table in memory, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import SourceError
from stqsh.fs import readable_path
from stqsh.sources.formats.casting import cast_column
from stqsh.sources.formats.file_formats import kind_of_arrow
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_parser import python_values
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.source_files import UNREADABLE, find_files, format_named, format_of, options_of
from stqsh.spec.chunk import arrow_type
from stqsh.spec.stream import ColumnSpec, FileSourceSpec

_SHOWN = 60
Lines = Callable[[NDArray[np.int64]], list[int]]


class RowFault(NamedTuple):
    """A row that gives no query: its file ("" for a table in memory), its line from 1, and the reason."""

    file: str
    line: int
    reason: str

    def text(self) -> str:
        """The fault as one line of text."""
        place = f"{self.file}:{self.line}" if self.file else f"row {self.line}"
        return f"{place}: {self.reason}"


class ParameterBlock(NamedTuple):
    """Some rows of one file.

    Attributes:
        columns: columns by name, (n,) each, in the wanted types; null where empty or unreadable.
        bad: for each column a mask of unreadable values, (n,); `shown` returns such a value as text.
        lines: returns the line numbers of rows, given their places in the block.
        numbers: the numbers of the rows in their file, from 1, (n,).
        faults: rows that could not be split into columns.
    """

    file: str
    columns: dict[str, Array]
    bad: dict[str, NDArray[np.bool_]]
    shown: Callable[[str, int], str]
    lines: Lines
    numbers: NDArray[np.int64]
    faults: tuple[RowFault, ...] = ()


def read_parameters(source: FileSourceSpec, columns: Mapping[str, str]) -> Iterator[ParameterBlock]:
    """Read columns of a file source, in the order of the files' names.

    Args:
        source: the files.
        columns: names and types of at least one wanted column.

    Raises:
        SourceError: there is no file, it cannot be read, or it lacks a column.
    """
    layout = RecordSchema(tuple(ColumnSpec(*column) for column in columns.items()), next(iter(columns)))
    for file in find_files(source):
        read, first = format_named(format_of(file.path, source)).read, 0
        try:
            for block in read(file.path, layout, options_of(file.path, source)):
                faults = tuple(RowFault(readable_path(file.path), at.line, why) for at, why in block.dead)
                raw = dict(zip(columns, block.columns, strict=True))
                lines = _lines_of(block.locate, block.ordinals)
                numbers = first + block.ordinals + 1
                yield _block(file.path, raw, columns, lines, numbers)._replace(faults=faults)
                first = max(first + len(numbers) + len(faults), int(numbers.max(initial=0)))
        except UNREADABLE as problem:
            raise SourceError(f"{file.path} cannot be read: {problem}") from problem


def table_parameters(table: pa.Table, columns: Mapping[str, str]) -> Iterator[ParameterBlock]:
    """Yield columns of a table in memory, in blocks."""
    first = 0
    for batch in table.select(list(columns)).to_batches(1 << 16):
        raw = {name: batch.column(name) for name in columns}
        numbers = np.arange(first + 1, first + batch.num_rows + 1)
        yield _block(None, raw, columns, _lines_from(first), numbers)
        first += batch.num_rows


def table_columns(table: pa.Table) -> list[list[str]]:
    """Return the columns [[name, type], ...] of a table that have an STQL type."""
    kinds = [(field.name, kind_of_arrow(field.type)) for field in table.schema]
    return [[name, kind] for name, kind in kinds if kind is not None]


def _block(
    path: Path | None,
    raw: dict[str, Array],
    columns: Mapping[str, str],
    lines: Lines,
    numbers: NDArray[np.int64],
) -> ParameterBlock:
    values, bad = {}, {}
    for name, kind in columns.items():
        cast = cast_column(raw[name], kind)
        values[name] = cast.values
        if cast.bad is not None:
            bad[name] = cast.bad
            values[name] = pc.if_else(pa.array(~cast.bad), cast.values, pa.scalar(None, arrow_type(kind)))
    return ParameterBlock(
        readable_path(path) if path else "",
        values,
        bad,
        lambda name, row: _shown(raw[name].slice(row, 1)),
        lines,
        numbers,
    )


def _shown(value: Array) -> str:
    [found] = python_values(value)
    return repr((found.decode(errors="replace") if isinstance(found, bytes) else str(found))[:_SHOWN])


def _lines_of(locate: Callable[[NDArray[np.int64]], list[Any]], ordinals: NDArray[np.int64]) -> Lines:
    return lambda rows: [at.line for at in locate(ordinals[rows])]


def _lines_from(first: int) -> Lines:
    return lambda rows: (rows + first + 1).tolist()
