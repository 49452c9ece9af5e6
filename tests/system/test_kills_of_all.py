"""`kill -9` of a session that does all that is written: routing that changes, an archive, and a sink.

What is killed disturbs all of them: updates, archive and files must be as if nothing had been.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

import psutil
import pytest
from support.killing import DISTURBANCES, KILLS, Disturber, disturb_at_rest, processes_of, run_disturbed
from support.repartition import POSTS, TAXIS, Dealt, drive, run, updates, write_posts, write_taxis
from support.running import log_so_far

from stqsh.client.api import Session, connect
from stqsh.client.results import Answer
from stqsh.client.run import RunHandle
from stqsh.client.sink_wait import finish_sinks
from system import test_archive

pytestmark = KILLS
KILLED = (("worker",), ("engine",), ("sink", "jvm"), ("worker",), ("sink",))
"""What is killed within each of the runs of 20 steps between which the routing changes; ..."""
KILLED_AT_LAST = ("worker",)
"""... and within the run to the end, in which most events come into the archive."""
RECORDS = 160


def renamed(text: str) -> str:
    """Give the queries of taxis names that those of posts do not have."""
    return text.replace(" QUERY ", " QUERY taxi_")


CREATE = (
    POSTS.create
    + TAXIS.create
    + test_archive.CREATE.replace("STREAM posts", "STREAM kept")
    .replace("FROM posts", "FROM kept")
    .replace("{folder}/posts.csv", "{folder}/archived/posts.csv")
)
QUERIES = POSTS.queries + renamed(TAXIS.queries)


def together(posts: list[str], taxis: list[str]) -> list[str]:
    """Join the statements that follow each run for both streams."""
    return [f"{one} {renamed(other)}" for one, other in zip_longest(posts, taxis, fillvalue="")]


CHANGES = together(POSTS.changes, TAXIS.changes)
OTHERS = together(POSTS.others, TAXIS.others)


def kill_a_sink(disturber: Disturber) -> bool:
    """Kill the process of the sinks, if there is one."""
    for engine in processes_of(disturber.session).get("engine", []):
        with suppress(psutil.NoSuchProcess):
            for child in engine.children():
                if "stqsh.sinks.main" in child.cmdline():
                    child.kill()
                    return True
    return False


def disturbed(session: Session, text: str, names: Iterable[str], disturber: Disturber) -> RunHandle:
    running = next(outcome for outcome in session.outcomes(text) if isinstance(outcome, RunHandle))
    disturb_at_rest(disturber, run_disturbed(disturber, running, names))
    return running


def all_ids(session: Session, folder: Path) -> list[int]:
    """The ids of all events that are in the window or in the archive, each as often as it is there."""
    (answer,) = session.execute("SELECT id FROM kept;")
    assert isinstance(answer, Answer)
    return sorted(row["id"] for row in (*answer.table.to_pylist(), *test_archive.archived(folder)))


def test_kills_change_no_update_and_nothing_is_lost_or_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "archived").mkdir()
    write_posts(tmp_path)
    write_taxis(tmp_path)
    events = test_archive.write_posts(tmp_path / "archived")
    script = CREATE + QUERIES
    usual = drive(tmp_path, "usual", Dealt(1), script, OTHERS)
    monkeypatch.setenv("STQSH_ENGINE_MAX_RECORDS_PER_BATCH", str(RECORDS))
    monkeypatch.setitem(DISTURBANCES, "sink", kill_a_sink)
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        run(session, script.replace("/old'", "/new'").format(folder=tmp_path))
        run(session, f"CREATE SINK out FOR ALL TO FILE '{tmp_path}/out' FORMAT JSONL;")
        session.start_engine()
        disturber = Disturber(session, random.Random(3), tmp_path)
        for text, names in zip(CHANGES, KILLED, strict=True):
            disturbed(session, "RUN 20 STEPS;", names, disturber)
            run(session, text)
        last = disturbed(session, "RUN;", KILLED_AT_LAST, disturber)
        expected = log_so_far(session, last)
        finish_sinks(session.connection)
        ids = all_ids(session, tmp_path / "new")
        assert without_nulls(updates(session)) == without_nulls(usual)
    assert b"".join(file.read_bytes() for file in sorted((tmp_path / "out").iterdir())) == expected
    assert ids == [key for _, key in events]
    assert {"worker", "engine", "jvm", "sink"} <= set(disturber.done)


def without_nulls(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows without NULLs: a batch has the columns of all aggregates that it updates."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
