"""Sinks TO KAFKA with a real broker: each update once whatever dies, and answers in a compacted topic."""

from __future__ import annotations

import json
import random
import uuid

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from support.kafka import consume
from support.sinks import folded, printed_log, run_text, runner_of

from stqsh.broker.kafka import KafkaBroker
from stqsh.client.api import Session
from stqsh.sinks.kafka_target import KafkaSink
from stqsh.sinks.sink_reader import SinkPart
from stqsh.sinks.target import TargetBusyError
from stqsh.spec.sink import KafkaTargetSpec
from stqsh.storage.sinks.sink_position import SinkPosition, read_position

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Killed(BaseException):
    """The death of the process at one point."""


class DyingTarget(KafkaSink):
    """Dies before a transaction, within it, or after it and before its position is recorded in the home."""

    rows = 40
    draw = random.Random()

    def write(self, part: SinkPart) -> SinkPosition:
        where = self.draw.choice(["", "", "", "", "before", "within", "after"])
        if where == "before":
            raise Killed
        if where == "within":
            assert self._producer is not None
            self._producer.begin_transaction()
            for updates in part.updates:
                self._send(self._producer, updates)
            self._producer.flush(10)
            raise Killed
        position = super().write(part)
        if where == "after":
            raise Killed
        return position


def test_updates_are_there_once_wherever_the_process_dies(
    session: Session, broker: KafkaBroker, topic: str
) -> None:
    run_text(session, f"CREATE SINK k FOR ALL TO KAFKA '{broker.address}' TOPIC '{topic}';")
    expected = printed_log(session, "RUN;")
    target, identity = KafkaTargetSpec(broker.address, topic), f"stqsh-{uuid.uuid4().hex}"
    DyingTarget.draw = random.Random(1)
    deaths, dead = 0, []
    for _ in range(200):
        dying = DyingTarget(target, identity, "local")
        dead.append(dying)  # a dead process closes nothing
        try:
            if runner_of(session, "k", dying).step():
                break
        except Killed:
            deaths += 1
    assert deaths > 3
    messages = consume(broker.address, topic, len(expected.splitlines()) + 1, timeout_s=4)
    assert sorted(value for _, value in messages if value) == sorted(expected.splitlines())
    assert folded(map(json.loads, sorted((v for _, v in messages if v), key=_in_order))) == folded(
        map(json.loads, expected.splitlines())
    )
    assert messages[0][0] and json.loads(messages[0][0])[0] in ("near", "west")
    # The position in the home is lost: the broker's is enough.
    last = KafkaSink(target, identity, "local")
    assert last.open(SinkPosition()) == read_position(session.home, 4)
    last.close()


def _in_order(line: bytes) -> tuple[int, str, bool]:
    found = json.loads(line)
    return found["step"], found["query"], found["op"] == "+"


def test_a_zombie_is_fenced(session: Session, broker: KafkaBroker, topic: str) -> None:
    target, identity = KafkaTargetSpec(broker.address, topic), f"stqsh-{uuid.uuid4().hex}"
    first, second = KafkaSink(target, identity, "local"), KafkaSink(target, identity, "local")
    first.open(SinkPosition())
    second.open(SinkPosition())
    with pytest.raises(TargetBusyError):
        first.write(SinkPart(1, 1, 0, (), SinkPosition(1, begun=True)))
    second.write(SinkPart(2, 1, 0, (), SinkPosition(2, begun=True)))
    assert second.open(SinkPosition()).after == 2
    first.close()
    second.close()


def test_answers_are_a_compacted_topic(session: Session, broker: KafkaBroker) -> None:
    topic = f"answers-{uuid.uuid4().hex[:8]}"
    run_text(session, f"CREATE SINK k FOR west TO KAFKA '{broker.address}' TOPIC '{topic}' AS ANSWERS;")
    expected = [line for line in printed_log(session, "RUN;").splitlines() if b'"west"' in line]
    assert runner_of(session, "k").step()
    messages = consume(broker.address, topic, len(expected) + 1, timeout_s=4)
    answer: dict[bytes | None, bytes] = {}
    for key, value in messages:
        if value is None:
            answer.pop(key)
        else:
            answer[key] = value
    rows = {
        (json.loads(key)[0], json.dumps(json.loads(key)[1])): json.loads(value)["row"]
        for key, value in answer.items()
        if key
    }
    assert rows == folded(map(json.loads, expected))
    admin = AdminClient({"bootstrap.servers": broker.address})
    found = admin.describe_configs([ConfigResource("topic", topic)])
    [config] = [one.result(10) for one in found.values()]
    assert config["cleanup.policy"].value == "compact"


def test_a_broker_that_is_away_is_waited_for(session: Session) -> None:
    run_text(session, "CREATE SINK k FOR ALL TO KAFKA '127.0.0.1:9' TOPIC 't'; RUN 5 STEPS;")
    from stqsh.sinks import kafka_target, sink_runner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_target, "TIMEOUT_S", 1.0)
        patch.setattr(sink_runner, "WAIT_S", 0.01)
        assert not runner_of(session, "k").step()
    [rows] = list(session.execute("SHOW SINKS;"))
    shown = dict(zip(rows.columns, rows.rows[0], strict=True))  # type: ignore[union-attr]
    assert shown["state"] == "waiting"
    assert shown["last error"].startswith("Kafka at 127.0.0.1:9 does not answer: ")


def test_a_setting_that_cannot_be_is_told_and_may_be_mended(session: Session, broker: KafkaBroker) -> None:
    topic = f"mended-{uuid.uuid4().hex[:8]}"
    run_text(session, f"CREATE SINK k FOR west TO KAFKA '{broker.address}' TOPIC '{topic}';")
    expected = [line for line in printed_log(session, "RUN;").splitlines() if b'"west"' in line]
    runner = runner_of(session, "k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STQSH_KAFKA_GROUP_ID", "other")
        assert not runner.step()
    [rows] = list(session.execute("SHOW SINKS;"))
    shown = dict(zip(rows.columns, rows.rows[0], strict=True))  # type: ignore[union-attr]
    assert shown["last error"] == "kafka.group.id cannot be set: stqsh sets it itself"
    assert runner.step()
    assert sorted(v for _, v in consume(broker.address, topic, len(expected)) if v) == sorted(expected)
