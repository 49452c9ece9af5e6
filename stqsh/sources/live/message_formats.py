"""Read the values of messages as columns: JSON, CSV and Arrow, with the values of a slice as one text.

Each reader yields rows with the message of each row, and the dead letters of messages without valid rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.formats.csv_file import CsvDialect, text_columns
from stqsh.sources.formats.json_file import ReadLines, alike_lines, json_block, read_ended, read_whole
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_parser import QUOTE_LIMIT, BadRows
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.row_blocks import BOM, Quoting, TextBlock, find_unclosed
from stqsh.sources.formats.text_values import TextValues
from stqsh.sources.formats.time_formats import UNITS
from stqsh.sources.live.text_lines import CsvHeader
from stqsh.spec.stream import Options

#: Numbers between these years, in seconds, determine the unit: seconds, milliseconds and so on.
_FROM_1990, _TO_2100 = 631_152_000, 4_102_444_800
#: A number that may not be in seconds: with an exponent, or longer than the ten digits of times until 2100.
_LONG_NUMBER = r"^\s*([0-9]{11,19}(\.[0-9]*)?|[0-9]+(\.[0-9]*)?[eE]\+?[0-9]{1,2})\s*$"

Place: TypeAlias = "NDArray[np.int64]"
FullValues: TypeAlias = "list[bytes] | TextValues"
"""Values that are not null."""


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    """How values are to be read.

    Attributes:
        layout: the columns in the values.
        options: the options of FORMAT.
        header: the header of the text whose lines they are.
    """

    layout: RecordSchema
    options: Options
    header: CsvHeader | None = None


class ReadValues(NamedTuple):
    """Rows of the values' columns, the message of each, int64 (n,), and the messages without valid rows."""

    columns: list[Array]
    message: NDArray[np.int64]
    dead: BadRows


def _read_json(form: PayloadFormat, values: FullValues, there: Place) -> Iterator[ReadValues]:
    """Parse values as the lines of one text; line ends within JSON become blanks."""
    dead = list[tuple[int, str]]()
    lines = _as_text(values)
    if not lines.are_lines or BOM in lines.text:
        some, there, dead = _without_blank(_without_marks(values, lines.text), there)
        if any(b"\n" in value for value in some):
            some = [value.replace(b"\n", b" ") for value in some]
        lines = TextValues.of(some)
    layout = form.layout
    found = read_ended(lines, layout.names, layout)
    if found is None:
        columns = read_whole(lines.text, layout.names, layout, len(lines))
        found = ReadLines(columns, np.arange(len(lines)), BadRows.of(())) if columns is not None else None
    if found is not None:
        bad = BadRows.joined([BadRows.of(dead), BadRows(there[found.dead.places], found.dead.reasons)])
        yield ReadValues(with_seconds(layout, form.options, found.columns), there[found.places], bad)
        return
    for places in alike_lines(lines.text, lines, layout):
        some_text = b"\n".join(lines.take(places))
        block = json_block(TextBlock(some_text, 0, 0), layout.names, layout)
        at = there[places]
        dead += [(int(at[where.line]), reason) for where, reason in block.dead]
        yield ReadValues(
            with_seconds(layout, form.options, block.columns), at[block.ordinals], BadRows.of(dead)
        )
        dead = []


def _as_text(values: FullValues) -> TextValues:
    return values if isinstance(values, TextValues) else TextValues.of(values)


def _without_marks(values: FullValues, text: bytes) -> list[bytes]:
    """Return values without leading byte-order marks; `text` is all values joined."""
    return [*map(_without_mark, values)] if BOM in text else list(values)


def _without_mark(value: bytes) -> bytes:
    while value.startswith(BOM):
        value = value.removeprefix(BOM)
    return value


def with_seconds(layout: RecordSchema, options: Options, columns: Sequence[Array]) -> list[Array]:
    """Return columns with numeric times in seconds, unless the option `timestamp` states their unit."""
    kinds = [kind for _, kind in layout.columns]
    if "timestamp" in options:
        return list(columns)
    return [
        _seconds(column) if kind == "TIMESTAMP" else column
        for column, kind in zip(columns, kinds, strict=True)
    ]


def _seconds(column: Array) -> Array:
    """Return a column of times with its numbers in seconds; other forms of times do not change."""
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return _in_seconds(column.cast(pa.float64(), safe=False))  # rounds integers beyond 2^53
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return column
    long = pc.fill_null(pc.match_substring_regex(column, _LONG_NUMBER), False)
    if not pc.any(long).as_py():
        return column
    found = pc.utf8_trim_whitespace(column.filter(long).cast(pa.string()))
    seconds = _in_seconds(found.cast(pa.float64()))
    if len(seconds) == len(column):
        return seconds
    shown = [repr(value) for value in seconds.to_pylist()]
    replaced: Array = pc.replace_with_mask(column, long, pa.array(shown, pa.string()).cast(column.type))
    return replaced


def _in_seconds(numbers: Array) -> Array:
    """Convert times to seconds since the epoch, each from the unit in which it is between 1990 and 2100."""
    for per_second in UNITS.values():
        if per_second > 1:
            low, high = float(_FROM_1990 * per_second), float(_TO_2100 * per_second)
            fits = pc.and_(pc.greater_equal(numbers, low), pc.less(numbers, high))
            if pc.any(fits).as_py():
                numbers = pc.if_else(fits, pc.divide(numbers, float(per_second)), numbers)
    return numbers


