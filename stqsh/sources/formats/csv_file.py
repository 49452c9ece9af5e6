"""Read CSV files with any separator, quotes and line ends, with or without a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import OptionError, SourceError
from stqsh.sources.formats.pyarrow_typing import Array, arrow_csv, pc
from stqsh.sources.formats.record_parser import RowBlock
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names
from stqsh.sources.formats.row_blocks import (
    BOM,
    MOST_LINES,
    Quoting,
    TextBlock,
    find_rows,
    find_unclosed,
    is_utf8,
    line_ends,
    read_text_blocks,
)
from stqsh.sources.formats.text_encodings import checked_encoding
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.spec.stream import Options

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

OPTIONS = ("header", "separator", "quote", "decimal", "encoding", "skip", "clock")
POINTED = ("DOUBLE", "FLOAT")
"""The types whose values have a decimal point, or the character given by `decimal`."""
#: The number of bytes in which to look for a header.
_HEAD_BYTES = 4096
#: The replacement for non-ASCII bytes where only the structure of rows matters.
_ASCII = bytes(range(128)) + b"?" * 128
_UNCLOSED = f"a quote that opens here is not closed within {MOST_LINES} lines"
_NAMED_SEPARATORS = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The dialect of a CSV file.

    Attributes:
        quote: None without quotes.
        decimal: the decimal point.
        encoding: the encoding of files without a byte-order mark; "" is UTF-8.
        skip: the number of lines before the header, or before the first row.
        clock: the column with the time of day for the date in the TIME column; "" for none.
    """

    header: bool = True
    separator: str = ","
    quote: str | None = '"'
    decimal: str = "."
    encoding: str = ""
    skip: int = 0
    clock: str = ""

    @staticmethod
    def of(options: Options) -> CsvDialect:
        """Read the options of FORMAT CSV.

        Raises:
            OptionError: an option is unknown, or a value is not a single character.
        """
        check_options(options, (*OPTIONS, *TIME_OPTIONS), "FORMAT CSV")
        separator = _character("separator", options.get("separator", ","))
        quote = options.get("quote", '"')
        decimal = _character("decimal", options.get("decimal", "."))
        if decimal == separator and not (decimal == "," and quote):  # "52,5" must be quoted
            hint = "for instance separator => ';'"
            raise OptionError(f"{decimal!r} cannot be both separator and decimal", "decimal", hint=hint)
        return CsvDialect(
            bool(options.get("header", True)),
            separator,
            _character("quote", quote) if quote else None,
            decimal,
            checked_encoding(options.get("encoding", "")),
            _line_count(options.get("skip", 0)),
            str(options.get("clock", "")),
        )

    def pointed(self, column: Array) -> Array:
        """Return numbers, binary, with decimal points; values that already contain a point become invalid."""
        if self.decimal == ".":
            return column
        without = pc.replace_substring(column, b".", b"?")
        pointed: Array = pc.replace_substring(without, self.decimal.encode(), b".")
        return pointed

    def typed(self, column: Array, kind: str) -> Array:
        """Return a column, binary, with decimal points in numbers, and null for "" unless it is text."""
        if kind == "STRING":
            return column
        return without_empty(self.pointed(column) if kind in POINTED else column)

    @property
    def quoting(self) -> Quoting:
        """Return the quoting of the dialect."""
        return Quoting(ord(self.separator), ord(self.quote) if self.quote else -1)


def without_empty(column: Array) -> Array:
    """Return a column, binary, with null for empty text, which a quoted "" produces."""
    lengths = pc.binary_length(column)
    if pc.min(lengths).as_py() != 0:
        return column
    kept: Array = pc.if_else(pc.equal(lengths, 0), None, column)
    return kept


def _character(option: str, value: Any) -> str:
    value = _NAMED_SEPARATORS.get(value, value)
    if not isinstance(value, str) or len(value.encode()) != 1 or value in "\r\n":
        raise OptionError(
            f"{option} must be one character, not {value!r}", option, hint=f"for instance {option} => ';'"
        )
    return value


def _line_count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        hint = "for instance skip => 1"
        raise OptionError(f"skip must be a number of lines, not {value!r}", "skip", hint=hint)
    return value


def csv_text_blocks(path: Path, dialect: CsvDialect, size: int | None = None) -> Iterator[TextBlock]:
    """Read a CSV file as blocks of whole rows of about `size` bytes; skip the lines before its header.

    Raises:
        OSError: the file cannot be read.
    """
    for block in read_text_blocks(path, dialect.quoting, size, dialect.encoding):
        yield without_first_lines(block, dialect.skip) if block.number == 0 and dialect.skip else block


