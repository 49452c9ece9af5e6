"""The live sources by their specs: how the planner and the workers open them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from stqsh.errors import OptionError
from stqsh.sources.formats.csv_file import CsvDialect
from stqsh.sources.formats.record_schema import check_options
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.sources.live import directory_spool, inserted_records, line_spool, record_spool
from stqsh.sources.live.decoding import Decoded, MessageDecoder
from stqsh.sources.live.directory_spool import DirectoryLiveSource
from stqsh.sources.live.inserted_records import InsertedSource
from stqsh.sources.live.kafka_client import ClientSettings, client_settings
from stqsh.sources.live.line_spool import SPOOL, SpoolReader, SpoolSource
from stqsh.sources.live.protocol import LiveSource, MessageRange, MessageReader, Position
from stqsh.sources.live.record_spool import RecordReader
from stqsh.spec.stream import (
    DirectorySourceSpec,
    HttpSourceSpec,
    InsertsSourceSpec,
    KafkaSourceSpec,
    Options,
    SocketSourceSpec,
    StreamSpec,
)

_KAFKA_READER = "stqsh.sources.live.kafka_reader"
"""A module that only sessions with Kafka import, because the import is slow."""

_WRITTEN = {"jsonl": "JSON", "geojson": "GEOJSON", "parquet": "PARQUET"}
_OF_RECORDS = (DirectorySourceSpec, InsertsSourceSpec, HttpSourceSpec)
"""The sources whose spools contain parsed records."""


def open_source(spec: StreamSpec, directory: Path, profile: str) -> LiveSource:
    """Open the source of a live stream in the planner.

    Args:
        spec: the stream.
        directory: the stream's folder in the session's home.
        profile: the name or the path of the session's profile.
    """
    if isinstance(spec.source, KafkaSourceSpec):
        from stqsh.sources.live.kafka_source import KafkaLiveSource

        return KafkaLiveSource(spec.source, partial(client_settings, spec.source.brokers, profile))
    if isinstance(spec.source, DirectorySourceSpec):
        return DirectoryLiveSource(spec.source, directory / SPOOL)
    if isinstance(spec.source, InsertsSourceSpec | HttpSourceSpec):
        return InsertedSource(directory / SPOOL)
    return SpoolSource(directory / SPOOL)


def is_from_kafka(spec: StreamSpec) -> bool:
    """Return whether a stream reads Kafka."""
    return isinstance(spec.source, KafkaSourceSpec)


def _check_no_file(options: Options) -> None:
    """Raise `OptionError` for options of FORMAT CSV that are only possible for files."""
    for option in ("encoding", "skip", "clock"):
        if option in options:
            raise OptionError(f"{option} is an option of files", option, hint="FROM FILE or FROM DIRECTORY")


def check_format(spec: StreamSpec) -> None:
    """Raise `OptionError` if a FORMAT option of a live stream is unknown or makes no sense."""
    if isinstance(spec.source, KafkaSourceSpec) and spec.source.options.get("header") is True:
        raise OptionError("messages of Kafka have no header", "header", hint="columns are as declared")
    if not isinstance(spec.source, DirectorySourceSpec):
        _check_no_file(spec.source.options)
    if not isinstance(spec.source, DirectorySourceSpec | InsertsSourceSpec):
        MessageDecoder.of(spec)
    elif spec.source.format == "csv":
        CsvDialect.of(spec.source.options)
    elif spec.source.format is not None:
        check_options(spec.source.options, TIME_OPTIONS, f"FORMAT {_WRITTEN[spec.source.format]}")


def read_records(
    spec: StreamSpec,
    spool: Path | None,
    wanted: Iterable[MessageRange],
    settings: Callable[[str], ClientSettings],
    *,
    skips: bool,
) -> Iterator[Decoded]:
    """Read and decode messages of a live stream in a worker, in order.

    Args:
        spec: the stream.
        spool: the folder of the source's spool; None for a source without one.
        wanted: the messages.
        settings: returns the settings of Kafka's client for its brokers.
        skips: whether messages may be missing.

    Raises:
        SourceError: the source does not answer, or no longer has the messages.
    """
    if isinstance(spec.source, _OF_RECORDS):
        assert spool is not None, "records are in a spool"
        for part in wanted:
            yield from RecordReader(spool).read(part)
        return
    reader = open_message_reader(spec, spool, settings, skips=skips)
    decoder = MessageDecoder.of(spec)
    for part in wanted:
        for messages in reader.read(part):
            size = sum(len(value) for value in messages.values if value is not None)
            yield decoder.decode(messages)._replace(size=size)


def close_idle_readers() -> None:
    """Close what this process keeps open for sources and has not used recently; see `open_message_reader`."""
    if _KAFKA_READER in sys.modules:
        from stqsh.sources.live.kafka_reader import close_idle

        close_idle()


def trim(directory: Path, position: Position) -> None:
    """Delete the part of a stream's spool before a position; Kafka manages its messages itself."""
    if line_spool.PART in position:
        line_spool.trim(directory / SPOOL, position[line_spool.PART])
    if record_spool.PART in position:
        record_spool.trim(directory / SPOOL, position[record_spool.PART])


def spool_parts(spec: StreamSpec, directory: Path, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files, with names, of a spool that has the places start <= place < stop.

    A worker reads them, and they are the spool of a home that is rebuilt: it may have some more places.

    Args:
        spec: the stream.
        directory: its folder in the session's home.
        start, stop: the places.
    """
    spool = directory / SPOOL
    if not isinstance(spec.source, _OF_RECORDS):
        yield from line_spool.parts(spool, start, stop)
        return
    yield from record_spool.parts(spool, start, stop)
    is_directory = isinstance(spec.source, DirectorySourceSpec)
    yield (directory_spool if is_directory else inserted_records).index_part(spool, stop)


def open_message_reader(
    spec: StreamSpec, spool: Path | None, settings: Callable[[str], ClientSettings], *, skips: bool
) -> MessageReader:
    """Open the source of a live stream in a worker; the arguments are those of `read_records`."""
    if isinstance(spec.source, KafkaSourceSpec):
        from stqsh.sources.live.kafka_reader import open_reader

        client = settings(spec.source.brokers)
        return open_reader(client, skips=skips, wants_keys=bool(MessageDecoder.of(spec).meta))
    place = spec.source.address if isinstance(spec.source, SocketSourceSpec) else "stdin"
    assert spool is not None, "its lines are in a spool"
    return SpoolReader(spool, place)
