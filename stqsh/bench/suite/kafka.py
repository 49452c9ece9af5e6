"""Measure Kafka as a source: records a second from a full topic, and how late updates are at half that load.

The broker runs on this machine and takes its share of it, which is measured too. A topic of four partitions
is filled first; then a session reads it from its beginning. For freshness another process sends reports at
half the rate, while this one sends probes: objects that appear in the region of a query. Latency is the time
from sending a probe until the client has read its update.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import stqsh
from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness.cpu import CPU, ProcessorMeter, grown, tree_of
from stqsh.bench.harness.drive import REPETITIONS, Say, execute, tailed
from stqsh.bench.harness.kafka_load import KafkaLoad
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import rectangles
from stqsh.bench.options import option
from stqsh.bench.peers import flink, kafka_flink, kafka_spark
from stqsh.bench.peers.peer import PeerFailedError
from stqsh.broker.kafka import KafkaBroker, running_broker
from stqsh.client.api import Session
from stqsh.storage.progress import stream_statuses
from stqsh.storage.rows import StreamStatus

COLUMNS = {
    "case": "case",
    "queries": "queries",
    "records_per_s": "records/s",
    "dead": "dead letters",
    "p50_s": "read p50 s",
    "p99_s": "read p99 s",
    "probes": "probes",
    "broker_s": "broker s/M",
    **CPU,
}
KEY = ("case", "queries")
FIGURES: dict[str, Better] = {"records_per_s": MORE, "p50_s": LESS, "p99_s": LESS}

PARTITIONS = 4
WARM_UP = 0.4
"""The share of the records, and of the probes, that is not counted."""

MORE_ARROW = 5
"""The case arrow reads this many times the records of the others, as it takes less time."""

_WARM_UP_S = 10.0
"""Before freshness is measured, the engine reads as many records as the load sends in this time, in seconds:
it has just started, so it still loads kernels, and Java still compiles.
"""

_PROBE = "REGISTER QUERY probe AS SELECT oid FROM m INSIDE (2, 2, 3, 3);"
_PROBES_PER_S = 20


@dataclass(frozen=True)
class KafkaOptions:
    """What to measure; see the help of each option."""

    cases: tuple[str, ...] = option(("json", "damaged", "csv", "arrow"), "Formats; damaged is json in part.")
    queries: int = option(10_000, "Range queries.")
    objects: int = option(200_000, "Moving objects.")
    records: int = option(4_000_000, "Records of each case.")
    damaged: float = option(0.1, "The share of messages that cannot be read, in the case damaged.")
    seconds: int = option(30, "How long the load for freshness lasts; 0: leave it out.")
    load: float = option(0.5, "The share of the rate of json that it has.")
    peer_records: int = option(
        0, "Records for the Kafka readers of Spark and Flink, joined by hand; 0: none."
    )

    def __post_init__(self) -> None:
        if unknown := set(self.cases) - {"json", "damaged", "csv", "arrow"}:
            raise ValueError(f"no case {min(unknown)!r}; there are json, damaged, csv, arrow")


FULL = KafkaOptions()
QUICK = KafkaOptions(("json", "arrow"), records=3_000_000, seconds=20)


def measure(options: KafkaOptions, say: Say) -> list[Row]:
    """Return a row for each case, and one for freshness."""
    rows, rate = list[Row](), 0.0
    say("starting a broker")
    with running_broker() as broker:
        for number, case in enumerate(options.cases):
            count = options.records * (MORE_ARROW if case == "arrow" else 1)
            say(f"filling a topic with {count:,} records of {case}")
            form, share = ("json", options.damaged) if case == "damaged" else (case, 0.0)
            topic = _new_topic(broker, f"bench-{number}")
            KafkaLoad(form, count, options.objects, share).send(broker.address, topic)
            say(f"reading {case}")
            rates, costs = drained(_reading(broker, topic, form, options), broker.pid, count)
            rows.append({"case": case, "queries": options.queries, "records_per_s": rates, **costs})
            rate = statistics.median(rates) if case == "json" else rate
        if options.seconds and rate:
            asked = rate * options.load
            say(f"sending {asked:,.0f} records/s for {options.seconds} s")
            rows.append({"case": f"json at {options.load:g} of the load", **fresh(broker, asked, options)})
        if options.peer_records:
            rows += compared(broker, options, say)
    return rows


def compared(broker: KafkaBroker, options: KafkaOptions, say: Say) -> list[Row]:
    """Return rows for a session and for the readers of Spark and Flink: the same answers from one topic.

    Raises:
        PeerFailedError: their answers differ.
    """
    count, topic = options.peer_records, _new_topic(broker, "bench-peer")
    say(f"reading {count:,} records, by stqsh and by others")
    KafkaLoad("json", count, options.objects).send(broker.address, topic)
    sizes = np.zeros(options.queries, np.int64)

    @contextmanager
    def counted() -> Iterator[Session]:
        with _reading(broker, topic, "json", options) as session:
            yield session
            sizes[:] = [query.size for query in session.queries()]

    ours, costs = drained(counted(), broker.pid, count)
    squares, said = rectangles(options.queries), {"queries": options.queries}
    theirs = {"Spark's Kafka reader": kafka_spark.run(broker.address, topic, count, squares)}
    if reason := flink.missing():
        say(f"Flink is left out: {reason}")
    else:
        theirs["PyFlink with its Kafka reader"] = kafka_flink.run(broker.address, topic, squares)
    rows: list[Row] = [{"case": "json, few records", **said, "records_per_s": ours, **costs}]
    for name, outcome in theirs.items():
        if not np.array_equal(sizes, outcome.counts):
            raise PeerFailedError(f"{name} and stqsh answer differently")
        rows.append({"case": name, **said, "records_per_s": outcome.rates})
    return rows


def drained(
    reading: AbstractContextManager[Session], broker: int, records: int
) -> tuple[list[float], dict[str, float | None]]:
    """Read a topic from its beginning.

    Args:
        reading: opens a session that reads it.
        broker: the broker's process.
        records: how many the topic has.

    Returns:
        The records a second of each portion, and the costs.
    """
    with reading as session:
        meter, before = ProcessorMeter(session), tree_of(broker)
        looks = [(time.perf_counter(), 0, 0)]
        execute(session, "PLAY m;")
        while sum(looks[-1][1:]) < records:
            time.sleep(0.02)
            status = _status(session)
            if status.rows + status.dead > sum(looks[-1][1:]):
                looks.append((time.perf_counter(), status.rows, status.dead))
        used = grown(before, tree_of(broker)).java
        costs = {"dead": looks[-1][2], "broker_s": used * 1e6 / records, **meter.per_million(records)}
        return _rates(looks, records), costs


def _rates(looks: list[tuple[float, int, int]], records: int) -> list[float]:
    """Return the records a second of `REPETITIONS` portions after the warm-up.

    Where there are too few batches for that, only the first is left out, as of the other systems.
    """
    taken = [(at, rows + dead) for at, rows, dead in looks]
    counted = [look for look in taken if look[1] >= WARM_UP * records]
    if len(counted) < 2:
        counted = taken[1:] if len(taken) > 2 else taken
    marks = [counted[round(place)] for place in np.linspace(0, len(counted) - 1, REPETITIONS + 1)]
    return [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in pairwise(marks)
        if after[0] > before[0]
    ]


def fresh(broker: KafkaBroker, rate: float, options: KafkaOptions) -> Row:
    """Return how long probes take while records come at a rate."""
    topic = _new_topic(broker, "bench-fresh")
    count = int(rate * (options.seconds + 5))
    sent: dict[str, float] = {}
    read: dict[str, float] = {}
    with _reading(broker, topic, "json", options) as session:
        execute(session, f"{_PROBE} PLAY m;")
        load = KafkaLoad("json", count, options.objects, rate=rate).prepare(broker.address, topic)
        warm_up = KafkaLoad("json", int(rate * _WARM_UP_S), options.objects)
        warm_up.send(broker.address, topic)
        while (taken := _status(session).rows) < warm_up.count:
            time.sleep(0.1)
        load.begin()
        threading.Thread(
            target=_send_probes, args=(broker, topic, options.seconds, sent), daemon=True
        ).start()
        end = time.monotonic() + options.seconds + 10
        for key, at in _probes_read(session, end):
            read[key] = at
        load.wait()
        rows = _status(session).rows - taken
    late = np.array([read[key] - at for key, at in sent.items() if key in read])[int(len(read) * WARM_UP) :]
    parts = [part for part in np.array_split(late, REPETITIONS) if len(part)]
    return {
        "queries": options.queries,
        "records_per_s": min(rows, count) / (options.seconds + 5),
        "p50_s": [float(np.percentile(part, 50)) for part in parts],
        "p99_s": [float(np.percentile(part, 99)) for part in parts],
        "probes": len(late),
    }


def _status(session: Session) -> StreamStatus:
    """Return how far a session's stream has come."""
    session.progress()  # raises if the engine fails
    return next(iter(stream_statuses(session.connection.db).values()))


