"""Turn messages into records, column by column: a slice's values are parsed as one text."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.formats.csv_file import CsvDialect, text_columns
from stqsh.sources.formats.json_file import alike_lines, json_block, read_ended, read_whole
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_parser import (
    QUOTE_LIMIT,
    TEXT_LIMIT,
    DeadLetter,
    FileBlock,
    ParsedRecords,
    RowBlock,
    RowLocation,
    parse,
)
from stqsh.sources.formats.record_schema import RecordSchema, check_options
from stqsh.sources.formats.row_blocks import TextBlock
from stqsh.sources.formats.time_formats import TIME_OPTIONS, UNITS
from stqsh.sources.live.text_lines import CsvHeader, data_lines, header_lines
from stqsh.spec.stream import META_COLUMNS, KafkaSourceSpec, LiveSourceSpec, Options, StreamSpec

_UTC = pa.timestamp("us", tz="UTC")
#: Numbers are taken for milliseconds and the like where they lie between these years, in seconds.
_FROM_1990, _TO_2100 = 631_152_000, 4_102_444_800

Values: TypeAlias = "list[bytes | None]"
Place: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition, in its order.

    Attributes:
        place: where they are from, as dead letters say it: `topic/3`, or `stdin`.
        offsets: their places there, int64 (n,).
        values: their values; None for tombstones.
        keys: their keys; empty where there are none at all.
        times: when the broker got them, in ms, int64 (n,); empty where that is not known.
        partition: their partition.
        first_line: of the text that they are lines of, which may be a header.
    """

    place: str
    offsets: Place
    values: Values
    keys: Values = field(default_factory=list)
    times: Place = field(default_factory=lambda: np.zeros(0, np.int64))
    partition: int = 0
    first_line: bytes = b""


class Decoded(NamedTuple):
    """Records in the order of their messages, the letters of those that could not be read, and bytes read."""

    records: pa.RecordBatch
    dead: list[DeadLetter]
    size: int = 0


class _Parts(NamedTuple):
    """Rows of the payload's columns, the message of each, int64 (n,), and the letters of bad messages."""

    columns: list[Array]
    message: NDArray[np.int64]
    dead: list[tuple[int, str]]


ReadPayload: TypeAlias = "Callable[[MessageDecoder, list[bytes], Place], Iterator[_Parts]]"


