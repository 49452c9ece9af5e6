"""KEEP with a size: what records count, the time slots, and floors however a run is cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.fold import Room

from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.size_floors import FINE, slot_end
from stqsh.core.objects.kept_sizes import KeptSizes, counted_sizes, record_sizes
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec

TICK = 1_000_000
COLUMNS = [("id", "BIGINT"), ("x", "DOUBLE"), ("y", "DOUBLE"), ("ts", "TIMESTAMP")]
MORE = [("i", "INT"), ("f", "FLOAT"), ("b", "BOOLEAN"), ("s", "STRING")]
SPEC = StreamSpec(
    id=1,
    name="e",
    kind="event",
    columns=tuple(ColumnSpec(*column) for column in [*COLUMNS, *MORE]),
    key="id",
    x="x",
    y="y",
    time="ts",
    tick_us=TICK,
    keep_bytes=100,
    source=FileSourceSpec(""),
)


def test_a_record_counts_the_bytes_of_its_columns_however_they_are_stored() -> None:
    texts = pa.array(["", "ab", "äß", None, "日本"])
    rows: dict[str, pa.Array] = {name: pa.nulls(5) for name, _ in [*COLUMNS, *MORE]}
    fixed = 4 * 8 + 4 + 4 + 1
    for column in (texts, texts.dictionary_encode(), texts.slice(0)):
        batch = pa.RecordBatch.from_pydict({**rows, "s": column})
        sizes = [fixed, fixed + 2, fixed + 4, fixed, fixed + 6]
        assert record_sizes(batch, SPEC.columns).tolist() == sizes
        assert record_sizes(batch.slice(1, 3), SPEC.columns).tolist() == sizes[1:4]


def test_counts_are_by_step_and_by_the_tick_of_times() -> None:
    rows = {name: pa.nulls(4) for name, _ in [*COLUMNS, *MORE]}
    times = pa.array([0, TICK - 1, TICK, -1], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict(rows | {"ts": times, "s": ["", "a", "b", "c"], "_step": [1, 1, 1, 2]})
    assert counted_sizes(batch, SPEC).to_pylist() == [
        {"step": 1, "tick": 0, "bytes": 83},
        {"step": 1, "tick": 1, "bytes": 42},
        {"step": 2, "tick": -1, "bytes": 42},
    ]


@given(st.integers(-(1 << 45), 1 << 45), st.integers(0, 1 << 45))
def test_time_slots_are_coarser_with_age_and_contain_what_they_were(tick: int, age: int) -> None:
    end = slot_end(tick, tick + age)
    lengths = [1 << k for k in range(60) if (tick >> k << k) + (1 << k) == end]
    assert end > tick
    assert end == tick + 1 or any(age >= FINE * length for length in lengths)
    assert end - tick <= max(1, age // FINE)
    assert slot_end(tick, tick + age + 1) >= end
    assert slot_end(end - 1, tick + age) == end


ARRIVALS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 3, 2000, 5_000_000]),  # steps since the one before
        st.sampled_from([0, 0, 0, 1, 2, 30, 1500, 40_000, -1, -2000]),  # the record's age in ticks
        st.integers(1, 60),  # its bytes
    ),
    max_size=60,
)


@given(ARRIVALS, st.integers(1, 300), st.lists(st.integers(0, 60), max_size=8), st.integers(-5, 10**9))
def test_floors_are_those_of_the_search_of_all_however_a_run_is_cut(
    arrivals: list[tuple[int, int, int]], limit: int, cuts: list[int], base: int
) -> None:
    step, rows, room = 1, list[tuple[int, int, int]](), Room(limit)
    for gap, age, size in arrivals:
        step += gap
        rows.append((step, base + step - 1 - age, size))
    floors: dict[int, int | None] = {}
    for now in sorted({row[0] for row in rows}):
        for arrived, tick, size in rows:
            if arrived == now:
                room.take(tick, size)
        room.let_go(base + now - 1)
        floors[now] = room.floor
    ends = sorted({*(rows[cut][0] for cut in cuts if cut < len(rows)), step})
    state, first = SlotState.fresh(0), 1
    for last in ends:
        some = [row for row in rows if first <= row[0] <= last]
        counted = [
            pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*part, strict=True)], NAMES)
            for part in (some[::2], some[1::2])
            if part
        ]
        found = KeptSizes(state, "sizes").count(counted, limit, BatchTiming(first, last, base, TICK, -1))
        for now in (now for now in floors if first <= now <= last):
            expected = -NEVER if floors[now] is None else floors[now] * TICK  # type: ignore[operator]
            assert found.at(np.array([now])).tolist() == [expected]
        first = last + 1
    sizes = KeptSizes(state, "sizes")
    assert sizes.bytes.sum() == sum(size for _, size in room.events)
    again = KeptSizes(SlotState.fresh(1), "others")
    again.take(sizes.content())
    assert again.content() == sizes.content()


NAMES = ["step", "tick", "bytes"]


def test_many_ticks_take_few_time_slots() -> None:
    state, count = SlotState.fresh(0), 300_000
    steps = pa.array(np.arange(1, count + 1))
    batch = pa.RecordBatch.from_arrays([steps, steps, pa.array(np.ones(count, np.int64))], NAMES)
    sizes = KeptSizes(state, "sizes")
    sizes.count([batch], count, BatchTiming(1, count, 1, TICK, -1))
    assert sizes.bytes.sum() == count
    assert len(sizes) < 12 * FINE
