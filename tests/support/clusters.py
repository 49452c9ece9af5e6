"""Clusters of hosts that share nothing: Spark's master and workers, HDFS, a server of S3, Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import pyspark
import yaml

from stqsh.broker.kafka import bring_jars
from stqsh.engine.spark.maven import bring, java
from stqsh.engine.spark.object_store import HADOOP
from support.hosts import ROOT, Host, Hosts, until
from support.s3 import BUCKET, CREDENTIALS

_SPARK = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
EXECUTOR = "--executor-i[d]"
"""The pattern of an executor's command line, which does not match a search for it."""
_QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""Java compiles for a short life: in most tests an executor has only some dozens of batches."""
_ASKED = (_QUICK_JAVA, "-Xmx256m")
"""For Java processes of which a test asks little."""


def hdfs_jars() -> Path:
    """The jars of HDFS (106 MB), brought once; raises LibraryMissingError."""
    return bring(f"hdfs-{HADOOP}", "org.apache.hadoop", "hadoop-client-minicluster", HADOOP)


@dataclass
class Cluster:
    """A cluster that runs: its hosts, and what processes of it can be struck."""

    folder: Path
    hosts: Hosts
    services: Host
    driver: Host
    environ: dict[str, str]
    binds: Mapping[str, Path]
    workers: dict[str, Host] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _number: int = 0

    @property
    def master(self) -> str:
        """The URL of the master."""
        return f"spark://{self.services.address}:7077"

    def add_worker(self, cores: int = 1, memory: str = "1400m") -> Host:
        """Bring up a further host with a worker of Spark's, which has nothing of another host's disk."""
        self._number += 1
        name = f"worker-{self._number}"
        binds = {"spark": _SPARK, "java": Path(java()).parent.parent, "conf": self.folder / "conf"}
        binds["cache/stqsh"] = platformdirs.user_cache_path("stqsh")  # for its compiled kernels
        host = self.hosts.add(name, binds | self.binds)
        self.workers[name] = host
        self.start_worker(name, cores, memory)
        return host

    def start_worker(self, name: str, cores: int = 1, memory: str = "1400m") -> None:
        """Start the worker of a host, for the first time or again."""
        host, log = self.workers[name], self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        host.run("mkdir", "-p", "/tmp/home", "/tmp/work", "/tmp/local")
        words = ["--host", host.address, "--webui-port", "0", "--cores", str(cores), "--memory", memory]
        words += ["--properties-file", "/srv/conf/spark.conf"]
        environ = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/tmp/home",
            "XDG_CACHE_HOME": "/srv/cache",
            "JAVA_HOME": "/srv/java",
            "SPARK_HOME": "/srv/spark",
            "SPARK_LOCAL_IP": host.address,
            "SPARK_LOCAL_DIRS": "/tmp/local",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_JAVA,
            **self.environ,
        }
        main = f"{_DEPLOY}.worker.Worker"
        command = ["/srv/spark/bin/spark-class", main, *words, "--work-dir", "/tmp/work", self.master]
        self.processes[name] = host.start(command, log, environ)
        until("Successfully registered with master", log)

    def kill_executor(self, worker: str) -> None:
        """Kill the Java process of the executor on a host, which has one."""
        assert self.workers[worker].signal(EXECUTOR), f"no executor on {worker}"

    def lose_worker(self, name: str) -> None:
        """Lose a host with its disk and its memory."""
        self.hosts.lose(self.workers.pop(name))
        self.processes.pop(name).wait()

    def profile(self, name: str, settings: Mapping[str, str | int]) -> Path:
        """Write a profile for sessions on this cluster."""
        usual: dict[str, str | int] = {
            "spark.master": self.master,
            "spark.executor.memory": "700m",
            "spark.executor.cores": 1,
            "engine.slots": 2,
            "engine.memory": "1g",
            "session.home_root": str(self.folder / "homes"),
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(usual | dict(settings)), encoding="utf-8")
        return file

    def start(self, profile: Path, words: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
        """Start stqsh on the driver's host; what it prints goes to a file, and its errors beside it."""
        command = [sys.executable, "-m", "stqsh", *words, "--profile", str(profile)]
        environ = {**os.environ, **CREDENTIALS, **self.environ, "PYTHONPATH": str(ROOT)}
        environ.pop("STQSH_HOME", None)
        with out.open("wb") as printed, out.with_suffix(".err").open("wb") as errors:
            return subprocess.Popen(
                self.driver.command(command), env=environ, stdout=printed, stderr=errors, cwd=self.folder
            )

    def run(self, profile: Path, script: str, name: str = "script", patience_s: float = 600) -> bytes:
        """Run a script on the cluster to its end; what it prints as jsonl."""
        file, out = self.folder / f"{name}.stq", self.folder / f"{name}.jsonl"
        file.write_text(script, encoding="utf-8")
        process = self.start(profile, ["run", str(file), "--format", "jsonl"], out)
        code = process.wait(patience_s)
        assert code == 0, out.with_suffix(".err").read_text() + self.said()
        return out.read_bytes()

    def said(self) -> str:
        """The last lines of the engines' logs, for those who look for the cause of a failure."""
        logs = sorted((self.folder / "homes").glob("*/engine.log"))
        return "\n".join(log.read_text(errors="replace")[-3000:] for log in logs)


