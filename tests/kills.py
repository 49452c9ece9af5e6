"""Kill the processes of sessions at random, and compare their updates with those of undisturbed runs.

    python tests/kills.py --seed 7 --kills 200

Each round runs moving objects, posts and a stream that retains what is significant, with all kinds of
queries, aggregates among them, in a new session. Its engine, the engine's parent, JVM, daemon, workers and
clients are killed or stopped at random times, its shared memory is lost now and then, posts are routed anew
all the time, and another stream with a query comes and goes. The update log must then be the same to the byte
as that of an engine that runs in one process and that nothing disturbs, each post must be in the window or in
the archive, and nothing may be left of the streams that went. `--disk FOLDER` puts the sessions on a small
disk, which is filled up once a round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow.dataset as ds
from support.killing import Disturber, run_disturbed
from support.local import local_session
from support.running import Together, log_so_far, run_script
from support.seeded import moving_script, posts_script, significant_script, with_aggregates

from stqsh.client.api import Session, connect
from stqsh.client.engine_process import stop_engine
from stqsh.client.results import Answer, Message
from stqsh.client.run import RunHandle
from stqsh.errors import StqshError
from stqsh.storage.catalogue import live_streams
from stqsh.storage.disk_space import RESERVE, free_bytes

STEPS = 400
"""The length of a session, unless the command line says otherwise."""
A_ROUND = 20
"""Disturbances of one round at most."""
WEIGHTS = {
    "worker": 6,
    "engine": 4,
    "parent": 1,
    "jvm": 3,
    "daemon": 3,
    "client": 2,
    "several": 2,
    "stopped": 1,
    "arena": 1,
}
FULL_S = 15.0
"""How long the disk stays full."""
PASSING = "passing"
"""The stream that comes and goes."""
GOES = f"DROP QUERY IF EXISTS {PASSING}_bodies; DROP STREAM IF EXISTS {PASSING};"
PASSING_SHARE = 0.4
"""The share of the changes that make it or drop it."""
STRATEGIES = ("object", "grid", "agrid", "quadtree", "qttree")


def draw_disturbances(draw: random.Random, number: int) -> Iterator[str]:
    """Yield names of disturbances by their weights."""
    yield from draw.choices(list(WEIGHTS), list(WEIGHTS.values()), k=number)


@contextmanager
def filled_once(folder: Path, draw: random.Random, *, small: bool) -> Iterator[None]:
    """Fill the disk of a folder once for a while, if it is a small one, beside what runs."""
    over = threading.Event()

    def fill() -> None:
        if over.wait(draw.uniform(5, 20)):
            return
        ballast = folder / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free_bytes(folder) - RESERVE // 64))
        print(f"  disk full: {free_bytes(folder)} bytes free", flush=True)
        over.wait(FULL_S)
        ballast.unlink()

    filler = threading.Thread(target=fill)
    if small:
        filler.start()
    try:
        yield
    finally:
        over.set()
        if small:
            filler.join()


@contextmanager
def changed_at_random(session: Session, draw: random.Random, passing: tuple[str, Path]) -> Iterator[None]:
    """Change the routing of event streams, and make and drop a stream, at random, beside what runs.

    Args:
        session: the session, through connections of its own.
        draw: decides what is done, and when.
        passing: the statements that make the stream PASSING and a query over it, and their script.
    """
    over, said = threading.Event(), Counter[str]()
    turns = cycle([passing[0], GOES])

    def statement() -> str:
        if draw.random() < PASSING_SHARE:
            return next(turns)
        slots = draw.randint(1, 9)
        repartition = f"REPARTITION posts USING {draw.choice(STRATEGIES)} INTO {slots} SLOTS;"
        return draw.choice([repartition, "REBALANCE posts;"])

    def execute(other: Session, text: str) -> None:
        try:
            for outcome in other.outcomes(text, file=str(passing[1])):
                if isinstance(outcome, Message):
                    said[outcome.text.split()[0] if "version" not in outcome.text else "version"] += 1
        except StqshError as error:  # of an engine that is dead just now, or of a full disk
            print(f"  {type(error).__name__}: {error}", flush=True)

    def change() -> None:
        with connect(session.home.name, home=session.home.path.parent, autoplay=False) as other:
            while not over.wait(draw.uniform(0.5, 4)):
                execute(other, statement())
            execute(other, GOES)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        yield
    finally:
        over.set()
        changer.join()
        print(f"  {said['version']} new routings, {said['stream']} streams made or dropped", flush=True)


def updates_after(step: int, output: bytes) -> list[bytes]:
    """Return the lines of updates after a step, without those of the stream that comes and goes."""
    lines = ((json.loads(line), line) for line in output.splitlines())
    return [text for line, text in lines if line["step"] > step and not line["query"].startswith(PASSING)]


def all_posts(session: Session, archive: Path) -> list[str]:
    """The keys of the posts in the window and in the archive; a key may have come again later."""
    (answer,) = session.execute("SELECT oid FROM posts;")
    assert isinstance(answer, Answer)
    window: list[str] = answer.table.column("oid").to_pylist()
    return sorted([*window, *ds.dataset(archive, partitioning="hive").to_table().column("oid").to_pylist()])


def split_script(text: str, archive: Path) -> tuple[str, str]:
    """Return a script whose posts have an archive, and the statements that make PASSING, a copy of posts."""
    create = next(found for found in re.findall(r"CREATE .*?;", text, re.DOTALL) if "STREAM posts" in found)
    passing = create.replace("STREAM posts", f"STREAM {PASSING}")
    query = f"REGISTER QUERY {PASSING}_bodies AS SELECT oid, body FROM {PASSING};"
    return text.replace("KEEP 20 s", f"KEEP 20 s ARCHIVE TO '{archive}'"), f"{passing}\n{query}"


def run_round(folder: Path, disk: Path | None, seed: int, number: int, steps: int) -> Disturber:
    """Run one session under `number` disturbances; raise AssertionError where its updates differ.

    Args:
        folder: an empty folder for scripts and data, and the sessions unless there is a disk.
        disk: the folder of a small disk for the sessions.
        seed: decides data, queries and disturbances.
        number: how many disturbances there are.
        steps: how long the session is; the second half is disturbed.
    """
    draw = random.Random(seed)
    cases = [moving_script(seed, steps=steps), posts_script(seed + 1, steps)]
    script = Together([*cases, significant_script(seed + 2, steps=steps)], [1, 1, 1])
    file = script.write(folder)
    text = with_aggregates(file.read_text(encoding="utf-8"))
    archives = folder / "old", folder / "old-reference"
    disturbed, passing = split_script(text, archives[0])
    sessions = (disk or folder) / "sessions"
    with connect(f"round-{seed}", home=sessions, autoplay=False) as session:
        for _ in session.outcomes(disturbed.removesuffix("RUN;\n"), file=str(file)):
            pass
        query = next(row.name for row in session.queries() if row.live)
        running = next(o for o in session.outcomes("RUN;") if isinstance(o, RunHandle))
        disturber = Disturber(session, draw, folder, query, most_s=1.0)
        with (
            filled_once(sessions, draw, small=disk is not None),
            changed_at_random(session, random.Random(seed), (passing, file)),
        ):
            run_disturbed(disturber, running, draw_disturbances(draw, number))
        session.start_engine()
        output, posts = log_so_far(session, running), all_posts(session, archives[0])
        left = [stream.name for stream in live_streams(session.connection.db) if stream.name == PASSING]
        # On a full disk the engine folds the oldest updates, which nobody reads.
        [(folded,)] = session.connection.db.query("SELECT coalesce(max(step), 0) FROM update_base")
        stop_engine(session.home)
    with local_session(folder / "reference") as session:
        expected = run_script(session, split_script(text, archives[1])[0], file)
        assert posts == all_posts(session, archives[1]), f"seed {seed}: posts were lost or archived twice"
    assert not left, f"{left} was dropped, and is there"
    if updates_after(folded, output) != updates_after(folded, expected) or folded == steps:
        (folder / "expected.jsonl").write_bytes(expected)
        (folder / "output.jsonl").write_bytes(output)
        raise AssertionError(f"seed {seed}: the updates differ, see {folder}")
    return disturber


def main() -> int:
    """Run rounds until enough has been disturbed; return 0 if all updates were the same."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each session")
    parser.add_argument("--disk", type=Path, default=None)
    wanted = parser.parse_args()
    os.environ["STQSH_ENGINE_MAX_RECORDS_PER_BATCH"] = "40"
    os.environ["STQSH_ENGINE_SPOOL_BYTES"] = "1"
    done: Counter[str] = Counter()
    seed, begun = wanted.seed, time.monotonic()
    while done.total() < wanted.kills:
        folder = Path(tempfile.mkdtemp(prefix="stqsh-kills-"))
        number = min(A_ROUND, wanted.kills - done.total())
        disturber = run_round(folder, wanted.disk, seed, number, wanted.steps)
        done.update(disturber.done)
        shutil.rmtree(folder)
        counts = ", ".join(f"{name} {count}" for name, count in sorted(done.items()))
        print(f"seed {seed}: same updates; {done.total()} so far ({counts})", flush=True)
        seed += 10
    print(f"{done.total()} disturbances, the same updates each time, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
