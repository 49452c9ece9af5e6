"""Reading ahead equals reading directly, wherever messages arrive together: a law over logs without a broker.

Fake clients hand out the messages of a log at boundaries that are drawn, with the events of the ends of
partitions among them: as objects for workers, and for reading ahead as librdkafka keeps them in memory.
Offsets have gaps, as where transactions left markers.
"""

from __future__ import annotations

import ctypes
import itertools
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import orjson
from confluent_kafka import KafkaError, TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from support.specs import kafka_stream

from stqsh.engine.ingest.live_reader import ReadSlice, read_live
from stqsh.engine.planning.tasks import LiveAccess, LiveSlice
from stqsh.sources.live import kafka_reader, read_ahead
from stqsh.sources.live.column_consumer import FetchedMessages, message_columns
from stqsh.sources.live.pieces import piece_named, read_pieces
from stqsh.sources.live.protocol import MessageRange
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import home_blobs

TOPIC = "t"
PLAIN = {"oid": "STRING", "lon": "DOUBLE", "lat": "DOUBLE", "ts": "TIMESTAMP"}
OF_KAFKA = {"_key": "STRING", "_timestamp": "TIMESTAMP", "_partition": "BIGINT", "_offset": "BIGINT"}


@dataclass(frozen=True)
class FakeMessage:
    """A message, or with `code` the event of an end."""

    part: int
    at: int
    content: bytes | None = None
    own_key: bytes | None = None
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self.part

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.own_key

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000 + self.at


@dataclass
class FakeLog:
    """The messages of each partition with rising offsets, and where each ends."""

    messages: Mapping[int, list[FakeMessage]]
    ends: Mapping[int, int]

    @property
    def ranges(self) -> list[MessageRange]:
        return [MessageRange(f"{TOPIC}/{part}", 0, end) for part, end in self.ends.items() if end]


@dataclass
class FakeConsumer:
    """Hands out a log in runs of any length; calls `over` once all has been handed out."""

    log: FakeLog
    draw: Random
    over: Any = lambda: None
    _at: dict[int, int] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._at = {place.partition: place.offset for place in places}
        self._told = set()

    def consume(self, most: int, _: float) -> list[FakeMessage]:
        found: list[FakeMessage] = []
        for part in self.draw.sample(sorted(self._at), len(self._at)):
            found += self._some(part, min(most - len(found), self.draw.randint(0, 5)))
        if len(self._told) == len(self._at):
            self.over()
        return found

    def _some(self, part: int, most: int) -> list[FakeMessage]:
        left = [one for one in self.log.messages[part] if one.at >= self._at[part]]
        some = left[:most]
        if some:
            self._at[part] = some[-1].at + 1
        if len(some) < len(left) or part in self._told:
            return some
        self._told.add(part)
        return [*some, FakeMessage(part, self.log.ends[part], code=KafkaError._PARTITION_EOF)]

    def close(self) -> None:
        return


