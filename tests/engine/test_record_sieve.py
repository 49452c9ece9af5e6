"""Streams that keep nothing: slots get only the records that some query there has use for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from support import oracle
from support.cases import Case, Command, Row
from support.examples import SECOND, at, rect, register
from support.live_memory import as_live, live_engine
from support.local import local_session
from support.memory import MemoryEngine, memory_engine
from support.strategies import cut
from support.worked_kinds import POST, events, saying

from stqsh.client.api import Session
from stqsh.client.results import Rows
from stqsh.engine.config import TUNING, EngineSettings
from stqsh.engine.ingest import record_replay, record_sieve, task_reader
from stqsh.engine.ingest.record_replay import RecordReplayError
from stqsh.engine.ingest.task_reader import packed_records
from stqsh.engine.ingest.textual_summary import SummaryWriter, summary_at
from stqsh.spec.stats import SlotStats
from stqsh.storage.attachments import AttachmentWriter
from stqsh.storage.blobs import home_blobs
from stqsh.storage.catalogue import stream_by_id
from stqsh.storage.progress import read_progress

UNIT = rect(-1, -1, 5, 5)


@pytest.fixture(autouse=True)
def always_sifted() -> Iterator[None]:
    """Records are sifted however few that spares."""
    with mock.patch.object(record_sieve, "_WORTH_IT", 1.0):
        yield


def asks(number: int, phrase: str, how: str = "all", for_s: float | None = None) -> Command:
    return register(number, UNIT, ["contains", ["col", "body"], phrase, how], for_s)


def published(
    steps: int, commands: list[tuple[int, Command]], records: list[tuple[int, Row]], *, keep_s: int = 0
) -> Case:
    made = events(steps, commands, records, keep_s)
    changes = {"columns": [*POST, ["body", "STRING"]], "text": "body", "tick_us": SECOND}
    return replace(made, spec=made.spec | changes)


def post(step: int, key: str, body: str | None) -> tuple[int, Row]:
    return step, saying(at(key, 0, 0, step - 1), body)


def taken(engine: MemoryEngine, case: Case) -> list[SlotStats]:
    """Run a case step by step, and return the statistics of slot 0 after each; updates are right."""
    found = []
    for first, last in cut(case, 1):
        engine.take(first, last)
        found.append(read_progress(engine.control).stats.slots[0])
    assert engine.delivered().updates == oracle.run(case)
    assert engine.stats["records"] == len(case.records)
    return found


def run(case: Case) -> list[tuple[int, int]]:
    """Return how many records came and did not come, step by step."""
    with memory_engine([case], 1) as engine:
        return [(stats.records, stats.unsent) for stats in taken(engine, case)]


def test_a_query_gets_its_first_match_in_the_step_in_which_it_is_registered() -> None:
    posts = [post(step, f"{step}{key}", body) for step in (1, 2) for key, body in ("ay", "bn")]
    posts = [(step, row | {"body": {"y": "a fire", "n": "no"}[row["body"]]}) for step, row in posts]
    assert run(published(2, [(1, asks(2, "smoke")), (2, asks(3, "fire"))], posts)) == [(0, 2), (1, 1)]


def test_of_any_words_each_is_enough_and_of_all_words_the_longest() -> None:
    posts = [post(1, key, body) for key, body in zip("abcd", ("a", "long", "a long way", None), strict=True)]
    assert run(published(1, [(1, asks(2, "a long", "any"))], posts)) == [(3, 1)]
    assert run(published(1, [(1, asks(2, "a long"))], posts)) == [(2, 2)]


def test_a_query_without_words_gets_all() -> None:
    posts = [post(1, "a", "x"), post(1, "b", None)]
    assert run(published(1, [(1, asks(2, "y")), (1, register(3, UNIT))], posts)) == [(2, 0)]


def test_words_of_dropped_queries_and_of_those_that_ended_are_forgotten() -> None:
    posts = [post(step, str(step), "fire") for step in (1, 2, 3)]
    assert run(published(3, [(1, asks(2, "fire")), (2, {"op": "drop", "id": 2})], posts)) == [
        (1, 0), (0, 1), (0, 1),
    ]  # fmt: skip
    assert run(published(3, [(1, asks(2, "fire", for_s=1))], posts)) == [(1, 0), (1, 0), (0, 1)]


def test_a_paused_query_gets_what_comes_once_it_goes_on() -> None:
    posts = [post(step, str(step), "fire") for step in (1, 2, 3)]
    commands = [(1, asks(2, "fire")), (2, {"op": "pause", "id": 2}), (3, {"op": "resume", "id": 2})]
    run(published(3, commands, posts))


def test_streams_that_keep_events_get_all_records() -> None:
    assert run(published(1, [(1, asks(2, "fire"))], [post(1, "a", "no")], keep_s=9)) == [(1, 0)]


def test_most_of_a_slice_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_sieve, "_WORTH_IT", 0.6)
    posts = [post(1, key, "fire") for key in "ab"]
    commands = [(1, asks(2, "fire"))]
    assert run(published(1, commands, [*posts, post(1, "c", "no")])) == [(3, 0)]
    assert run(published(1, commands, [*posts, post(1, "c", "no"), post(1, "d", "no")])) == [(2, 2)]


def live(case: Case) -> tuple[Case, AbstractContextManager[MemoryEngine]]:
    made = as_live(case, [(1, 1), (2, 2)])
    return made.sent, live_engine(made.sent, 1)


def test_a_duplicate_of_a_live_record_that_is_of_no_use_does_not_count() -> None:
    bodies = [("a", "no"), ("a", "fire"), ("b", "no"), ("b", "no"), ("c", "fire")]
    posts = [post(2, key, body) for key, body in bodies]
    sent, running = live(published(2, [(1, asks(2, "fire"))], posts))
    with running as engine:
        engine.take(1, 1)
        engine.take(2, 2)
        assert [update.key for update in engine.delivered().updates] == ["c"]
        stats = read_progress(engine.control).stats
    # Both of "a" come, as the slot finds that the second is a duplicate.
    assert (stats.slots[0].records, stats.slots[0].unsent) == (3, 2)
    assert (stats.records, stats.stale) == (len(sent.records), 2)


def test_in_slices_of_a_live_batch_records_without_use_come_without_their_content() -> None:
    bodies = [("a", "no"), ("b", "fire"), ("c", "no"), ("a", "fire"), ("c", "no"), ("d", "fire")]
    made = as_live(published(2, [(1, asks(2, "fire"))], [post(2, *one) for one in bodies]), [(1, 1), (2, 2)])
    tuning = replace(TUNING, by_slot_slots=0, by_slot_messages=0, slice_messages=3)
    with (
        live_engine(made.sent, 1, tuning) as engine,
        mock.patch.object(task_reader, "packed_records", side_effect=packed_records) as packed,
    ):
        engine.take(1, 1)
        engine.take(2, 2)
        assert engine.delivered().updates == oracle.run(made.counted)
        assert {update.key for update in engine.delivered().updates} == {"b", "d"}
        stats = read_progress(engine.control).stats
    slices = [call.args[0].column("body").to_pylist() for call in packed.call_args_list]
    assert slices == [[None, "fire", None], ["fire", None, "fire"]]
    # All come, so the slot counts all, and finds the second "a" and the second "c" to be duplicates.
    assert (stats.slots[0].records, stats.slots[0].unsent) == (6, 0)
    assert (stats.records, stats.stale) == (6, 2)
    assert stats.sifted == {1: (3, 3)}


def test_a_batch_is_repeated_with_the_queries_that_it_had() -> None:
    posts = [post(step, str(step), "fire") for step in (1, 2)]
    case = published(2, [(1, asks(2, "fire")), (2, {"op": "drop", "id": 2})], posts)
    with memory_engine([case], 1) as engine:
        engine.take(1, 1)
        engine.take(2, 2)
        stream = stream_by_id(engine.control, 1).spec
        blobs = home_blobs(engine.home.path)
        writer = SummaryWriter(engine.control, stream, AttachmentWriter(blobs))
        for up_to, terms in ((engine.offset.seq, 0), (engine.logged[2], 1), (engine.offset.seq, 0)):
            known = summary_at(blobs, stream.id, writer.follow(up_to, SECOND, 2))
            assert known.by_slot(0, None, 2).terms[0].count == terms


def named_slices() -> AbstractContextManager[object]:
    """Logs of slots name the records of slices instead of holding them."""
    return mock.patch("support.memory.EngineSettings", partial(EngineSettings, spool_bytes=1))


def test_a_slot_is_rebuilt_from_all_records_of_its_slices() -> None:
    bodies = {"a": "fire", "b": "no"}
    posts = [post(step, f"{step}{key}", body) for step in (1, 2, 3) for key, body in bodies.items()]
    case = published(3, [(1, asks(2, "fire"))], posts)
    with (
        named_slices(),
        memory_engine([case], 1) as engine,
        mock.patch.object(record_replay, "_find_chunk", side_effect=record_replay._find_chunk) as found,
    ):
        engine.take(1, 2)
        engine.restart(arena=True)
        engine.take(3, 3)
        assert engine.delivered().updates == oracle.run(case)
        named = [call.args for call in found.call_args_list if call.args[0].kind == "records"]
    assert [(chunk.rows, again["sifted"]) for chunk, again, _ in named] == [(2, True)]
    [(chunk, again, made)] = named
    with pytest.raises(RecordReplayError):
        record_replay._find_chunk(replace(chunk, rows=5), again, made)
    with pytest.raises(RecordReplayError):
        record_replay._find_chunk(chunk, again | {"sifted": False}, made)


POSTS = '{"id": %d, "lon": 1, "lat": 1, "ts": "2025-01-01T00:00:0%d", "body": "%s"}\n'
DEFINED = """
CREATE EVENT STREAM posts (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, body STRING)
  KEY id  LOCATION (lon, lat)  TIME ts  TEXT body  FROM FILE '%s'  KEEP NONE;
