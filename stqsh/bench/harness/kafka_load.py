"""Fill a topic with reports of moving objects, at once or at a rate, in a process of its own.

`python -m stqsh.bench.harness.kafka_load ADDRESS TOPIC FORMAT COUNT OBJECTS DAMAGED RATE` sends COUNT
reports, of which the share DAMAGED cannot be read; RATE is in reports a second, 0 for all at once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from stqsh.bench.harness.workload import Motion

_PER_TICK = 10_000
"""Reports that are made at once."""
_PER_MESSAGE = 1000
"""Reports in a message of the format ARROW."""
_WAITING = 50_000
"""Messages that may wait for the broker when those of the next tick are sent."""


@dataclass(frozen=True)
class KafkaLoad:
    """What to send; `form` is json, csv or arrow."""

    form: str
    count: int
    objects: int
    damaged: float = 0.0
    rate: float = 0.0

    def start(self, address: str, topic: str) -> subprocess.Popen[bytes]:
        """Send it from a process of its own."""
        words = [self.form, self.count, self.objects, self.damaged, self.rate]
        return subprocess.Popen([sys.executable, "-m", __name__, address, topic, *map(str, words)])

    def send(self, address: str, topic: str) -> None:
        """Send it from a process of its own, and wait until the broker has all of it.

        Raises:
            RuntimeError: that fails.
        """
        if self.start(address, topic).wait():
            raise RuntimeError(f"the reports could not be sent to {address}")

    def messages(self, partitions: int) -> Iterator[list[tuple[int, bytes]]]:
        """Yield the messages of each tick, with the partition of each; an object keeps to one partition."""
        motion = Motion(self.objects, _PER_TICK, -(-self.count // _PER_TICK))
        chance = np.random.default_rng(3)
        begun = int(time.time() * 1000)
        for tick, (who, at) in enumerate(motion.reports()):
            where = who % partitions
            if self.form == "arrow":
                yield list(_arrow_messages(who, at[:, 0], at[:, 1], begun + tick, where))
                continue
            values = _lines(self.form, who.tolist(), at.tolist(), begun + tick)
            for place in np.flatnonzero(chance.random(len(values)) < self.damaged).tolist():
                values[place] = values[place][: len(values[place]) // 2]
            yield list(zip(where.tolist(), values, strict=True))


def _lines(form: str, who: list[int], at: list[list[float]], ms: int) -> list[bytes]:
    if form == "csv":
        return [b"o%d,%r,%r,%d" % (one, x, y, ms) for one, (x, y) in zip(who, at, strict=True)]
    return [
        f'{{"oid":"o{one}","x":{x!r},"y":{y!r},"ts":{ms}}}'.encode()
        for one, (x, y) in zip(who, at, strict=True)
    ]


def _arrow_messages(
    who: np.ndarray, x: np.ndarray, y: np.ndarray, ms: int, where: np.ndarray
) -> Iterator[tuple[int, bytes]]:
    names = pa.array([f"o{one}" for one in who.tolist()])
    times = pa.array(np.full(len(who), ms * 1000)).cast(pa.timestamp("us", "UTC"))
    whole = pa.RecordBatch.from_arrays(
        [names, pa.array(x), pa.array(y), times], names=["oid", "x", "y", "ts"]
    )
    for partition in np.unique(where).tolist():
        mine = whole.filter(pa.array(where == partition))
        for start in range(0, len(mine), _PER_MESSAGE):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, mine.schema) as writer:
                writer.write_batch(mine.slice(start, _PER_MESSAGE))
            yield partition, sink.getvalue().to_pybytes()


def send(load: KafkaLoad, address: str, topic: str) -> None:
    """Send a load, and wait until the broker has all of it."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "batch.num.messages": 50_000})
    partitions = len(producer.list_topics(topic, 30).topics[topic].partitions)
    begun = time.monotonic()
    for tick, messages in enumerate(load.messages(partitions)):
        if load.rate:
            time.sleep(max(0.0, begun + tick * _PER_TICK / load.rate - time.monotonic()))
        for partition, value in messages:
            producer.produce(topic, value, partition=partition)
        while len(producer) > _WAITING:
            producer.poll(0.01)
        producer.poll(0)
    producer.flush(60)


if __name__ == "__main__":
    there, name, kind, *numbers = sys.argv[1:]
    reports, things = int(numbers[0]), int(numbers[1])
    send(KafkaLoad(kind, reports, things, float(numbers[2]), float(numbers[3])), there, name)
