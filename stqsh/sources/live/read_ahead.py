"""Read Kafka ahead: processes that decode messages while the engine still works on earlier ones.

A batch whose messages are already decoded costs only as much as one of a replayed stream. The planner starts
these processes, orders from which position they read each stream, and looks for the pieces that they write
(`stqsh.sources.live.pieces`). A piece only saves time: if a process is slow, missing or killed, workers read
the messages themselves, and report problems of a source. That is why this module reports nothing.

`python -m stqsh.sources.live.read_ahead FOLDER PROFILE NUMBER COUNT` reads orders as lines of JSON from
standard input, and ends with its input. It is one of COUNT such processes, which divide the parts of each
stream among themselves.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
from confluent_kafka import KafkaException

from stqsh.errors import StqshError
from stqsh.sources.dead_letters import letter_lines
from stqsh.sources.live.column_consumer import ColumnConsumer, FetchedMessages
from stqsh.sources.live.decoding import Decoded, MessageDecoder, without_collections
from stqsh.sources.live.kafka_client import ClientSettings, client_settings
from stqsh.sources.live.kafka_reader import CONSUMER
from stqsh.sources.live.pieces import PieceContent, ReadOrder, ReadPiece, ready_file, write_piece
from stqsh.sources.live.protocol import MessageRange, Position
from stqsh.spec.stats import TakenMessages
from stqsh.spec.stream import KafkaSourceSpec, StreamSpec

log = logging.getLogger("stqsh.engine")

MOST_BYTES = 64 << 20
"""The most bytes of pieces that wait for batches, for each stream; the processes share this limit."""

#: Messages that arrive within this time, up to this number, are decoded together.
_LOOK_S = 0.05
_TOGETHER = 20_000
#: How long the broker collects messages; answering each fetch at once would cost it a tenth of a core.
_FETCHES: ClientSettings = {"fetch.min.bytes": 512 << 10, "fetch.wait.max.ms": 30}
#: How often a stream checks for room while it waits for it.
_ROOM_LOOK_S = 0.01


class StreamReading(threading.Thread):
    """Reads parts of a stream from a position on, until `stopped` is set.

    Args:
        folder: where the pieces go; it exists.
        spec: the stream.
        position: the first place of each part.
        numbers: the numbers for its pieces.
        most_bytes: the most bytes of pieces that wait for batches.
        profile: the session's profile, with the settings of the client.
    """

    def __init__(
        self,
        folder: Path,
        spec: StreamSpec,
        position: Position,
        numbers: Iterator[int],
        most_bytes: int,
        profile: str,
    ) -> None:
        super().__init__(name=f"stream {spec.name}", daemon=True)
        self.stopped = threading.Event()
        self._folder, self._spec, self._profile = folder, spec, profile
        self._at = dict(position)
        self._numbers, self._most_bytes = numbers, most_bytes
        self._waiting: dict[Path, int] = {}

    def run(self) -> None:
        """Read until something fails; workers then find out what."""
        try:
            self._read()
        except (KafkaException, StqshError, OSError) as problem:
            log.info("%s is not read ahead: %s", self._spec.name, problem)

    def _read(self) -> None:
        source = self._spec.source
        assert isinstance(source, KafkaSourceSpec), "it is a stream from Kafka"
        decoder = MessageDecoder.of(self._spec)
        settings = {**client_settings(source.brokers, self._profile), **CONSUMER, **_FETCHES}
        consumer = ColumnConsumer(settings, self._at, wants_keys=bool(decoder.meta))
        try:
            while not self.stopped.is_set():
                if self._has_room():
                    with without_collections():
                        self._take(decoder, consumer.fetch(_TOGETHER, _LOOK_S))
                else:
                    self.stopped.wait(_ROOM_LOOK_S)
        finally:
            consumer.close()

    def _take(self, decoder: MessageDecoder, found: FetchedMessages) -> None:
        """Write a piece of the messages that have arrived for each part."""
        if not found.parts:
            return
        decoded = decoder.decode_parts(found.parts, found.counts, found.messages)
        sizes = found.value_sizes()
        for part, stop, content, size in zip(found.parts, found.stops.tolist(), decoded, sizes, strict=True):
            if stop > self._at[part]:
                piece = ReadPiece(next(self._numbers), MessageRange(part, self._at[part], stop))
                file = self._folder / piece.file
                self._waiting[file] = write_piece(self._folder, piece, _piece_content(content, size))
                self._at[part] = stop

    def _has_room(self) -> bool:
        """Return whether more may be read; pieces are deleted once their batch is committed."""
        if sum(self._waiting.values()) > self._most_bytes:
            self._waiting = {file: size for file, size in self._waiting.items() if file.exists()}
        return sum(self._waiting.values()) <= self._most_bytes


def _piece_content(decoded: Decoded, size: int) -> PieceContent:
    letters = letter_lines(decoded.dead).decode()
    return PieceContent(
        decoded.records, TakenMessages(decoded.records.num_rows, len(decoded.dead), size, letters)
    )


def follow_orders(orders: IO[bytes], folder: Path, profile: str, number: int = 0, count: int = 1) -> None:
    """Read streams as ordered, one order per line, until the input ends.

    Args:
        orders: the lines.
        folder: the parent of the orders' folders.
        profile: the session's profile, with the settings of the client.
        number: the number of this process.
        count: the number of processes that follow the same orders.
    """
    readings: dict[int, StreamReading] = {}
    decoder = msgspec.json.Decoder(ReadOrder)
    (folder / ready_file(number)).touch()
    for line in orders:
        order = decoder.decode(line)
        if (before := readings.pop(order.stream, None)) is not None:
            before.stopped.set()
        mine = dict(list(order.position.items())[number::count])
        if order.spec is not None and mine:
            numbers = itertools.count(number, count)
            most_bytes = MOST_BYTES // count
            reading = StreamReading(folder / order.folder, order.spec, mine, numbers, most_bytes, profile)
            readings[order.stream] = reading
            reading.start()


if __name__ == "__main__":
    follow_orders(sys.stdin.buffer, Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
    os._exit(0)  # without waiting for fetching threads
