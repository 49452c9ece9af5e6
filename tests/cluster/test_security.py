"""Who may join a cluster, and where its secret is not: two workers, a secret, encrypted messages."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import yaml
from support.local import local_session
from support.running import run_script
from support.standalone import standalone

SCRIPT = """
CREATE MOVING STREAM cars FROM FILE '{folder}/cars.csv' REPORT EVERY 30 s;
REGISTER QUERY inside AS SELECT oid FROM cars INSIDE (0, 0, 1, 1);
RUN;
SELECT COUNT(*) AS here FROM cars;
"""


def write_script(folder: Path) -> Path:
    rows = ["oid,lon,lat,ts"]
    rows += [f"c{n},{0.05 * n + 0.03 * second:.3f},0.5,{second}" for second in range(4) for n in range(30)]
    (folder / "cars.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    file = folder / "script.stq"
    file.write_text(SCRIPT.format(folder=folder), encoding="utf-8")
    return file


def write_profile(folder: Path, master: str, secret: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "secret").write_text(f"{secret}\n", encoding="utf-8")
    settings = {
        "spark": {
            "master": master,
            "executor.memory": "700m",
            "authenticate": "true",
            "authenticate.secret.file": str(folder / "secret"),
            "network.crypto.enabled": "true",
            "io.encryption.enabled": "true",
        },
        "engine": {"slots": 2, "memory": "1g"},
    }
    file = folder / "secured.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def start(folder: Path, script: Path, profile: Path) -> subprocess.Popen[bytes]:
    words = ["run", str(script), "--profile", str(profile), "--session", "kept", "--format", "jsonl"]
    environ = {**os.environ, "STQSH_HOME": str(folder / "home")}
    return subprocess.Popen(
        [sys.executable, "-m", "stqsh", *words], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(folder: Path, script: Path, profile: Path) -> subprocess.CompletedProcess[bytes]:
    process = start(folder, script, profile)
    out, told = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, told)


@contextmanager
def watched_command_lines(secret: str) -> Iterator[list[str]]:
    """The names of processes in whose command line the secret was seen while the context lasted."""
    seen: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            for process in psutil.process_iter(["name", "cmdline"]):
                if any(secret in word for word in process.info["cmdline"] or ()):
                    seen.append(process.info["name"])

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_secured_cluster_prints_the_same_its_secret_is_nowhere_and_who_lacks_it_does_not_join(
    tmp_path: Path,
) -> None:
    secret = secrets.token_hex(24)
    script = write_script(tmp_path)
    with local_session(tmp_path / "local", slots=1) as session:
        expected = run_script(session, script.read_text())
    daemons = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.network.crypto.enabled": "true",
    }
    stranger = tmp_path / "stranger"
    with standalone(tmp_path, workers=2, memory="1g", settings=daemons) as master:
        profile = write_profile(tmp_path, master, secret)
        # Spark asks a master for a minute that does not accept it.
        refused = start(stranger, script, write_profile(stranger, master, secrets.token_hex(24)))
        try:
            with watched_command_lines(secret) as seen:
                done = run(tmp_path, script, profile)
            assert done.returncode == 0, done.stderr.decode()
            assert done.stdout == expected
            shown = run(tmp_path, write_settings(tmp_path), profile)
            assert b"spark.network.crypto.enabled" in shown.stdout
            stop = [sys.executable, "-m", "stqsh", "stop", "kept"]
            subprocess.run(stop, env={**os.environ, "STQSH_HOME": str(tmp_path / "home")}, check=True)
            out, told = refused.communicate()
        finally:
            refused.kill()
    assert (refused.returncode, out) == (1, b"")
    why = b"Spark does not start: Java has ended: the cluster has not accepted the session"
    assert why in told, told.decode() + log_of(stranger)
    assert seen == []
    allowed = {tmp_path / "secret", tmp_path / "spark-daemons.conf"}
    files = {path for path in tmp_path.rglob("*") if path.is_file()} - allowed
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    assert secret.encode() not in shown.stdout + shown.stderr + done.stderr + told


def write_settings(folder: Path) -> Path:
    file = folder / "settings.stq"
    file.write_text("SHOW SETTINGS LIKE 'spark.%';\n", encoding="utf-8")
    return file


def log_of(folder: Path) -> str:
    return (folder / "home" / "kept" / "engine.log").read_text(errors="replace")[-4000:]
