"""Processes beside a session: one sends records to a topic, one writes down what another topic holds.

`python -m support.kafka_traffic send ADDRESS TOPIC COUNT RATE` and `… receive ADDRESS TOPIC FILE`. Records
are a function of their number, so whoever checks them computes them again. `… topic ADDRESS TOPIC COUNT`
makes a topic, or gives it more partitions.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Consumer, Producer, TopicPartition
from numpy.typing import NDArray

from support.kafka import add_partitions, make_topic

PARTITIONS, OBJECTS = 4, 20_000
"""Records begin with so many partitions; in their second half others report, all in one partition more."""
_CHUNK = 1000
COLUMNS = "(oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, n BIGINT, part BIGINT)"
PATIENCE_S = 400.0
"""How long updates may take to come after a disturbance, with an engine that starts on a busy machine."""
Row = dict[str, Any]


def objects_of(count: int) -> NDArray[np.int64]:
    """Return which object each record is of: every tenth of the second half is of the newcomers."""
    who = np.random.default_rng(7).integers(0, OBJECTS, count)
    late = (np.arange(count) >= count // 2) & (np.arange(count) % 10 == 0)
    return np.where(late, OBJECTS + who % 100, who)


def partitions_of(who: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the partition of each object; its records are in order there."""
    return np.where(who < OBJECTS, who % PARTITIONS, PARTITIONS)


def places_of(count: int) -> NDArray[np.float64]:
    """Return the longitude of each record."""
    return np.random.default_rng(8).uniform(0, 20, count).round(6)


def answers(count: int) -> dict[tuple[str, str], dict[str, object]]:
    """Return what the queries `inside` and `counted` must answer once all records are taken."""
    who, lon = objects_of(count), places_of(count)
    last = {oid: n for n, oid in enumerate(who.tolist())}
    inside: dict[tuple[str, str], dict[str, object]] = {
        ("inside", f'"o{oid}"'): {"oid": f"o{oid}"} for oid, n in last.items() if lon[n] <= 10
    }
    numbers, counts = np.unique(partitions_of(who), return_counts=True)
    return inside | {
        ("counted", f"[{part}]"): {"part": part, "k": count}
        for part, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    }


def records(count: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, partition and value of each record."""
    who, lon = objects_of(count), places_of(count)
    begun = int(time.time())
    for n, (oid, part, x) in enumerate(
        zip(who.tolist(), partitions_of(who).tolist(), lon.tolist(), strict=True)
    ):
        row = {"oid": f"o{oid}", "lon": x, "lat": 5, "ts": begun + n // 1_000_000, "n": n, "part": part}
        yield n, part, orjson.dumps(row)


def send(address: str, topic: str, count: int, rate: float) -> None:
    """Send the records at a rate, each once and in order, whatever the broker does meanwhile."""
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "message.timeout.ms": 900_000,
            "linger.ms": 5,
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    begun = time.monotonic()
    for n, part, value in records(count):
        if n % _CHUNK == 0:
            time.sleep(max(0.0, begun + n / rate - time.monotonic()))
        if n == count // 2:
            _await_partition(producer, topic)
        while True:
            try:
                producer.produce(
                    topic, value, partition=part, on_delivery=lambda error, _: error and failed.append(error)
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(900) or failed:
        raise SystemExit(f"not all records are delivered: {failed[:1]}")


def set_partitions(address: str, topic: str, count: int) -> None:
    """Make a topic with some partitions, or give a topic that exists so many."""
    if topic in Producer({"bootstrap.servers": address}).list_topics(timeout=60).topics:
        add_partitions(address, topic, count)
    else:
        make_topic(address, topic, count)


def _await_partition(producer: Producer, topic: str) -> None:
    """Wait until somebody has added the partition of the newcomers."""
    while len(producer.list_topics(topic, 60).topics[topic].partitions) <= PARTITIONS:
        producer.poll(0.2)


def receive(address: str, topic: str, path: Path) -> None:
    """Append the committed messages of a topic of one partition to a file, a line for each, until killed."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "receiver",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    with path.open("wb") as out:
        while True:
            found = [message.value() for message in consumer.consume(10_000, 0.2) if message.error() is None]
            out.writelines(value + b"\n" for value in found if value is not None)
            out.flush()


class Folded:
    """What the consumer has written down, folded: each update must fit what was there before it."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, 0, b""
        self.rows: dict[tuple[str, str], Row] = {}
        self.faults: list[str] = []
        self.seen = 0
        self._newest: dict[str, int] = {}

    def look(self) -> None:
        """Fold what has come since the last look."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = self._rest + file.read()
            self._at = file.tell()
        *lines, self._rest = new.split(b"\n")
        for line in lines:
            self._fold(orjson.loads(line))

    def _fold(self, update: Row) -> None:
        key, row = (update["query"], orjson.dumps(update["key"]).decode()), update["row"]
        self.seen += 1
        if update["op"] == "-":
            if self.rows.pop(key, None) is None:
                self.faults.append(f"was not there: {update}")
            return
        if key in self.rows:
            self.faults.append(f"twice: {update}")
        self.rows[key] = row
        if update["query"] == "inside":
            if row["n"] <= self._newest.get(row["oid"], -1):
                self.faults.append(f"not a newer record: {update}")
            self._newest[row["oid"]] = row.pop("n")

    def await_more(self, count: int, sender: subprocess.Popen[bytes]) -> None:
        """Wait until so many updates more have come, or no more records are sent."""
        wanted, until = self.seen + count, time.monotonic() + PATIENCE_S
        while self.seen < wanted and sender.poll() is None:
            assert time.monotonic() < until, "no updates come"
            time.sleep(0.05)
            self.look()


def start(*words: str | int | Path) -> subprocess.Popen[bytes]:
    """Start one of them in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "support.kafka_traffic", *map(str, words)], cwd=Path(__file__).parents[1]
    )


if __name__ == "__main__":
    what, there, name, *rest = sys.argv[1:]
    if what == "send":
        send(there, name, int(rest[0]), float(rest[1]))
    elif what == "topic":
        set_partitions(there, name, int(rest[0]))
    else:
        receive(there, name, Path(rest[0]))
