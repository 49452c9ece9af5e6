"""Recognize how a source's files are written: encoding, separators, decimal commas, header and times.

The results become options of the source, as if the statement had given them, so that reading never guesses.
Options that the statement gives are not recognized.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.errors import SourceError
from stqsh.lang.binder.definitions.column_roles import usual_names
from stqsh.sources.formats.casting import cast_column, without_null_words
from stqsh.sources.formats.csv_file import CsvDialect, csv_reader, joined_times, without_empty
from stqsh.sources.formats.file_formats import first_fields
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.row_blocks import COMPRESSIONS, SalvagingStream, open_bytes
from stqsh.sources.formats.text_encodings import Utf8Stream, find_encoding
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.sources.inference import infer
from stqsh.sources.sampling import sampled
from stqsh.sources.source_files import UNREADABLE, SourceFile, find_files, format_named, format_of, options_of
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, Options

#: The bytes of text used to find the separator, and those of all files used to find the encoding.
_HEAD_BYTES, _DECODED_BYTES = 1 << 16, 32 << 20
_PIECE = 1 << 20
#: The most lines before a header, and the number of rows examined.
_MOST_SKIPPED, _MOST_ROWS = 20, 200
_SEPARATORS = (",", ";", "\t", "|", " ")
_EXCEL = re.compile(r"sep=(.)", re.IGNORECASE)
#: The share of rows, or of values, that has to agree.
_MOST = 0.9
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
_INSTANT = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:\d{2})?.*")
_COMMA_NUMBER = r"^\s*[+-]?\d*,\d+\s*$"


Columns = list[list[str]]
"""Name and type of each column."""


class Recognized(NamedTuple):
    """A source with the recognized options, and notes about them for the user."""

    source: FileSourceSpec
    notes: tuple[str, ...] = ()


def recognize_dialect(source: FileSourceSpec) -> Recognized:
    """Return a source with the encoding, separator, header and decimal point of its CSV files.

    Raises:
        SourceError: there is no file, its format is unknown, or it contains no text. OptionError: an option
            makes no sense.
    """
    files = [file for file in find_files(source) if format_of(file.path, source) == "csv"]
    if not files:
        return Recognized(source)
    found: Options = {}
    if "encoding" not in source.options and (encoding := _encoding(files)):
        found["encoding"] = encoding
    path, given = files[0].path, options_of(files[0].path, source)
    dialect = CsvDialect.of({**given, **found})
    head = _head(path, dialect.encoding)
    if "\0" in head:
        raise SourceError(
            f"{path} holds no text", hint="if it is no CSV file, rename it, or say what it is: FORMAT PARQUET"
        )
    found |= _layout(head, dialect, given)
    options = {**given, **found}
    separator = CsvDialect.of(options).separator
    may_have_commas = '"' in head if separator == "," else "," in head
    if "decimal" not in given and may_have_commas and _has_decimal_commas(path, options):
        found["decimal"] = ","
    if not found:
        return Recognized(source)
    shown = ", ".join(f"{name} => {_literal(value)}" for name, value in found.items())
    return Recognized(_with(source, found), (f"recognized: FORMAT CSV ({shown})",))


def _with(source: FileSourceSpec, found: Options) -> FileSourceSpec:
    return msgspec.structs.replace(source, options={**source.options, **found})


def _literal(value: object) -> str:
    """Return an option's value in STQL notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = "\\t" if value == "\t" else str(value).replace("'", "''")
    return f"'{text}'"


# -- encoding and rows ---------------------------------------------------------------------------------------