def without_first_lines(block: TextBlock, count: int) -> TextBlock:
    """Return a block without its first `count` physical lines."""
    ends = line_ends(np.frombuffer(block.text, np.uint8))
    start = len(block.text) if len(ends) < count else int(ends[count - 1]) + 1
    return TextBlock(block.text[start:], block.first_line + min(count, len(ends)), block.number)


def read_csv_blocks(
    path: Path, layout: RecordSchema, options: Options, size: int | None = None
) -> Iterator[RowBlock]:
    """Read a CSV file in blocks of about `size` bytes; columns are text, and empty fields are null.

    In string columns `""` is the empty string, as in the shell's output; in other columns it is null.

    Raises:
        SourceError: the header lacks a declared column. OSError: the file cannot be read.
    """
    dialect = CsvDialect.of(options)
    yield from csv_blocks(csv_text_blocks(path, dialect, size), layout, dialect, str(path))


def csv_blocks(
    blocks: Iterable[TextBlock], layout: RecordSchema, dialect: CsvDialect, origin: str
) -> Iterator[RowBlock]:
    """Read the blocks of a CSV text; `origin` names its source in errors.

    Raises:
        SourceError: the header lacks a declared column.
    """
    names = _names_of(layout, dialect)
    wanted, width = match_names(names, list(layout.names), origin), len(layout.columns)
    has_header = not dialect.header
    for block in blocks:
        text = block
        if not has_header and text.text.strip(b"\r\n"):
            present, text = take_header(text, dialect, origin)
            wanted, width, has_header = match_names(names, present, origin), len(present), True
        if text.text:
            found = text_columns(text, dialect, wanted, width)
            if len(names) > len(layout.names):
                found = _with_clock(found, layout)
            pairs = zip(found.columns, layout.columns, strict=True)
            columns = [dialect.typed(raw, kind) for raw, (_, kind) in pairs]
            yield replace(found, columns=columns, size=len(block.text))


def _names_of(layout: RecordSchema, dialect: CsvDialect) -> list[str]:
    """Return the names of the columns to read: the declared ones, then the time-of-day column, if any."""
    return [*layout.names, dialect.clock] if dialect.clock and layout.time else [*layout.names]


def _with_clock(found: RowBlock, layout: RecordSchema) -> RowBlock:
    """Append the times of day in a block's last column to the dates in the TIME column."""
    *columns, clock = found.columns
    place = layout.position(layout.time)
    columns[place] = joined_times(columns[place], clock)
    return replace(found, columns=columns)


def joined_times(date: Array, clock: Array) -> Array:
    """Append a time of day to each date, both binary; null where one is missing."""
    trimmed = (pc.ascii_trim_whitespace(part.view(pa.string())) for part in (date, clock))
    joined: Array = pc.binary_join_element_wise(*trimmed, " ")
    return joined.view(pa.binary())


def check_csv_header(path: Path, layout: RecordSchema, options: Options) -> None:
    """Check that a CSV file has the declared columns; a file without a header always has.

    Raises:
        SourceError: the header lacks a declared column. OSError: the file cannot be read.
    """
    dialect = CsvDialect.of(options)
    first = next(csv_text_blocks(path, dialect, _HEAD_BYTES), None) if dialect.header else None
    if first is not None:
        match_names(_names_of(layout, dialect), take_header(first, dialect, str(path))[0], str(path))


def take_header(text: TextBlock, dialect: CsvDialect, origin: str) -> tuple[list[str], TextBlock]:
    """Split the header off a file's first block; return its names, and the block with the rest.

    Raises:
        SourceError: the first row cannot be a header, because a name would be too long.
    """
    starts = find_rows(text.text, dialect.quoting)
    stop = int(starts[1]) if len(starts) > 1 else len(text.text)
    head = text.text[:stop].decode(errors="replace").strip("\r\n")
    try:
        names = next(csv_rows(head, dialect), [])
    except csv.Error as problem:
        hint = "is it a CSV file? header => false says that there is none"
        raise SourceError(f"{origin} has no header: {problem}", hint=hint) from problem
    lines = text.text.count(b"\n", 0, stop) or text.text.count(b"\r", 0, stop)
    return [name.strip() for name in names], TextBlock(text.text[stop:], text.first_line + lines, text.number)


