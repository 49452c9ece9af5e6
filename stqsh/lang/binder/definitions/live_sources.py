"""Bind live sources: Kafka, STDIN, SOCKET, DIRECTORY, INSERTS and HTTP."""

from __future__ import annotations

import re
from typing import Literal

from stqsh.lang.ast.statements import (
    CreateStream,
    DataSource,
    DirectorySource,
    HttpSource,
    InsertsSource,
    KafkaSource,
    SocketSource,
    StdinSource,
)
from stqsh.lang.binder.literals import duration_us, timestamp_us
from stqsh.lang.errors import BindError, or_list
from stqsh.spec.stream import (
    LEAST_LIVE_TICK_US,
    DirectorySourceSpec,
    HttpSourceSpec,
    InsertsSourceSpec,
    KafkaSourceSpec,
    LiveSourceSpec,
    Options,
    SocketSourceSpec,
    StdinSourceSpec,
)
from stqsh.units import format_duration

LIVE_SOURCES = (KafkaSource, StdinSource, SocketSource, DirectorySource, InsertsSource, HttpSource)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_META_TYPES = {
    "_key": ("STRING", "BIGINT", "INT"),
    "_timestamp": ("TIMESTAMP",),
    "_partition": ("INT", "BIGINT"),
    "_offset": ("BIGINT",),
}


def check_live(stream: CreateStream) -> None:
    """Raise `BindError` if a live stream has clauses or columns that are not allowed for live streams."""
    source = stream.source
    if not isinstance(source, LIVE_SOURCES):
        return
    if stream.order_by is not None or stream.pace is not None:
        clause = "ORDER BY" if stream.order_by is not None else "PACE"
        raise BindError(
            f"{clause} is for replayed streams: live records arrive at their own pace", stream.name.span
        )
    if stream.tick is not None and duration_us(stream.tick, "TICK") < LEAST_LIVE_TICK_US:
        least = format_duration(LEAST_LIVE_TICK_US)
        raise BindError(f"TICK of a live stream is at least {least}", stream.tick.span)
    if not stream.listed and not isinstance(source, DirectorySource):
        raise BindError(
            "a live stream needs a list of its columns",
            stream.name.span,
            hint="list them after its name: (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)",
        )
    _check_meta(stream, isinstance(source, KafkaSource))


def _check_meta(stream: CreateStream, is_kafka: bool) -> None:
    """Raise `BindError` for a wrong type of a column of Kafka's messages, such as `_key`."""
    for column in stream.columns if is_kafka else ():
        if column.value is not None and column.name in _META_TYPES:
            raise BindError(f"{column.name} is a column of Kafka's messages, and is not derived", column.span)
        types = _META_TYPES.get(column.name, (column.type,))
        if column.type not in types:
            raise BindError(f"{column.name} is of type {or_list(types)}", column.span)


def live_spec(source: DataSource, options: Options) -> LiveSourceSpec | None:
    """Return the spec of a live source, None for other sources."""
    made: LiveSourceSpec | None = None
    match source:
        case KafkaSource():
            made = _kafka_spec(source, options)
        case SocketSource():
            made = _socket_spec(source, options)
        case DirectorySource():
            made = DirectorySourceSpec(source.path, source.format, options)
        case InsertsSource():
            made = InsertsSourceSpec(source.format, options)
        case HttpSource():
            made = _http_spec(source, options)
        case StdinSource():
            made = StdinSourceSpec(source.format or "jsonl", options)
    return made


def _socket_spec(source: SocketSource, options: Options) -> SocketSourceSpec:
    host, _, port = source.address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise BindError(f"{source.address!r} is not an address", source.span, expected=("'host:port'",))
    return SocketSourceSpec(source.address, source.format or "jsonl", options)


def _http_spec(source: HttpSource, options: Options) -> HttpSourceSpec:
    if not 0 < source.port < 1 << 16:
        raise BindError(f"{source.port} is not a port", source.span, expected=("a number from 1 to 65535",))
    return HttpSourceSpec(source.port, source.format or "jsonl", options)


def _kafka_spec(source: KafkaSource, options: Options) -> KafkaSourceSpec:
    given = (name for topic in source.topics for name in _names(topic))
    topics = tuple(dict.fromkeys(name.strip() for name in given))
    for topic in topics:
        _check_topic(topic, source)
    if not source.brokers.strip():
        raise BindError("KAFKA needs the address of a broker", source.span, expected=("'host:port'",))
    return KafkaSourceSpec(source.brokers, topics, source.format or "jsonl", options, _start(source))


def _start(source: KafkaSource) -> Literal["earliest", "latest"] | int:
    match source.start:
        case None | "EARLIEST":
            return "earliest"
        case "LATEST":
            return "latest"
        case text:
            return timestamp_us(text, source.span)


def _names(topic: str) -> list[str]:
    return [topic] if topic.startswith("/") else topic.split(",")


def _check_topic(topic: str, source: KafkaSource) -> None:
    if topic.startswith("/"):
        try:
            re.compile(topic.removeprefix("/").removesuffix("/"))
        except re.error as error:
            raise BindError(f"{topic!r} is not a valid pattern: {error}", source.span) from error
        if topic.endswith("/") and len(topic) > 2:
            return
    elif _TOPIC.fullmatch(topic):
        return
    raise BindError(
        f"{topic!r} is not a valid topic name",
        source.span,
        hint="letters, digits, '.', '_' and '-'; or a pattern between slashes: '/^bus-.*/'",
    )
