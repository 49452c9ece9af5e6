"""Deliver: a batch's file first, then its progress, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.engine.delivery.deliver import Delivery, by_slot, merge_growth, read_outcome, time_split
from stqsh.spec.chunk import COUNTS, UPDATES, Chunk, ChunkOrder, pack, pack_json, to_table, unpack
from stqsh.spec.stats import SlotStats, TimeSplit
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress

CLOCK = {
    "first_step": 4, "last_step": 6, "base_tick": 100, "tick_us": 1000, "seq": 8, "asked": 0,
    "run_done": 0, "ended": False, "running": True, "playing": False, "rows": {"3": 7}, "backlog": 2,
}  # fmt: skip
ROWS = pa.RecordBatch.from_pydict({"oid": ["a", "b"]})


def chunk(kind: str, payload: bytes, slot: int = 0, stream: int = 3) -> Chunk:
    return Chunk(slot, stream, kind, ChunkOrder(), 4, 6, 0, payload)


def batch(*more: Chunk, **clock: Any) -> list[Chunk]:
    return [chunk("clock", pack_json(CLOCK | clock), stream=0), *more]


def counts(slot: int, values: dict[int, int]) -> Chunk:
    content = pa.RecordBatch.from_arrays(
        [pa.array(list(values)), pa.array(list(values.values()))], schema=COUNTS
    )
    return chunk("counts", pack(content), slot)


@pytest.fixture
def home(tmp_path: Path) -> SessionHome:
    (tmp_path / "updates").mkdir()
    return SessionHome(tmp_path)


def test_progress_says_how_far_the_engine_is(home: SessionHome) -> None:
    control = ControlDb(home.path, create=True)
    stats = chunk("stats", pack_json({"slot": 0, "records": 5, "updates": 2, "stale": 1}))
    Delivery(home, control).deliver(to_table(batch(stats)), 11)
    progress = read_progress(control)
    assert (progress.batch, progress.step, progress.seq, progress.base_tick) == (11, 6, 8, 100)
    assert progress.stats.records == 5
    assert progress.stats.steps == 3
    assert not list(home.updates.iterdir())


def test_a_batch_that_comes_again_writes_the_same_file_and_nothing_else(home: SessionHome) -> None:
    control = ControlDb(home.path, create=True)
    updates = pa.RecordBatch.from_pylist([{"step": 4, "query": 9, "op": 1, "why": 0, "row": 1}], UPDATES)
    chunks = batch(
        chunk("rows", pack(ROWS)), chunk("updates", pack(updates)), chunk("found", pack(ROWS)), asked=5
    )
    delivery = Delivery(home, control)
    delivery.deliver(to_table(chunks), 2)
    (file,) = home.updates.iterdir()
    first = file.read_bytes()
    delivery.deliver(to_table(chunks), 2)
    assert file.read_bytes() == first
    assert [row.kind for row in read_log(control)] == ["found"]


def test_a_batch_that_comes_again_is_in_the_totals_once(home: SessionHome) -> None:
    control = ControlDb(home.path, create=True)
    stats = chunk("stats", pack_json({"slot": 0, "records": 5, "stale": 1, "failed_calls": 3}))
    delivery = Delivery(home, control)
    for number in (1, 1, 2, 2, 3):
        delivery.deliver(to_table(batch(stats)), number)
    totals = read_progress(control).stats
    assert (totals.records_total, totals.stale_total, totals.failed_calls) == (15, 3, 9)


def test_found_records_of_all_slots_become_one_log_row_a_stream(home: SessionHome) -> None:
    delivered = read_outcome(batch(chunk("found", pack(ROWS)), chunk("found", pack(ROWS), slot=1), asked=7))
    (found,) = delivered.found
    assert (found.stream_id, found.up_to) == (3, 7)
    assert unpack(found.payload).num_rows == 4


def test_a_look_up_that_finds_nothing_is_answered_too() -> None:
    (found,) = read_outcome(batch(asked=7)).found
    assert (found.up_to, found.payload) == (7, b"")


def test_growth_and_ends_of_all_slots_are_merged() -> None:
    ended = chunk("notice", pack_json([{"event": "ended", "query": 4, "step": 5}]))
    delivered = read_outcome(batch(counts(0, {2: 5, 3: 1}), counts(1, {3: -1}), ended, ended))
    assert delivered.grown is not None
    assert [column.tolist() for column in delivered.grown] == [[2, 3], [5, 0]]
    assert delivered.ended == {4}


@given(st.lists(st.lists(st.tuples(st.integers(1, 40), st.integers(-3, 3)), max_size=6), min_size=1))
@pytest.mark.parametrize("spread", [1, 1_000_000])
def test_growth_adds_up_by_query_whether_ids_are_dense_or_not(
    spread: int, slots: list[list[tuple[int, int]]]
) -> None:
    chunks = [
        Chunk(slot, 1, "counts", ChunkOrder(), 1, 1, len(some), pack(growth_of(some, spread)))
        for slot, some in enumerate(slots)
    ]
    expected: Counter[int] = Counter()
    for query, delta in (one for some in slots for one in some):
        expected[query * spread] += delta
    merged = merge_growth(chunks)
    assert merged is not None
    assert list(zip(*(some.tolist() for some in merged), strict=True)) == sorted(expected.items())
    assert {some.dtype for some in merged} == {np.dtype(np.int64)}


def growth_of(some: list[tuple[int, int]], spread: int) -> pa.RecordBatch:
    queries, deltas = [query * spread for query, _ in some], [delta for _, delta in some]
    return pa.RecordBatch.from_arrays(
        [pa.array(queries, pa.int64()), pa.array(deltas, pa.int64())], schema=COUNTS
    )


def test_a_batch_without_a_clock_is_refused() -> None:
    with pytest.raises(ValueError, match="without a clock"):
        read_outcome([chunk("rows", pack(ROWS))])


def test_the_slowest_slot_counts_in_the_split_of_time() -> None:
    slots = [{"at": "evaluate", "slot": n, "open_us": 1, "fold_us": 10 * n, "store_us": 2} for n in (1, 2)]
    timings = [chunk("timing", pack_json(slot)) for slot in [*slots, {"at": "source", "us": 7}]]
    split = time_split(read_outcome(batch(*timings)).timings, run_us=100, write_us=4)
    assert split == TimeSplit(
        source_us=7, transfer_us=70, kernel_us=20, state_us=3, deliver_us=4, total_us=104
    )


def test_what_the_planner_has_read_is_time_of_the_source() -> None:
    timings = [
        chunk("timing", pack_json(timing)) for timing in [{"at": "plan", "us": 20}, {"at": "source", "us": 7}]
    ]
    split = time_split(read_outcome(batch(*timings)).timings, run_us=100, write_us=4)
    assert split == TimeSplit(source_us=27, transfer_us=93, deliver_us=4, total_us=124)


def test_updates_of_merged_answers_count_to_their_slot() -> None:
    evaluate = [SlotStats(slot, objects=5, updates=3) for slot in (1, 0)]
    aggregate = [SlotStats(1, updates=4)]
    assert by_slot([*aggregate, *evaluate]) == [
        SlotStats(0, objects=5, updates=3),
        SlotStats(1, objects=5, updates=7),
    ]
