"""Everything is killed and stopped while records go through, and each update comes out once.

Producer, engine and the read_committed consumer are processes apart. `make kafka-kills` is the full size: 2 M
records and 30 disturbances; SEED draws them. Here are fewer of both.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from support.kafka import add_partitions, make_topic
from support.kafka_traffic import COLUMNS, PARTITIONS, PATIENCE_S, Folded, answers, start
from support.killing import Disturber

import stqsh
from stqsh.broker.kafka import KafkaBroker, running_broker
from stqsh.client.api import Session
from stqsh.errors import StqshError
from stqsh.storage.engine_info import read_engine
from stqsh.storage.progress import stream_statuses

RECORDS = int(os.environ.get("STQSH_ONCE_RECORDS", "40000"))
KILLS = int(os.environ.get("STQSH_ONCE_KILLS", "0"))
RATE = float(os.environ.get("STQSH_ONCE_RATE", "1000"))
SEED = int(os.environ.get("SEED", "11"))
FEW = ("engine", "sink", "broker", "still")
ALL = ("engine", "jvm", "worker", "worker", "daemon", "parent", "several", "sink", "sink", "broker", "still")
STILL_S = 10.0
"""How long the consumer stands still."""

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900 if not KILLS else 7200),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]


def disturb(name: str, disturber: Disturber, broker: KafkaBroker, receiver: psutil.Process) -> bool:
    """Kill or stop something; return whether it was there."""
    if name == "broker":
        broker.stop(signal.SIGKILL)
        time.sleep(disturber.draw.uniform(0, 5))
        broker.start()
    elif name == "still":
        receiver.suspend()
        time.sleep(STILL_S)
        receiver.resume()
    elif name == "sink":
        return _kill_sinks(disturber.session)
    else:
        return disturber.disturb(name)
    return True


def _kill_sinks(session: Session) -> bool:
    """Kill the process that writes the sinks; return whether it was there, as the engine may be starting."""
    info = read_engine(session.home)
    if info is None:
        return False
    with suppress(psutil.NoSuchProcess):
        found = [one for one in psutil.Process(info.pid).children() if "stqsh.sinks.main" in one.cmdline()]
        for one in found:
            one.kill()
        return bool(found)
    return False


@contextmanager
def _running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _define(session: Session, broker: KafkaBroker) -> None:
    source = f"LOCATION (lon, lat) TIME ts FROM KAFKA '{broker.address}' TOPIC 'in'"
    for text in (
        f"CREATE MOVING STREAM m {COLUMNS} KEY oid {source};",
        f"CREATE EVENT STREAM e {COLUMNS} KEY n {source};",
        "REGISTER QUERY inside AS SELECT oid, n FROM m INSIDE (0, 0, 10, 10);",
        "REGISTER QUERY counted AS SELECT part, count(*) AS k FROM e GROUP BY part;",
        f"CREATE SINK out FOR ALL TO KAFKA '{broker.address}' TOPIC 'out';",
    ):
        list(session.execute(text))


@pytest.mark.usefixtures("kafka_jars")
def test_each_update_is_seen_once_whatever_is_killed(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    names = [draw.choice(ALL) for _ in range(KILLS)] or list(FEW)
    with (
        running_broker(tmp_path / "kafka") as broker,
        stqsh.connect(home=tmp_path, temporary=True) as session,
    ):
        make_topic(broker.address, "in", PARTITIONS)
        make_topic(broker.address, "out", 1)
        _define(session, broker)
        folded = Folded(tmp_path / "received.jsonl")
        with (
            _running(start("receive", broker.address, "out", tmp_path / "received.jsonl")) as receiver,
            _running(start("send", broker.address, "in", RECORDS, RATE)) as sender,
        ):
            disturber = Disturber(session, draw, tmp_path)
            for number, name in enumerate(names):
                folded.await_more(50, sender)
                time.sleep(draw.uniform(0, 2))
                until = time.monotonic() + PATIENCE_S
                while not disturb(name, disturber, broker, psutil.Process(receiver.pid)):
                    assert time.monotonic() < until, f"there is no {name}"
                    time.sleep(0.05)
                    _restart(session)  # an engine whose Java was killed while it started has ended
                if number == 0:  # the sender waits for it before its second half
                    add_partitions(broker.address, "in", PARTITIONS + 1)
                _restart(session)
            expected, until = answers(RECORDS), time.monotonic() + PATIENCE_S
            seen = -1
            while folded.rows != expected and time.monotonic() < until:
                time.sleep(0.2)
                folded.look()
                _restart(session)
                if folded.seen > seen:
                    seen, until = folded.seen, time.monotonic() + PATIENCE_S
            assert sender.wait() == 0
        statuses = stream_statuses(session.connection.db)
        print(f"seed {SEED}: {RECORDS} records, {folded.seen} updates, {len(names)} disturbances: {names}")
    assert folded.faults == []
    assert folded.rows == expected
    assert [status.rows for status in statuses.values()] == [RECORDS] * 2


def _restart(session: Session) -> None:
    """Start the engine again where its parent was killed, too."""
    try:
        session.start_engine(wait=False)
    except StqshError:
        time.sleep(0.1)
