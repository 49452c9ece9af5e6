"""FOLLOW: every record of one object, from its last one on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
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


def made(session: Session, folder: Path, rows: list[str], order: str = "") -> None:
    (folder / "t.csv").write_text("oid,lon,lat,ts,status,speed\n" + "\n".join(rows) + "\n")
    list(
        session.execute(
            f"CREATE MOVING STREAM taxis {COLUMNS} FROM FILE '{folder}/t.csv' REPORT EVERY 5 s {order};"
        )
    )


def following(session: Session, text: str) -> Subscription:
    *_, found = session.execute(text)  # a message comes first where the object is unknown
    assert isinstance(found, Subscription)
    return found


def printed(items: Iterator[Any], count: int | None = None) -> list[dict[str, Any]]:
    """Return the first lines of what is followed, or all."""
    out = io.BytesIO()
    writer = open_writer("jsonl", Target(out))
    while count is None or out.getvalue().count(b"\n") < count:
        item = next(items, None)
        if item is None:
            break
        assert isinstance(item, Updates)
        writer.updates(item)
    return [json.loads(line) for line in out.getvalue().splitlines()]


class Record(NamedTuple):
    """A record of the followed object: its second, its place (None: nowhere), and its status."""

    second: int
    x: int | None
    status: str


SIGNIFICANT = " MAX SPEED 60 km/h RETAIN SIGNIFICANT"
RECORDS = st.builds(
    Record, st.integers(0, 20), st.sampled_from([None, -150, 0, 90, 91]), st.sampled_from(["free", "busy"])
)
Told = tuple[int, str, int | None]
"""A step, an op, and what is in the column speed, which is the number of the record."""


def told(records: list[Record], last: int) -> list[Told]:
    """What FOLLOW must show of a log that begins at second 0, up to a second; by brute force."""
    out, latest, clock = list[Told](), None, 0
    newest, present, steps = None, False, dict[int, list[int]]()
    for number, record in enumerate(records):
        clock = max(clock, record.second)
        steps.setdefault(clock, []).append(number)
    for at in range(last + 1):
        shown = list[tuple[int, int, Told]]()
        for number in steps.get(at, []):
            second, x, _ = records[number]
            if latest is not None and second < latest:
                continue  # stale
            latest, newest = second, number
            if x is not None:
                shown.append((second, 0, (at + 1, "+", number)))
            elif present:
                shown.append((second, 1, (at + 1, "-", number)))
            present = x is not None
        out += [line for *_, line in sorted(shown, key=lambda line: line[:2])]
        if present and latest is not None and latest < at - 5:
            out.append((at + 1, "-", newest))
            present = False
    return out


@share(4)
@given(
    st.lists(RECORDS, min_size=1, max_size=14),
    st.sampled_from([1, 3]),
    st.sampled_from([2, 400_000]),
    st.sampled_from(["", "REPARTITION taxis USING grid INTO 3 SLOTS;", SIGNIFICANT]),
    st.sampled_from(["", "RUN 1 STEPS;"]),
)
def test_each_record_is_shown_as_it_comes(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[Record],
    slots: int,
    at_once: int,
    change: str,
    before: str,
) -> None:
    if change == SIGNIFICANT:
        before = ""  # nothing asks for the object until FOLLOW does, so that it would be forgotten
    folder, at = tmp_path_factory.mktemp("follow"), "2020-01-01T00:00:"
    rows = [f"x,1,1,{at}00Z,free,0", f"y,-120,20,{at}00Z,free,0", f"z,91,70,{at}00Z,free,0"]
    for number, (second, x, status) in enumerate(records):
        rows.append(
            f"a,{'' if x is None else x},{'' if x is None else 5},{at}{second:02d}Z,{status},{number}"
        )
    rows.append(f"x,1,1,{at}59Z,free,0")
    with local_session(folder / "home", slots, at_once, published=True) as session:
        made(session, folder, rows, "ORDER BY ARRIVAL" + (change if change == SIGNIFICANT else ""))
        list(session.execute((change if change != SIGNIFICANT else "") + before))
        feed = following(session, "FOLLOW 'a';")
        list(session.execute("RUN 40 STEPS;"))
        feed.until_idle = True
        lines = printed(iter(feed))
        [row] = [row for row in show_queries(session) if row["name"] == "follow_1"]
        feed.close()
    wanted = told(records, 39)
    if before:  # of what came before it shows the last record
        first = [line for line in wanted if line[0] == 1][-1:]
        wanted = [line for line in first if line[1] == "+"] + [line for line in wanted if line[0] > 1]
    assert [(line["step"], line["op"], line["row"]["speed"]) for line in lines] == wanted
    assert all(line["key"] == "a" == line["row"]["oid"] for line in lines)
    assert row["answer"] == (1 if wanted and wanted[-1][1] == "+" else 0)


def show_queries(session: Session) -> list[dict[str, Any]]:
    [shown] = session.execute("SHOW QUERIES;")
    return [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]


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
        ("-", 9, 2.0),  # its last place
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


def test_where_time_stands_still_only_further_records_are_said_to_wait(
    session: Session, tmp_path: Path
) -> None:
    made(session, tmp_path, ["a,1,1,2025-01-01T00:00:00Z,free,1"])
    list(session.execute("RUN; SHOW STATUS;"))
    notices: list[str] = []
    followed = following(session, "FOLLOW 'a';")
    followed.until_idle, followed.on_notice = True, notices.append
    assert [line["key"] for line in printed(iter(followed))] == ["a"]
    assert notices == [
        "follow_1: further records come with further steps, and none is due; RUN or PLAY lets time go on"
    ]
