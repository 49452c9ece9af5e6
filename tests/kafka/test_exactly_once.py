"""`kill -9` of engine and worker while a producer goes on: each message is taken once, and none is lost."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from support.kafka import make_topic
from support.killing import Disturber

import stqsh
from stqsh.bench.kafka_broker import KafkaBroker
from stqsh.client.api import Session
from stqsh.errors import EngineDeadError, HomeError
from stqsh.sinks.file_target import json_lines
from stqsh.storage.progress import stream_statuses

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]
PARTITIONS, OBJECTS = 4, 300
KILLED = ("engine", "worker")
COLUMNS = "(oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, n BIGINT, part BIGINT)"
Row = dict[str, Any]


class Traffic(threading.Thread):
    """Sends records to a topic until it is stopped; an object's records are in one partition, in order."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._draw = address, topic, random.Random(7)
        self.stopping = threading.Event()
        self.sent: list[Row] = []

    def run(self) -> None:
        """Send some records, pause, and so on."""
        producer = Producer({"bootstrap.servers": self._address, "enable.idempotence": True})
        while not self.stopping.wait(0.05):
            for _ in range(20):
                row = self._next()
                producer.produce(self._topic, orjson.dumps(row), row["oid"], row["part"])
            assert producer.flush(60) == 0

    def _next(self) -> Row:
        n, number = len(self.sent), self._draw.randrange(OBJECTS)
        place = {"lon": self._draw.uniform(0, 20), "lat": 5, "ts": 1_700_000_000 + n}
        row = {"oid": f"o{number}", **place, "n": n, "part": number % PARTITIONS}
        self.sent.append(row)
        return row

    def answers(self) -> dict[tuple[str, str], int | None]:
        """Return what the queries must answer once all records are taken: rows, and counts of groups."""
        last = {row["oid"]: row["lon"] for row in self.sent}
        inside = {("inside", oid): None for oid, lon in last.items() if lon <= 10}
        counted = Counter(row["part"] for row in self.sent)
        return inside | {("counted", str([part])): count for part, count in counted.items()}


class Folding(threading.Thread):
    """Folds all updates; each must fit what was there, and show a record that was sent and is not older."""

    def __init__(self, session: Session, sent: list[Row]) -> None:
        super().__init__(daemon=True)
        self._session, self._sent = session, sent
        self.rows: dict[tuple[str, str], Row] = {}
        self.faults: list[str] = []
        self.seen = 0
        self._newest: dict[str, int] = {}

    def answers(self) -> dict[tuple[str, str], int | None]:
        """Return the rows so far, as `Traffic.answers` does."""
        return {key: row.get("k") for key, row in self.rows.copy().items()}

    def run(self) -> None:
        """Fold until the session is closed."""
        with suppress(HomeError, EngineDeadError):  # the session is closed
            for updates in self._session.updates(from_start=True):
                for line in json_lines((updates,)).splitlines():
                    self._fold(orjson.loads(line))

    def _fold(self, update: Row) -> None:
        key, row = (update["query"], str(update["key"])), update["row"]
        self.seen += 1
        if update["op"] == "-":
            if self.rows.pop(key, None) is None:
                self.faults.append(f"was not there: {update}")
            return
        if key in self.rows:
            self.faults.append(f"twice: {update}")
        self.rows[key] = row
        if update["query"] == "inside":
            sent = self._sent[row["n"]]
            if row != {name: sent[name] for name in row} or row["n"] <= self._newest.get(row["oid"], -1):
                self.faults.append(f"not a newer record: {update}")
            self._newest[row["oid"]] = row["n"]


def _wait_for_updates(folding: Folding, count: int) -> None:
    wanted, until = folding.seen + count, time.monotonic() + 250
    while folding.seen < wanted:
        assert time.monotonic() < until, "no updates come"
        time.sleep(0.05)


def test_each_message_is_taken_once_whatever_is_killed(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = make_topic(broker.address, f"once-{time.time_ns()}", PARTITIONS)
    traffic = Traffic(broker.address, topic)
    source = f"LOCATION (lon, lat) TIME ts FROM KAFKA '{broker.address}' TOPIC '{topic}'"
    with stqsh.connect(home=tmp_path, temporary=True) as session:
        for text in (
            f"CREATE MOVING STREAM m {COLUMNS} KEY oid {source};",
            f"CREATE EVENT STREAM e {COLUMNS} KEY n {source};",
            "REGISTER QUERY inside AS SELECT oid, lon, n FROM m INSIDE (0, 0, 10, 10);",
            "REGISTER QUERY counted AS SELECT part, count(*) AS k FROM e GROUP BY part;",
        ):
            list(session.execute(text))
        folding = Folding(session, traffic.sent)
        folding.start()
        traffic.start()
        disturber = Disturber(session, random.Random(11), tmp_path)
        for kind in KILLED:
            _wait_for_updates(folding, 50)
            time.sleep(disturber.draw.uniform(0, 1.5))
            while not disturber.disturb(kind):
                time.sleep(0.05)
        _wait_for_updates(folding, 50)
        traffic.stopping.set()
        traffic.join()
        expected = traffic.answers()
        until = time.monotonic() + 120
        while folding.answers() != expected and time.monotonic() < until:
            time.sleep(0.1)
        found, statuses = folding.answers(), stream_statuses(session.link.db)
    assert found == expected
    assert [status.rows for status in statuses.values()] == [len(traffic.sent)] * 2
    assert folding.faults == []
    assert disturber.done == list(KILLED)
    assert len(traffic.sent) > 2000
