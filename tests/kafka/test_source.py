"""The Kafka source against a real broker: what goes in comes out, once, whatever happens to the broker."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from support.kafka import add_partitions, make_topic, send, without_reading_ahead

import stqsh
from stqsh.broker.kafka import KafkaBroker, running_broker
from stqsh.client.api import Session
from stqsh.client.results import Answer, Rows
from stqsh.errors import EngineDeadError, HomeError, StqshError
from stqsh.storage.engine_info import read_engine

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

COLUMNS = "(oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)"
AT = 1_700_000_000


def row(oid: str, lon: float, ts: int = 0) -> bytes:
    return orjson.dumps({"oid": oid, "lon": lon, "lat": 5, "ts": AT + ts})


def create(address: str, topic: str, more: str = "") -> str:
    return (
        f"CREATE MOVING STREAM b {COLUMNS} KEY oid LOCATION (lon, lat) TIME ts"
        f" FROM KAFKA '{address}' TOPIC '{topic}' {more};"
        " REGISTER QUERY q AS SELECT oid, lon FROM b INSIDE (0, 0, 10, 10);"
    )


class Folded:
    """Follows the query's updates in a thread, and folds them."""

    def __init__(self, session: Session) -> None:
        self.rows: dict[str, object] = {}
        self.updates: list[tuple[str, int]] = []
        self._session = session
        [query] = session.queries()
        self._query = query.id
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with suppress(HomeError, EngineDeadError):  # the tests are over: the session is closed
            for updates in self._session.updates(from_start=True):
                for each in updates.table.to_pylist():
                    if each["query"] == self._query:
                        self._fold(each)

    def _fold(self, update: dict[str, Any]) -> None:
        self.updates.append((update["key"], update["op"]))
        if update["op"] > 0:
            assert update["key"] not in self.rows, update
            self.rows[update["key"]] = update
        else:
            del self.rows[update["key"]]

    def reaches(self, wanted: set[str], seconds: float = 280) -> None:
        wait_for(lambda: set(self.rows) == wanted, seconds, lambda: sorted(self.rows))