class StoredMessage(ctypes.Structure):
    """`rd_kafka_message_t`, with what `private` points at besides."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_char_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_char_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )

    @classmethod
    def of(cls, message: FakeMessage, topic: bytes) -> StoredMessage:
        value, key = message.value(), message.key()
        sizes = [len(word or b"") for word in (value, key)]
        return cls(message.code or 0, topic, message.part, value, sizes[0], key, sizes[1], message.at, None)


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
def _stored_time(message: int, _: object) -> int:
    return FakeMessage(0, StoredMessage.from_address(message).offset).timestamp()[1]


class FakeLibrary:
    """The functions of librdkafka that messages need."""

    def address(self, name: str) -> int:
        assert name == "rd_kafka_message_timestamp"
        return ctypes.cast(_stored_time, ctypes.c_void_p).value or 0

    def topic_name(self, topic: int) -> str:
        return ctypes.string_at(topic).decode()


@dataclass
class FakeColumnConsumer:
    """Hands out what a fake consumer does, from memory."""

    consumer: FakeConsumer
    wants_keys: bool

    def fetch(self, most: int, wait_s: float) -> FetchedMessages:
        topic = TOPIC.encode()
        stored = [StoredMessage.of(message, topic) for message in self.consumer.consume(most, wait_s)]
        places = np.array([ctypes.addressof(each) for each in stored], np.int64)
        run_bytes = self.consumer.draw.choice([1, 60, 1 << 20])
        return message_columns(places, FakeLibrary(), wants_keys=self.wants_keys, run_bytes=run_bytes)

    def close(self) -> None:
        self.consumer.close()


def _value(number: int) -> bytes:
    return orjson.dumps({"oid": f"o{number}", "lon": number / 7, "lat": 1, "ts": "2026-01-01T00:00:00Z"})


values = st.one_of(
    st.integers(0, 9).map(_value),
    st.sampled_from([None, b"", b"oops", b"[1]", b'{"oid":"a","lon":"x","lat":1,"ts":1}', b'{"oid":"a"}']),
)


@st.composite
def logs(draw: st.DrawFn) -> FakeLog:
    """Draw one to three partitions with up to 20 messages each."""
    messages, ends = dict[int, list[FakeMessage]](), dict[int, int]()
    for part in range(draw(st.integers(1, 3))):
        at, some = 0, list[FakeMessage]()
        for content in draw(st.lists(values, max_size=20)):
            at += draw(st.integers(0, 2))
            some.append(FakeMessage(part, at, content, draw(st.sampled_from([None, b"k", b"o1"]))))
            at += 1
        messages[part], ends[part] = some, at + draw(st.integers(0, 2))
    return FakeLog(messages, ends)


def _read_ahead(spec: StreamSpec, log: FakeLog, draw: Random, folder: Path) -> None:
    """Make the pieces of a log in a folder."""
    begun = {part: 0 for part, _, _ in log.ranges}
    reading = read_ahead.StreamReading(folder, spec, begun, itertools.count(), 1 << 20, "")

    def consumer(_: object, position: Mapping[str, int], *, wants_keys: bool) -> FakeColumnConsumer:
        found = FakeConsumer(log, draw, reading.stopped.set)
        found.assign([kafka_reader.placed_at(part, at) for part, at in position.items()])
        return FakeColumnConsumer(found, wants_keys)

    with mock.patch.object(read_ahead, "ColumnConsumer", consumer):
        reading.run()


def _read(
    spec: StreamSpec, log: FakeLog, draw: Random, wanted: Iterable[MessageRange], ahead: Path
) -> ReadSlice:
    piece = LiveSlice(1, tuple(wanted), 0, (), str(ahead))
    with (
        mock.patch.object(kafka_reader, "Consumer", lambda *_, **__: FakeConsumer(log, draw)),
        mock.patch.object(kafka_reader, "_readers", {}),
    ):
        return read_live(spec, home_blobs(ahead), piece, LiveAccess())


@given(logs(), st.booleans(), st.randoms(use_true_random=False))
def test_messages_read_ahead_are_those_that_workers_read(log: FakeLog, more: bool, draw: Random) -> None:
    spec = kafka_stream({**PLAIN, **OF_KAFKA} if more else PLAIN, "nowhere:1", TOPIC)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "ahead"
        folder.mkdir()
        _read_ahead(spec, log, draw, folder)
        pieces = [piece.held for file in folder.iterdir() if (piece := piece_named(file.name))]
        # A batch ends where a piece of each part ends.
        wanted = [
            MessageRange(part, 0, draw.choice([held.stop for held in pieces if held.part == part]))
            for part, _, _ in log.ranges
        ]
        assert read_pieces(folder, wanted) is not None
        ahead, direct = (_read(spec, log, draw, wanted, Path(name) / each) for each in ("ahead", "none"))
    assert ahead.records.equals(direct.records)
    assert ahead.taken == direct.taken
