"""Records by hand and by POST through Spark: each reaches a query once, though the engine is killed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.terminal import STQSH, environment

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
COLUMNS = "(id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)"
QUERY = "REGISTER QUERY q AS SELECT id FROM posts INSIDE (0, 0, 10, 10);"


class Commands:
    """Commands on a session in a folder of its own."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder, self._environ = folder, environ

    def __call__(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [*STQSH, *words, "-s", "ways"]
        return subprocess.run(
            command,
            check=False,
            cwd=self.folder,
            env=self._environ,
            input=text,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def start(self, text: str) -> subprocess.Popen[str]:
        """Begin statements that go on."""
        command = [*STQSH, "-s", "ways", "-c", text]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def keys(self, count: int) -> list[int]:
        """Return the keys of the first updates of the query."""
        found = self("-c", f"TAIL q FROM START LIMIT {count};").stdout
        return [json.loads(line)["key"] for line in found.splitlines()]

    def kill_engine(self) -> None:
        content = (self.folder / "home" / "ways" / "engine.json").read_text()
        os.kill(json.loads(content)["pid"], signal.SIGKILL)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands on one session, which all tests share: an engine that is killed comes back."""
    folder = tmp_path_factory.mktemp("ways")
    with environment(folder / "home") as environ:
        commands = Commands(folder, environ)
        yield commands
        commands("stop")


@pytest.fixture
def run(commands: Commands) -> Iterator[Commands]:
    """The commands; the session has no streams before and after."""
    yield commands
    done = commands("-c", "DROP QUERY IF EXISTS q; DROP STREAM IF EXISTS posts; DROP STREAM IF EXISTS buses;")
    assert done.returncode == 0, done.stderr


def rows(first: int, last: int) -> str:
    return "id,lon,lat,ts\n" + "".join(f"{i},1,1,2026-01-01\n" for i in range(first, last))


def test_each_record_that_is_fed_counts_once(run: Commands) -> None:
    run("-c", f"CREATE EVENT STREAM posts {COLUMNS} FROM INSERTS; PLAY posts; {QUERY}")
    assert run("feed", "posts", text=rows(0, 500)).stderr == "500 records fed to posts\n"
    assert run("-c", "INSERT INTO posts VALUES (500, 1, 1, NOW), (501, 1, 1, NOW);").returncode == 0
    assert sorted(run.keys(502)) == list(range(502))
    told = run("feed", "posts", text=rows(502, 1000) + "x,1,1,2026-01-01\n")
    assert told.stderr == "498 records fed to posts; 1 could not be read: SHOW DEAD LETTERS says why\n"
    run.kill_engine()
    assert run("feed", "posts", text=rows(1000, 1500)).returncode == 0
    assert sorted(run.keys(1500)) == list(range(1500))
    [_, letter] = run("-c", "SHOW DEAD LETTERS;").stdout.splitlines()
    assert [json.loads(letter)["row"][name] for name in ("file", "line")] == ["stdin", 500]


def test_the_listener_comes_back_with_its_token(run: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
    made = run("-c", f"CREATE EVENT STREAM posts {COLUMNS} FROM HTTP PORT {port}; PLAY posts; {QUERY}")
    token = made.stderr.partition("Bearer ")[2].split()[0]

    def post(key: int) -> int:
        body = json.dumps({"id": key, "lon": 1, "lat": 1, "ts": "2026-01-01"})
        for _ in range(600):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request("POST", "/", body, {"Authorization": f"Bearer {token}"})
                return connection.getresponse().status
            except OSError:
                time.sleep(0.2)
            finally:
                connection.close()
        return 0

    assert [post(1), post(2)] == [200, 200]
    run.kill_engine()
    assert post(3) == 200
    assert run.keys(3) == [1, 2, 3]


def test_an_alert_acts_while_no_shell_is_there(run: Commands) -> None:
    alert = "CREATE ALERT a ON q ENTER EVERY 100 ms DO RUN 'cat >> alerts.jsonl';"
    run("-c", f"CREATE EVENT STREAM posts {COLUMNS} FROM INSERTS; PLAY posts; {QUERY}")
    assert run("-c", alert).returncode == 2
    assert run("--allow-run", "-c", alert).returncode == 0
    found = run.folder / "alerts.jsonl"
    for key in range(3):
        assert run("-c", f"INSERT INTO posts VALUES ({key}, 1, 1, NOW);").returncode == 0
        until = time.monotonic() + 120
        while not (found.exists() and found.read_text().count("\n") > key) and time.monotonic() < until:
            time.sleep(0.1)
    lines = [json.loads(line) for line in found.read_text().splitlines()]
    assert [(line["query"], line["op"], line["key"], line["row"]) for line in lines] == [
        ("q", "+", key, {"id": key}) for key in range(3)
    ]
    [shown] = run("-c", "SHOW ALERTS;").stdout.splitlines()
    assert [json.loads(shown)["row"][name] for name in ("done", "failed")] == [3, 0]
    assert run("-c", "DROP ALERT a;").returncode == 0


def test_an_object_is_followed_record_by_record_in_a_pipe(run: Commands) -> None:
    columns = COLUMNS.replace("id BIGINT", "id STRING")
    run("-c", f"CREATE MOVING STREAM buses {columns} FROM INSERTS; PLAY buses;")
    insert = "INSERT INTO buses VALUES ('a', {0}, 50, NOW), ('b', {0}, 50, NOW);"
    assert run("-c", insert.format(1) + "RUN 1 STEPS;").returncode == 0
    with run.start("FOLLOW 'a';") as following:
        assert following.stdout is not None
        found = []
        for lon in (1, 2, 3):
            if lon > 1:
                assert run("-c", insert.format(lon)).returncode == 0
            found.append(json.loads(following.stdout.readline()))
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130
    assert [(line["op"], line["key"], line["row"]["lon"]) for line in found] == [
        ("+", "a", 1.0),
        ("+", "a", 2.0),
        ("+", "a", 3.0),
    ]