def wait_for(done: Callable[[], bool], seconds: float = 280, seen: Callable[[], object] = str) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, seen()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The session of all tests: no test kills its engine."""
    with stqsh.connect(home=tmp_path_factory.mktemp("home"), temporary=True) as opened:
        yield opened


@pytest.fixture
def session(opened: Session) -> Iterator[Session]:
    """The session, without streams before and after."""
    yield opened
    execute(opened, "DROP QUERY q; DROP STREAM b; SET sources.gone = wait;")


def execute(session: Session, text: str) -> list[object]:
    return list(session.execute(text))


def taken(session: Session) -> object:
    return show_streams(session)["rows"]


def show_streams(session: Session) -> dict[str, object]:
    [found] = [each for each in execute(session, "SHOW STREAMS;") if isinstance(each, Rows)]
    return dict(zip(found.columns, found.rows[0], strict=True))


def test_records_tombstones_and_dead_letters(session: Session, broker: KafkaBroker, topic: str) -> None:
    send(broker.address, topic, [(b"a", row("a", 1)), (b"b", row("b", 2)), (b"c", row("c", 50))], 0)
    send(broker.address, topic, [(b"x", b"oops"), (b"d", row("d", 3))], 1)
    execute(session, create(broker.address, topic))
    folded = Folded(session)
    folded.reaches({"a", "b", "d"})
    send(broker.address, topic, [(b"a", None), (b"c", row("c", 4, 9))], 0)
    folded.reaches({"b", "c", "d"})
    stream = show_streams(session)
    assert (stream["state"], stream["rows"], stream["dead letters"]) == ("live", 6, 1)
    assert stream["message"] == f"behind: {topic}/0 0, {topic}/1 0"
    letters = [each for each in execute(session, "SHOW DEAD LETTERS;") if isinstance(each, Rows)][-1]
    assert letters.rows[0][:3] == ("b", f"{topic}/1", 0)


def test_patterns_starts_and_new_partitions(session: Session, broker: KafkaBroker, topic: str) -> None:
    other = make_topic(broker.address, f"{topic}-more", 1)
    send(broker.address, topic, [(None, row("old", 1))])
    execute(session, create(broker.address, f"/^{topic}/", "FROM LATEST"))
    folded = Folded(session)
    wait_for(lambda: f"{topic}/0 0" in str(show_streams(session)["message"]))
    send(broker.address, topic, [(None, row("a", 1))], 1)
    send(broker.address, other, [(None, row("b", 2))])
    folded.reaches({"a", "b"})
    add_partitions(broker.address, other, 3)
    send(broker.address, other, [(None, row("c", 3))], 2)
    folded.reaches({"a", "b", "c"})


def test_columns_of_kafka_and_a_start_at_a_time(session: Session, broker: KafkaBroker, topic: str) -> None:
    begun = int(time.time()) - 60
    producer = Producer({"bootstrap.servers": broker.address})
    for n in range(6):
        value = orjson.dumps({"lon": n, "lat": 5})
        producer.produce(topic, value, f"k{n}", n % 2, timestamp=(begun + n) * 1000)
    producer.flush()
    columns = "(_key STRING, lon DOUBLE, lat DOUBLE, _timestamp TIMESTAMP, _partition BIGINT, _offset BIGINT)"
    start = datetime.fromtimestamp(begun + 2, UTC).isoformat()
    execute(
        session,
        f"CREATE MOVING STREAM b {columns} KEY _key LOCATION (lon, lat) TIME _timestamp"
        f" FROM KAFKA '{broker.address}' TOPIC '{topic}' FROM TIMESTAMP '{start}';"
        " REGISTER QUERY q AS SELECT * FROM b INSIDE (0, 0, 10, 10);",
    )
    Folded(session).reaches({"k2", "k3", "k4", "k5"})
    [answer] = [each for each in execute(session, "SELECT * FROM b;") if isinstance(each, Answer)]
    assert answer.table.select(["_key", "_partition", "_offset"]).to_pylist() == [
        {"_key": f"k{n}", "_partition": n % 2, "_offset": n // 2} for n in range(2, 6)
    ]
    assert [at.timestamp() for at in answer.table.column("_timestamp").to_pylist()] == [
        begun + n for n in range(2, 6)
    ]


def test_a_broker_that_is_away_is_waited_for(session: Session, kafka_jars: Path, tmp_path: Path) -> None:
    with running_broker(tmp_path / "kafka") as broker:
        topic = make_topic(broker.address, "t", 2)
        send(broker.address, topic, [(None, row("a", 1))])
        execute(session, create(broker.address, topic))
        folded = Folded(session)
        folded.reaches({"a"})
        broker.stop(signal.SIGKILL)
        wait_for(
            lambda: f"Kafka at {broker.address} does not answer" in str(show_streams(session)["message"])
        )
        broker.start()
        send(broker.address, topic, [(None, row("b", 2))])
        folded.reaches({"a", "b"})
        assert folded.updates == [("a", 1), ("b", 1)]


def test_a_batch_waits_for_its_broker_however_long(
    session: Session, kafka_jars: Path, tmp_path: Path
) -> None:
    count = 1_000
    with running_broker(tmp_path / "kafka") as broker:
        topic = make_topic(broker.address, "t", 2)
        execute(session, create(broker.address, topic) + "PAUSE b;")
        # A batch of messages that are known, and that no process has read before the broker dies.
        with without_reading_ahead(session.home):
            send(broker.address, topic, ((None, row("a", 1, n)) for n in range(count)))
            time.sleep(5)  # the engine asks for the ends of partitions ten times a second
            broker.stop(signal.SIGKILL)
            execute(session, "PLAY b;")
            wait_for(lambda: "a batch waits: Kafka at" in str(show_streams(session)["message"]))
            assert taken(session) in (None, 0)
        broker.start()
        wait_for(lambda: taken(session) == count, seen=lambda: taken(session))
        wait_for(lambda: "waits" not in str(show_streams(session)["message"]), 20)
        info = read_engine(session.home)
        assert info is not None
        assert info.restarts == 0


def test_messages_that_retention_removes_are_told_and_may_be_skipped(
    session: Session, broker: KafkaBroker
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = make_topic(broker.address, f"gone-{time.time_ns()}", 1)
    execute(session, create(broker.address, topic))
    folded = Folded(session)
    send(broker.address, topic, [(None, row("a", 1))])
    folded.reaches({"a"})
    execute(session, "PAUSE b;")
    time.sleep(1)
    send(broker.address, topic, [(None, row("b", 1)), (None, row("c", 1))])
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        done.result(20)
    time.sleep(1.5)
    execute(session, "PLAY b;")
    wait_for(lambda: f"1 to 1 of {topic}/0 are gone" in str(show_streams(session)["message"]))
    execute(session, "SET sources.gone = skip;")
    folded.reaches({"a", "c"})


def test_a_replayed_stream_is_refused_beside_a_live_one(
    session: Session, broker: KafkaBroker, topic: str
) -> None:
    execute(session, create(broker.address, topic))
    with pytest.raises(StqshError, match="runs by the wall clock"):
        execute(session, f"CREATE MOVING STREAM g {COLUMNS} FROM GENERATOR 'network';")
