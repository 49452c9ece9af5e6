"""Kafka in a worker: the messages between two offsets of a partition."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stqsh.sources.live.decoding import Messages
from stqsh.sources.live.kafka_client import ClientSettings, Complaints, settings_error, silent_logger
from stqsh.sources.live.protocol import MessageRange, RecordsGoneError, SourceAwayError

#: The most partitions that keep a consumer in a process: those read last.
_KEPT = 16
#: The most messages read by another process that are fetched and dropped: to place a consumer again takes
#: longer, and they are often here already.
_PASSED_OVER = 200_000
#: Consumers that have not been used for so long are closed when what they would read is read ahead.
_IDLE_S = 5.0
#: The most messages that are decoded together.
_TOGETHER = 50_000
#: A broker that says nothing for so long is away.
_PATIENCE_S = 10.0
_LOOK_S = 1.0
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
CONSUMER: ClientSettings = {
    "group.id": "stqsh",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
    "fetch.queue.backoff.ms": 10,  # by default a queue that was full makes the next fetch wait for a second
    "fetch.error.backoff.ms": 50,
    "max.partition.fetch.bytes": 8 << 20,
    "queued.max.messages.kbytes": 16 << 10,
}
"""The settings of all consumers."""


@dataclass
class _Placed:
    """A consumer of one partition, and the offset with which it goes on."""

    consumer: Consumer
    at: int
    used: float = field(default_factory=time.monotonic)


class KafkaReader:
    """Consumers that this process keeps between tasks, one a partition.

    To go on where a consumer stopped costs nothing. To place it again while it fetches takes librdkafka
    several times as long as to fetch 20,000 messages, and now and then a second.

    Args:
        settings: of the client.

    Attributes:
        skips: whether messages that are gone are left out.
        wants_keys: whether the stream has columns of Kafka's; tombstones have keys and times in any case.
    """

    skips = wants_keys = False

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._complaints = Complaints(str(settings["bootstrap.servers"]))
        self._idle: dict[str, _Placed] = {}

    def read(self, wanted: MessageRange) -> Iterator[Messages]:
        """Yield the messages of a range; offsets that hold none are passed over.

        Raises:
            RecordsGoneError: the broker no longer has some of them, and they are not to be left out.
            SourceAwayError: the broker does not answer.
        """
        placed = self._placed(wanted)
        try:
            yield from self._read(placed, wanted)
        finally:
            if placed.at == wanted.stop:
                placed.used = time.monotonic()
                self._idle[wanted.part] = placed
            else:
                placed.consumer.close()
        while len(self._idle) > _KEPT:
            self._idle.pop(next(iter(self._idle))).consumer.close()

    def close_idle(self) -> None:
        """Close the consumers that have not been used for a while: they would go on fetching."""
        long_ago = time.monotonic() - _IDLE_S
        for part in [part for part, placed in self._idle.items() if placed.used < long_ago]:
            self._idle.pop(part).consumer.close()

    def _placed(self, wanted: MessageRange) -> _Placed:
        """Return a consumer that goes on at the start of a range, or a little before it."""
        idle = self._idle.pop(wanted.part, None)
        if idle is not None and idle.at <= wanted.start <= idle.at + _PASSED_OVER:
            return idle
        consumer = self._consumer() if idle is None else idle.consumer
        return _assigned(consumer, wanted)

    def _consumer(self) -> Consumer:
        own: Any = {"logger": silent_logger(), "error_cb": self._complaints}
        try:
            return Consumer({**self._settings, **CONSUMER}, **own)
        except KafkaException as problem:
            raise settings_error(problem.args[0]) from None

    def _read(self, placed: _Placed, wanted: MessageRange) -> Iterator[Messages]:
        at, heard = placed.at, time.monotonic()
        while at < wanted.stop:
            got = placed.consumer.consume(min(_TOGETHER, wanted.stop - at), _LOOK_S)
            good = [message for message in got if message.error() is None]
            if good:
                last = _offset(good[-1])
                inside = good
                if at < wanted.start or last >= wanted.stop:
                    inside = [m for m in good if wanted.start <= _offset(m) < wanted.stop]
                at = last + 1
                if inside:
                    yield as_messages(wanted.part, inside, wants_keys=self.wants_keys)
            events = [(error.code(), message) for message in got if (error := message.error())]
            if at < wanted.start and any(code in _GONE for code, _ in events):
                at = _assigned(placed.consumer, wanted).at  # only what it was to pass over is gone
                continue
            if any(code in _GONE for code, _ in events):
                at = self._after_gone(placed.consumer, at, wanted)
                if at == wanted.stop:
                    return
                heard = time.monotonic()
                continue
            at = max([at, *(_place_of(code, message, wanted) for code, message in events)])
            if got:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE_S:
                raise SourceAwayError(self._complaints.sentence())
        placed.at = at

    def _after_gone(self, consumer: Consumer, at: int, wanted: MessageRange) -> int:
        """Place a consumer at what is still there of a range, and return where that is.

        Raises:
            RecordsGoneError: messages are gone, and that is not to be passed over.
            SourceAwayError: the broker does not answer.
        """
        if not self.skips:
            raise RecordsGoneError(
                f"Kafka no longer has the messages from {at} on of {wanted.part}",
                hint="SET sources.gone = skip; continues without them",
            )
        try:
            first, _ = consumer.get_watermark_offsets(placed_at(wanted.part, at), timeout=_PATIENCE_S)
        except KafkaException:
            raise SourceAwayError(self._complaints.sentence()) from None
        if first <= at:  # what is there ends before the range
            return wanted.stop
        at = min(first, wanted.stop)
        consumer.assign([placed_at(wanted.part, at)])  # librdkafka fetches no more until it is placed again
        return at


def _place_of(code: int, message: Message, wanted: MessageRange) -> int:
    """Return how far an event that is no message has come: the end of a partition, or an error."""
    if code == KafkaError._PARTITION_EOF:
        return _offset(message)
    if code in _UNKNOWN:
        raise RecordsGoneError(f"Kafka no longer has {wanted.part}", hint="DROP the stream")
    return 0


def as_messages(part: str, found: list[Message], *, wants_keys: bool) -> Messages:
    """Return messages of one part as columns; with keys and times if they are wanted, or for tombstones."""
    offsets = np.array([message.offset() for message in found], np.int64)
    values = [message.value() for message in found]
    if not wants_keys and None not in values:
        return Messages(part, offsets, values)
    keys = [message.key() for message in found]
    times = np.array([message.timestamp()[1] for message in found], np.int64)
    return Messages(part, offsets, values, keys, times, np.full(len(found), int(part.rpartition("/")[2])))


def placed_at(part: str, offset: int) -> TopicPartition:
    """Return where a consumer goes on in a part."""
    topic, _, number = part.rpartition("/")
    return TopicPartition(topic, int(number), offset)


def _assigned(consumer: Consumer, wanted: MessageRange) -> _Placed:
    """Place a consumer at the start of a range."""
    consumer.assign([placed_at(wanted.part, wanted.start)])
    return _Placed(consumer, wanted.start)


def _offset(message: Message) -> int:
    return message.offset() or 0


#: Of this process, by settings.
_readers: dict[str, KafkaReader] = {}


def open_reader(settings: ClientSettings, *, skips: bool, wants_keys: bool) -> KafkaReader:
    """Return this process's reader of some brokers."""
    name = repr(sorted(settings.items()))
    if name not in _readers:
        _readers[name] = KafkaReader(settings)
    reader = _readers[name]
    reader.skips, reader.wants_keys = skips, wants_keys
    return reader


def close_idle() -> None:
    """Close consumers of this process that have not been used for a while."""
    for reader in _readers.values():
        reader.close_idle()
