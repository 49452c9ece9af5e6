"""What a worker's reader returns is the range that was asked for, wherever its consumers stand."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from support.kafka import send

from stqsh.broker.kafka import KafkaBroker
from stqsh.sources.live.kafka_reader import KafkaReader
from stqsh.sources.live.protocol import MessageRange, RecordsGoneError

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def _values(reader: KafkaReader, wanted: MessageRange) -> list[bytes | None]:
    return [value for found in reader.read(wanted) for value in found.values]


def test_ranges_that_follow_leave_out_or_repeat_messages(broker: KafkaBroker, topic: str) -> None:
    sent = [b"%d" % number for number in range(500)]
    send(broker.address, topic, [(None, value) for value in sent], 0)
    reader, draw, at = KafkaReader({"bootstrap.servers": broker.address}), random.Random(3), 0
    for _ in range(20):
        start = max(0, min(at + draw.choice([0, 0, 30, -20]), 400))
        at = start + draw.randint(1, 60)
        assert _values(reader, MessageRange(f"{topic}/0", start, at)) == [b"%d" % n for n in range(start, at)]


def test_what_is_passed_over_may_be_gone(broker: KafkaBroker, topic: str) -> None:
    send(broker.address, topic, [(None, b"%d" % number) for number in range(60)], 1)
    reader = KafkaReader({"bootstrap.servers": broker.address, "queued.min.messages": 1})
    assert _values(reader, MessageRange(f"{topic}/1", 0, 5)) == [b"0", b"1", b"2", b"3", b"4"]
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.delete_records([TopicPartition(topic, 1, 40)]).values():
        done.result(20)
    assert _values(reader, MessageRange(f"{topic}/1", 50, 52)) == [b"50", b"51"]
    with pytest.raises(RecordsGoneError, match="no longer has the messages from 30 on"):
        _values(KafkaReader({"bootstrap.servers": broker.address}), MessageRange(f"{topic}/1", 30, 60))
