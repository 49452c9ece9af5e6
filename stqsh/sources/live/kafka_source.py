"""Kafka in the planner: a thread polls how far the partitions of a stream's topics reach."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from stqsh.errors import StqshError
from stqsh.sources.live.kafka_client import ClientSettings, Complaints, settings_error, silent_logger
from stqsh.sources.live.protocol import Position, SourceState, part_order
from stqsh.spec.stream import KafkaSourceSpec

log = logging.getLogger("stqsh.engine")

#: How often to poll the ends of partitions, and their number and beginnings. Reading ahead does not wait for
#: them.
_ENDS_S, _TOPICS_S = 0.1, 1.0
_ANSWER_S = 5.0

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NO_SUCH_TIME = -1
"""The offset that brokers return for a time after the last message; lower ones mean unknown offsets."""
Partitions = dict[str, TopicPartition]


class KafkaLiveSource:
    """The state of a stream's topics, as last polled by a thread.

    Args:
        spec: brokers and topics.
        settings: returns the client's settings; called until a client can be created with them.
    """

    def __init__(self, spec: KafkaSourceSpec, settings: Callable[[], ClientSettings]) -> None:
        self._spec, self._settings = spec, settings
        self._state = SourceState({}, {}, message=f"waiting for Kafka at {spec.brokers}")
        self._begin: Position | None = None
        self._stopped = threading.Event()
        self._complaints = Complaints(spec.brokers)
        self._client: AdminClient | None = None
        threading.Thread(target=self._run, name="kafka", daemon=True).start()

    def state(self) -> SourceState:
        """Return the last known state of the topics."""
        return self._state

    def begin(self) -> Position | None:
        """Return the position at which the stream begins; None before Kafka has answered."""
        return self._begin

    def close(self) -> None:
        """Stop the thread."""
        self._stopped.set()

    def _run(self) -> None:
        partitions: Partitions = {}
        first: Position = {}
        looked, wait = -_TOPICS_S, 0.0
        clock = 0.0
        while not self._stopped.wait(wait):
            try:
                if clock - looked >= _TOPICS_S or not partitions:
                    partitions, looked = self._find_partitions(), clock
                    first = self._offsets(partitions, _EARLIEST)
                    if self._begin is None and partitions:
                        self._begin = self._beginning(partitions, first)
                ends = self._offsets(partitions, _LATEST)
                self._complaints.forget()
                self._state = SourceState(first, ends, message="" if partitions else self._no_topic())
                wait = _ENDS_S
            except (KafkaException, StqshError) as problem:
                self._state = SourceState(self._state.first, self._state.ends, message=self._away(problem))
                looked, wait = -_TOPICS_S, 0.5
            except Exception:
                log.exception("the state of Kafka's topics is unknown")
                wait = 5.0
            clock += wait

    def _find_partitions(self) -> Partitions:
        """Return the partitions of the topics.

        Raises:
            KafkaException: the partitions of a topic are unknown, and the stream has not begun. Partitions
                that appear after its beginning are read from their first message, so the beginning has to
                wait.
        """
        known = self._admin.list_topics(timeout=_ANSWER_S).topics
        topics = matching(self._spec.topics, known)
        errors = [error for name in topics if (error := known[name].error) is not None]
        if errors and self._begin is None:
            raise KafkaException(errors[0])
        found = [TopicPartition(name, number) for name in topics for number in known[name].partitions]
        return {part_name(each): each for each in found}

    def _offsets(self, partitions: Partitions, which: OffsetSpec) -> Position:
        """Request one offset of each partition, sorted by part; _NO_SUCH_TIME if no message is that late.

        Raises:
            KafkaException: not all offsets are known, for instance because a broker stops while it answers.
        """
        if not partitions:
            return {}
        asked = self._admin.list_offsets(
            dict.fromkeys(partitions.values(), which),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_S,
        )
        found = {part_name(each): int(answer.result(_ANSWER_S).offset) for each, answer in asked.items()}
        if min(found.values()) < _NO_SUCH_TIME:
            raise KafkaException(KafkaError(KafkaError._NO_OFFSET))
        return {part: found[part] for part in sorted(found, key=part_order)}

    def _beginning(self, partitions: Partitions, first: Position) -> Position:
        start = self._spec.start
        if start == "earliest":
            return first
        ends = self._offsets(partitions, _LATEST)
        if start == "latest":
            return ends
        found = self._offsets(partitions, OffsetSpec.for_timestamp(int(start) // 1000))
        return {part: ends[part] if at == _NO_SUCH_TIME else at for part, at in found.items()}

    def _no_topic(self) -> str:
        return f"waiting for a topic {' or '.join(self._spec.topics)} at {self._spec.brokers}"

    def _away(self, problem: KafkaException | StqshError) -> str:
        """Return the reason why the stream waits."""
        if isinstance(problem, StqshError):
            return f"the stream waits: {problem.message}"
        error = problem.args[0] if problem.args else None
        if self._client is not None:
            self._client.poll(0)  # delivers error reports
        why = self._complaints.sentence(error if isinstance(error, KafkaError) else None)
        return f"the stream waits: {why}"

    @property
    def _admin(self) -> AdminClient:
        """The client.

        Raises:
            StqshError: the settings cannot be used.
        """
        if self._client is None:
            settings = self._settings()
            own: Any = {"logger": silent_logger(), "error_cb": self._complaints}
            try:
                self._client = AdminClient({"socket.timeout.ms": 5000, **settings}, **own)
            except KafkaException as problem:
                raise settings_error(problem.args[0]) from None
        return self._client


def part_name(partition: TopicPartition) -> str:
    """Return a partition's name in positions: `topic/3`."""
    return f"{partition.topic}/{partition.partition}"


def matching(wanted: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the topics that match names and patterns, in order.

    >>> matching(["/^bus-/", "taxis"], ["bus-1", "taxis", "tram"])
    ['bus-1', 'taxis']
    """
    patterns = [re.compile(name[1:-1]) for name in wanted if name.startswith("/")]
    return sorted(
        name
        for name in known
        if name in wanted or (not name.startswith("__") and any(each.search(name) for each in patterns))
    )