REGISTER QUERY fires AS SELECT id FROM posts WHERE body CONTAINS 'big fire';
REGISTER QUERY wet AS SELECT id FROM posts WHERE body CONTAINS ANY 'water rain';
"""


def shown(session: Session, statement: str) -> list[dict[str, object]]:
    rows = [answer for answer in session.outcomes(statement) if isinstance(answer, Rows)]
    return [dict(zip(rows[0].columns, row, strict=True)) for row in rows[0].rows]


def test_show_and_explain_tell_what_slots_do_not_get(tmp_path: Path) -> None:
    bodies = ["no", "big", "fire", "rain", "no"]
    file = tmp_path / "posts.jsonl"
    file.write_text("".join(POSTS % (n, n, body) for n, body in enumerate(bodies)))
    with local_session(tmp_path, 1, published=True) as session:
        for _ in session.outcomes(DEFINED % file + "RUN;"):
            pass
        [slot] = shown(session, "SHOW SLOTS")
        assert (slot["records"], slot["unsent"]) == (2, 3)
        [row] = shown(session, "SHOW ROUTING")
        assert row["unsent"] == "60%"
        status = {row["item"]: row["value"] for row in shown(session, "SHOW STATUS")}
        assert status["records"] == len(bodies)

        def sent(name: str) -> object:
            items = {row["item"]: row["value"] for row in shown(session, f"EXPLAIN {name}")}
            return items["records sent for it"]

        assert str(sent("fires")).startswith("those with 'fire', ")
        assert str(sent("wet")).startswith("those with 'water' or 'rain', ")
