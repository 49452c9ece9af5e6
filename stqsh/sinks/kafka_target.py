"""Sinks TO KAFKA: each part is a transaction that also commits the position.

The position is in the metadata of the offset that the sink's own consumer group commits within the
transaction. After the death of a process, the next one opens the same transactional id, which
aborts the dead one's open transaction and fences the process if it is still alive; then it reads the
position. The group's offset expires in a long pause of the session, so the file in the session's home is also
considered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from stqsh.client.results import Updates
from stqsh.errors import StqshError
from stqsh.shell.writers.columns import head_columns
from stqsh.shell.writers.jsonl import update_lines
from stqsh.sinks.sink_reader import SinkPart
from stqsh.sinks.target import TargetBusyError, TargetRefusedError
from stqsh.sources.live.kafka_client import (
    ClientSettings,
    Complaints,
    client_settings,
    explain,
    settings_error,
    silent_logger,
)
from stqsh.spec.sink import KafkaTargetSpec
from stqsh.storage.sinks.sink_position import SinkPosition

TIMEOUT_S = 30.0
"""How long to wait for a broker's response."""
_RETURN_S = TIMEOUT_S + 10.0
"""How long a call may block before its producer is abandoned."""
_TRANSACTION_S = 300
"""How long a transaction may stay open: a dead one blocks readers that long unless the sink restarts."""
_QUEUE = 200_000
"""The maximum number of messages queued in the producer."""
_POLL_EVERY = 10_000