def _encoding(files: Sequence[SourceFile]) -> str:
    """Return the first encoding of the files' beginnings that is not UTF-8, or "" if all are UTF-8."""
    left = _DECODED_BYTES
    for file in files:
        for piece in _pieces(file.path, min(left, _DECODED_BYTES)):
            left -= len(piece)
            if found := find_encoding(piece):
                return found
        if left <= 0:
            break
    return ""


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    """Yield the beginning of a file, cut at line ends so that no character is split."""
    rest = b""
    with open_bytes(path) as stream:
        source = SalvagingStream(stream) if path.suffix.lower() in COMPRESSIONS else stream
        while size > 0:
            try:
                piece = source.read(min(size, _PIECE))
            except OSError:  # the reader reports it
                return
            if not piece:
                break
            size -= len(piece)
            text = rest + piece
            cut = text.rfind(b"\n") + 1 or len(text)
            rest = text[cut:]
            yield text[:cut]
        if rest:
            yield rest


def _head(path: Path, encoding: str) -> str:
    with open_bytes(path) as stream:
        source = SalvagingStream(stream) if path.suffix.lower() in COMPRESSIONS else stream
        text = Utf8Stream(source, encoding).read(_HEAD_BYTES).decode(errors="replace").removeprefix("\ufeff")
    return text if len(text) < _HEAD_BYTES // 4 else text[: text.rfind("\n") + 1] or text


@dataclass(frozen=True, slots=True)
class _Division:
    """How a separator divides a text: the lines before the first whole row, the columns, and the rows."""

    separator: str
    skip: int
    width: int
    rows: list[list[str]]


def _layout(head: str, dialect: CsvDialect, given: Options) -> Options:
    """Return the options that differ from a plain CSV file: separator, lines to skip, missing header."""
    found: Options = {}
    separators: Sequence[str] = (dialect.separator,) if "separator" in given else _SEPARATORS
    excel = _EXCEL.fullmatch(head.partition("\n")[0].strip())
    if excel is not None and "separator" not in given:
        separators = (excel[1],)
    skips = "skip" not in given
    divisions = [_divided(head, one, dialect) for one in separators]
    if not skips:
        divisions = [_divided(head, one, dialect, dialect.skip) for one in separators]
    whole = [one for one in divisions if one is not None and not (one.separator == " " and one.skip)]
    if not whole:
        return found
    best = min(whole, key=lambda one: (one.skip, _rank(one.separator), -one.width))
    if "separator" not in given and best.separator != ",":
        found["separator"] = best.separator
    if skips and best.skip:
        found["skip"] = best.skip
    if "header" not in given and _is_headless(best.rows):
        found["header"] = False
    return found


def _rank(separator: str) -> int:
    """Return the preference of a separator among those that fit: commas first, blanks last."""
    return {",": 0, " ": 2}.get(separator, 1)


def _divided(head: str, separator: str, dialect: CsvDialect, skip: int | None = None) -> _Division | None:
    """Divide a text; None if most rows do not have the same number of columns, or have only one.

    Args:
        head: the beginning of a file.
        separator: the separator to try.
        dialect: the part of the dialect that is known.
        skip: how many lines to skip; None to find out.
    """
    lines = io.StringIO(head, newline="")
    for _ in range(skip or 0):
        lines.readline()
    reader = csv_reader(lines, replace(dialect, separator=separator))
    rows: list[tuple[int, list[str]]] = []
    before = 0
    try:
        for row in reader:
            if row:
                rows.append((before, row))
            before = reader.line_num
            if len(rows) >= _MOST_ROWS:
                break
    except csv.Error:
        return None
    if not rows:
        return None
    width, count = Counter(len(row) for _, row in rows).most_common(1)[0]
    whole = (place for place, (_, row) in enumerate(rows) if len(row) == width)
    first = next(whole) if skip is None else 0
    fitting = sum(len(row) == width for _, row in rows[first:])
    if width == 1 or fitting < _MOST * (len(rows) - first) or len(rows[first][1]) != width:
        return None
    if first > _MOST_SKIPPED or (first and count < 2):
        return None
    return _Division(
        separator, rows[first][0] if skip is None else skip, width, [row for _, row in rows[first:]]
    )


