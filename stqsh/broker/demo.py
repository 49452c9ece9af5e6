"""From an empty broker to live updates: `make kafka-demo`.

It fetches Apache Kafka, runs it on loopback, sends the sample taxis to a topic as if they were reporting now,
and runs a script that reads the topic and follows a query.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from stqsh.broker.kafka import running_broker
from stqsh.errors import StqshError

_TOPIC = "taxis"
_PER_S = 200
"""Number of reports sent per second."""
_QUIET: dict[str, str | int] = {"log_level": 0}
"""Messages to suppress, because the broker always stops before its clients here."""
_SCRIPT = """\
CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING)
  KEY oid  LOCATION (lon, lat)  TIME ts
  FROM KAFKA '{address}' TOPIC '{topic}' FORMAT JSON;
REGISTER QUERY free AS
  SELECT oid, lon, lat FROM taxis WHERE status = 'free' INSIDE (10.01, 50.01, 10.04, 50.03);
PLAY taxis;
TAIL free LIMIT 40;
"""


def reports(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the reports of the sample taxis, ordered by time."""
    found: list[dict[str, str]] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            found += csv.DictReader(lines)
    yield from sorted(found, key=lambda report: report["ts"])


def send_reports(address: str, folder: Path) -> None:
    """Send the reports; each gets the time at which it is sent."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 10, **_QUIET})
    for report in reports(folder):
        value = {
            "oid": report["oid"],
            "lon": float(report["lon"]),
            "lat": float(report["lat"]),
            "ts": datetime.now(UTC).isoformat(),
            "status": report["status"],
        }
        producer.produce(_TOPIC, orjson.dumps(value), report["oid"])
        producer.poll(0)
        time.sleep(1 / _PER_S)


def main() -> None:
    """Run the demonstration."""
    print("bringing Apache Kafka (once) and starting a broker ...", flush=True)
    with running_broker() as broker, tempfile.TemporaryDirectory(prefix="stqsh-demo-") as folder:
        admin = AdminClient({"bootstrap.servers": broker.address, **_QUIET})
        for made in admin.create_topics([NewTopic(_TOPIC, 4, 1)]).values():
            made.result(30)
        sample = Path(__file__).parents[2] / "sample_data" / "taxis"
        threading.Thread(target=send_reports, args=(broker.address, sample), daemon=True).start()
        script = Path(folder) / "live.stq"
        script.write_text(_SCRIPT.format(address=broker.address, topic=_TOPIC), encoding="utf-8")
        print(f"\n{script.read_text(encoding='utf-8')}", flush=True)
        command = [str(Path(sys.executable).with_name("stqsh")), "run", str(script)]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except StqshError as problem:
        sys.exit(str(problem))
