"""Answers as they stand, kept as the update log grows."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.client.map.object_places import QueryMembers
from stqsh.client.read.answer_fold import folded
from stqsh.client.read.watch import WatchFeed
from stqsh.errors import EngineDeadError
from stqsh.storage import catalogue_writer
from stqsh.storage.update_log.compaction import fold_log
from stqsh.storage.update_log.reader import last_of_each_key


def keys(standing):
    return [] if standing.answer is None else standing.answer.table.column("key").to_pylist()


def latest(watching, step):
    """What is given for the first batch at a step or after it."""
    return next(found for progress, found in watching.standings() if progress.step >= step)


def test_answers_stand_as_they_are_after_the_last_batch(connection, deliver, query):
    watching = WatchFeed((query,), connection)
    looks = watching.standings()
    _, (standing,) = next(looks)
    assert (standing.size, standing.total, standing.accuracy) == (0, 0, "")
    deliver((1, query.id, 1, 0, ("b", 0.0)), (1, query.id, 1, 0, ("a", 0.0)))
    _, (standing,) = next(looks)
    assert keys(standing) == ["a", "b"]
    deliver(
        (2, query.id, -1, 1, ("a", 0.0)), (3, query.id, 1, 0, ("c", 1.0)), (2, 999, 1, 0, ("x", 0.0)), steps=2
    )
    _, (standing,) = next(looks)
    assert keys(standing) == ["b", "c"]  # who came last stands last
    assert (standing.sent, standing.total) == ({1: 2, 2: 1, 3: 1}, 4)


def test_a_long_log_is_read_from_its_beginning(connection, deliver, query):
    for step in range(1, 80):
        deliver((step, query.id, 1, 0, (f"k{step:02}", 0.0)))
    (standing,) = latest(WatchFeed((query,), connection), 79)
    assert keys(standing) == [f"k{step:02}" for step in range(1, 80)]


def test_who_looks_away_while_the_log_is_folded_sees_the_answer_all_the_same(connection, deliver, query):
    watching, members = WatchFeed((query,), connection), QueryMembers(connection, query.stream_id)
    looks = watching.standings()
    deliver((1, query.id, 1, 0, ("a", 0.0)), (1, query.id, 1, 0, ("b", 0.0)))
    assert keys(next(looks)[1][0]) == ["a", "b"]
    members.advance(0)
    deliver((2, query.id, -1, 1, ("a", 0.0)))
    deliver((3, query.id, 1, 0, ("c", 0.0)))
    fold_log(connection.db, 1, connection.book.key_of, lambda batch: nullcontext(True))
    assert keys(next(looks)[1][0]) == ["b", "c"]
    members.advance(2)
    assert sorted(members.keys(query.id).to_pylist()) == ["b", "c"]
    assert keys(latest(WatchFeed((query,), connection), 3)[0]) == ["b", "c"]


def test_the_state_of_a_query_is_told_as_it_is(connection, deliver, query):
    looks = WatchFeed((query,), connection).standings()
    deliver((1, query.id, 1, 0, ("a", 0.0)))
    assert next(looks)[1][0].query.state == "active"
    catalogue_writer.change_query(connection.db, "drop", "DROP QUERY q;", query)
    deliver((2, query.id, -1, 8, ("a", 0.0)))
    _, (standing,) = next(looks)
    assert (standing.query.state, standing.size) == ("dropped", 0)


def test_a_dead_engine_ends_it(connection, deliver, query, monkeypatch):
    def check(home):
        raise EngineDeadError("the engine is not there any more")

    connection.wake()
    monkeypatch.setattr("stqsh.client.connection.check_alive", check)
    with pytest.raises(EngineDeadError, match="not there"):
        next(WatchFeed((query,), connection).standings())


STEPS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6), max_size=8)


def log_of(steps):
    """The updates of the steps that make sense: who is in goes out, who is out comes in; `-` before `+`."""
    members: set[int] = set()
    rows = []
    for number, wished in enumerate(steps, 1):
        step = []
        for key, both in dict(wished).items():
            if key in members:
                step.append((number, -1, key))
                members.discard(key)
            if both:
                step.append((number, 1, key))
                members.add(key)
        rows.append(sorted(step, key=lambda row: row[1]))
    return rows, members


def table(rows):
    columns = zip(*rows, strict=True) if rows else [(), (), ()]
    kinds = (pa.int64(), pa.int8(), pa.int64())
    return pa.table(
        [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names=["step", "op", "key"]
    )


@given(STEPS, st.integers(1, 4))
def test_folding_piece_by_piece_gives_the_members(steps, size):
    rows, members = log_of(steps)
    answer = None
    for start in range(0, len(rows), size):
        piece = [row for step in rows[start : start + size] for row in step]
        answer = folded(answer, table(piece))
    found = [] if answer is None else answer.column("key").to_pylist()
    assert sorted(found) == sorted(members)
    if answer is not None:
        assert answer.column("step").to_pylist() == sorted(answer.column("step").to_pylist())
        whole = last_of_each_key(table([row for step in rows for row in step]))
        assert sorted(found) == [row["key"] for row in whole.to_pylist() if row["op"] > 0]
