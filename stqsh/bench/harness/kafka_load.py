"""Fill a topic with reports of moving objects, at once or at a rate, in a process of its own.

`python -m stqsh.bench.harness.kafka_load ADDRESS TOPIC FORMAT COUNT OBJECTS DAMAGED RATE` sends COUNT
reports, of which the share DAMAGED cannot be read; RATE is in reports a second, 0 for all at once. Where
there is a rate, all messages are made first: to make one takes longer than to send it, and the sender shares
the machine with what is measured. Then it writes a line, and begins once it has read one.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from stqsh.arrays import Array
from stqsh.bench.harness.workload import Motion

Message: TypeAlias = "dict[str, bytes]"

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

    def prepare(self, address: str, topic: str) -> KafkaSender:
        """Return a process that sends it; where there is a rate, it has made all messages."""
        words = [self.form, self.count, self.objects, self.damaged, self.rate]
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, address, topic, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return KafkaSender(process)

    def send(self, address: str, topic: str) -> None:
        """Send it from a process of its own, and wait until the broker has all of it.

        Raises:
            RuntimeError: that fails.
        """
        sender = self.prepare(address, topic)
        sender.begin()
        if sender.wait():
            raise RuntimeError(f"the reports could not be sent to {address}")

    def messages(self, partitions: int) -> Iterator[list[list[Message]]]:
        """Yield the messages of each tick, by partition; an object keeps to one partition."""
        motion = Motion(self.objects, _PER_TICK, -(-self.count // _PER_TICK))
        chance = np.random.default_rng(3)
        begun = int(time.time() * 1000)
        for tick, (who, at) in enumerate(motion.reports()):
            where = who % partitions
            if self.form == "arrow":
                yield _arrow_messages(who, at, begun + tick, partitions)
                continue
            values = _lines(self.form, who, at, begun + tick)
            for place in np.flatnonzero(chance.random(len(values)) < self.damaged).tolist():
                values[place] = values[place][: len(values[place]) // 2]
            yield [
                [{"value": values[place]} for place in np.flatnonzero(where == partition).tolist()]
                for partition in range(partitions)
            ]


@dataclass(frozen=True)
class KafkaSender:
    """A process that is ready to send a load."""

    process: subprocess.Popen[bytes]

    def begin(self) -> None:
        """Wait until it is ready, and let it send.

        Raises:
            RuntimeError: it cannot.
        """
        assert self.process.stdin is not None, "it waits for a line"
        assert self.process.stdout is not None, "it says when it is ready"
        if not self.process.stdout.readline():
            raise RuntimeError("the reports cannot be sent")
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def wait(self) -> int:
        """Wait until the broker has all of it; return the status with which the process ends."""
        return self.process.wait()


def _lines(form: str, who: Array, at: Array, ms: int) -> list[bytes]:
    """Return the reports of a tick as text, put together by columns: the sender shares the machine."""
    columns: list[Any] = [
        pa.array(who).cast(pa.string()),
        *(pa.array(at[:, axis]).cast(pa.string()) for axis in (0, 1)),
    ]
    oid, x, y = columns
    if form == "csv":
        parts = ["o", oid, ",", x, ",", y, f",{ms}"]
    else:
        parts = ['{"oid":"o', oid, '","x":', x, ',"y":', y, f',"ts":{ms}}}']
    lines: Any = pc.binary_join_element_wise(*parts, "")
    found: list[bytes] = lines.cast(pa.binary()).to_pylist()
    return found


def _arrow_messages(who: Array, at: Array, ms: int, partitions: int) -> list[list[Message]]:
    names = pa.array([f"o{one}" for one in who.tolist()])
    times = pa.array(np.full(len(who), ms * 1000)).cast(pa.timestamp("us", "UTC"))
    whole = pa.RecordBatch.from_arrays(
        [names, pa.array(at[:, 0]), pa.array(at[:, 1]), times], names=["oid", "x", "y", "ts"]
    )
    found: list[list[Message]] = [[] for _ in range(partitions)]
    for partition in range(partitions):
        mine = whole.filter(pa.array(who % partitions == partition))
        for start in range(0, len(mine), _PER_MESSAGE):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, mine.schema) as writer:
                writer.write_batch(mine.slice(start, _PER_MESSAGE))
            found[partition].append({"value": sink.getvalue().to_pybytes()})
    return found


def send(load: KafkaLoad, address: str, topic: str) -> None:
    """Send a load, and wait until the broker has all of it."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 5,
            "batch.num.messages": 50_000,
            "queue.buffering.max.messages": 2 * _WAITING,
        }
    )
    partitions = len(producer.list_topics(topic, 30).topics[topic].partitions)
    ticks: Iterable[list[list[Message]]] = load.messages(partitions)
    if load.rate:
        gc.disable()  # it would look through millions of messages
        ticks = list(ticks)
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    for tick, messages in enumerate(ticks):
        if load.rate:
            time.sleep(max(0.0, begun + tick * _PER_TICK / load.rate - time.monotonic()))
        for partition, some in enumerate(messages):
            if some:
                producer.produce_batch(topic, some, partition)
        while len(producer) > _WAITING:
            producer.poll(0.01)
        producer.poll(0)
    producer.flush(60)


if __name__ == "__main__":
    there, name, kind, *numbers = sys.argv[1:]
    reports, things = int(numbers[0]), int(numbers[1])
    send(KafkaLoad(kind, reports, things, float(numbers[2]), float(numbers[3])), there, name)
