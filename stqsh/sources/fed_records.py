"""Records, or rows of a query stream, fed by hand: from a file, or from standard input as they arrive."""

from __future__ import annotations

import os
import re
import select
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.errors import SourceError
from stqsh.fs import readable_path
from stqsh.sources.formats.csv_file import CsvDialect, csv_blocks
from stqsh.sources.formats.geojson_file import may_be_collection
from stqsh.sources.formats.json_file import json_block, load_object, record_names
from stqsh.sources.formats.parquet_file import BLOCK_ROWS, locate_rows
from stqsh.sources.formats.record_parser import FileBlock, RowBlock, find_lines, parse
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names
from stqsh.sources.formats.row_blocks import BLOCK_BYTES, BOM, PLAIN, text_blocks
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.sources.inference import lacks_drops
from stqsh.sources.live.message_formats import with_seconds
from stqsh.sources.live.record_spool import SpoolSegment
from stqsh.sources.live.text_lines import lacks_only
from stqsh.sources.source_check import number_unit
from stqsh.sources.source_files import UNREADABLE, format_named, format_of, options_of
from stqsh.spec.query_stream import DROP_COLUMN
from stqsh.spec.stream import FileSourceSpec, InsertsSourceSpec, Options, StreamSpec

STDIN = "stdin"
"""The name of standard input in dead letters."""
_TABLE = "table"
_MOST_WAIT_S = 0.2
_READ_BYTES = 1 << 18
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_PARQUET = b"PAR1"
#: How many bytes of a multi-line object are searched for a declaration as a FeatureCollection.
_HEAD_BYTES = 4096


class ArrivingBytes:
    """Standard input: a read returns the available bytes, without waiting for more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._head = descriptor, b""

    def head(self) -> bytes:
        """Return as much of the beginning as the format requires; `read` returns it again."""
        head = b""
        while not _tells_format(head) and (more := self.read(BLOCK_BYTES)):
            head += more
        self._head = head
        return head

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, or all of the head read before; b"" at the end."""
        if self._head:
            found, self._head = self._head, b""
            return found
        parts, missing = [os.read(self._descriptor, min(size, _READ_BYTES))], size
        until = time.monotonic() + _MOST_WAIT_S
        while parts[-1] and (missing := missing - len(parts[-1])) > 0 and time.monotonic() < until:
            if not select.select([self._descriptor], [], [], 0)[0]:
                break
            parts.append(os.read(self._descriptor, min(missing, _READ_BYTES)))
        return b"".join(parts)


def _tells_format(head: bytes) -> bool:
    """Return whether a beginning has a complete line of data, or enough lines of a multi-line object."""
    if head.startswith((*_COMPRESSED, _PARQUET)) or len(head) >= BLOCK_BYTES:
        return True
    lines = [line for line in re.split(rb"[\r\n]", head.removeprefix(BOM))[:-1] if line.strip()]
    if not lines or not lines[0].lstrip().startswith(b"{") or load_object(lines[0])[0] is not None:
        return bool(lines)
    is_damaged = len(lines) > 1 and lines[1].startswith(b"{")
    return is_damaged or len(head) >= _HEAD_BYTES or may_be_collection(head)


def sniff(head: bytes) -> str:
    """Return the format of data with this beginning.

    Raises:
        SourceError: the data is compressed.

    >>> sniff(b'{"oid": "a"}'), sniff(b"oid,lon"), sniff(b'{"type": "Feature", "geometry": null}')
    ('jsonl', 'csv', 'geojson')
    """
    if head.startswith(_COMPRESSED):
        raise SourceError(
            "standard input is compressed", hint="zcat FILE | stqsh feed …, or name the file as an argument"
        )
    if head.startswith(_PARQUET):
        return "parquet"
    text = head.removeprefix(BOM).lstrip()
    if not text.startswith(b"{"):
        return "csv"
    first, _ = load_object(text.partition(b"\n")[0])
    is_feature = first is not None and first.get("type") == "Feature" and "geometry" in first
    return "geojson" if is_feature or may_be_collection(text) else "jsonl"


def read_fed(
    spec: StreamSpec, origin: Path | ArrivingBytes, form: str | None, *, with_lines: bool = False
) -> Iterator[SpoolSegment]:
    """Yield the records fed to a stream, some MB at a time; those of standard input as they arrive.

    Args:
        spec: a stream, or the rows of a query stream; the FORMAT of `FROM INSERTS` applies if `form` is None.
        origin: a file, or standard input.
        form: the format; None if the stream, the file's name or the first bytes determine it.
        with_lines: whether segments have the lines of their records.

    Raises:
        SourceError: the input cannot be read, or lacks a declared column.
    """
    if form is None and isinstance(spec.source, InsertsSourceSpec):
        form = spec.source.format
    name = readable_path(origin) if isinstance(origin, Path) else STDIN
    source = FileSourceSpec(name, form, spec.source.options)
    try:
        for layout, block in _blocks(origin, source, RecordSchema.of(spec)):
            yield _segment(block, layout, name if with_lines else None)
    except UNREADABLE as problem:
        text = str(problem).replace("\n", " ")
        raise SourceError(f"{name} cannot be read: {text}") from problem


def _segment(block: FileBlock, layout: RecordSchema, file: str | None) -> SpoolSegment:
    """Return the records of a block; with the name of their file, they have their lines in it."""
    found = parse([block], layout)
    if file is not None:
        found = replace(found, lines=find_lines([block], found.places))
    return SpoolSegment.of(found, layout, file)


