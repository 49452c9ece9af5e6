"""Workers open none of the driver's databases: what they need of the control log comes with their tasks."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from repartition.test_repartition_live import CREATE, CREATE_POSTS, Posts, Taxis
from support.repartition import POSTS, TAXIS

from stqsh.client.api import Session, connect
from stqsh.client.run import RunHandle
from stqsh.engine.spark.spark_internals import WORKER_MODULE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SIFTED = """
CREATE EVENT STREAM said (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts TEXT body FROM {source} TICK 1 s KEEP NONE PLANAR;
REGISTER QUERY jams AS SELECT id, body FROM said WHERE body CONTAINS 'jam';
"""
NAMED = """
CREATE TABLE favourites FROM FILE '{folder}/favourites.csv' KEY id;
CREATE REGION forecourt AS POLYGON ((2 2, 8 2, 8 8, 2 8));
REGISTER QUERY liked AS SELECT P.id, F.who FROM posts P, favourites F WHERE P.id = F.id;
REGISTER QUERY within AS SELECT id FROM posts INSIDE forecourt;
REGISTER QUERY sought AS SELECT id FROM said INSIDE forecourt WHERE body CONTAINS 'sun';
REGISTER QUERIES FROM FILE '{folder}/alike.csv' AS SELECT id FROM posts INSIDE CIRCLE(:x, :y, 1);
"""
ROUTED = "REPARTITION posts USING agrid INTO 2 SLOTS; REPARTITION taxis USING quadtree INTO 2 SLOTS;"


def write_files(folder: Path) -> None:
    chance = random.Random(3)
    at = [(step, chance.uniform(0, 10), chance.uniform(0, 10)) for step in range(60) for _ in range(5)]
    times = [f"2024-06-15T00:00:{step:02d}Z" for step, _, _ in at]
    bodies = [chance.choice(("jam", "sun", "rain")) for _ in at]
    posts = [f"{n},{x},{y},{times[n]},{bodies[n]}" for n, (_, x, y) in enumerate(at)]
    taxis = [f"{n % 20},{x},{y},{times[n]},true" for n, (_, x, y) in enumerate(at)]
    (folder / "posts.csv").write_text("\n".join(["id,x,y,ts,body", *posts, ""]))
    (folder / "taxis.csv").write_text("\n".join(["oid,x,y,ts,free", *taxis, ""]))
    (folder / "favourites.csv").write_text("id,who\n1,ann\n2,bob\n")
    (folder / "alike.csv").write_text("\n".join(["x,y", *(f"{n % 10},{n // 1000}" for n in range(3000)), ""]))


def run(session: Session, text: str) -> None:
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()


WATCHED = """
import os, sys
if sys.argv[-1:] == [{module!r}] and not os.environ.get("TOLD"):
    os.environ["TOLD"] = {told!r}
    watching = ["strace", "-f", "-qq", "-e", "trace=openat,connect", "-o", {told!r} + f".{{os.getpid()}}"]
    os.execvp("strace", [*watching, sys.executable, *sys.orig_argv[1:]])
"""
"""Python runs this as it starts: the daemon that forks workers begins again, watched with them."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace tells which files are opened")
@pytest.mark.parametrize("live", [False, True], ids=["files", "inserts"])
def test_workers_open_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    write_files(tmp_path)
    told = tmp_path / "told"
    (tmp_path / "startup").mkdir()
    startup = WATCHED.format(module=WORKER_MODULE, told=os.fspath(told))
    (tmp_path / "startup" / "sitecustomize.py").write_text(startup)
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path / "startup"))
    source = "INSERTS" if live else f"FILE '{tmp_path}/posts.csv'"
    create = CREATE + CREATE_POSTS if live else (TAXIS.create + POSTS.create).format(folder=tmp_path)
    opening = create + SIFTED.format(source=source)
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        posts, taxis = Posts(), Taxis()

        def steps() -> None:
            if live:
                run(session, posts.more() + taxis.more())
                run(session, posts.more().replace("INTO posts", "INTO said"))
            run(session, "RUN 3 STEPS;")

        run(session, opening + "RUN 1 STEPS;")
        others = POSTS.queries.replace("QUERY ", "QUERY of_posts_")
        run(session, TAXIS.queries + others + NAMED.format(folder=tmp_path))
        steps()
        run(session, ROUTED + ("REPARTITION said USING agrid INTO 2 SLOTS;"))
        for _ in range(3):
            steps()
        run(
            session,
            "PAUSE QUERY halted; REGISTER QUERY newest AS SELECT id FROM said;",
        )
        steps()
        assert {query.name for query in session.queries()} >= {"jams", "sought", "newest"}
    opened = "".join(file.read_text() for file in tmp_path.glob("told.*"))
    read = ("/heads/", "/routes/", "/tables/", "/state/deal" if live else "/seg-")
    lines = [line for line in opened.splitlines() if os.fspath(session.home.path) in line]
    assert [name for name in read if not any(name in line for line in lines)] == []
    assert not [line for line in opened.splitlines() if "control.db" in line or ".db-wal" in line]