def _send_probes(broker: KafkaBroker, topic: str, seconds: int, sent: dict[str, float]) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for number in range(seconds * _PROBES_PER_S):
        key, now = f"probe{number}", time.time()
        value = orjson.dumps({"oid": key, "x": 2.5, "y": 2.5, "ts": int(now * 1000)})
        sent[key] = time.perf_counter()
        producer.produce(topic, value, partition=number % PARTITIONS)
        producer.poll(0)
        time.sleep(1 / _PROBES_PER_S)
    producer.flush(10)


def _probes_read(session: Session, end: float) -> Iterator[tuple[str, float]]:
    """Yield the probes that a client reads by TAIL, each with the time, until an instant."""

    class _OverError(Exception):
        """Ends the reading."""

    def look(_: object) -> None:
        if time.monotonic() > end:
            raise _OverError

    try:
        for some in tailed(session, "probe", look):
            now = time.perf_counter()
            yield from ((str(key), now) for key in some.table.column("key").to_pylist())
            look(some)
    except _OverError:
        return


@contextmanager
def _reading(broker: KafkaBroker, topic: str, form: str, options: KafkaOptions) -> Iterator[Session]:
    """Open a session with the topic as the stream m, which is paused, and its queries."""
    with stqsh.connect(temporary=True, autoplay=False) as session:
        execute(
            session,
            "CREATE MOVING STREAM m (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            f" KEY oid LOCATION (x, y) TIME ts FROM KAFKA '{broker.address}' TOPIC '{topic}'"
            f" FORMAT {form.upper()} TICK 100 ms PLANAR BOUNDS (0, 0, 1, 1);",
        )
        execute(session, statements(rectangles(options.queries)))
        session.start_engine()
        yield session


def _new_topic(broker: KafkaBroker, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        made.result(30)
    return name
