"""Read Kafka ahead: a process that decodes messages while the engine still works on those before them.

A batch that finds its messages decoded costs as much as one of a replayed stream. The planner starts this
process, says from which position on it reads each stream, and looks at the pieces that it makes
(`stqsh.sources.live.pieces`). A piece only saves time: where the process is slow, away or killed, workers
read for themselves, and say what is wrong with a source. So it reports nothing.

`python -m stqsh.sources.live.read_ahead FOLDER PROFILE` takes orders as lines of JSON from standard input,
and ends with it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from stqsh.errors import StqshError
from stqsh.sources.live.decoding import MessageDecoder, without_collections
from stqsh.sources.live.kafka_client import ClientSettings, client_settings, silent_logger
from stqsh.sources.live.kafka_reader import CONSUMER, as_messages, placed_at
from stqsh.sources.live.pieces import READY, PieceContent, ReadOrder, ReadPiece, write_piece
from stqsh.sources.live.protocol import MessageRange
from stqsh.sources.replay_store.dead_letters import letter_lines
from stqsh.spec.stats import TakenMessages
from stqsh.spec.stream import KafkaSourceSpec

log = logging.getLogger("stqsh.engine")

MOST_BYTES = 64 << 20
"""The most bytes of pieces that wait for batches, for each stream."""

#: Messages that have come within this time are decoded together, and at most this many.
_LOOK_S = 0.03
_TOGETHER = 20_000
#: The broker collects messages for a moment: to answer each fetch at once takes it a tenth of a core.
_FETCHES: ClientSettings = {"fetch.min.bytes": 32 << 10, "fetch.wait.max.ms": 15}
#: How often a stream that waits for room looks for it.
_ROOM_LOOK_S = 0.01


class StreamReading(threading.Thread):
    """Reads one stream from a position on, until `stopped` is set.

    Args:
        folder: where the pieces go; it exists.
        order: what to read.
        profile: of the session, with the settings of the client.
    """

    def __init__(self, folder: Path, order: ReadOrder, profile: str) -> None:
        super().__init__(name=f"stream {order.stream}", daemon=True)
        self.stopped = threading.Event()
        self._folder, self._order, self._profile = folder, order, profile
        self._at = dict(order.position)
        self._number = 0
        self._waiting: dict[Path, int] = {}

    def run(self) -> None:
        """Read until something is wrong: workers find out what."""
        try:
            self._read()
        except (KafkaException, StqshError, OSError) as problem:
            log.info("stream %d is not read ahead: %s", self._order.stream, problem)

    def _read(self) -> None:
        spec = self._order.spec
        assert spec is not None, "the order is to read"
        assert isinstance(spec.source, KafkaSourceSpec), "it is a stream from Kafka"
        decoder = MessageDecoder.of(spec)
        own: Any = {"logger": silent_logger()}
        consumer = Consumer(
            {**client_settings(spec.source.brokers, self._profile), **CONSUMER, **_FETCHES}, **own
        )
        try:
            consumer.assign([placed_at(part, at) for part, at in self._at.items()])
            while not self.stopped.is_set():
                if not self._has_room():
                    self.stopped.wait(_ROOM_LOOK_S)
                    continue
                with without_collections():
                    got = consumer.consume(_TOGETHER, _LOOK_S)
                    for part, messages in by_part(_without_errors(got)).items():
                        self._take(decoder, part, messages)
        finally:
            consumer.close()

    def _take(self, decoder: MessageDecoder, part: str, found: list[Message]) -> None:
        """Make a piece of the messages of a part, which may end with the event that there are no more."""
        messages = [message for message in found if message.error() is None]
        last = found[-1]
        stop = (last.offset() or 0) + int(last.error() is None)
        if stop <= self._at[part]:
            return
        piece = ReadPiece(self._number, MessageRange(part, self._at[part], stop))
        size = write_piece(self._folder, piece, _decoded(decoder, part, messages))
        self._waiting[self._folder / piece.file] = size
        self._number, self._at[part] = self._number + 1, stop

    def _has_room(self) -> bool:
        """Return whether more may be read; pieces go once their batch is committed."""
        if sum(self._waiting.values()) > MOST_BYTES:
            self._waiting = {file: size for file, size in self._waiting.items() if file.exists()}
        return sum(self._waiting.values()) <= MOST_BYTES


def _without_errors(found: list[Message]) -> list[Message]:
    """Return messages, and events of the ends of parts.

    Raises:
        KafkaException: there is another event, so that something cannot be read.
    """
    for message in found:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
    return found


def by_part(found: Iterable[Message]) -> Mapping[str, list[Message]]:
    """Return messages and events by the part that they are from, those of a part in their order."""
    parts: dict[tuple[str | None, int | None], list[Message]] = {}
    for message in found:
        parts.setdefault((message.topic(), message.partition()), []).append(message)
    return {f"{topic}/{partition}": some for (topic, partition), some in parts.items()}


def _decoded(decoder: MessageDecoder, part: str, found: list[Message]) -> PieceContent:
    messages = as_messages(part, found, wants_keys=bool(decoder.meta))
    decoded = decoder.decode(messages)
    size = sum(len(value) for value in messages.values if value is not None)
    letters = letter_lines(decoded.dead)
    return PieceContent(
        decoded.records, TakenMessages(decoded.records.num_rows, len(decoded.dead), size, letters)
    )


def follow_orders(orders: IO[bytes], folder: Path, profile: str) -> None:
    """Read streams as lines of orders say, until there are no more."""
    readings: dict[int, StreamReading] = {}
    decoder = msgspec.json.Decoder(ReadOrder)
    (folder / READY).touch()
    for line in orders:
        order = decoder.decode(line)
        if (before := readings.pop(order.stream, None)) is not None:
            before.stopped.set()
        if order.spec is not None:
            readings[order.stream] = StreamReading(folder / order.folder, order, profile)
            readings[order.stream].start()


if __name__ == "__main__":
    follow_orders(sys.stdin.buffer, Path(sys.argv[1]), sys.argv[2])
    os._exit(0)  # without waiting for threads that fetch
