"""The broker of the tests: it keeps what it has been given, also when it is killed and started again."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.kafka import consume, make_topic, send

from stqsh.broker.kafka import KafkaBroker, running_broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_message_comes_back(broker: KafkaBroker, topic: str) -> None:
    send(broker.address, topic, [(b"k", b"v"), (b"k", None)])
    assert consume(broker.address, topic, 2) == [(b"k", b"v"), (b"k", None)]


def test_a_killed_broker_starts_again_with_its_messages(kafka_jars: Path, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        topic = make_topic(broker.address, "kept", 1)
        send(broker.address, topic, [(b"k", b"1")])
        broker.stop(signal.SIGKILL)
        broker.start()
        send(broker.address, topic, [(b"k", b"2")])
        assert consume(broker.address, topic, 2) == [(b"k", b"1"), (b"k", b"2")]


_RUNS = """
import signal, sys
from pathlib import Path
from stqsh.broker.kafka import running_broker
with running_broker(Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    signal.pause()
"""


def test_a_broker_dies_with_the_process_that_started_it(kafka_jars: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RUNS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        broker = psutil.Process(int(starter.stdout.readline()))
        starter.kill()
    gone, alive = psutil.wait_procs([broker], timeout=30)
    assert (gone, alive) == ([broker], [])