def _read_csv(form: PayloadFormat, values: FullValues, there: Place) -> Iterator[ReadValues]:
    """Parse values as rows of one text, with the columns in the order of its header, or as declared."""
    dialect = replace(CsvDialect.of({"header": False, **form.options}), header=False)
    dead = list[tuple[int, str]]()
    lines = _as_text(values)
    if not lines.are_lines or BOM in lines.text or b"\r" in lines.text:
        some, there, dead = _without_blank(_without_marks(values, lines.text), there)
        lines = TextValues.of([value.rstrip(b"\r\n") for value in some])
    if not _are_rows(lines, dialect.quoting):
        some, there, bad = _without_broken(list(lines), there, dialect.quoting)
        dead += bad
        lines = TextValues.of(some)
    layout = form.layout
    header = form.header
    if header and header.problem:
        dead += [(at, header.problem) for at in there.tolist()]
        lines, there = TextValues.of([]), there[:0]
    if not len(lines):
        yield ReadValues([pa.nulls(0, pa.binary()) for _ in layout.columns], there, BadRows.of(dead))
        return
    wanted, width = list(range(len(layout.columns))), len(layout.columns)
    if header:
        wanted, width = header.places, header.width
    block = text_columns(TextBlock(lines.text + b"\n", 0, 0), dialect, wanted, width)
    dead += [(int(there[where.line]), reason) for where, reason in block.dead]
    pairs = zip(block.columns, layout.columns, strict=True)
    columns = [dialect.typed(raw, kind) for raw, (_, kind) in pairs]
    columns = with_seconds(form.layout, form.options, columns)
    yield ReadValues(columns, there[block.ordinals], BadRows.of(dead))


def _are_rows(lines: TextValues, quoting: Quoting) -> bool:
    """Return whether each value is exactly one CSV row, and no quote is closed by another value."""
    if b"\r" in lines.text or lines.text.count(b"\n") >= max(1, len(lines)):
        return False
    if not quoting.may_quote(lines.text):
        return True
    starts, is_open = find_unclosed(lines.text, quoting)
    return not is_open.any() and np.array_equal(starts, lines.begins)


def _without_broken(
    values: list[bytes], there: Place, quoting: Quoting
) -> tuple[list[bytes], Place, list[tuple[int, str]]]:
    """Separate the values that are not exactly one row."""
    good, dead = [], []
    for at, value in enumerate(values):
        if b"\n" in value or b"\r" in value:
            dead.append((int(there[at]), "a message holds one row, and this one has several lines"))
        elif quoting.may_quote(value) and find_unclosed(value, quoting)[1].any():
            dead.append((int(there[at]), "a quote that opens here is not closed"))
        else:
            good.append(at)
    return [values[at] for at in good], there[good], dead


def _without_blank(values: list[bytes], there: Place) -> tuple[list[bytes], Place, list[tuple[int, str]]]:
    """Separate the values without content."""
    if all(values) and not any(map(bytes.isspace, values)):
        return values, there, []
    kept = [at for at, value in enumerate(values) if value and not value.isspace()]
    blank = np.setdiff1d(np.arange(len(values)), kept, assume_unique=True)
    dead = [(int(there[at]), "an empty message") for at in blank.tolist()]
    return [values[at] for at in kept], there[kept], dead


def _read_arrow(form: PayloadFormat, values: FullValues, there: Place) -> Iterator[ReadValues]:
    """Read values as Arrow IPC streams with any number of records; equal schemas are read together."""
    layout, dead = form.layout, list[tuple[int, str]]()
    alike: list[pa.Table] = []
    message: list[NDArray[np.int64]] = []
    for value, at in zip(values, there.tolist(), strict=True):
        table, reason = _arrow_table(value, layout.names)
        if table is None:
            dead.append((at, reason))
            continue
        if alike and alike[0].schema != table.schema:
            yield _joined(form, alike, message, dead)
            alike, message, dead = [], [], []
        alike.append(table)
        message.append(np.full(table.num_rows, at, np.int64))
    if alike:
        yield _joined(form, alike, message, dead)
    elif dead:
        yield ReadValues([pa.nulls(0, pa.binary()) for _ in layout.columns], there[:0], BadRows.of(dead))


def _arrow_table(value: bytes, names: Sequence[str]) -> tuple[pa.Table | None, str]:
    """Return the columns of an Arrow IPC stream, or None and the reason."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(value)) as reader:
            table = reader.read_all()
        missing = next((name for name in names if table.schema.get_field_index(name) < 0), None)
        if missing is not None:
            return None, f"no column {missing}, or several"
        table = table.select(list(names)).replace_schema_metadata()
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowException, OSError, ValueError) as problem:
        return None, f"no Arrow stream: {str(problem).splitlines()[0][:QUOTE_LIMIT]}"
    return table, ""


def _joined(
    form: PayloadFormat,
    alike: list[pa.Table],
    message: list[NDArray[np.int64]],
    dead: list[tuple[int, str]],
) -> ReadValues:
    table = pa.concat_tables(alike).combine_chunks()
    columns = [_one_chunk(column) for column in table.columns]
    return ReadValues(
        with_seconds(form.layout, form.options, columns), np.concatenate(message), BadRows.of(dead)
    )


def _one_chunk(column: Any) -> Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found: Array = column.combine_chunks()
    return found


ReadPayload: TypeAlias = "Callable[[PayloadFormat, FullValues, Place], Iterator[ReadValues]]"
READERS: dict[str, ReadPayload] = {"jsonl": _read_json, "csv": _read_csv, "arrow": _read_arrow}
"""The readers by format; they read values that are not null, and the messages of these values."""
