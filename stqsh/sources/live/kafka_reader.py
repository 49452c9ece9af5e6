"""Kafka in a worker: reads the messages between two offsets of a partition."""

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

#: The most partitions for which a process keeps a consumer; the most recently read ones are kept.
_KEPT = 16
#: The most messages read by another process that are fetched and dropped, because seeking takes longer and
#: they have often been fetched already.
_PASSED_OVER = 200_000
#: Consumers that have been idle for this long are closed if the messages they would read are read ahead.
_IDLE_S = 5.0
#: The most messages that are decoded together.
_TOGETHER = 50_000
#: A broker that has not answered for this long counts as unavailable.
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
    "fetch.queue.backoff.ms": 10,  # by default the next fetch after a full queue waits for a second
    "fetch.error.backoff.ms": 50,
    "max.partition.fetch.bytes": 8 << 20,
    "queued.max.messages.kbytes": 16 << 10,
}
"""The settings of all consumers."""


@dataclass
class _Placed:
    """A consumer of one partition, and the offset at which it continues."""

    consumer: Consumer
    at: int
    used: float = field(default_factory=time.monotonic)


class KafkaReader:
    """The consumers that this process keeps between tasks, one for each partition.

    Continuing where a consumer stopped costs nothing. Seeking while it fetches takes librdkafka several times
    as long as fetching 20,000 messages, and occasionally a second.

    Args:
        settings: the client's settings.

    Attributes:
        skips: whether messages that the broker no longer has are skipped.
        wants_keys: whether the stream has Kafka's columns; tombstones always have keys and times.
    """

    skips = wants_keys = False

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._complaints = Complaints(str(settings["bootstrap.servers"]))
        self._idle: dict[str, _Placed] = {}

    def read(self, wanted: MessageRange) -> Iterator[Messages]:
        """Yield the messages of a range; offsets without a message are skipped.

        Raises:
            RecordsGoneError: the broker no longer has some of them, and they must not be skipped.
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

    def close(self) -> None:
        """Close all consumers."""
        for part in [*self._idle]:
            self._idle.pop(part).consumer.close()

    def close_idle(self) -> None:
        """Close the consumers that have been idle for a while, because they would keep fetching."""
        long_ago = time.monotonic() - _IDLE_S
        for part in [part for part, placed in self._idle.items() if placed.used < long_ago]:
            self._idle.pop(part).consumer.close()

    def _placed(self, wanted: MessageRange) -> _Placed:
        """Return a consumer that continues at the start of a range, or a little before it."""
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
                at = _assigned(placed.consumer, wanted).at  # only messages before the range are gone
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
        """Move a consumer to the first remaining message of a range, and return its offset.

        Raises:
            RecordsGoneError: messages are gone, and they must not be skipped.
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
        if first <= at:  # the remaining messages end before the range
            return wanted.stop
        at = min(first, wanted.stop)
        consumer.assign([placed_at(wanted.part, at)])  # librdkafka stops fetching until it is assigned again
        return at


def _place_of(code: int, message: Message, wanted: MessageRange) -> int:
    """Return the offset reached by an event that is not a message: the end of a partition, or an error."""
    if code == KafkaError._PARTITION_EOF:
        return _offset(message)
    if code in _UNKNOWN:
        raise RecordsGoneError(f"Kafka no longer has {wanted.part}", hint="DROP the stream")
    return 0


def as_messages(part: str, found: list[Message], *, wants_keys: bool) -> Messages:
    """Return messages of one part as columns; with keys and times if wanted, or for tombstones."""
    offsets = np.array([message.offset() for message in found], np.int64)
    values = [message.value() for message in found]
    if not wants_keys and None not in values:
        return Messages(part, offsets, values)
    keys = [message.key() for message in found]
    times = np.array([message.timestamp()[1] for message in found], np.int64)
    return Messages(part, offsets, values, keys, times, np.full(len(found), int(part.rpartition("/")[2])))


def placed_at(part: str, offset: int) -> TopicPartition:
    """Return the position at which a consumer continues in a part."""
    topic, _, number = part.rpartition("/")
    return TopicPartition(topic, int(number), offset)


def _assigned(consumer: Consumer, wanted: MessageRange) -> _Placed:
    """Assign the start of a range to a consumer."""
    consumer.assign([placed_at(wanted.part, wanted.start)])
    return _Placed(consumer, wanted.start)


def _offset(message: Message) -> int:
    return message.offset() or 0


#: The readers of this process, by settings.
_readers: dict[str, KafkaReader] = {}


def open_reader(settings: ClientSettings, *, skips: bool, wants_keys: bool) -> KafkaReader:
    """Return this process's reader for some brokers."""
    name = repr(sorted(settings.items()))
    if name not in _readers:
        _readers[name] = KafkaReader(settings)
    reader = _readers[name]
    reader.skips, reader.wants_keys = skips, wants_keys
    return reader


def close_idle() -> None:
    """Close the consumers of this process that have been idle for a while."""
    for reader in _readers.values():
        reader.close_idle()
