"""An empty answer says why, where that can be known; one with rows says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Answer, Message, SnapshotMark
from stqsh.client.statements.follow import Followed
from tests.support.local import local_session

CREATE = """
CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING)
  KEY oid LOCATION (lon, lat) TIME ts FROM FILE '{folder}/taxis.csv' TICK 1 s REPORT EVERY 5 s;
CREATE EVENT STREAM posts (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (lon, lat) TIME ts FROM FILE '{folder}/posts.csv' TICK 1 s KEEP 5 s;
CREATE REGION square AS POLYGON ((10 50, 10.1 50, 10.1 50.1, 10 50));
"""
TAXIS = """oid,lon,lat,ts,status
taxi-1,10.01,50.01,2025-01-01T00:00:00Z,free
taxi-2,10.02,50.02,2025-01-01T00:00:08Z,busy
taxi-3,,,2025-01-01T00:00:03Z,free
ambulance,10.03,50.03,2025-01-01T00:00:09Z,free
"""
POSTS = """id,lon,lat,ts,body
1,10.01,50.01,2025-01-01T00:00:00Z,hello
2,10.01,50.01,2025-01-01T00:00:09Z,rain
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("empty")
    (folder / "taxis.csv").write_text(TAXIS)
    (folder / "posts.csv").write_text(POSTS)
    with local_session(folder, slots=2, published=True) as opened:
        list(opened.execute(CREATE.format(folder=folder)))
        assert remark(opened, "SELECT * FROM taxis") == (
            "nothing of taxis has been read yet: RUN or PLAY lets time go on"
        )
        list(opened.execute("RUN;"))
        yield opened


def remark(session: Session, select: str) -> str:
    [answer] = [one for one in session.execute(f"{select};") if isinstance(one, Answer)]
    return answer.remark


@pytest.mark.parametrize(
    ("select", "said"),
    [
        (
            "SELECT * FROM taxis WHERE oid = 'taxi-9'",
            "no object 'taxi-9' of taxis has reported so far; maybe you meant 'taxi-2'",
        ),
        ("SELECT * FROM taxis WHERE oid = 'zebra'", "no object 'zebra' of taxis has reported so far"),
        (
            "SELECT COUNT(*) FROM taxis WHERE oid = 'AMBULANCE'",
            "no object 'AMBULANCE' of taxis has reported so far; maybe you meant 'ambulance'",
        ),
        (
            "SELECT * FROM taxis WHERE oid = 'taxi-1'",
            "'taxi-1' reported last at 2025-01-01T00:00:00Z: who is older than 5 s is disconnected",
        ),
        (
            "SELECT * FROM taxis WHERE oid = 'taxi-3'",
            "'taxi-3' left taxis with its record of 2025-01-01T00:00:03Z",
        ),
        (
            "SELECT * FROM taxis WHERE oid = 'taxi-2' AND status = 'free'",
            "'taxi-2' is present, but not in the region, or it fails the condition",
        ),
        (
            "SELECT * FROM taxis INSIDE RECT(1 km, 1 km) AROUND 'ambulanze'",
            "no object 'ambulanze' of taxis has reported so far; maybe you meant 'ambulance'; an answer"
            " around it is empty as long as it is not there",
        ),
        (
            "SELECT * FROM taxis INSIDE (50, 10, 50.1, 10.1)",
            "the region lies outside of the data: taxis has longitude 10.01 to 10.03, latitude 50.01 to"
            " 50.03; with longitude and latitude swapped it would not: longitude comes first",
        ),
        (
            "SELECT COUNT(*) FROM taxis INSIDE CIRCLE(11, 51, 100)",
            "the region lies outside of the data: taxis has longitude 10.01 to 10.03, latitude 50.01 to"
            " 50.03",
        ),
        (
            "SELECT * FROM taxis INSIDE RECT(10.012, 50.012, 10.018, 50.018)",
            "none of the 2 objects present is in the region",
        ),
        (
            "SELECT oid FROM taxis WHERE status = 'fre' INSIDE RECT(10, 50, 11, 51)",
            "2 objects are in the region, and none satisfies the condition: status is 'busy', 'free' now;"
            " maybe you meant 'free'",
        ),
        (
            "SELECT oid FROM taxis WHERE status = 'free' INSIDE RECT(10.015, 50.015, 10.025, 50.025)",
            "1 object is in the region, and none satisfies the condition",
        ),
        (
            "SELECT oid FROM taxis WHERE lon > 99 NEAREST 2 TO (10, 50)",
            "2 objects are present, and none satisfies the condition",
        ),
        ("SELECT * FROM posts WHERE id = 7", "no event 7 of posts is kept"),
    ],
)
def test_an_empty_answer_says_why(session: Session, select: str, said: str) -> None:
    assert remark(session, select) == said


@pytest.mark.parametrize(
    "select",
    [
        "SELECT * FROM taxis",
        "SELECT COUNT(*) FROM taxis",
        "SELECT * FROM taxis LIMIT 0",
        "SELECT status, COUNT(*) FROM taxis GROUP BY status",
        "SELECT MIN(LENGTH(oid)) - 6 FROM taxis",
    ],
)
def test_other_answers_say_nothing(session: Session, select: str) -> None:
    assert remark(session, select) == ""


def test_follow_of_an_unknown_object_says_so(session: Session) -> None:
    said, followed = session.execute("FOLLOW 'taxi-9' IN taxis;")
    assert isinstance(said, Message) and isinstance(followed, Followed)
    assert said.text == (
        "no object 'taxi-9' of taxis has reported so far; maybe you meant 'taxi-2'; its records are shown"
        " once it reports"
    )
    followed.close()
    [followed] = session.execute("FOLLOW 'taxi-2' IN taxis;")
    assert isinstance(followed, Followed)
    followed.close()


@pytest.mark.parametrize(
    ("select", "said"),
    [
        (
            "SELECT oid FROM taxis INSIDE (11, 51, 12, 52)",
            "is empty now: the region lies outside",
        ),
        ("SELECT oid FROM taxis WHERE status = 'fre'", "none satisfies the condition"),
        ("SELECT status, COUNT(*) FROM taxis WHERE status = 'fre' GROUP BY status", "none satisfies"),
        ("SELECT oid FROM taxis NEAREST 2 TO 'zebra'", "no object 'zebra' of taxis has reported so far"),
        ("SELECT oid FROM taxis LIMIT 0", None),
    ],
)
def test_a_followed_query_says_why_its_answer_is_empty(
    session: Session, select: str, said: str | None
) -> None:
    list(session.execute(f"REGISTER QUERY followed AS {select}; RUN 1 STEPS;"))
    [following] = session.execute("TAIL followed;")
    assert isinstance(following, Subscription)
    notices: list[str] = []
    following.on_notice = notices.append
    ends = (item for item in following if isinstance(item, SnapshotMark) and item.edge == "end")
    assert next(ends).step
    following.close()
    list(session.execute("DROP QUERY followed;"))
    assert [said is not None and said in notice for notice in notices] == [True] * (said is not None)
