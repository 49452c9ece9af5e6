"""The replay store: what is written comes back, by row and by tick, over any cut into segments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stqsh.checksums import DamagedFileError
from stqsh.errors import SourceError
from stqsh.sources.replay_store import store as module
from stqsh.sources.replay_store.manifest import read_manifest, write_manifest
from stqsh.sources.replay_store.segments import segment_name, write_segment
from stqsh.sources.replay_store.store import StoreWriter, open_store

COLUMNS = [("oid", "STRING"), ("x", "DOUBLE")]
SCHEMA = pa.schema([("oid", pa.string()), ("x", pa.float64()), ("_tick", pa.int64())])


def batch(ticks: list[int], first: int = 0) -> pa.RecordBatch:
    oids = [f"o{first + i}" for i in range(len(ticks))]
    return pa.record_batch(
        [pa.array(oids, pa.string()), pa.array(np.arange(len(ticks)) + 0.5), pa.array(ticks, pa.int64())],
        schema=SCHEMA,
    )


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-3, 3), max_size=6), max_size=6), st.integers(1, 5))
def test_rows_and_ticks_come_back_over_any_cut(tmp_path_factory, pieces, segment_rows) -> None:
    directory: Path = tmp_path_factory.mktemp("store")
    ticks = sorted(tick for piece in pieces for tick in piece)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SEGMENT_ROWS", segment_rows)
        writer = StoreWriter(directory, COLUMNS)
        start = 0
        for piece in pieces:
            writer.append(batch(ticks[start : start + len(piece)], start))
            start += len(piece)
        writer.publish(dead=2)
    store = open_store(directory)
    assert (store.rows, store.complete, store.manifest.dead) == (len(ticks), True, 2)
    assert [store.rows_until(tick) for tick in range(-5, 6)] == [
        sum(t <= tick for t in ticks) for tick in range(-5, 6)
    ]
    assert [store.tick_of_row(row) for row in range(len(ticks))] == ticks
    for start in range(len(ticks) + 1):
        for stop in range(start, len(ticks) + 2):
            read = store.read(start, stop)
            assert read.schema == SCHEMA
            assert read["oid"].to_pylist() == [f"o{i}" for i in range(start, min(stop, len(ticks)))]
    if ticks:
        assert (store.first_tick, store.last_tick) == (ticks[0], ticks[-1])


def test_a_growing_store_is_seen_after_refresh(tmp_path: Path) -> None:
    StoreWriter(tmp_path, COLUMNS).publish(complete=False)
    store = open_store(tmp_path)
    assert store.rows == 0 and not store.complete
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    for number in range(3):
        segment = write_segment(tmp_path / f"seg-{number:06d}.arrow", batch([number, number]), number * 2)
        manifest = replace(manifest, segments=(*manifest.segments, segment))
        write_manifest(tmp_path, manifest)
        store.refresh()
        assert (store.rows, store.last_tick) == (number * 2 + 2, number)
    write_manifest(tmp_path, replace(manifest, complete=True))
    store.refresh()
    assert store.complete
    assert store.read(1, 5)["_tick"].to_pylist() == [0, 1, 1, 2]


def test_reading_within_a_segment_makes_no_copy(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, COLUMNS)
    writer.append(batch(list(range(1000))))
    writer.publish()
    before = pa.total_allocated_bytes()
    rows = open_store(tmp_path).read(10, 900)
    assert pa.total_allocated_bytes() == before and rows.num_rows == 890


def test_ticks_are_found_without_reading_the_rows(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, COLUMNS)
    writer.append(batch([1, 1, 2]))
    writer.publish()
    path = tmp_path / segment_name(0)
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    store = open_store(tmp_path)
    assert (store.rows_until(1), store.tick_of_row(2)) == (2, 2)
    with pytest.raises(DamagedFileError):
        store.read(0, 1)


def test_a_directory_without_a_store_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no replay store in"):
        open_store(tmp_path)


def test_rows_out_of_range_are_refused(tmp_path: Path) -> None:
    StoreWriter(tmp_path, COLUMNS).publish()
    with pytest.raises(IndexError):
        open_store(tmp_path).tick_of_row(0)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.lists(st.integers(-1, 40), max_size=3))
def test_rows_keep_their_numbers_when_the_first_segments_go(tmp_path_factory, sizes, needed) -> None:
    directory: Path = tmp_path_factory.mktemp("store")
    StoreWriter(directory, COLUMNS).publish(complete=False)
    manifest = read_manifest(directory)
    assert manifest is not None
    ticks = [number // 2 for number in range(sum(sizes))]
    for number, size in enumerate(sizes):
        some = batch(ticks[manifest.rows : manifest.rows + size], manifest.rows)
        segment = write_segment(directory / f"seg-{number:06d}.arrow", some, manifest.rows)
        manifest = replace(manifest, segments=(*manifest.segments, segment))
    write_manifest(directory, manifest)
    whole = open_store(directory).read(0, len(ticks))
    for row in sorted(needed):
        manifest = manifest.without(row)
        write_manifest(directory, manifest)
        store, gone = open_store(directory), manifest.gone_rows
        assert gone <= max(0, row) and gone < len(ticks)
        assert not manifest.segments[0].rows + gone <= min(row, len(ticks) - sizes[-1])
        assert (store.rows, store.first_tick, store.last_tick) == (len(ticks), 0, ticks[-1])
        assert store.read(gone, len(ticks)).equals(whole.slice(gone))
        for at in range(gone, len(ticks)):
            assert store.tick_of_row(at) == ticks[at]
            assert store.rows_until(ticks[at]) == sum(tick <= ticks[at] for tick in ticks)
        if gone:
            with pytest.raises(IndexError, match="are gone"):
                store.read(gone - 1, len(ticks))
            with pytest.raises(IndexError):
                store.tick_of_row(gone - 1)