class KafkaSink:
    """Writes a sink's parts to a topic.

    Args:
        target: brokers, topic and mode.
        identity: the sink's unique id: its transactional id, and the consumer group of its position.
        profile: the name or path of the profile with further settings of the client.
    """

    rows = 50_000

    def __init__(self, target: KafkaTargetSpec, identity: str, profile: str) -> None:
        self._target, self._identity, self._profile = target, identity, profile
        self._complaints = Complaints(target.brokers)
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    def open(self, position: SinkPosition) -> SinkPosition:
        """Fence earlier producers, and return the later one of the two positions."""
        self.close()
        settings = self._settings()
        with self._as_errors():
            make_topic({**settings, "error_cb": self._complaints}, self._target)
            group = {
                "group.id": self._identity,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
            self._consumer = Consumer({**settings, **group}, logger=silent_logger())
            self._producer = Producer(
                {
                    **settings,
                    "error_cb": self._complaints,
                    "transactional.id": self._identity,
                    "transaction.timeout.ms": _TRANSACTION_S * 1000,
                    "queue.buffering.max.messages": _QUEUE,
                    "linger.ms": 5,
                    "compression.type": "lz4",
                },
                logger=silent_logger(),
            )
            self._producer.init_transactions(TIMEOUT_S)
            committed = self._committed(self._consumer)
        return max(position, committed, key=lambda one: one.order)

    def write(self, part: SinkPart) -> SinkPosition:
        """Write a part and its position in one transaction."""
        producer, consumer = self._producer, self._consumer
        assert producer is not None and consumer is not None
        with self._as_errors():
            producer.begin_transaction()
            for updates in part.updates:
                self._send(producer, updates)
            metadata = msgspec.json.encode(part.reached).decode()
            offset = TopicPartition(self._target.topic, 0, max(0, part.reached.after + 1), metadata)
            group = consumer.consumer_group_metadata()
            self._bounded(lambda: producer.send_offsets_to_transaction([offset], group, TIMEOUT_S))
            self._bounded(lambda: producer.commit_transaction(TIMEOUT_S))
        return part.reached

    def settle(self, position: SinkPosition) -> None:
        """Do nothing: the transaction is complete."""

    def close(self) -> None:
        """Close; an open transaction is abandoned."""
        producer, consumer = self._producer, self._consumer
        self._producer = self._consumer = None
        if producer is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)
        if consumer is not None:
            consumer.close()

    def _settings(self) -> ClientSettings:
        """Read the settings of the clients; each attempt reads them again, because a user may fix them."""
        own: ClientSettings = {"log_level": 2, "socket.connection.setup.timeout.ms": 10_000}
        return {**client_settings(self._target.brokers, self._profile), **own}

    def _send(self, producer: Producer, updates: Updates) -> None:
        topic, is_answers = self._target.topic, self._target.mode == "answers"
        keys, leaves = message_keys(updates), updates.table.column("op").to_numpy() < 0
        lines = update_lines(updates)
        for number, (key, line, is_leaving) in enumerate(zip(keys, lines, leaves.tolist(), strict=True)):
            value = None if is_answers and is_leaving else line[:-1]
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % _POLL_EVERY == 0:
                producer.poll(0)

    def _committed(self, consumer: Consumer) -> SinkPosition:
        """Return the position that the last transaction committed; the beginning if there is none."""
        [found] = consumer.committed([TopicPartition(self._target.topic, 0)], TIMEOUT_S)
        if found.offset < 0 or not found.metadata:
            return SinkPosition()
        return msgspec.json.decode(found.metadata, type=SinkPosition)

    @contextmanager
    def _as_errors(self) -> Iterator[None]:
        """Convert the client's errors to those of a target; only the client's own messages are shown."""
        try:
            yield
        except KafkaException as error:
            self._give_up()
            raise self._target_error(error.args[0]) from None

    def _target_error(self, error: KafkaError) -> StqshError:
        """Return the target's error for an error of the client."""
        said = f"{self._target.brokers}: {error.str()}"
        if error.name() in ("MSG_SIZE_TOO_LARGE", "INVALID_TOPIC_EXCEPTION", "POLICY_VIOLATION"):
            return TargetRefusedError(said)
        if error.code() == KafkaError._INVALID_ARG and self._producer is None:
            return TargetBusyError(settings_error(error).message)
        if error.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            return TargetBusyError(self._complaints.sentence(error))
        return TargetBusyError(explain(error, self._target.brokers) or said)

    def _bounded(self, call: Callable[[], None]) -> None:
        """Run a call of the producer; abandon the producer if the call does not return.

        If a broker dies during `send_offsets_to_transaction`, librdkafka 2.16 may block forever in spite of
        its timeout. The next `open` fences the producer that is left in the thread.

        Raises:
            KafkaException: the call failed.
            TargetBusyError: the call has not returned in time.
        """
        failed: list[Exception] = []

        def run() -> None:
            try:
                call()
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=run, name="kafka transaction", daemon=True)
        thread.start()
        thread.join(_RETURN_S)
        if thread.is_alive():
            self._producer = None
            raise TargetBusyError(f"{self._target.brokers}: a transaction has not ended in {_RETURN_S:g} s")
        if failed:
            raise failed[0]

    def _give_up(self) -> None:
        """Abort the open transaction if that is still possible; otherwise the next `open` ends it."""
        if self._producer is None:
            return
        try:
            self._producer.abort_transaction(1.0)
        except KafkaException:
            self._producer.purge(blocking=False)


def message_keys(updates: Updates) -> list[bytes]:
    """Return the key of each update's message: query and row key, as JSON."""
    head = head_columns(updates)
    return [b"[%b,%b]" % pair for pair in zip(head.query.json(), head.key.json(), strict=True)]


def make_topic(settings: Mapping[str, Any], target: KafkaTargetSpec) -> None:
    """Create the topic unless it exists; a topic of answers is compacted."""
    own: Any = {"logger": silent_logger()}
    admin = AdminClient(dict(settings), **own)
    try:
        known = admin.list_topics(timeout=TIMEOUT_S).topics
    finally:
        admin.poll(0)  # reports errors
    if target.topic in known:
        return
    config = {"cleanup.policy": "compact"} if target.mode == "answers" else {}
    [made] = admin.create_topics([NewTopic(target.topic, config=config)]).values()
    try:
        made.result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
