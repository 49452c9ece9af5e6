"""Records of moving streams by space: each slot gets what its objects need, however a batch is sliced."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.specs import stream_spec
from support.strategies.routing import tables

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.engine.ingest.crossing_records import RowRouting, SliceRecords, deal_crossing
from stqsh.routing.table import RoutingTable, slots_of
from stqsh.sources.replay_store.previous_rows import keep_previous_rows, previous_rows
from stqsh.sources.replay_store.store import TICK, ReplayStore, StoreWriter
from stqsh.spec.chunk import RecordRole, columns_schema

COLUMNS = [["oid", "BIGINT"], ["x", "DOUBLE"], ["y", "DOUBLE"], ["ts", "TIMESTAMP"], ["row", "BIGINT"]]
SPEC = stream_spec({"id": 1, "columns": COLUMNS, "key": "oid", "x": "x", "y": "y", "time": "ts"}, name="s")
Dealt = set[tuple[int, str, int, int]]
"""Slot, role, row and step of each record that a slot gets."""


@dataclass(frozen=True)
class Reports:
    """Rows of a store: key, place or None, time, tick; each batch of ticks is one step if it is late."""

    rows: list[tuple[int, float | None, int, int]]
    first_tick: int

    def step(self, row: int) -> int:
        return max(self.rows[row][3], self.first_tick)


@st.composite
def reports(draw: st.DrawFn) -> Reports:
    """Some keys that report from few places, now and then stale ones."""
    place = st.none() | st.sampled_from([-0.9, -0.3, 0.1, 0.4, 0.9])
    rows, tick = [], 0
    for _ in range(draw(st.integers(0, 25))):
        tick += draw(st.sampled_from([0, 0, 1, 2]))
        rows.append((draw(st.integers(1, 4)), draw(place), tick - draw(st.sampled_from([0, 0, 0, 2])), tick))
    return Reports(rows, draw(st.integers(0, tick)))


def write(folder: Path, some: Reports) -> ReplayStore:
    writer = StoreWriter(folder, COLUMNS)
    for number, (key, place, ts, tick) in enumerate(some.rows):
        values = {"oid": key, "x": place, "y": place, "ts": ts, "row": number}
        batch = pa.RecordBatch.from_pylist([values], columns_schema(SPEC.columns))
        writer.append(batch.append_column(TICK, pa.array([tick])))
        if number % 7 == 6:
            writer.flush()
    writer.publish()
    return ReplayStore(folder)


def expected(some: Reports, routing: RowRouting) -> Dealt:
    """What slots get of all rows, found one row at a time."""
    found, held, last = set(), dict[int, int](), dict[int, int]()
    by_step: dict[int, list[int]] = {}
    for row in range(len(some.rows)):
        by_step.setdefault(some.step(row), []).append(row)
    for step, rows in by_step.items():
        accepted = []
        for row in rows:
            key, _, ts, _ = some.rows[row]
            if key in last and ts < some.rows[last[key]][2]:
                found.add((home(some, routing, row), "STALE", row, step))
            else:
                last[key] = row
                accepted.append(row)
        for row in accepted:
            final = last[some.rows[row][0]]
            found.add((home(some, routing, final), "REGULAR", row, step))
            before = held.get(some.rows[row][0])
            if row == final and before is not None:
                old, new = home(some, routing, before), home(some, routing, final)
                if old != new:
                    found |= {(old, "DEPARTED", final, step), (new, "PREVIOUS", before, step)}
        held = dict(last)
    return found


def home(some: Reports, routing: RowRouting, row: int) -> int:
    table = routing.table(sum(start <= row for start in routing.starts) - 1)
    key, place, _, _ = some.rows[row]
    hashes = hash_keys(pa.array([key]))
    if place is None:
        return int(slots_of(hashes, table.slots)[0])
    return int(table.slots_of(np.array([place]), np.array([place]), hashes)[0])


def dealt(store: ReplayStore, folder: Path, some: Reports, routing: RowRouting, cuts: list[int]) -> Dealt:
    found = set()
    previous = previous_rows(store, folder, "oid", "ts")
    for start, stop in pairwise([0, *cuts, len(some.rows)]):
        stored = store.read(start, stop)
        steps = pa.array([some.step(row) for row in range(start, stop)], pa.int64())
        records = stored.drop_columns([TICK]).append_column("_step", steps)
        records = records.append_column("_hash", pa.array(hash_keys(stored["oid"])))
        out = deal_crossing(store, SPEC, SliceRecords(start, records, previous[start:stop]), routing)
        columns = zip(
            *(out.records.column(name).to_pylist() for name in ("_role", "row", "_step")), strict=True
        )
        for slot, (role, row, step) in zip(out.slots.tolist(), columns, strict=True):
            found.add((slot, RecordRole(role).name, row, step))
    return found


@given(reports(), st.lists(tables(), min_size=1, max_size=4), st.data())
def test_slots_get_what_their_objects_need(
    some: Reports, made: list[RoutingTable], data: st.DataObject
) -> None:
    count = len(some.rows)
    starts = sorted(
        data.draw(st.lists(st.integers(0, count), min_size=len(made) - 1, max_size=len(made) - 1))
    )
    routing = RowRouting([0, *starts], made.__getitem__)
    ends = [row for row in range(1, count) if some.step(row) != some.step(row - 1)]
    cuts = sorted(data.draw(st.sets(st.sampled_from(ends)))) if ends else []
    with tempfile.TemporaryDirectory() as name:
        store = write(Path(name) / "streams" / "1", some)
        assert dealt(store, Path(name) / "streams" / "1", some, routing, cuts) == expected(some, routing)


def test_the_rows_before_are_found_once_and_again_where_the_file_is_not_whole(tmp_path: Path) -> None:
    some = Reports([(1, 0.1, 5, 5), (2, 0.1, 5, 5), (1, 0.4, 3, 6), (1, 0.4, 6, 6)], 0)
    store, folder = write(tmp_path / "1", some), tmp_path / "1"
    file = folder / "previous.npy"
    assert keep_previous_rows(folder, "oid", "ts") == file
    written = file.stat().st_mtime_ns
    assert keep_previous_rows(folder, "oid", "ts") == file
    assert previous_rows(store, folder, "oid", "ts").tolist() == [-1, -1, -2, 0]
    assert file.stat().st_mtime_ns == written
    whole = file.read_bytes()
    for damaged in (b"", whole[:-3], whole[:64], whole[:-1] + b"\1", b"x" + whole[1:]):
        file.unlink()
        file.write_bytes(damaged)
        assert previous_rows(store, folder, "oid", "ts").tolist() == [-1, -1, -2, 0]
        assert file.read_bytes() == damaged  # workers write nothing
        keep_previous_rows(folder, "oid", "ts")
        assert file.read_bytes() == whole
