"""A real Apache Kafka broker on loopback, for tests, measurements and the demonstration.

`bring_jars` lets Ivy, which is part of Spark, download Kafka's jars into the user's cache, once (45 jars, 43
MB, from Maven Central unless `STQSH_MAVEN` names another repository). A `KafkaBroker` is one node in KRaft
mode, with its data in a directory given by the caller.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stqsh.engine.spark.maven import bring, java
from stqsh.errors import StqshError

VERSION = "4.1.1"
LOOPBACK = "127.0.0.1"
_SCALA = "2.13"
_START_S = 60.0
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners={listeners},CONTROLLER://127.0.0.1:{control}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
  SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=100
"""
_GUARD = 'cat >/dev/null; kill -KILL "$0" 2>/dev/null'
"""The script of the shell that guards a process: its input ends when the parent of both has died."""

_CLUSTER_ID = "c3Rxc2hzdHFzaHN0cXNoMA"


def bring_jars() -> Path:
    """Return the directory with Kafka's jars; download them if they are not there.

    Raises:
        LibraryMissingError: they cannot be downloaded.
    """
    return bring(f"kafka-{VERSION}", "org.apache.kafka", f"kafka_{_SCALA}", VERSION)


class KafkaFailedError(StqshError):
    """A broker cannot start."""


@dataclass(frozen=True)
class BrokerSecurity:
    """The listeners of a broker in addition to the plain one, and the credentials they require.

    Attributes:
        protocols: the protocol of each listener: SSL, SASL_PLAINTEXT, SASL_SSL.
        settings: lines of `server.properties` for them.
        scram: SCRAM users in the format of Kafka's storage tool: `SCRAM-SHA-256=[name=…,password=…]`.
    """

    protocols: tuple[str, ...] = ()
    settings: str = ""
    scram: tuple[str, ...] = ()


class KafkaBroker:
    """One node of Kafka on loopback.

    Args:
        directory: the folder for its data, settings and log.
        jars: the folder returned by `bring_jars`.
        port: the port on which it listens; 0 for any free port.
        security: further listeners, which require credentials or encrypt.
        host: the address of this host on which it listens.
    """

    def __init__(
        self,
        directory: Path,
        jars: Path,
        port: int = 0,
        security: BrokerSecurity | None = None,
        host: str = LOOPBACK,
    ) -> None:
        security = security or BrokerSecurity()
        self._directory, self._jars, self._host = directory, jars, host
        self._ports = {"PLAINTEXT": port or _free_port()}
        self._ports |= {protocol: _free_port() for protocol in security.protocols}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._properties = directory / "server.properties"
        listeners = ",".join(f"{protocol}://{host}:{port}" for protocol, port in self._ports.items())
        text = _PROPERTIES.format(listeners=listeners, control=_free_port(), data=directory / "data")
        text += security.settings
        directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(text, encoding="utf-8")
        users = [word for user in security.scram for word in ("--add-scram", user)]
        self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._properties), *users)

    @property
    def address(self) -> str:
        """The address for clients."""
        return self.address_of("PLAINTEXT")

    def address_of(self, protocol: str) -> str:
        """Return the address for clients of a security protocol."""
        return f"{self._host}:{self._ports[protocol]}"

    @property
    def pid(self) -> int:
        """The process of a running broker."""
        assert self._process is not None, "the broker runs"
        return self._process.pid

    def start(self) -> None:
        """Start the broker, or restart it with its data, and wait until it answers.

        It runs in a process session of its own, so that Ctrl-C does not stop it before its clients. If this
        process is killed, a guard process kills the broker.
        """
        command = [java(), "-Xmx512m", "-cp", f"{self._jars}/*", "kafka.Kafka", str(self._properties)]
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=_environ(),
            )
        guard = ["sh", "-c", _GUARD, str(self._process.pid)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
        until = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise KafkaFailedError(f"Kafka does not start: {self._last_words()}")
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the broker: cleanly, or at once with SIGKILL."""
        if self._process is None:
            return
        self._let_go()
        self._process.send_signal(how)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _let_go(self) -> None:
        """Stop the guard, which must not kill a process that reuses the broker's pid."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self._host, self._ports["PLAINTEXT"]), timeout=1):
                pass
            return bool(AdminClient({"bootstrap.servers": self.address}).list_topics(timeout=5).brokers)
        except (OSError, KafkaException):
            return False

    def _run(self, *words: str) -> None:
        command = [java(), "-cp", f"{self._jars}/*", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environ())
        if done.returncode:
            raise KafkaFailedError(f"{words[0]} fails: {(done.stderr or done.stdout).strip()[-300:]}")

    def _last_words(self) -> str:
        log = self._directory / "broker.log"
        return log.read_text(errors="replace").strip()[-300:] if log.exists() else "it wrote nothing"


def _environ() -> dict[str, str]:
    """Return an environment for Java without options that make Java write to standard error."""
    return {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@contextmanager
def running_broker(
    directory: Path | None = None,
    port: int = 0,
    security: BrokerSecurity | None = None,
    host: str = LOOPBACK,
) -> Iterator[KafkaBroker]:
    """Run a broker within the context, in a temporary directory unless one is given."""
    work = directory or Path(tempfile.mkdtemp(prefix="stqsh-kafka-"))
    broker = KafkaBroker(work, bring_jars(), port, security, host)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
        if directory is None:
            shutil.rmtree(work, ignore_errors=True)
