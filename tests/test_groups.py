"""Aggregates that follow every step: repeated batches, folded logs, all formats, TAIL, WATCH and MAP."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from support.local import LocalConnection, local_session
from support.running import run_script

from stqsh.client.api import Session
from stqsh.client.map.object_places import QueryMembers
from stqsh.client.read.subscription import Subscription
from stqsh.client.read.watch import WatchFeed
from stqsh.client.results import SnapshotMark
from stqsh.storage.update_log.compaction import fold_log

SCRIPT = Path(__file__).with_name("scripts") / "groups.stq"
PRINTED = SCRIPT.with_suffix(".jsonl")


def play(session: Session, form: str = "jsonl") -> bytes:
    return run_script(session, SCRIPT.read_text(encoding="utf-8"), SCRIPT, form)


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
@pytest.mark.parametrize(("records", "mishaps"), [(400_000, ()), (1, (0, 1, 2, 3, 4, 5)), (2, (1, 3))])
def test_repeated_batches_change_no_byte(
    tmp_path: Path, slots: int, records: int, mishaps: tuple[int, ...]
) -> None:
    with local_session(tmp_path, slots, records, mishaps) as session:
        assert play(session) == PRINTED.read_bytes()


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("csv", 'kinds,4,2024-01-01T00:00:03Z,+,"[""taxi""]"'),
        ("tsv", 'kinds\t4\t2024-01-01T00:00:03Z\t+\t"[""taxi""]"'),
        ("table", 'kinds  +          ["taxi"]  kind=taxi n=2 mean=3.0'),
        ("vertical", 'words  [["taxi",2]]'),
        ("geojson", '{"type":"Feature","geometry":null,"properties":{"query":"n","step":4,'),
        ("markdown", '| kinds | 4 | 2024-01-01T00:00:03Z | - | left | ["bus"] |'),
    ],
)
def test_all_formats_show_groups(tmp_path: Path, form: str, line: str) -> None:
    with local_session(tmp_path) as session:
        assert line in play(session, form).decode()


def test_a_tail_begins_with_the_groups_as_they_stand(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        play(session)
        [tail] = session.execute("TAIL kinds FROM STEP 4 WHERE n > 1;")
        assert isinstance(tail, Subscription)
        tail.until_idle = True
        found = [one for one in tail if not isinstance(one, SnapshotMark)]
        shown = [one.table.column("c.s1:BIGINT").to_pylist() for one in found]
        assert [value for values in shown for value in values] == [2]


def test_a_watch_has_the_groups(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        play(session)
        [feed] = session.execute("WATCH kinds, n;")
        assert isinstance(feed, WatchFeed)
        _, standings = next(iter(feed.standings()))
        answers = [standing.answer for standing in standings]
        shown = [None if one is None else one.table.column("c.s0:STRING").to_pylist() for one in answers]
        assert shown == [["taxi"], [None]]


def test_a_folded_log_keeps_the_groups(tmp_path: Path) -> None:
    with local_session(tmp_path, max_records=1) as session:
        last = json.loads(play(session).splitlines()[-2])
        assert last["row"] == {"count": 2}
        connection = session.connection
        assert isinstance(connection, LocalConnection)
        fold_log(
            connection.db, connection.progress().batch, connection.book.key_of, lambda _: nullcontext(True)
        )
        [feed] = session.execute("WATCH n, most;")
        assert isinstance(feed, WatchFeed)
        _, standings = next(iter(feed.standings()))
        assert [standing.size for standing in standings] == [1, 1]
        answer = standings[0].answer
        assert answer is not None
        assert answer.table.column("c.s0:BIGINT").to_pylist() == [2]


def test_a_map_shows_no_members_of_aggregates(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        play(session)
        for _ in session.outcomes("REGISTER QUERY buses AS SELECT oid FROM fleet WHERE kind = 'bus';"):
            pass
        members = QueryMembers(session.connection, session.queries()[0].stream_id)
        members.advance(session.connection.progress().batch)
        assert [members.keys(query.id) for query in session.queries()] == [None] * len(session.queries())