def read_table(spec: StreamSpec, data: Any, *, with_lines: bool = False) -> Iterator[SpoolSegment]:
    """Yield the rows of a table in segments; `data` is anything that `as_table` accepts.

    `with_lines`: whether segments have the places of their rows in the table, from 1 on.

    Raises:
        SourceError: it is not a table, or a declared column is missing.
    """
    table = as_table(data)
    layout = RecordSchema.of(spec)
    if layout.may_lack_drops and DROP_COLUMN not in table.column_names:
        layout = layout.without_drops
    names = [table.column_names[at] for at in match_names(layout.in_files.names, table.column_names, _TABLE)]
    first = 1
    for batch in table.select(names).combine_chunks().to_batches(BLOCK_ROWS):
        ordinals = np.arange(batch.num_rows, dtype=np.int64)
        block = RowBlock(batch.columns, ordinals, partial(locate_rows, batch, first))
        yield _segment(FileBlock(0, _TABLE, block), layout, _TABLE if with_lines else None)
        first += batch.num_rows


def as_table(data: Any) -> pa.Table:
    """Return a program's data as a table.

    It may be a pyarrow Table, a pandas DataFrame, a dict of columns, a list of dicts, or an Arrow exporter.

    Raises:
        SourceError: it is none of these, or its columns do not fit together.
    """
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, Mapping):
            return pa.table({name: _column(values) for name, values in data.items()})
        if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
            names = dict.fromkeys(name for row in data for name in row)
            return pa.table({name: _column([row.get(name) for row in data]) for name in names})
        if hasattr(data, "iloc"):  # pandas, whose Arrow export includes the index
            return _of_pandas(data)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        text = str(problem).replace("\n", " ")
        raise SourceError(f"the rows do not make a table: {text}") from problem
    raise SourceError(
        f"a {type(data).__name__} is not a table",
        hint="give a pyarrow Table, a pandas DataFrame, a dict of columns or a list of dicts",
    )


def _of_pandas(frame: Any) -> pa.Table:
    """Return the table of a DataFrame; its object columns may contain values of several types."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, OverflowError):
        values = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in frame.columns}
        return pa.table({str(name): _column(column.tolist()) for name, column in values.items()})


def _column(values: Any) -> Any:
    """Return a column; if Arrow has no type for a list, convert its values to texts, to be parsed one by one.

    Such a list has values of several types, or integers beyond 64 bits.
    """
    if not isinstance(values, list | tuple):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


class _FedBlock(NamedTuple):
    """A block, and the layout with the unit of its times."""

    layout: RecordSchema
    block: FileBlock


def _blocks(
    origin: Path | ArrivingBytes, source: FileSourceSpec, layout: RecordSchema
) -> Iterator[_FedBlock]:
    if isinstance(origin, Path):
        form, options = format_of(origin, source), options_of(origin, source)
        yield from _file_blocks(readable_path(origin), origin, form, layout, options)
        return
    head, options = origin.head(), source.options
    form = source.format or sniff(head)
    if form in ("csv", "jsonl"):
        first_line = head.removeprefix(BOM).partition(b"\n")[0]
        is_row = form == "csv" and layout.may_lack_drops
        if is_row and lacks_only(first_line, options, layout.in_files.names, DROP_COLUMN):
            layout = layout.without_drops
        given = layout.in_files
        for rows in _arriving_rows(origin, form, given, options):
            columns = with_seconds(given, options, rows.columns)
            yield _FedBlock(layout, FileBlock(0, STDIN, replace(rows, columns=columns)))
        return
    with tempfile.TemporaryDirectory() as folder:  # the other formats need the whole input
        path = Path(folder) / STDIN
        with path.open("wb") as copy:
            while data := origin.read(BLOCK_BYTES):
                copy.write(data)
        yield from _file_blocks(STDIN, path, form, layout, options)


def _file_blocks(
    name: str, path: Path, form: str, layout: RecordSchema, options: Options
) -> Iterator[_FedBlock]:
    """Yield the blocks of a file; the first block determines the unit of numeric times."""
    if layout.may_lack_drops and lacks_drops(path, FileSourceSpec(str(path), form, options)):
        layout = layout.without_drops
    given = layout.in_files
    blocks = format_named(form).read(path, given, options)
    if "timestamp" not in options and (first := next(blocks, None)) is not None:
        layout = number_unit(FileBlock(0, name, first), layout).layout
        # The unit determines how numbers have to be read, so read again; a pipe cannot be reread.
        given = layout.in_files
        blocks = format_named(form).read(path, given, options) if path.is_file() else chain([first], blocks)
    for rows in blocks:
        yield _FedBlock(layout, FileBlock(0, name, rows))


def _arriving_rows(
    stream: ArrivingBytes, form: str, layout: RecordSchema, options: Options
) -> Iterator[RowBlock]:
    """Yield the rows of lines; how the input is split into pieces does not change the result."""
    if form == "csv":
        dialect = CsvDialect.of(options)
        yield from csv_blocks(text_blocks(stream, dialect.quoting), layout, dialect, STDIN)
        return
    check_options(options, TIME_OPTIONS, "FORMAT JSON")
    names: Sequence[str] | None = None
    for text in text_blocks(stream, PLAIN):
        names = names or record_names(text.text, layout)
        yield json_block(text, names or layout.names, layout)
