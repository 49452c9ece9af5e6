"""The broker of the tests: it keeps what it has been given, also when it is killed and started again."""

import signal
from pathlib import Path

import pytest
from support.kafka import consume, make_topic, send

from stqsh.bench.kafka_broker import KafkaBroker, running_broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_message_comes_back(broker: KafkaBroker, topic: str) -> None:
    send(broker.address, topic, [(b"k", b"v"), (b"k", None)])
    assert consume(broker.address, topic, 2) == [(b"k", b"v"), (b"k", None)]


def test_a_killed_broker_starts_again_with_its_messages(kafka_jars: Path, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        topic = make_topic(broker.address, "kept", 1)
        send(broker.address, topic, [(b"k", b"1")])
        broker.stop(signal.SIGKILL)
        broker.start()
        send(broker.address, topic, [(b"k", b"2")])
        assert consume(broker.address, topic, 2) == [(b"k", b"1"), (b"k", b"2")]
