"""Decode messages into records, column by column: the values of a slice are parsed as one text."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.formats.csv_file import CsvDialect
from stqsh.sources.formats.json_file import shown_line
from stqsh.sources.formats.pyarrow_typing import Array
from stqsh.sources.formats.record_parser import (
    BadRows,
    FileBlock,
    RowBlock,
    RowLocation,
    parse,
)
from stqsh.sources.formats.record_schema import RecordSchema, check_options
from stqsh.sources.formats.text_values import TextValues
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.sources.live.message_formats import READERS, PayloadFormat, Place, ReadValues
from stqsh.sources.live.text_lines import CsvHeader, data_lines, header_lines, lacks_only
from stqsh.spec.query_stream import DROP_COLUMN
from stqsh.spec.stream import META_COLUMNS, KafkaSourceSpec, LiveSourceSpec, Options, StreamSpec

_UTC = pa.timestamp("us", tz="UTC")

Payloads: TypeAlias = "list[bytes | None] | TextValues"
"""The values of messages; None for a tombstone."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition, in its order, or of several partitions, one after the other.

    Attributes:
        place: their origin, as shown in dead letters: `topic/3`, or `stdin`.
        offsets: their places there, int64 (n,).
        values: their values; None for a tombstone.
        keys: their keys; empty if keys are not known.
        times: when the broker received them, in ms, int64 (n,); empty if unknown.
        partitions: their partitions, int64 (n,); empty if they have none.
        first_line: the first line of the text whose lines they are; it may be a header.
    """

    place: str
    offsets: Place
    values: Payloads
    keys: list[bytes | None] = field(default_factory=list)
    times: Place = field(default_factory=lambda: np.zeros(0, np.int64))
    partitions: Place = field(default_factory=lambda: np.zeros(0, np.int64))
    first_line: bytes = b""


class Decoded(NamedTuple):
    """Records in the order of their messages, the dead letters, and the number of bytes read."""

    records: pa.RecordBatch
    dead: list[DeadLetter]
    size: int = 0


class PlacedRecords(NamedTuple):
    """Records in the order of their messages, the places of these, int64 (n,), and the dead letters."""

    records: pa.RecordBatch
    places: Place
    dead: list[DeadLetter]


@dataclass(frozen=True, slots=True)
class MessageDecoder:
    """Decodes the messages of one stream.

    Attributes:
        layout: the stream's columns and roles.
        format: the format of the values: "jsonl", "csv" or "arrow".
        options: the options of FORMAT.
        meta: the columns that are not in the values.
        of_text: whether the values are lines of texts, whose blank lines and headers are ignored.
    """

    layout: RecordSchema
    format: str
    options: Options
    meta: tuple[str, ...]
    of_text: bool = False

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
        given = self.layout.in_files
        return replace(
            given, columns=tuple(column for column in given.columns if column.name not in self.meta)
        )

    def decode(self, messages: Messages) -> Decoded:
        """Decode the messages of one partition; each becomes records or a dead letter."""
        return self.decode_parts([messages.place], np.array([len(messages.values)]), messages)[0]

    def decode_placed(self, messages: Messages) -> PlacedRecords:
        """Decode the messages of one partition, and return the place of each record."""
        records, message, dead = self._decode(messages)
        offsets, texts = messages.offsets[dead.places].tolist(), _texts(messages, dead.places)
        letters = [
            DeadLetter(messages.place, offset, reason, text)
            for offset, reason, text in zip(offsets, dead.reasons, texts, strict=True)
        ]
        return PlacedRecords(records, messages.offsets[message], letters)

    def decode_parts(
        self, parts: Sequence[str], counts: NDArray[np.int64], messages: Messages
    ) -> list[Decoded]:
        """Decode the messages of several partitions, which are stored one after the other.

        They are decoded together, because a few messages cost about as much as a thousand.

        Args:
            parts: the partitions.
            counts: the number of messages of each partition, int64.
            messages: the messages of all partitions.
        """
        records, message, dead = self._decode(messages)
        ends = np.cumsum(counts)
        letter_ends = np.searchsorted(dead.places, ends).tolist()
        offsets, texts = messages.offsets[dead.places].tolist(), _texts(messages, dead.places)
        found = []
        record = letter = 0
        for part, record_end, letter_end in zip(
            parts, np.searchsorted(message, ends).tolist(), letter_ends, strict=True
        ):
            some = slice(letter, letter_end)
            letters = [
                DeadLetter(part, offset, reason, text)
                for offset, reason, text in zip(offsets[some], dead.reasons[some], texts[some], strict=True)
            ]
            found.append(Decoded(records.slice(record, record_end - record), letters))
            record, letter = record_end, letter_end
        return found

    def _decode(self, messages: Messages) -> _DecodedMessages:
        """Decode messages."""
        if self._lacks_drops(messages.first_line):
            return replace(self, layout=self.layout.without_drops)._decode(messages)
        values, there, gone = _without_tombstones(messages.values)
        form = PayloadFormat(self.payload, self.options)
        if self.of_text:
            headers: Sequence[bytes] = ()
            if self.format == "csv":
                names = form.layout.names
                form = replace(form, header=CsvHeader.of(messages.first_line, self.options, names))
                headers = header_lines(self.options, names, form.header)
            values, there = data_lines(list(values), there, headers)
        read = READERS[self.format]
        parsed = [self._parsed(messages, part) for part in read(form, values, there)]
        if len(gone):
            # Nothing is derived: a column that is no key or time is NULL, as the others are.
            of_tombstones = replace(self, layout=replace(self.layout, derived=()))
            parsed.append(of_tombstones._parsed(messages, of_tombstones._tombstones(messages, gone)))
        return _in_order(self.layout, parsed)

    def _lacks_drops(self, first_line: bytes) -> bool:
        """Return whether these are rows of a query stream whose header only lacks the column to drop."""
        if self.format != "csv" or not self.of_text or not self.layout.may_lack_drops:
            return False
        return lacks_only(first_line, self.options, self.payload.names, DROP_COLUMN)

    def _parsed(self, messages: Messages, part: ReadValues) -> _DecodedMessages:
        """Check records; the invalid ones become dead letters."""
        payload = iter(part.columns)
        columns = [
            self._meta_column(name, messages, part.message) if name in self.meta else next(payload)
            for name in self.layout.in_files.names
        ]
        rows = np.arange(len(part.message), dtype=np.int64)
        locate = partial(_locate, part.message)
        found = parse([FileBlock(0, "", RowBlock(columns, rows, locate))], self.layout)
        records = pa.RecordBatch.from_arrays(found.columns, schema=self.layout.schema)
        wrong = BadRows.of([(letter.line, letter.reason) for letter in found.dead])
        return _DecodedMessages(records, part.message[found.places], BadRows.joined([part.dead, wrong]))

    def _meta_column(self, name: str, messages: Messages, which: NDArray[np.int64]) -> Array:
        """Return one of Kafka's columns for some messages: key, timestamp, partition or offset."""
        if name == "_key":
            return pa.array([messages.keys[at] for at in which.tolist()], pa.binary())
        if name == "_timestamp":
            return pa.array(messages.times[which] * 1000).cast(_UTC)
        if name == "_offset":
            return pa.array(messages.offsets[which])
        return pa.array(messages.partitions[which])

    def _tombstones(self, messages: Messages, gone: NDArray[np.int64]) -> ReadValues:
        """Return rows for messages without a value: the object with the key leaves at the message's time."""
        if self.layout.event:
            letters = [(at, "a message without a value: events do not leave") for at in gone.tolist()]
            nothing: list[Array] = [pa.nulls(0, pa.binary()) for _ in self.payload.columns]
            return ReadValues(nothing, gone[:0], BadRows.of(letters))
        columns = []
        for name in self.payload.names:
            if name == self.layout.key:
                columns.append(self._meta_column("_key", messages, gone))
            elif name == self.layout.time:
                columns.append(self._meta_column("_timestamp", messages, gone))
            elif name == DROP_COLUMN and not self.layout.located:  # a row of a query stream
                columns.append(pa.array([True] * len(gone)))
            else:
                columns.append(pa.nulls(len(gone), pa.binary()))
        return ReadValues(columns, gone, BadRows.of(()))


