"""Hosts that share nothing with the driver but a URI: the same bytes as one machine prints."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from support.clusters import Cluster, cluster, start_hdfs, start_kafka, start_s3
from support.hosts import ROOT
from support.kafka_traffic import COLUMNS, PARTITIONS, Folded, answers
from support.local import local_session
from support.mixed import archived_elsewhere, mixed_script
from support.running import run_script
from support.s3 import CREDENTIALS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]
Settings: TypeAlias = dict[str, str | int]
RECORDS, RATE = 6000, 1000
"""What goes through Kafka, and how much a second."""
_BESIDE = """
CREATE SINK files FOR ALL TO FILE '{folder}/sunk' FORMAT JSONL;
CREATE SINK posted FOR q10, a00 TO HTTP 'http://{server}/';
CREATE ALERT seen ON q10 ENTER EVERY 3 s DO RUN 'cat >> {folder}/alerts.jsonl';
"""
_NOTHING = "\nDROP QUERY IF EXISTS none;\nDROP QUERY IF EXISTS none;\nDROP QUERY IF EXISTS none;\n"
"""As many statements, because what is printed has their numbers."""
_LIVE = """
CREATE MOVING STREAM m {columns} KEY oid LOCATION (lon, lat) TIME ts FROM KAFKA '{broker}' TOPIC 'in';
CREATE EVENT STREAM e {columns} KEY n LOCATION (lon, lat) TIME ts FROM KAFKA '{broker}' TOPIC 'in';
REGISTER QUERY inside AS SELECT oid, n FROM m INSIDE (0, 0, 10, 10);
REGISTER QUERY counted AS SELECT part, count(*) AS k FROM e GROUP BY part;
CREATE SINK out FOR ALL TO KAFKA '{broker}' TOPIC 'out';
PLAY m; PLAY e;
"""
_SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        with open(sys.argv[2], "ab") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer((sys.argv[1], 8000), Handler).serve_forever()
"""


def before_first_run(text: str, statements: str) -> str:
    before, run, after = text.partition("\nRUN")
    return before + statements + run + after


def printed_by_one_machine(folder: Path, file: Path) -> bytes:
    text = before_first_run(archived_elsewhere(file.read_text(encoding="utf-8")), _NOTHING)
    with local_session(folder / "local", slots=2, published=True) as session:
        return run_script(session, text, file)


def printed_while_an_executor_dies(made: Cluster, profile: Path, file: Path) -> bytes:
    """What the script prints on the cluster; an executor is killed after the script's first updates."""
    out = file.with_suffix(".jsonl")
    process = made.start(profile, ["run", str(file), "--format", "jsonl", "--allow-run"], out)
    deadline = time.monotonic() + 600
    while not out.stat().st_size:
        assert process.poll() is None and time.monotonic() < deadline, problem(made, out)
        time.sleep(0.1)
    made.kill_executor("worker-1")
    assert process.wait(600) == 0, problem(made, out)
    return out.read_bytes()


def problem(made: Cluster, out: Path) -> str:
    return out.with_suffix(".err").read_text() + made.said()


def with_what_is_beside(made: Cluster, file: Path) -> Path:
    """The script with sinks and an alert, which write to the folder; a server takes what is posted."""
    server = [sys.executable, "-c", _SERVER, made.services.address, str(made.folder / "posted.jsonl")]
    made.services.start(server, made.folder / "server.log")
    beside = _BESIDE.format(folder=made.folder, server=f"{made.services.address}:8000")
    whole = file.with_name("beside.stq")
    whole.write_text(before_first_run(file.read_text(encoding="utf-8"), beside), encoding="utf-8")
    return whole