def csv_rows(text: str, dialect: CsvDialect) -> Iterator[list[str]]:
    """Read a few rows of text, such as a header, with Python's CSV reader."""
    return csv_reader(io.StringIO(text, newline=""), dialect)


def csv_reader(lines: io.StringIO, dialect: CsvDialect) -> CsvReader:
    """Return Python's CSV reader for rows of text."""
    if dialect.quote is None:
        return csv.reader(lines, delimiter=dialect.separator, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=dialect.separator, quotechar=dialect.quote)


def text_columns(text: TextBlock, dialect: CsvDialect, wanted: list[int], width: int) -> RowBlock:
    """Split a block into the `wanted` columns, binary; rows of another `width` or with open quotes are dead.

    Empty fields are null; quoted empty fields are "".
    """
    wrong: list[Any] = []
    unclosed, closed = _without_unclosed(text.text, dialect)
    if is_utf8(closed):
        table = _split(closed, dialect, width, wanted, wrong)
    else:  # Arrow can report rows of another width only as text
        _split(closed.translate(_ASCII), dialect, width, wanted, wrong)
        table = _split(_without_rows(closed, wrong, dialect), dialect, width, wanted, [])
    columns = [table.column(f"f{place}").combine_chunks() for place in wanted]
    locate = partial(text.locate, quoting=dialect.quoting)
    rows = np.delete(np.arange(table.num_rows + len(wrong) + len(unclosed), dtype=np.int64), unclosed)
    shapeless = rows[np.array([row.number - 1 for row in wrong], dtype=np.int64)]
    reasons = [*map(_width_reason, wrong), *[_UNCLOSED] * len(unclosed)]
    bad = np.concatenate([shapeless, unclosed])
    dead = tuple(zip(locate(bad), reasons, strict=True)) if len(bad) else ()
    return RowBlock(columns, np.setdiff1d(rows, shapeless, assume_unique=True), locate, text.number, dead)


def _without_unclosed(text: bytes, dialect: CsvDialect) -> tuple[NDArray[np.int64], bytes]:
    """Return the places of the rows with an unclosed quote, and the text without them."""
    none = np.zeros(0, np.int64)
    if not dialect.quoting.may_quote(text):
        return none, text
    starts, is_open = find_unclosed(text, dialect.quoting)
    if not is_open.any():
        return none, text
    return np.flatnonzero(is_open), _joined(text, starts, np.flatnonzero(~is_open))


def _without_rows(text: bytes, wrong: list[Any], dialect: CsvDialect) -> bytes:
    starts = find_rows(text, dialect.quoting)
    return _joined(text, starts, np.delete(np.arange(len(starts)), [row.number - 1 for row in wrong]))


def _joined(text: bytes, starts: NDArray[np.int64], rows: NDArray[np.int64]) -> bytes:
    """Return the joined text of the rows at some places among the `starts`."""
    stops = np.append(starts[1:], len(text))
    return b"".join(text[start:stop] for start, stop in zip(starts[rows], stops[rows], strict=True))


def _split(text: bytes, dialect: CsvDialect, width: int, wanted: list[int], wrong: list[Any]) -> pa.Table:
    """Split rows of `width` fields into the wanted columns, f0 ...; add rows of other widths to `wrong`."""

    def skip(row: Any) -> str:
        wrong.append(row)
        return "skip"

    chosen = [f"f{place}" for place in dict.fromkeys(wanted)]
    if not text:  # Arrow reports an error for it
        return pa.table({name: pa.array([], pa.binary()) for name in chosen})
    if text.startswith(BOM):  # Arrow would drop it, but within a file it is an ordinary character
        text = BOM + text
    table: pa.Table = arrow_csv.read_csv(
        pa.BufferReader(text),
        read_options=arrow_csv.ReadOptions(
            column_names=[f"f{place}" for place in range(width)],
            block_size=len(text) + 1,
            use_threads=False,
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=dialect.separator,
            quote_char=dialect.quote or False,
            newlines_in_values=dialect.quoting.may_quote(text),
            invalid_row_handler=skip,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(chosen, pa.binary()),
            include_columns=chosen,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        ),
    )
    return table


def _width_reason(row: Any) -> str:
    found = row.actual_columns
    reason = f"{found} column{'' if found == 1 else 's'} instead of {row.expected_columns}"
    lines = len((row.text or "").splitlines())
    return reason if lines <= 1 else f"{reason}, in {lines} lines from a quote that may not be closed"