@dataclass(frozen=True, slots=True)
class MessageDecoder:
    """Decodes the messages of one stream.

    Attributes:
        layout: the stream's columns and roles.
        format: of the values: "jsonl", "csv" or "arrow".
        options: of FORMAT.
        meta: the columns that are not in the values.
        of_text: whether the values are the lines of texts, in which blank lines and headers say nothing.
        header: of the text that is read.
    """

    layout: RecordSchema
    format: str
    options: Options
    meta: tuple[str, ...]
    of_text: bool = False
    header: CsvHeader | None = None

    @staticmethod
    def of(spec: StreamSpec) -> MessageDecoder:
        """Return the decoder of a live stream.

        Raises:
            OptionError: an option of FORMAT is unknown or makes no sense.
        """
        source = spec.source
        assert isinstance(source, LiveSourceSpec), f"{spec.name} is not live"
        form = source.format
        assert form is not None, "messages have a format"
        if form == "csv":
            CsvDialect.of(source.options)
        else:
            check_options(source.options, TIME_OPTIONS, f"FORMAT {'JSON' if form == 'jsonl' else 'ARROW'}")
        from_kafka = isinstance(source, KafkaSourceSpec)
        names = META_COLUMNS if from_kafka else ()
        meta = tuple(name for name, _ in spec.columns if name in names)
        return MessageDecoder(RecordSchema.of(spec), form, source.options, meta, not from_kafka)

    @property
    def payload(self) -> RecordSchema:
        """The columns that are in the values."""
        columns = tuple(column for column in self.layout.columns if column.name not in self.meta)
        return replace(self.layout, columns=columns)

    def decode(self, messages: Messages) -> Decoded:
        """Decode the messages of one partition: each becomes records or a dead letter."""
        full = [at for at, value in enumerate(messages.values) if value is not None]
        there = np.array(full, np.int64)
        values = [value for value in messages.values if value is not None]
        decoder = self
        if self.of_text and self.format == "csv":
            names = self.payload.names
            decoder = replace(self, header=CsvHeader.of(messages.first_line, self.options, names))
            values, there = data_lines(values, there, header_lines(self.options, names, decoder.header))
        elif self.of_text:
            values, there = data_lines(values, there, ())
        read = _READERS[self.format]
        parsed = [self._parsed(messages, part) for part in read(decoder, values, there)]
        if len(full) < len(messages.values):
            gone = np.setdiff1d(np.arange(len(messages.values)), full, assume_unique=True)
            parsed.append(self._parsed(messages, self._tombstones(messages, gone)))
        return _in_order(self.layout, parsed)

    def _parsed(self, messages: Messages, part: _Parts) -> tuple[ParsedRecords, NDArray[np.int64]]:
        """Return checked records, and the message of each."""
        payload = iter(part.columns)
        columns = [
            self._meta_column(name, messages, part.message) if name in self.meta else next(payload)
            for name in self.layout.names
        ]
        rows = np.arange(len(part.message), dtype=np.int64)
        locate = partial(_locate, messages, part.message)
        dead = tuple((_location(messages, at), reason) for at, reason in part.dead)
        block = FileBlock(0, messages.place, RowBlock(columns, rows, locate, dead=dead))
        found = parse([block], self.layout)
        return found, part.message[found.places]

    def _meta_column(self, name: str, messages: Messages, which: NDArray[np.int64]) -> Array:
        """Return a column of Kafka's: key, timestamp, partition or offset of some messages."""
        if name == "_key":
            return pa.array([messages.keys[at] for at in which.tolist()], pa.binary())
        if name == "_timestamp":
            return pa.array(messages.times[which] * 1000).cast(_UTC)
        if name == "_offset":
            return pa.array(messages.offsets[which])
        return pa.array(np.full(len(which), messages.partition, np.int64))

    def _tombstones(self, messages: Messages, gone: NDArray[np.int64]) -> _Parts:
        """Return messages without a value: the object of the key leaves at the time of the message."""
        if self.layout.event:
            letters = [(at, "a message without a value: events do not leave") for at in gone.tolist()]
            return _Parts([pa.nulls(0, pa.binary()) for _ in self.payload.columns], gone[:0], letters)
        columns = []
        for name in self.payload.names:
            if name == self.layout.key:
                columns.append(self._meta_column("_key", messages, gone))
            elif name == self.layout.time:
                columns.append(self._meta_column("_timestamp", messages, gone))
            else:
                columns.append(pa.nulls(len(gone), pa.binary()))
        return _Parts(columns, gone, [])


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python's collector from looking for cycles among messages or log rows, which have none.

    It would look after every few hundred of them, and make fetching 50,000 messages five times as expensive.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _in_order(layout: RecordSchema, parts: Sequence[tuple[ParsedRecords, NDArray[np.int64]]]) -> Decoded:
    """Return the records of several parts in the order of their messages."""
    dead = sorted((letter for found, _ in parts for letter in found.dead), key=lambda letter: letter.line)
    batches = [pa.RecordBatch.from_arrays(found.columns, schema=layout.schema) for found, _ in parts]
    if len(batches) == 1:
        return Decoded(batches[0], dead)
    if not batches:
        return Decoded(_nothing(layout), dead)
    order = np.argsort(np.concatenate([message for _, message in parts]), kind="stable")
    table = pa.Table.from_batches(batches).combine_chunks()
    together = table.to_batches()[0] if table.num_rows else _nothing(layout)
    return Decoded(together.take(order), dead)


def _nothing(layout: RecordSchema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], layout.schema)


def _location(messages: Messages, at: int) -> RowLocation:
    value = messages.values[at]
    text = "" if value is None else value[: TEXT_LIMIT * 4].decode(errors="replace").strip()[:TEXT_LIMIT]
    return RowLocation(int(messages.offsets[at]), text)


def _locate(messages: Messages, which: NDArray[np.int64], rows: NDArray[np.int64]) -> list[RowLocation]:
    return [_location(messages, at) for at in which[rows].tolist()]


# -- formats -------------------------------------------------------------------------------------------------


def _read_json(decoder: MessageDecoder, values: list[bytes], there: Place) -> Iterator[_Parts]:
    """Parse values as the lines of one text; a line end within JSON is a blank."""
    values, there, dead = _without_blank(values, there)
    text = b"\n".join(values)
    if text.count(b"\n") >= len(values):
        values = [value.replace(b"\n", b" ") for value in values]
        text = b"\n".join(values)
    layout = decoder.payload
    columns = read_whole(text, layout.names, layout)
    if columns is not None:
        yield _Parts(_with_seconds(decoder, columns), there, dead)
        return
    ended = read_ended(values, layout.names, layout)
    if ended is not None:
        dead += [(int(there[place]), reason) for place, reason in ended.dead]
        yield _Parts(_with_seconds(decoder, ended.columns), there[ended.places], dead)
        return
    for lines in alike_lines(text, values, layout):
        some = text if len(lines) == len(values) else b"\n".join([values[at] for at in lines.tolist()])
        block = json_block(TextBlock(some, 0, 0), layout.names, layout)
        found = there[lines]
        dead += [(int(found[where.line]), reason) for where, reason in block.dead]
        yield _Parts(_with_seconds(decoder, block.columns), found[block.ordinals], dead)
        dead = []


def _with_seconds(decoder: MessageDecoder, columns: Sequence[Array]) -> list[Array]:
    """Return columns whose numbers in times count seconds, unless the option `timestamp` says their unit."""
    kinds = [kind for _, kind in decoder.payload.columns]
    if "timestamp" in decoder.options:
        return list(columns)
    return [
        _seconds(column) if kind == "TIMESTAMP" else column
        for column, kind in zip(columns, kinds, strict=True)
    ]