@contextmanager
def without_collections() -> Iterator[None]:
    """Disable Python's cycle collector while messages or log rows, which form no cycles, are created.

    It would run after every few hundred of them, and make fetching 50,000 messages five times as expensive.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _without_tombstones(values: Payloads) -> tuple[list[bytes] | TextValues, Place, Place]:
    """Return the values that are not null, their messages, and the messages of the others, int64."""
    places = np.arange(len(values))
    if isinstance(values, TextValues):
        return values, places, places[:0]
    is_null = np.fromiter([value is None for value in values], np.bool_, len(values))
    return [value for value in values if value is not None], places[~is_null], places[is_null]


class _DecodedMessages(NamedTuple):
    """Records, and messages without valid records, in the order of the messages.

    Attributes:
        records: the records.
        message: the message of each record, int64 (n,).
        dead: the messages that could not be read.
    """

    records: pa.RecordBatch
    message: NDArray[np.int64]
    dead: BadRows


def _in_order(layout: RecordSchema, parts: Sequence[_DecodedMessages]) -> _DecodedMessages:
    """Merge decoded parts into the order of their messages."""
    dead = BadRows.joined([part.dead for part in parts])
    if not parts:
        return _DecodedMessages(_nothing(layout), np.zeros(0, np.int64), dead)
    if len(parts) == 1:
        return parts[0]._replace(dead=dead)
    message = np.concatenate([part.message for part in parts])
    order = np.argsort(message, kind="stable")
    table = pa.Table.from_batches([part.records for part in parts]).combine_chunks()
    together = table.to_batches()[0] if table.num_rows else _nothing(layout)
    return _DecodedMessages(together.take(order), message[order], dead)


def _nothing(layout: RecordSchema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], layout.schema)


def _texts(messages: Messages, which: NDArray[np.int64]) -> list[str]:
    """Return the beginnings of some messages, int64 (k,), for their dead letters."""
    values = messages.values
    texts = values.take(which) if isinstance(values, TextValues) else [values[at] for at in which.tolist()]
    return [shown_line(text or b"") for text in texts]


def _locate(message: NDArray[np.int64], rows: NDArray[np.int64]) -> list[RowLocation]:
    """Return the messages of rows; their texts are added later, with those of all dead letters."""
    return [RowLocation(at, "") for at in message[rows].tolist()]
