"""The archive of an event stream: every event is in the window or in the archive, and never in both."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.local import LocalConnection, local_session

from stqsh.client.api import Session
from stqsh.client.results import Answer
from stqsh.client.run import RunHandle
from stqsh.engine.delivery.archive_writer import ArchiveError
from stqsh.errors import StqshError

Event = tuple[int, int]
KEEP, STEPS, BEGIN = 120, 800, 1_718_409_300  # 23:55 UTC: a day ends within
CREATE = """
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts TEXT body
  FROM FILE '{folder}/posts.csv' TICK 1 s KEEP 2 min ARCHIVE TO '{folder}/old' PLANAR ORDER BY ARRIVAL;
REGISTER QUERY here AS SELECT id FROM posts INSIDE (0, 0, 5, 5);
"""


def write_posts(folder: Path, count: int = 1500) -> list[Event]:
    """Write posts as they arrived, some late and some too late; return step and key of each."""
    chance, lines, events, latest = random.Random(5), ["id,x,y,ts,body"], [], 0
    seconds = sorted(chance.randrange(STEPS) for _ in range(count))
    for key, second in enumerate(seconds):
        time = max(0, second - chance.choice([0, 0, 0, 5, 60, 300]))
        latest = max(latest, time)
        events.append((latest - seconds[0] + 1, key))
        lines.append(f"{key},{chance.randrange(10)},{chance.randrange(10)},{BEGIN + time},post {key}")
    (folder / "posts.csv").write_text("\n".join(lines) + "\n")
    return events


def archived(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
    return found


def ids(session: Session) -> list[int]:
    (answer,) = session.execute("SELECT id FROM posts;")
    assert isinstance(answer, Answer)
    return [row["id"] for row in answer.table.to_pylist()]


def run_all(session: Session, text: str) -> None:
    for outcome in session.outcomes(text):
        if isinstance(outcome, RunHandle):
            outcome.wait()


@pytest.mark.parametrize(("slots", "records"), [(1, 400_000), (3, 40)])
def test_an_event_is_in_the_window_or_in_the_archive(slots: int, records: int, tmp_path: Path) -> None:
    events = write_posts(tmp_path)
    with local_session(tmp_path / "home", slots, records, mishaps={2, 5}) as session:
        run_all(session, CREATE.format(folder=tmp_path))
        for step in range(100, STEPS, 100):
            run_all(session, "RUN 100 STEPS;")
            window, old = ids(session), [row["id"] for row in archived(tmp_path / "old")]
            assert len(old) == len(set(old))
            assert not set(window) & set(old)
            assert {*window, *old} <= {key for at, key in events if at <= step}
            assert old or step < 300
            connection = session.connection
            assert isinstance(connection, LocalConnection)
            assert connection.engine is not None
            connection.engine.restart(arena=step % 200 == 0)
        run_all(session, "RUN;")
        rows = archived(tmp_path / "old")
        assert sorted([*ids(session), *(row["id"] for row in rows)]) == [key for _, key in events]
    assert {row["day"] for row in rows} == {f"{row['ts']:%Y-%m-%d}" for row in rows}
    assert len({row["day"] for row in rows}) == 2
    assert all(row["body"] == f"post {row['id']}" for row in rows)


def test_files_are_the_same_however_events_are_dealt(tmp_path: Path) -> None:
    write_posts(tmp_path)
    contents = []
    for slots in (1, 3):
        with local_session(tmp_path / f"home{slots}", slots, 200) as session:
            run_all(session, CREATE.format(folder=tmp_path) + "RUN;")
        files = sorted((tmp_path / "old").rglob("*.parquet"))
        contents.append({path.name: path.read_bytes() for path in files})
        (tmp_path / "old").rename(tmp_path / f"old{slots}")
    assert contents[0] == contents[1]
    assert len(contents[0]) > 3


def test_events_wait_while_the_archive_cannot_be_written(tmp_path: Path) -> None:
    events = write_posts(tmp_path)
    with local_session(tmp_path / "home", 2, 100) as session:
        run_all(session, CREATE.format(folder=tmp_path) + "RUN 100 STEPS;")
        (tmp_path / "old").rename(tmp_path / "away")
        (tmp_path / "old").write_text("in the way")
        with pytest.raises(ArchiveError, match=r"events of posts cannot be archived in .*old: "):
            run_all(session, "RUN;")
        (tmp_path / "old").unlink()
        (tmp_path / "away").rename(tmp_path / "old")
        run_all(session, "RUN;")
        found = [*ids(session), *(row["id"] for row in archived(tmp_path / "old"))]
        assert sorted(found) == [key for _, key in events]


def test_an_archive_of_another_stream_is_not_written_to(tmp_path: Path) -> None:
    write_posts(tmp_path)
    with local_session(tmp_path / "home") as session:
        run_all(session, CREATE.format(folder=tmp_path) + "RUN;")
        run_all(session, "DROP QUERY here; DROP STREAM posts;")
        with pytest.raises(StqshError, match="has the archive of another stream called posts"):
            run_all(session, CREATE.format(folder=tmp_path))