def _seconds(column: Array) -> Array:
    """Return a column of times whose numbers count seconds; other forms of times stay as they are."""
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return _in_seconds(column.cast(pa.float64()))
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return column
    # Seconds before 2100 have ten digits.
    long = pc.fill_null(pc.match_substring_regex(column, r"^\s*[0-9]{11,19}(\.[0-9]*)?\s*$"), False)
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
    """Return times as seconds since the epoch, each by the unit in which it is between 1990 and 2100."""
    for per_second in UNITS.values():
        if per_second > 1:
            low, high = float(_FROM_1990 * per_second), float(_TO_2100 * per_second)
            fits = pc.and_(pc.greater_equal(numbers, low), pc.less(numbers, high))
            if pc.any(fits).as_py():
                numbers = pc.if_else(fits, pc.divide(numbers, float(per_second)), numbers)
    return numbers


def _read_csv(decoder: MessageDecoder, values: list[bytes], there: Place) -> Iterator[_Parts]:
    """Parse values as rows of one text, with the columns as its header says, or as declared."""
    values, there, dead = _without_blank(values, there)
    dialect = replace(CsvDialect.of({"header": False, **decoder.options}), header=False)
    values = [value.rstrip(b"\r\n") for value in values]
    quote = (dialect.quote or "").encode()
    text = b"\n".join(values)
    if text.count(b"\n") >= len(values) or b"\r" in text or (quote and quote in text):
        values, there, bad = _without_broken(values, there, quote)
        dead += bad
        text = b"\n".join(values)
    layout = decoder.payload
    header = decoder.header
    if header and header.problem:
        dead += [(at, header.problem) for at in there.tolist()]
        values, there = [], there[:0]
    if not values:
        yield _Parts([pa.nulls(0, pa.binary()) for _ in layout.columns], there, dead)
        return
    wanted, width = list(range(len(layout.columns))), len(layout.columns)
    if header:
        wanted, width = header.places, header.width
    block = text_columns(TextBlock(text + b"\n", 0, 0), dialect, wanted, width)
    dead += [(int(there[where.line]), reason) for where, reason in block.dead]
    pairs = zip(block.columns, layout.columns, strict=True)
    columns = [dialect.typed(raw, kind) for raw, (_, kind) in pairs]
    columns = _with_seconds(decoder, columns)
    yield _Parts(columns, there[block.ordinals], dead)


def _without_broken(
    values: list[bytes], there: Place, quote: bytes
) -> tuple[list[bytes], Place, list[tuple[int, str]]]:
    """Take out the values that are no single row."""
    good, dead = [], []
    for at, value in enumerate(values):
        if b"\n" in value or b"\r" in value:
            dead.append((int(there[at]), "a message holds one row, and this one has several lines"))
        elif quote and value.count(quote) % 2:
            dead.append((int(there[at]), "a quote that opens here is not closed"))
        else:
            good.append(at)
    return [values[at] for at in good], there[good], dead


def _without_blank(values: list[bytes], there: Place) -> tuple[list[bytes], Place, list[tuple[int, str]]]:
    """Take out the values without content."""
    if all(values) and not any(map(bytes.isspace, values)):
        return values, there, []
    kept = [at for at, value in enumerate(values) if value and not value.isspace()]
    blank = np.setdiff1d(np.arange(len(values)), kept, assume_unique=True)
    dead = [(int(there[at]), "an empty message") for at in blank.tolist()]
    return [values[at] for at in kept], there[kept], dead


def _read_arrow(decoder: MessageDecoder, values: list[bytes], there: Place) -> Iterator[_Parts]:
    """Read values as Arrow IPC streams, each with any number of records; alike ones are taken together."""
    layout, dead = decoder.payload, list[tuple[int, str]]()
    alike: list[pa.Table] = []
    message: list[NDArray[np.int64]] = []
    for value, at in zip(values, there.tolist(), strict=True):
        table, reason = _arrow_table(value, layout.names)
        if table is None:
            dead.append((at, reason))
            continue
        if alike and alike[0].schema != table.schema:
            yield _joined(decoder, alike, message, dead)
            alike, message, dead = [], [], []
        alike.append(table)
        message.append(np.full(table.num_rows, at, np.int64))
    if alike:
        yield _joined(decoder, alike, message, dead)
    elif dead:
        yield _Parts([pa.nulls(0, pa.binary()) for _ in layout.columns], there[:0], dead)


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
    decoder: MessageDecoder,
    alike: list[pa.Table],
    message: list[NDArray[np.int64]],
    dead: list[tuple[int, str]],
) -> _Parts:
    table = pa.concat_tables(alike).combine_chunks()
    columns = [_one_chunk(column) for column in table.columns]
    return _Parts(_with_seconds(decoder, columns), np.concatenate(message), dead)


def _one_chunk(column: Any) -> Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found: Array = column.combine_chunks()
    return found


_READERS: dict[str, ReadPayload] = {"jsonl": _read_json, "csv": _read_csv, "arrow": _read_arrow}
