"""A Kafka broker for tests: fixtures, topics, and messages."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from stqsh.broker.kafka import KafkaBroker, bring_jars, running_broker
from stqsh.engine.spark.maven import LibraryMissingError
from stqsh.storage.home import SessionHome

Message = tuple[bytes | None, bytes | None]


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The jars of Kafka; tests are skipped where they cannot be had."""
    try:
        return bring_jars()
    except LibraryMissingError as problem:
        pytest.skip(f"no Kafka: {problem}")


@pytest.fixture(scope="session")
def broker(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that all tests of this process share; each uses topics of its own."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    """A new topic with two partitions."""
    return make_topic(broker.address, f"t-{uuid.uuid4().hex[:8]}", 2)


def make_topic(address: str, name: str, partitions: int, **settings: str) -> str:
    """Make a topic, and return its name."""
    topic = NewTopic(
        name, partitions, 1, config={key.replace("_", "."): value for key, value in settings.items()}
    )
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([topic]).values():
        made.result(30)
    return name


def add_partitions(address: str, topic: str, partitions: int) -> None:
    """Give a topic this number of partitions in all, and wait until the broker says so."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        made.result(30)
    until = time.monotonic() + 30
    while len(admin.list_topics(topic, 10).topics[topic].partitions) < partitions:
        assert time.monotonic() < until, "the broker does not make the partitions"
        time.sleep(0.05)


def send(address: str, topic: str, messages: Iterable[Message], partition: int = -1) -> None:
    """Send messages of key and value, and wait until the broker has them."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "enable.idempotence": True})
    for key, value in messages:
        while len(producer) > 50_000:
            producer.poll(0.1)
        producer.poll(0)
        producer.produce(topic, value, key, partition)
    assert producer.flush(60) == 0


def consume(address: str, topic: str, count: int, timeout_s: float = 60) -> list[Message]:
    """Return the first `count` committed messages of a topic; fewer where none comes for `timeout_s`."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    try:
        until = time.monotonic() + timeout_s
        while len(found) < count and time.monotonic() < until:
            more = consumer.consume(10_000, 0.2)
            found += [(message.key(), message.value()) for message in more if message.error() is None]
            until = time.monotonic() + timeout_s if more else until
    finally:
        consumer.close()
    return found


def readers_of(home: SessionHome) -> list[psutil.Process]:
    """The processes that read a session's streams ahead."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "stqsh.sources.live.read_ahead" in words and any(
            w.startswith(str(home.arena.folder)) for w in words
        ):
            found.append(process)
    return found


@contextmanager
def without_reading_ahead(home: SessionHome) -> Iterator[None]:
    """Let the workers of a session read the messages of its streams, which are paused."""
    found = readers_of(home)
    for process in found:
        process.suspend()
    try:
        yield
    finally:
        for process in found:
            process.resume()