def _is_headless(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is a data row: at least two of its values are numbers or times.

    >>> _is_headless([["a", "1.5", "2"], ["b", "2.5", "3"]])
    True
    >>> _is_headless([["id", "2015", "2016"], ["a", "1", "2"]])
    False
    """
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    values = [place for place, text in enumerate(first) if _is_value(text)]
    if len(values) < 2 or not any(re.search(r"[.:,/-]", first[place]) for place in values):
        return False
    alike = sum(_is_value(row[place]) or not row[place].strip() for row in rest for place in values)
    return alike >= _MOST * len(rest) * len(values)


def _is_value(text: str) -> bool:
    text = text.strip()
    return bool(_NUMBER.fullmatch(text) or _INSTANT.fullmatch(text))


def _has_decimal_commas(path: Path, options: Options) -> bool:
    """Return whether a column contains numbers with decimal commas."""
    return any(_looks_like(_texts(column), _COMMA_NUMBER) for column in first_fields(path, options).values())


def _texts(column: Array) -> Array:
    """Return the meaningful values of a text column, binary."""
    return without_null_words(column.view(pa.binary())).drop_null()


def _share(mask: Array) -> float:
    return float(pc.mean(mask.cast(pa.int8())).as_py() or 0.0)


# -- times ---------------------------------------------------------------------------------------------------

_DAYS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y-%m-%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y%m%d", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y",
)  # fmt: skip
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H%M%S", "%I:%M:%S %p", "%I:%M %p", "%H.%M", "%H:%M:%S UTC")
_PATTERNS = (
    *(f"{day} {clock}" for clock in _CLOCKS for day in _DAYS),
    *_DAYS,
    *(f"{day}T{clock}" for clock in _CLOCKS[:2] for day in _DAYS),
    "%Y%m%d%H%M%S", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ", "%a %b %d %H:%M:%S +0000 %Y",
    "%a, %d %b %Y %H:%M:%S GMT", "%H:%M:%S %d.%m.%Y", "%H:%M %d/%m/%Y",
)  # fmt: skip
"""Patterns of times that are not in ISO 8601, the most common first."""
_SWAPPED = {"%d/%m/": "%m/%d/", "%m/%d/": "%d/%m/", "%d-%m-": "%m-%d-", "%m-%d-": "%d-%m-"}
_DATE_ONLY = r"^\s*\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\s*$|^\s*\d{8}\s*$"
_CLOCK_ONLY = r"^\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(\s*[AaPp][Mm])?\s*$"
_CLOCK_DIGITS = r"^\s*([01]\d|2[0-3])[0-5]\d[0-5]\d\s*$"
_DIGITS = r"^\s*(19|20)\d{2}[01]\d[0-3]\d([0-2]\d[0-5]\d[0-5]\d)?\s*$"
_TRIED = 400
_MOST_COLUMNS = 500
_SAMPLED_BYTES, _SAMPLED_FILES = 2 << 20, 16
_EARLIEST_US = -30_610_224_000 * 1_000_000  # the year 1000: an earlier year was written with two digits
_ORDERED = 0.05


class RecognizedTimes(NamedTuple):
    """A source with the options of its times, the columns with their types, and notes for the user."""

    source: FileSourceSpec
    columns: Columns
    notes: tuple[str, ...] = ()


def recognize(source: FileSourceSpec, declared: Columns | None, time: str | None) -> RecognizedTimes:
    """Return the source of a stream with all recognized options, and its columns.

    Args:
        source: the source, with the options of its statement.
        declared: its columns; None to infer them.
        time: the TIME column; None to guess it.

    Raises:
        SourceError: there is no file, none can be read, a file lacks a column, or its format is unknown.
    """
    written = recognize_dialect(source)
    timed = recognize_times(written.source, declared or infer(written.source), time)
    columns = timed.columns
    if declared is None and timed.source != written.source:
        kinds, types = dict(infer(timed.source)), dict(columns)
        columns = [[name, kind if types[name] == "TIMESTAMP" else kinds[name]] for name, kind in columns]
    return timed._replace(columns=columns, notes=(*written.notes, *timed.notes))


def recognize_times(source: FileSourceSpec, columns: Columns, time: str | None) -> RecognizedTimes:
    """Return a source with the pattern of its times, and with the column of the times of day.

    Args:
        source: a source whose dialect is known.
        columns: its columns, as declared or inferred.
        time: the TIME column; None to guess it.

    Raises:
        SourceError: a file lacks a column, or its format is unknown.
    """
    types = dict(columns)
    names = [time] if time is not None else usual_names("time", [*types])
    names = [name for name in names if name in types]
    if "timestamp" in source.options or not names:
        return RecognizedTimes(source, columns)
    values = column_values(source, names)
    clock = ""
    if "clock" not in source.options and any(_looks_like(values[name], _DATE_ONLY) for name in names):
        texts = [name for name in dict.fromkeys((*names, *types)) if types[name] == "STRING"]
        digits = [name for name in names if types[name] in ("STRING", "BIGINT")]
        clock = _clock_among(source, texts[:_MOST_COLUMNS], _CLOCK_ONLY)
        clock = clock or _clock_among(source, digits, _CLOCK_DIGITS)
    for name in names:
        if clock and _looks_like(values[name], _DATE_ONLY):
            return _with_clock(source, columns, name, clock)
        present = values[name].drop_null()
        if types[name] == "TIMESTAMP" and cast_column(present, "TIMESTAMP").bad is None:
            return RecognizedTimes(source, columns)
        pattern = find_pattern(present)
        if pattern is not None:
            return _with_pattern(source, columns, name, pattern)
    return RecognizedTimes(source, columns)


def _clock_among(source: FileSourceSpec, names: Sequence[str], form: str) -> str:
    """Return the first column that contains times of day in a given form, "" if there is none."""
    values = column_values(source, names) if names else {}
    return next((name for name in names if _looks_like(values[name], form)), "")


def _looks_like(values: Array, form: str) -> bool:
    present = values.drop_null()
    return len(present) > 0 and _share(pc.match_substring_regex(present, form)) >= _MOST


def _with_clock(source: FileSourceSpec, columns: Columns, date: str, clock: str) -> RecognizedTimes:
    values = column_values(source, [date, clock])
    joined = joined_times(values[date], values[clock]).drop_null()
    pattern = find_pattern(joined)
    kinds = {date: "TIMESTAMP", clock: "STRING"}
    typed = [[name, kinds.get(name, kind)] for name, kind in columns]
    found: Options = {"clock": clock}
    if pattern is None:
        if cast_column(joined, "TIMESTAMP").bad is not None:
            return RecognizedTimes(source, columns)
        return RecognizedTimes(_with(source, found), typed, (f"{date}: with the time of day in {clock}",))
    timed = _with_pattern(_with(source, found), typed, date, pattern)
    return timed._replace(notes=(f"{date}: with the time of day in {clock}", *timed.notes))


def _with_pattern(
    source: FileSourceSpec, columns: Columns, name: str, pattern: TimePattern
) -> RecognizedTimes:
    typed = [[column, "TIMESTAMP" if column == name else kind] for column, kind in columns]
    how = f"times as {pattern.example!r} are read by '{pattern.pattern}'"
    first = "day" if pattern.pattern.startswith("%d") else "month"
    if pattern.other:
        how += (
            f"; the {first} comes first, which is not certain: FORMAT CSV (timestamp => '{pattern.other}')"
            " says otherwise"
        )
    local = [] if "zone" in source.options else ["; in UTC, unless zone => 'Europe/Berlin', say, is added"]
    found = _with(source, {"timestamp": pattern.pattern})
    return RecognizedTimes(found, typed, ("".join([f"{name}: {how}", *local]),))


def column_values(source: FileSourceSpec, names: Sequence[str]) -> dict[str, Array]:
    """Return some columns of a sample of a source's files as text, binary (n,) each, null where empty.

    Files that lack a column are skipped. Raises `SourceError`: the format of a file is unknown.
    """
    layout = RecordSchema(tuple(ColumnSpec(name, "STRING") for name in names), names[0])
    parts: dict[str, list[Array]] = {name: [pa.array([], pa.binary())] for name in names}
    files = find_files(source)
    some = np.unique(np.linspace(0, len(files) - 1, _SAMPLED_FILES).astype(np.int64)).tolist()
    with sampled([files[number] for number in some], source, _SAMPLED_BYTES) as sample:
        for file in sample.files:
            reader, left = format_named(format_of(file.path, source)).read, _SAMPLED_BYTES
            with suppress(*UNREADABLE, SourceError):  # the check of the source reports it
                for block in reader(file.path, layout, options_of(file.path, source)):
                    for name, column in zip(names, block.columns, strict=True):
                        parts[name].append(_as_text(column))
                    left -= block.size
                    if left <= 0:
                        break
    return {name: pa.concat_arrays(found) for name, found in parts.items()}


def _as_text(column: Array) -> Array:
    """Return a column as text, binary, with null for empty values and words such as n/a."""
    text = cast_column(column, "STRING").values.view(pa.binary())
    return without_null_words(without_empty(text))


class TimePattern(NamedTuple):
    """The strptime pattern that matches most values of a column.

    Attributes:
        pattern: the pattern.
        example: a value.
        other: the pattern that also matches if day and month may be swapped; "" if none.
    """

    pattern: str
    example: str
    other: str = ""


def find_pattern(values: Array) -> TimePattern | None:
    """Return the pattern that matches most values, binary without nulls; None for ISO 8601."""
    values = pc.ascii_trim_whitespace(values.view(pa.string()))
    if not len(values):
        return None
    some = values.take(np.unique(np.linspace(0, len(values) - 1, _TRIED).astype(np.int64)))
    if cast_column(some, "TIMESTAMP").bad is None and _share(pc.match_substring_regex(some, _DIGITS)) < _MOST:
        return None
    likely = [pattern for pattern in _PATTERNS if _fitting(some, pattern) >= _MOST]
    shares = {pattern: _fitting(values, pattern) for pattern in likely}
    shares = {pattern: share for pattern, share in shares.items() if share >= _MOST}
    if not shares:
        return None
    best = max(shares, key=lambda pattern: shares[pattern])
    example = str(values[0].as_py())
    other = _other_way(best)
    if other not in shares or shares[other] < shares[best]:
        return TimePattern(best, example)
    chosen = _likelier(values, best, other)
    return TimePattern(chosen, example, other if chosen == best else best)


def _fitting(values: Array, pattern: str) -> float:
    """Return the share of values that match a pattern, with four-digit years."""
    cast = cast_column(values, "TIMESTAMP", TimeFormat(pattern))
    micros = cast.values.cast(pa.int64())
    return float(pc.sum(pc.greater(micros, _EARLIEST_US)).as_py() or 0) / len(values)


def _other_way(pattern: str) -> str:
    """Return a pattern with day and month swapped, "" if that order is not in use."""
    return next((pattern.replace(one, two) for one, two in _SWAPPED.items() if one in pattern), "")


def _likelier(values: Array, one: str, other: str) -> str:
    """Return the pattern by which more values are in order; else day first, but month first with AM/PM."""
    ordered = []
    for pattern in (one, other):
        micros = cast_column(values, "TIMESTAMP", TimeFormat(pattern)).values.cast(pa.int64()).to_numpy(False)
        ordered.append(float((np.diff(micros) >= 0).mean()) if len(micros) > 1 else 0.0)
    if abs(ordered[0] - ordered[1]) > _ORDERED:
        return one if ordered[0] > ordered[1] else other
    first = "%m" if "%p" in one else "%d"
    return one if one.startswith(first) else other
