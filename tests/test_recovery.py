"""`kill -9` of the engine, its JVM, its Python workers, in mid batch: the update log goes on all the same."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cases import Case
from support.examples import SECOND, around, at, rect, register, spec
from support.local import local_session
from support.running import Together, agree, log_so_far, parsed, run_script
from support.scripts import ScriptCase, replayed
from support.seeded import significant_script

from stqsh.client.api import Session, connect
from stqsh.client.run import RunHandle
from stqsh.storage.engine_info import read_engine

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]
OBJECTS, STEPS = 50, 150
KINDS = ("worker", "engine", "worker", "jvm", "worker", "worker")
KILLS = 6
"""So many times something is killed; what is left of the run is left in peace."""


def seeded_case(seed: int) -> ScriptCase:
    """Objects that wander, fall silent, go and come back; queries that stand and that follow."""
    draw = random.Random(seed)
    keys = [f"k{i:02}" for i in range(OBJECTS)]
    place = {key: (draw.uniform(0, 10), draw.uniform(0, 10)) for key in keys}
    rows = []
    for second in range(STEPS):
        for key in draw.sample(keys, OBJECTS // 3):
            x, y = (min(10.0, max(0.0, c + draw.gauss(0, 0.7))) for c in place[key])
            place[key] = x, y
            gone = draw.random() < 0.03
            late = 3 * (draw.random() < 0.1)
            row = at(key, None if gone else round(x, 3), None if gone else round(y, 3), second - late, second)
            rows.append(row)
    stream = spec(report_every_us=8 * SECOND)
    regions = [rect(a, b, a + 3, b + 3) for a in range(0, 8, 2) for b in range(0, 8, 4)]
    regions += [around(key, 3.0, 4.0) for key in keys[:6]]
    regions += [{"type": "circle", "x": 2.0 * i, "y": 5.0, "radius": 2.0} for i in range(5)]
    regions += [{"type": "moving_circle", "focal": key, "radius": 1.5} for key in keys[6:10]]
    regions += [{"type": "nearest", "k": 1 + 2 * i, "x": 2.0 * i, "y": 5.0} for i in range(5)]
    regions += [{"type": "nearest", "k": 3, "focal": key} for key in keys[10:14]]
    commands = [(1, register(10 + i, region)) for i, region in enumerate(regions)]
    for number, (_, command) in enumerate(commands):
        query = command["query"]
        query["select"] = [[name, ["col", name]] for name in ("oid", "x", "n")]
        if query["region"]["type"] == "nearest":
            query["kind"] = "nearest"
            query["select"].append(["far", ["distance"]])
        elif number % 3 == 0:
            query["options"] = {"dwell_us": 3 * SECOND}
    clock, records = replayed(stream, [rows])
    return ScriptCase(Case(stream, clock, records[-1][0], records, commands), [rows], "csv")


def seeded_events(seed: int) -> ScriptCase:
    """Posts of a few words, some of which come twice; rectangles and neighbours that ask for words."""
    draw = random.Random(seed)
    words = ["street", "light", "out", "pot", "hole", "tree"]
    rows = []
    for second in range(STEPS):
        for _ in range(5):
            key, body = f"p{draw.randrange(1000)}", " ".join(draw.sample(words, 3))
            x, y = round(draw.uniform(0, 10), 3), round(draw.uniform(0, 10), 3)
            rows.append({**at(key, x, y, second, second), "body": body})
    columns = [*spec()["columns"], ["body", "STRING"]]
    stream = spec(name="posts", kind="event", keep_us=20 * SECOND, text="body", columns=columns)
    commands = []
    for i, asked in enumerate([*words, "street light", "pot hole", "tree out"]):
        how = ["all", "any"][i % 2]
        place = (
            {"type": "nearest", "k": 4, "x": float(i), "y": 5.0} if i % 3 == 0 else rect(i - 3, 0, i + 3, 9)
        )
        command = register(100 + i, place, ["contains", ["col", "body"], asked, how])
        command["query"] |= {
            "stream": "posts",
            "select": [["oid", ["col", "oid"]], ["body", ["col", "body"]]],
        }
        command["query"]["kind"] = "nearest" if i % 3 == 0 else "range"
        commands.append((1, command))
    clock, records = replayed(stream, [rows])
    return ScriptCase(Case(stream, clock, records[-1][0], records, commands), [rows], "jsonl")


def processes(engine: int) -> Iterator[tuple[int, str]]:
    """The processes below the engine, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    below = {engine}
    while new := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= new
    for pid in below - {engine}:
        try:
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue


def victim(kind: str, engine: int, draw: random.Random) -> int | None:
    """A process of that kind to be killed, if there is one just now."""
    if kind == "engine":
        return engine
    below = sorted((pid, words.split()) for pid, words in processes(engine) if words)
    java = [pid for pid, words in below if words[0].endswith("java")]
    python = [pid for pid, words in below if any(word.startswith("pyspark") for word in words)]
    fitting = java if kind == "jvm" else [pid for pid in python if pid not in java]
    return draw.choice(fitting) if fitting else None


def run_while_killing(session: Session, running: RunHandle, draw: random.Random) -> list[str]:
    """Kill now and then until the run is done, starting the engine anew where it is gone; what was killed."""
    killed: list[str] = []
    due = time.monotonic() + draw.uniform(0.2, 3)
    while session.progress().run_done < running.seq:
        time.sleep(0.02)
        session.start_engine()
        if time.monotonic() < due or len(killed) == KILLS:
            continue
        kind = KINDS[len(killed) % len(KINDS)]
        engine = read_engine(session.home)
        pid = victim(kind, engine.pid, draw) if engine is not None else None
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            killed.append(kind)
        due = time.monotonic() + draw.uniform(0.2, 4)
    return killed


def test_the_log_is_the_oracles_whatever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STQSH_ENGINE_MAX_RECORDS_PER_BATCH", "80")
    monkeypatch.setenv("STQSH_ENGINE_SPOOL_BYTES", "1")  # all payloads by name, as large ones go
    script = Together([seeded_case(11), seeded_events(12), significant_script(13, steps=STEPS)], [1, 1, 1])
    file = script.write(tmp_path)
    text = file.read_text(encoding="utf-8").removesuffix("RUN;\n")
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        for _ in session.execute(text, file=str(file)):
            pass
        session.start_engine()
        running = next(o for o in session.execute("RUN;") if isinstance(o, RunHandle))
        killed = run_while_killing(session, running, random.Random(3))
        output = log_so_far(session, running)
    assert {"engine", "jvm", "worker"} <= set(killed)
    with local_session(tmp_path / "reference") as session:
        assert output == run_script(session, file.read_text(encoding="utf-8"), file)
    agree(parsed(output), script.lines())