def check_what_is_beside(folder: Path, printed: bytes) -> None:
    """Compare what sinks and the alert have written with what the script has printed."""
    updates = [line for line in printed.splitlines() if not line.startswith(b'{"statement"')]
    files = sorted((folder / "sunk").glob("*.jsonl"), key=lambda file: file.name)
    assert b"".join(file.read_bytes() for file in files).splitlines() == updates
    chosen = [line for line in updates if line.startswith((b'{"query":"q10"', b'{"query":"a00"'))]
    assert (folder / "posted.jsonl").read_bytes().splitlines() == chosen
    alerts = (folder / "alerts.jsonl").read_bytes().splitlines()
    assert alerts and set(alerts) <= set(updates)


def check_kafka(made: Cluster, settings: Settings) -> None:
    """Executors read a live stream from Kafka, and one of them dies; each update comes out once."""
    broker, environ = start_kafka(made), {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    words = [sys.executable, "-m", "support.kafka_traffic"]
    topic = partial(made.services.run, *words, "topic", broker, environ=environ)
    topic("in", str(PARTITIONS))
    topic("out", "1")

    def start(*more: str) -> subprocess.Popen[bytes]:
        return made.services.start([*words, *more], made.folder / "traffic.log", environ)

    profile = made.profile("live", settings)
    text = _LIVE.format(columns=COLUMNS, broker=broker)
    assert made.start(profile, ["-s", "live", "-c", text], made.folder / "live.txt").wait(300) == 0
    folded = Folded(made.folder / "received.jsonl")
    start("receive", broker, "out", str(made.folder / "received.jsonl"))
    sender = start("send", broker, "in", str(RECORDS), str(RATE))
    folded.await_more(100, sender)
    made.kill_executor("worker-2")
    topic("in", str(PARTITIONS + 1))
    expected, deadline = answers(RECORDS), time.monotonic() + 300
    while folded.rows != expected:
        assert time.monotonic() < deadline, made.said()
        time.sleep(0.2)
        folded.look()
    assert folded.faults == []
    asked = ["-s", "live", "--format", "jsonl", "-c", "SELECT COUNT(*) AS k, SUM(n) AS n FROM e;"]
    assert made.start(profile, asked, made.folder / "asked.jsonl").wait(120) == 0
    whole = f'{{"statement":1,"row":{{"k":{RECORDS},"n":{RECORDS * (RECORDS - 1) // 2}}}}}\n'
    assert (made.folder / "asked.jsonl").read_text() == whole
    assert made.start(profile, ["stop", "live"], made.folder / "stop.txt").wait(60) == 0


@contextmanager
def hosts(
    folder: Path, unpacked: Path, start: Callable[[Cluster], str]
) -> Iterator[tuple[Cluster, Settings]]:
    """A cluster whose storage is what `start` starts, and its settings; no host makes a home of its own."""
    with cluster(folder, workers=2, binds={"stqsh": unpacked}, environ=CREDENTIALS) as made:
        yield made, {"spark.pyspark.python": "/srv/stqsh/bin/python", "session.storage": start(made)}
        for host in made.workers.values():
            assert host.run("sh", "-c", f"ls -A {folder} || true") == "", "a host made a home of its own"


def test_all_kinds_of_questions_print_what_one_machine_prints(
    folder: Path, unpacked: Path, hdfs: None
) -> None:
    """Files are in HDFS here; in `test_strikes` a server of S3 has those of such a script."""
    file = mixed_script(folder, seed=1)
    expected = printed_by_one_machine(folder, file)
    assert expected.count(b"\n") > 1000
    with hosts(folder, unpacked, start_hdfs) as (made, settings):
        whole = with_what_is_beside(made, file)
        assert printed_while_an_executor_dies(made, made.profile("hosts", settings), whole) == expected
        check_what_is_beside(folder, expected)


@pytest.mark.usefixtures("s3", "kafka_jars")
def test_a_live_stream_comes_out_once_while_an_executor_dies(folder: Path, unpacked: Path) -> None:
    with hosts(folder, unpacked, start_s3) as (made, settings):
        check_kafka(made, settings)
