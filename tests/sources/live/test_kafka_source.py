"""The state of Kafka's topics as the planner sees it, where a broker's answers cannot be provoked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, TopicPartition

from stqsh.sources.live import kafka_source
from stqsh.sources.live.kafka_source import KafkaLiveSource
from stqsh.spec.stream import KafkaSourceSpec

UNKNOWN = -1001
"""What a client returns for an offset that a broker did not tell before it stopped."""


class StandIn:
    """A client of a broker with one partition, that answers each question with the next end."""

    ends: Mapping[int, int] = {}
    asked = 0
    error: KafkaError | None = None

    def __init__(self, *_: object, **__: object) -> None:
        type(self).asked = 0

    def list_topics(self, timeout: float) -> object:
        partitions = {} if self.error else {0: None}
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions, error=self.error)})

    def list_offsets(self, asked: Mapping[TopicPartition, object], **_: object) -> object:
        type(self).asked += 1
        answer: Future[object] = Future()
        answer.set_result(SimpleNamespace(offset=self.ends.get(self.asked, 7)))
        return dict.fromkeys(asked, answer)

    def poll(self, timeout: float) -> None:
        """Report nothing."""


def _source(monkeypatch: pytest.MonkeyPatch, ends: Mapping[int, int]) -> KafkaLiveSource:
    monkeypatch.setattr(StandIn, "ends", ends)
    monkeypatch.setattr(kafka_source, "AdminClient", StandIn)
    return KafkaLiveSource(KafkaSourceSpec("broker", ("t",)), dict)


def _wait(until: Callable[[], bool]) -> None:
    late = time.monotonic() + 20
    while not until():
        assert time.monotonic() < late
        time.sleep(0.01)


def test_an_end_that_is_not_told_leaves_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    source = _source(monkeypatch, {1: 3, 2: 5, **dict.fromkeys(range(3, 1000), UNKNOWN)})
    _wait(lambda: "does not answer" in source.state().message)
    assert (source.state().first, source.state().ends) == ({"t/0": 3}, {"t/0": 5})
    source.close()


def test_a_stream_does_not_begin_at_an_offset_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = _source(monkeypatch, {1: UNKNOWN, 2: 3})
    _wait(lambda: source.begin() is not None)
    assert source.begin() == {"t/0": 3}
    source.close()


def test_a_stream_does_not_begin_while_a_topic_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandIn, "error", KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    source = _source(monkeypatch, {})
    _wait(lambda: source.state().message.startswith("the stream waits"))
    assert source.begin() is None
    monkeypatch.setattr(StandIn, "error", None)
    _wait(lambda: source.begin() is not None)
    assert source.begin() == {"t/0": 7}
    source.close()
