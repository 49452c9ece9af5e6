"""What a reader makes of messages that Kafka has deleted since their batch was planned."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from stqsh.sources.live.kafka_reader import KafkaReader
from stqsh.sources.live.protocol import MessageRange, RecordsGoneError

STOP = 1000


class Message:
    """A message, or the event that there is none at an offset."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self._offset, self._code = offset, code

    def error(self) -> object:
        code = self._code
        return None if code is None else SimpleNamespace(code=lambda: code)

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"{}"


class StandIn:
    """A consumer of a partition whose messages begin at `first`."""

    def __init__(self, first: int) -> None:
        self._first, self._at = first, -1

    def assign(self, parts: list[Any]) -> None:
        self._at = parts[0].offset

    def consume(self, count: int, _: float) -> list[Message]:
        if self._at < 0:
            return []
        if not self._first <= self._at < STOP:
            self._at = -1
            return [Message(-1001, KafkaError._AUTO_OFFSET_RESET)]
        found = [Message(offset) for offset in range(self._at, min(STOP, self._at + count))]
        self._at += len(found)
        return found

    def get_watermark_offsets(self, *_: object, timeout: float) -> tuple[int, int]:
        return self._first, STOP

    def close(self) -> None:
        self._at = -1


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], KafkaReader]:
    def opened(first: int) -> KafkaReader:
        made = KafkaReader({"bootstrap.servers": "x"})
        monkeypatch.setattr(made, "_consumer", lambda: StandIn(first))
        return made

    return opened


def offsets(reader: KafkaReader, start: int, stop: int) -> list[int]:
    return [at for part in reader.read(MessageRange("t/0", start, stop)) for at in part.offsets.tolist()]


def test_only_what_is_gone_is_passed_over(reader: Callable[[int], KafkaReader]) -> None:
    some = reader(500)
    some.skips = True
    assert offsets(some, 100, STOP) == list(range(500, STOP))
    assert offsets(some, 100, 400) == []
    assert offsets(some, STOP + 5, STOP + 9) == [], "a topic that was created again has nothing of the range"


def test_it_is_an_error_where_it_is_not_to_be_passed_over(reader: Callable[[int], KafkaReader]) -> None:
    with pytest.raises(RecordsGoneError, match="messages from 100 on of t/0"):
        offsets(reader(500), 100, STOP)
