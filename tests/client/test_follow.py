"""FOLLOW: every record of one object, from its last one on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Updates
from stqsh.lang.errors import BindError
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import Target

COLUMNS = "(oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING, speed DOUBLE)"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "home", slots=3, published=True) as session:
        yield session


def made(session: Session, folder: Path, rows: list[str]) -> None:
    (folder / "t.csv").write_text("oid,lon,lat,ts,status,speed\n" + "\n".join(rows) + "\n")
    list(
        session.execute(f"CREATE MOVING STREAM taxis {COLUMNS} FROM FILE '{folder}/t.csv' REPORT EVERY 5 s;")
    )


def following(session: Session, text: str) -> Subscription:
    [found] = session.execute(text)
    assert isinstance(found, Subscription)
    return found


def printed(items: Iterator[Any], count: int) -> list[dict[str, Any]]:
    """Return the first lines of what is followed."""
    out = io.BytesIO()
    writer = open_writer("jsonl", Target(out))
    while out.getvalue().count(b"\n") < count:
        item = next(items)
        assert isinstance(item, Updates)
        writer.updates(item)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["free", "busy", ""])), min_size=1, max_size=12))
def test_each_step_shows_the_last_record_that_is_new(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, str]]
) -> None:
    folder, second, wanted = tmp_path_factory.mktemp("follow"), 0, list[tuple[int, str | None]]()
    rows = ["x,1,1,2020-01-01T00:00:00Z,free,1"]
    for number, (pause, status) in enumerate(records):
        second += pause
        rows.append(f"a,{number},5,2020-01-01T00:00:{second:02d}Z,{status},")
        if wanted and wanted[-1][0] == second + 1:
            wanted.pop()
        wanted.append((second + 1, status or None))
    rows.append("x,1,1,2020-01-01T00:00:59Z,free,1")
    with local_session(folder / "home", slots=2, published=True) as session:
        made(session, folder, rows)
        feed = following(session, "FOLLOW 'a';")
        list(session.execute("RUN 50 STEPS;"))
        lines = printed(iter(feed), len(wanted))
        feed.close()
    gone = [(line["step"], line["op"]) for line in lines[len(wanted) :]]
    assert gone in ([], [(second + 7, "-")])  # it has not reported for 5 s
    lines = lines[: len(wanted)]
    assert [(line["step"], line["row"]["status"]) for line in lines] == wanted
    assert all(line["op"] == "+" and line["key"] == "a" for line in lines)
    assert list(lines[0]["row"]) == ["oid", "lon", "lat", "ts", "status", "speed"]


def test_it_begins_with_the_last_record_and_says_where_an_object_has_gone(
    session: Session, tmp_path: Path
) -> None:
    at = "2020-01-01T00:00:"
    rows = [f"a,{second},5,{at}{second:02d}Z,free,1.5" for second in (0, 1, 2, 30)]
    made(session, tmp_path, [*rows, f"b,1,1,{at}03Z,free,2"])
    list(session.execute("RUN 2 STEPS;"))
    feed = following(session, "FOLLOW 'a' IN taxis;")
    lines = printed(items := iter(feed), 1)
    list(session.execute("RUN 40 STEPS;"))
    lines += printed(items, 3)
    feed.close()
    assert [(line["op"], line["step"], line["row"]["lon"]) for line in lines] == [
        ("+", 2, 1.0),
        ("+", 3, 2.0),
        ("-", 9, 2.0),
        ("+", 31, 30.0),
    ]
    assert lines[0]["row"]["ts"] == "2020-01-01T00:00:01Z"
    assert session.queries() == []


def test_a_script_sees_what_there_is(session: Session, tmp_path: Path) -> None:
    made(session, tmp_path, ["a,1,5,2020-01-01T00:00:00Z,free,1.5"])
    list(session.execute("RUN;"))
    assert [
        item.table.num_rows for item in following(session, "FOLLOW 'a';") if isinstance(item, Updates)
    ] == [1]
    assert list(following(session, "FOLLOW 'nobody';")) == []


def test_which_stream_has_to_be_clear(session: Session, tmp_path: Path) -> None:
    with pytest.raises(BindError, match="there is no stream of moving objects"):
        list(session.execute("FOLLOW 'a';"))
    made(session, tmp_path, ["a,1,5,2020-01-01T00:00:00Z,free,1.5"])
    with pytest.raises(BindError, match="unknown stream 'taxi'") as caught:
        list(session.execute("FOLLOW 'a' IN taxi;"))
    assert caught.value.near == "taxis"
    source = f"FROM FILE '{tmp_path}/t.csv'"
    list(
        session.execute(
            f"CREATE EVENT STREAM posts {COLUMNS} {source}; CREATE MOVING STREAM cars {COLUMNS} {source};"
        )
    )
    with pytest.raises(BindError, match="there are several streams") as caught:
        list(session.execute("FOLLOW 'a';"))
    assert caught.value.hint == "say which: FOLLOW 'a' IN taxis; FOLLOW 'a' IN cars"
    with pytest.raises(BindError, match="posts is an EVENT stream"):
        list(session.execute("FOLLOW 'a' IN posts;"))
