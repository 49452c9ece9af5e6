"""A session moves between one machine and hosts of a cluster, and prints what it would have printed.

From one machine it goes to a cluster by a savepoint. There the driver's host is lost with its disk while a
batch runs: another host continues from the storage. By another savepoint it goes back to one machine.
"""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml
from support.local import local_session
from support.mixed import archived_elsewhere, mixed_script
from support.running import run_script

from engine.test_cluster_kills import words
from stqsh.client.api import Session, connect
from stqsh.client.read.subscription import UpdateReader
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import Target
from stqsh.storage.home import SessionHome

STQSH = (sys.executable, "-m", "stqsh")
ANSWER = b'{"row"'
"""How the answers of SELECT begin, without the numbers of their statements."""
STEPS = 24
ASKED = """
SELECT COUNT(*) AS n, SUM(x) AS x FROM taxis INSIDE RECT(0, 0, 7, 7);
SELECT COUNT(*) AS n, SUM(y) AS y FROM posts WHERE ts > '1960-01-01';
"""
FIRST = f"RUN 3 STEPS; REPARTITION fleet USING grid; RUN 2 STEPS;{ASKED}"
"""What is run before the first savepoint."""
STRUCK = (
    f"RUN 2 STEPS; REPARTITION fleet USING quadtree; REPARTITION ships USING grid;{ASKED}",
    "RUN 6 STEPS;",
)
"""What is run on the host that is lost in the second part, which another host brings to its end."""
CONTINUED, LAST = f"RUN 2 STEPS;{ASKED}", f"RUN 9 STEPS;{ASKED}"
"""What is run on the other host before the second savepoint, and after that."""
GENERATED = """
CREATE MOVING STREAM {name} FROM GENERATOR 'network' (objects => 60, bounds => '0, 0, 0.2, 0.2') TICK 1 s;
REGISTER QUERY near_{name} AS SELECT oid, DISTANCE FROM {name} NEAREST 5 TO (0.05, 0.05);
"""


def start(folder: Path, arguments: list[str], out: Path) -> subprocess.Popen[bytes]:
    """Start a command; what it prints goes to a file, and its errors beside it."""
    environ = {**os.environ, "STQSH_HOME": str(folder / "homes")}
    with out.open("wb") as printed, out.with_suffix(".err").open("wb") as errors:
        return subprocess.Popen([*STQSH, *arguments], env=environ, stdout=printed, stderr=errors)


def stqsh(folder: Path, *arguments: str) -> list[bytes]:
    """Run a command to its end; the lines that it prints."""
    out = folder / "printed.jsonl"
    code = start(folder, [*arguments], out).wait()
    assert code == 0, out.with_suffix(".err").read_text(encoding="utf-8")
    return printed_lines(out)


def write_profile(folder: Path, name: str, records: int, settings: dict[str, object]) -> str:
    """Write a profile whose batches have so many records at most, or one step."""
    file, engine = folder / f"{name}.yaml", {"slots": 2, "memory": "1g", "max_records_per_batch": records}
    file.write_text(yaml.safe_dump({"engine": engine} | settings), encoding="utf-8")
    return str(file)


