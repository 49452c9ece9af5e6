"""Live streams on hosts that share nothing: executors read Kafka, and dealers deal what they read."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from support.clusters import Cluster, cluster, start_hdfs, start_kafka
from support.hosts import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(1500)]

SCRIPT = """
CREATE MOVING STREAM taxis (oid BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM KAFKA '{broker}' TOPIC 'taxis' FROM EARLIEST FORMAT JSON PLANAR;
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY id LOCATION (x, y) TIME ts FROM KAFKA '{broker}' TOPIC 'posts' FROM EARLIEST FORMAT JSON
  KEEP 1 s ARCHIVE TO '{folder}/archive' PLANAR;
REGISTER QUERY corner AS SELECT oid, x FROM taxis INSIDE (0, 0, 4, 4);
REGISTER QUERY near AS SELECT oid FROM taxis NEAREST 5 TO (5, 5);
CREATE SINK files FOR corner, near TO FILE '{folder}/sink' FORMAT JSONL;
CREATE SINK sent FOR corner TO KAFKA '{broker}' TOPIC 'sent' AS UPDATES;
CREATE ALERT seen ON corner ENTER EVERY 1 s DO RUN 'cat >> {folder}/alerts';
RUN 8 STEPS;
SELECT COUNT(*) AS begun FROM taxis;
RUN 40 STEPS;
REPARTITION taxis USING grid INTO 3 SLOTS;
REPARTITION posts USING qttree INTO 4 SLOTS;
RUN 8 STEPS;
SELECT COUNT(*) AS dealt FROM taxis;
RUN 80 STEPS;
SELECT oid, x, y FROM taxis;
"""
_SEND = """
import json, sys
from support.kafka import make_topic, send
broker, topics = sys.argv[1], json.loads(sys.argv[2])
for topic, rows in topics.items():
    if sys.argv[3] == "new":
        make_topic(broker, topic, 2)
    keys = [row["oid" if "oid" in row else "id"] for row in rows]
    send(broker, topic, [(str(key).encode(), json.dumps(row).encode()) for key, row in zip(keys, rows)])
"""
_READ = """
import json, sys
from support.kafka import consume
print(json.dumps([value.decode() for _, value in consume(sys.argv[1], "sent", 1 << 30, 5) if value]))
"""
Topics = dict[str, list[dict[str, float]]]


def on_driver(made: Cluster, code: str, *words: str) -> str:
    """Run Python on the driver's host; what it prints."""
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    return made.driver.run(sys.executable, "-c", code, *words, environ=environ)


def reports(draw: random.Random, since: float, posts: Iterable[int]) -> Topics:
    """A report of each of 60 taxis, some of them twice, and posts."""
    taxis = [oid for oid in range(60) for _ in range(draw.choice((1, 1, 2)))]
    return {
        "taxis": [{"oid": oid, **place(draw), "ts": since + n / 1000} for n, oid in enumerate(taxis)],
        "posts": [{"id": id_, **place(draw), "ts": since} for id_ in posts],
    }


def place(draw: random.Random) -> dict[str, float]:
    return {axis: round(draw.uniform(0, 10), 3) for axis in "xy"}


def until_printed(out: Path, text: bytes, patience_s: float = 600) -> None:
    deadline = time.monotonic() + patience_s
    while text not in out.read_bytes():
        assert time.monotonic() < deadline, out.with_suffix(".err").read_text()
        time.sleep(0.5)


def standing(lines: Iterable[str], query: str) -> set[int]:
    """The members of a query by its updates, each of which fits what was there before."""
    members: set[int] = set()
    for line in map(json.loads, lines):
        if line.get("query") == query and "op" in line:
            assert (line["key"] in members) == (line["op"] == "-"), line
            members ^= {line["key"]}
    return members


def test_what_executors_read_of_kafka_is_dealt_shown_sent_and_archived(
    folder: Path, unpacked: Path, hdfs: None, kafka_jars: Path
) -> None:
    draw, last = random.Random(1), dict[float, tuple[float, float]]()
    with cluster(folder, workers=2, binds={"stqsh": unpacked}) as made:
        settings = {"spark.pyspark.python": "/srv/stqsh/bin/python", "session.storage": start_hdfs(made)}
        broker, file, out = start_kafka(made), folder / "live.stq", folder / "live.jsonl"
        file.write_text(SCRIPT.format(broker=broker, folder=folder), encoding="utf-8")

        def send_more(number: int) -> None:
            topics = reports(draw, time.time(), range(40 * number, 40 * number + 40))
            last.update({row["oid"]: (row["x"], row["y"]) for row in topics["taxis"]})
            on_driver(made, _SEND, broker, json.dumps(topics), "new" if number == 0 else "more")

        send_more(0)
        words = ["run", str(file), "--session", "live", "--allow-run", "--format", "jsonl"]
        process = made.start(made.profile("hosts", settings), words, out)
        for number, printed in ((1, b'"begun"'), (2, b'"dealt"')):
            until_printed(out, printed)
            send_more(number)
        assert process.wait(900) == 0, out.with_suffix(".err").read_text() + made.said()
        lines = out.read_text(encoding="utf-8").splitlines()
        found = {row["oid"]: (row["x"], row["y"]) for row in map(json.loads, lines) if "y" in row}
        assert found == last
        corner = {oid for oid, (x, y) in last.items() if x <= 4 and y <= 4}
        nearest = sorted(last, key=lambda oid: (last[oid][0] - 5) ** 2 + (last[oid][1] - 5) ** 2)[:5]
        assert standing(lines, "corner") == corner
        assert standing(lines, "near") == set(nearest)
        sunk = [line for one in sorted((folder / "sink").iterdir()) for line in one.read_text().splitlines()]
        assert standing(sunk, "corner") == corner
        assert standing(sunk, "near") == set(nearest)
        assert standing(json.loads(on_driver(made, _READ, broker)), "corner") == corner
        archived = ds.dataset(folder / "archive", partitioning="hive").to_table(columns=["id"])
        ids = archived.column("id").to_numpy()
        assert sorted(ids.tolist()) == list(range(120))
        assert '"corner"' in (folder / "alerts").read_text()
        for host in made.workers.values():
            assert host.run("sh", "-c", f"ls -A {folder} || true") == "", "a host made a home of its own"