@contextmanager
def cluster(
    folder: Path,
    *,
    workers: int = 2,
    environ: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    binds: Mapping[str, Path] | None = None,
) -> Iterator[Cluster]:
    """A standalone master, and workers of one core and 1.4 GB each on hosts of their own.

    Args:
        folder: for logs, homes and scripts; no host sees it but the driver's and that of the services.
        workers: how many hosts there are at first.
        environ: variables of the master's, the workers' and the sessions' environment.
        settings: of Spark's, for master and workers.
        binds: what else hosts have of this machine, by their path below /srv.
    """
    (folder / "conf").mkdir()
    given = "".join(f"{key} {value}\n" for key, value in (settings or {}).items())
    (folder / "conf" / "spark.conf").write_text(given, encoding="utf-8")
    with Hosts(folder) as hosts:
        services, driver = hosts.add("services"), hosts.add("driver")
        made = Cluster(folder, hosts, services, driver, dict(environ or {}), binds or {})
        try:
            _start_master(made)
            for _ in range(workers):
                made.add_worker()
            yield made
        finally:
            for process in made.processes.values():
                process.kill()


def _start_master(made: Cluster) -> None:
    log, address = made.folder / "master.log", made.services.address
    environ = {
        **os.environ,
        "JAVA_HOME": str(Path(java()).parent.parent),
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": address,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK_JAVA,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false -Dspark.worker.timeout=20",
        **made.environ,
    }
    words = ["--host", address, "--port", "7077", "--webui-port", "0"]
    words += ["--properties-file", str(made.folder / "conf" / "spark.conf")]
    command = [str(_SPARK / "bin" / "spark-class"), f"{_DEPLOY}.master.Master", *words]
    made.processes["master"] = made.services.start(command, log, environ)
    until("I have been elected leader", log)


def start_hdfs(made: Cluster) -> str:
    """Start a name node and a data node; the URI of a folder of theirs."""
    address, conf = made.services.address, made.folder / "hdfs-conf"
    conf.mkdir(exist_ok=True)
    settings = {
        "fs.defaultFS": f"hdfs://{address}:9000",
        "hadoop.tmp.dir": str(made.folder / "hdfs"),
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.http-address": f"{address}:0",
        "dfs.datanode.address": f"{address}:0",
        "dfs.datanode.http.address": f"{address}:0",
        "dfs.datanode.ipc.address": f"{address}:0",
        "dfs.datanode.hostname": address,
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    }
    rows = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (conf / name).write_text(f"<configuration>{rows}</configuration>", encoding="utf-8")
    if not (made.folder / "hdfs" / "dfs" / "name").exists():
        made.services.run(*_hdfs_command(conf, _NAMENODE), "-format", "-nonInteractive", environ=os.environ)
    made.processes["namenode"] = _start_hdfs_node(made, _NAMENODE, "namenode")
    made.processes["datanode"] = _start_hdfs_node(made, _DATANODE, "datanode")
    wait_for_port(made.services, 9000)
    return f"hdfs://{address}:9000/stqsh"


def restart_name_node(made: Cluster, after_s: float) -> None:
    """Kill the name node of HDFS, and start it again after a while."""
    made.services.signal("server.namenode.NameNod[e]")
    time.sleep(after_s)
    made.processes["namenode"] = _start_hdfs_node(made, _NAMENODE, "namenode")
    wait_for_port(made.services, 9000)


def _start_hdfs_node(made: Cluster, main: str, name: str) -> subprocess.Popen[bytes]:
    command = _hdfs_command(made.folder / "hdfs-conf", main)
    return made.services.start(command, made.folder / f"{name}.log", os.environ)


def _hdfs_command(conf: Path, main: str) -> list[str]:
    return [java(), *_ASKED, "-cp", f"{conf}:{hdfs_jars()}/*", main]


def start_s3(made: Cluster, fault: Path | None = None) -> str:
    """Start a server of S3 with a bucket; the URI of a folder of its.

    With `fault`, a gate stands before it; the file says what is wrong, see `support.s3`.
    """
    address, port = made.services.address, 5000 if fault is None else 5001
    command = [sys.executable, "-m", "moto.server", "-H", address, "-p", str(port)]
    environ = {**os.environ, **CREDENTIALS, "PYTHONPATH": str(ROOT / "tests")}
    made.processes["s3"] = made.services.start(command, made.folder / "s3.log", environ)
    if fault is not None:
        gate = [sys.executable, "-m", "support.s3", address, "5000", str(port), str(fault)]
        wait_for_port(made.services, port)
        made.processes["gate"] = made.services.start(gate, made.folder / "gate.log", environ)
    wait_for_port(made.services, 5000)
    code = (
        "from pyarrow import fs; import sys; "
        "fs.S3FileSystem(endpoint_override=sys.argv[1], scheme='http', region='us-east-1', "
        "allow_bucket_creation=True).create_dir(sys.argv[2])"
    )
    made.services.run(
        sys.executable, "-c", code, f"{address}:5000", BUCKET, environ={**os.environ, **CREDENTIALS}
    )
    return f"s3://{BUCKET}/stqsh?endpoint_override={address}:5000&scheme=http&region=us-east-1"


def start_kafka(made: Cluster) -> str:
    """Start a broker of Kafka's; its address."""
    bring_jars()
    address = made.services.address
    command = [sys.executable, "-m", "stqsh.broker", "9092", address]
    log = made.folder / "kafka.log"
    made.processes["kafka"] = made.services.start(command, log, {**os.environ, "PYTHONPATH": str(ROOT)})
    until(f"{address}:9092", log)
    return f"{address}:9092"


def wait_for_port(host: Host, port: int, patience_s: float = 120) -> None:
    """Wait until something listens on a host."""
    code = f"exec 3<>/dev/tcp/{host.address}/{port}"
    deadline = time.monotonic() + patience_s
    while subprocess.run(
        host.command(["bash", "-c", code]), stderr=subprocess.DEVNULL, check=False
    ).returncode:
        assert time.monotonic() < deadline, f"nothing listens on {host.name}:{port}"
        time.sleep(0.2)