@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.timeout(1500)
def test_a_session_goes_from_one_machine_to_a_cluster_and_back(tmp_path: Path) -> None:
    script = mixed_script(tmp_path, seed=2, steps=STEPS)
    before, *_ = script.read_text(encoding="utf-8").split("\nRUN")
    before += "".join(GENERATED.format(name=name) for name in ("fleet", "ships"))
    spark = {"master": "local-cluster[2,1,1024]", "executor.memory": "700m"}
    stored = {"session": {"storage": f"file://{tmp_path}/storage"}}
    one, cluster = (
        write_profile(tmp_path, "one", 1_000_000, {}),
        write_profile(tmp_path, "cluster", 120, {"spark": spark, **stored}),
    )

    def arguments(session: str, profile: str, text: str) -> list[str]:
        script.write_text(text, encoding="utf-8")
        return ["run", str(script), "--session", session, "--profile", profile, "--format", "jsonl"]

    def printed(session: str, profile: str, text: str) -> list[bytes]:
        lines = stqsh(tmp_path, *arguments(session, profile, text))
        stqsh(tmp_path, "stop", session)
        return lines

    def moved(session: str, to: str, profile: str) -> None:
        stqsh(tmp_path, "restore", to, "FROM", f"{tmp_path}/of-{session}", "--profile", profile)

    def saves(session: str) -> str:
        return f"\nSAVE TO '{tmp_path}/of-{session}';\n"

    with local_session(tmp_path / "local", slots=2, published=True) as session:
        whole = f"{archived_elsewhere(before)}\n{FIRST}{''.join(STRUCK)}{CONTINUED}{LAST}"
        printed_by_one = run_script(session, whole, script)
        expected = [without_number(line) for line in printed_by_one.splitlines()]
        log = whole_log(session)
    ends = [at + 1 for at, line in enumerate(expected) if line.startswith(ANSWER)][1::2]
    assert len(ends) == 4, "each part ends with two answers"

    assert up_to_answers(printed("a", one, f"{before}\n{FIRST}{saves('a')}")) == expected[: ends[0]]
    moved("a", "b", cluster)
    out = tmp_path / "struck.jsonl"
    client = start(tmp_path, arguments("b", cluster, "".join(STRUCK)), out)
    lose_host(client, SessionHome(tmp_path / "homes" / "b"), out)
    struck = printed_lines(out)
    assert len(struck) > ends[1] - ends[0] and struck == expected[ends[0] :][: len(struck)]
    continued = printed("b", cluster, f"{CONTINUED}{saves('b')}")
    assert (
        len(continued) > len(CONTINUED.splitlines()) and continued == expected[: ends[2]][-len(continued) :]
    )
    moved("b", "c", one)
    assert printed("c", one, LAST) == expected[ends[2] :]
    with connect("c", home=tmp_path / "homes", profile=one, autoplay=False) as session:
        assert whole_log(session) == log


def lose_host(client: subprocess.Popen[bytes], home: SessionHome, out: Path) -> None:
    """Lose the driver's host with its disk and its memory, while a client waits for its last RUN."""
    while not is_in_last_run(printed_lines(out)):
        assert client.poll() is None, out.with_suffix(".err").read_text(encoding="utf-8")
        time.sleep(0.05)
    time.sleep(random.Random(str(home.path)).uniform(0.0, 2.0))
    assert client.poll() is None, "the last RUN takes long enough"
    roots = [one for one in psutil.process_iter() if f"--home {home.path}" in words(one)]
    for victim in [psutil.Process(client.pid), *roots, *(one for root in roots for one in below(root))]:
        with suppress(psutil.NoSuchProcess):
            victim.kill()
    client.wait()
    shutil.rmtree(home.arena.folder, ignore_errors=True)
    shutil.rmtree(home.path)


def below(process: psutil.Process) -> list[psutil.Process]:
    """The processes below one, none if it has ended."""
    with suppress(psutil.Error):
        return process.children(recursive=True)
    return []


def is_in_last_run(lines: list[bytes]) -> bool:
    """Whether updates follow the two answers."""
    return sum(line.startswith(ANSWER) for line in lines) == 2 and not lines[-1].startswith(ANSWER)


def whole_log(session: Session) -> bytes:
    """All updates of a session from its first step, whoever has read them."""
    out = io.BytesIO()
    writer = open_writer("jsonl", Target(out))
    with UpdateReader(session.connection, -1) as reader:
        for updates in reader.poll(session.progress().batch):
            writer.updates(updates)
    return out.getvalue()


def up_to_answers(lines: list[bytes]) -> list[bytes]:
    """What was printed before the SAVE: a script that has made its session runs to the end of the streams."""
    last = max(number for number, line in enumerate(lines) if line.startswith(ANSWER))
    return lines[: last + 1]


def printed_lines(out: Path) -> list[bytes]:
    """The whole lines in a file, without the numbers of statements."""
    whole, _, _ = out.read_bytes().rpartition(b"\n")
    return [without_number(line) for line in whole.splitlines()]


def without_number(line: bytes) -> bytes:
    """What is printed, without the number of the statement in its script."""
    return re.sub(rb'^{"statement":\d+,', b"{", line)
