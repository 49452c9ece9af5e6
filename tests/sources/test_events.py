"""Event streams: a record stands where it happened, and of those that share a key the first one stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.streams import prepared, stream

from stqsh.core.state.interner import SeenKeys
from stqsh.errors import SourceError
from stqsh.sources.replay_store import replay_order
from stqsh.sources.replay_store.manifest import Manifest, read_manifest
from stqsh.sources.replay_store.preparation import prepare
from stqsh.sources.replay_store.spatial_extent import SAMPLE, bounds_of, initial_table
from stqsh.spec.stream import GeneratorSourceSpec

SECOND = 1_000_000
HEAD = "oid,lon,lat,ts,n\n"
EVENT: dict[str, Any] = {"kind": "event", "keep_us": None}
#: Files of (key, tenth of a second).
POSTS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-30, 30)), max_size=8), min_size=1, max_size=3
)


def write(directory: Path, files: list[list[tuple[str, int]]]) -> list[tuple[int, int, str, int]]:
    """Write the posts; each as (time in µs, tick, key, number), in replay order by time."""
    directory.mkdir()
    rows = []
    for file, posts in enumerate(files):
        numbered = [(key, tenth, file * 100 + place) for place, (key, tenth) in enumerate(posts)]
        body = [f"{key},1,2,{tenth / 10},{number}" for key, tenth, number in numbered]
        (directory / f"{file}.csv").write_text(HEAD + "\n".join(body))
        rows += [(tenth * 100_000, tenth // 10, key, number) for key, tenth, number in numbered]
    return sorted(rows, key=lambda row: row[0])


def by_arrival(files: list[list[tuple[str, int]]]) -> list[tuple[int, int, str, int]]:
    """The same in replay order by arrival."""
    rows = []
    for file, posts in enumerate(files):
        latest = -(10**9)
        for place, (key, tenth) in enumerate(posts):
            latest = max(latest, tenth // 10)
            rows.append((tenth * 100_000, latest, key, file * 100 + place))
    return sorted(rows, key=lambda row: row[1])


def first_ones(rows: list[tuple[int, int, str, int]], keep_us: int | None) -> list[int]:
    """The numbers of the records that are no duplicates, told one by one."""
    accepted: list[tuple[int, int, str, int]] = []
    for row in rows:
        _, tick, key, _ = row
        same = [(time, then) for time, then, other, _ in accepted if other == key]
        if keep_us == 0:  # KEEP NONE: kept during its own tick
            kept = any(then == tick for _, then in same)
        else:
            kept = any(keep_us is None or time >= tick * SECOND - keep_us for time, _ in same)
        if not kept:
            accepted.append(row)
    return [number for *_, number in accepted]


@given(POSTS, st.sampled_from([None, 0, 300_000, 2 * SECOND]), st.booleans(), st.integers(1, 5))
def test_a_record_whose_key_is_still_kept_is_left_out_and_counted(
    tmp_path_factory, files, keep_us, arrival, segment_rows
) -> None:
    root = tmp_path_factory.mktemp("events")
    rows = write(root / "in", files)
    if arrival:
        rows = by_arrival(files)
    changes = EVENT | {"keep_us": keep_us, "order": "arrival" if arrival else "time"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_order, "SEGMENT_ROWS", segment_rows)
        result = prepared(stream(root / "in/*.csv", **changes), root / "store")
    expected = first_ones(rows, keep_us)
    assert result.column("n") == expected
    assert result.store.manifest.duplicates == len(rows) - len(expected)


@given(st.lists(st.lists(st.sampled_from(["", "a", "b", "é"]), max_size=6), max_size=5), st.booleans())
def test_keys_that_were_seen_before_are_told(batches, numbers) -> None:
    known, seen = SeenKeys(), set()
    for batch in batches:
        keys = [len(key) + ord(key or "\0") for key in batch] if numbers else batch
        expected = []
        for key in keys:
            expected.append(key in seen)
            seen.add(key)
        again = known.seen(pa.array(keys, pa.int64() if numbers else pa.string()))
        assert again.tolist() == expected


def test_a_record_without_a_location_is_a_dead_letter(load) -> None:
    result = load({"a.csv": HEAD + "a,1,2,3,1\nb,,,4,2\n"}, **EVENT)
    assert result.column("n") == [1]
    assert result.dead == [("a.csv", 3, "no location", "b,,,4,2")]


def test_the_same_record_says_of_a_moving_object_that_it_leaves(load) -> None:
    assert load({"a.csv": HEAD + "a,1,2,3,1\na,,,4,2\n"}, kind="moving").column("n") == [1, 2]


def test_a_store_of_events_tells_where_they_lie(load) -> None:
    rows = "".join(f"k{i},{i % 100},{i // 100 / 10},{i},{i}\n" for i in range(10_000))
    manifest = load({"a.csv": HEAD + rows}, **EVENT).store.manifest
    assert len(manifest.sample) == SAMPLE
    assert manifest.bounds is not None
    x1, y1, x2, y2 = manifest.bounds
    assert x1 < 1 < 98 < x2 and y1 < 0.1 < 9.8 < y2
    assert manifest.sample[0] == (0.0, 0.0) and manifest.sample[-1] == (99.0, 9.9)


def test_a_store_of_an_older_version_keeps_its_coarse_grid(load) -> None:
    result = load({"a.csv": HEAD + "a,1,2,3,1\nb,3,4,4,2\n"}, **EVENT)
    manifest, spec = result.store.manifest, stream("a.csv", **EVENT)
    grid = initial_table(manifest, spec, 2)
    older = json.loads(msgspec.json.encode(manifest))
    del older["has_coarse_grid"]
    coarse = initial_table(msgspec.convert(older, Manifest), spec, 2)
    assert grid is not None and coarse is not None
    assert grid.cells.side == 256 and coarse.cells.side == 64


def test_bounds_are_as_declared(load) -> None:
    result = load({"a.csv": HEAD + "a,1,2,3,1\n"}, **EVENT, bounds=[0, 0, 10, 20])
    assert result.store.manifest.bounds == (0, 0, 10, 20)


def test_bounds_pass_over_a_few_records_far_off() -> None:
    places = np.random.default_rng(1).uniform((10, 50), (11, 51), (1000, 2))
    places[::250] = 0.0
    x1, y1, x2, y2 = bounds_of(places)
    assert 9.9 < x1 < 10.1 and 49.9 < y1 < 50.1 and 10.9 < x2 < 11.1 and 50.9 < y2 < 51.1


@pytest.mark.parametrize("places", [[], [(7.0, 50.0)], [(0.0, 1.0), (0.0, 2.0)]])
def test_bounds_always_have_an_area(places) -> None:
    x1, y1, x2, y2 = bounds_of(np.array(places, dtype=np.float64).reshape(-1, 2))
    assert x1 < x2 and y1 < y2


def test_an_empty_store_of_events_is_complete(load) -> None:
    result = load({"a.csv": HEAD}, **EVENT)
    assert result.store.complete and result.store.manifest.sample == ()


def test_a_generator_of_moving_objects_gives_no_events(tmp_path: Path) -> None:
    spec = replace(stream("x", **EVENT), source=GeneratorSourceSpec("network"))
    with pytest.raises(SourceError, match="makes objects that move"):
        prepare(spec, tmp_path / "store", report=lambda *_: None)
    assert read_manifest(tmp_path / "store") is None
