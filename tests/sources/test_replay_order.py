"""The replay order: by time, then file name, then place; by arrival, as a log; and many small files."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams import prepared, stream

from stqsh.sources import source_files as module
from stqsh.sources.replay_store import preparation as preparing
from stqsh.sources.replay_store.manifest import read_manifest

HEAD = "oid,lon,lat,ts,n\n"
#: Per file the times of its rows, in tenths of a second; negative ones too.
LOGS = st.lists(st.lists(st.integers(-30, 30), max_size=8), min_size=1, max_size=4)


def write(directory: Path, logs: list[list[int]]) -> list[tuple[float, int, int]]:
    """Write a file a log; give its rows as (time, file, place)."""
    directory.mkdir()
    rows = []
    for file, times in enumerate(logs):
        body = [f"o{file},1,2,{tenth / 10},{file * 100 + place}" for place, tenth in enumerate(times)]
        (directory / f"{file}.csv").write_text(HEAD + "\n".join(body))
        rows += [(tenth / 10, file, place) for place, tenth in enumerate(times)]
    return rows


@given(LOGS)
def test_by_time_then_file_then_place(tmp_path_factory, logs) -> None:
    root = tmp_path_factory.mktemp("order")
    rows = write(root / "in", logs)
    result = prepared(stream(root / "in/*.csv"), root / "store")
    assert result.column("n") == [file * 100 + place for _, file, place in sorted(rows)]
    assert result.column("_tick") == [int(at // 1) for at, *_ in sorted(rows)]


@given(LOGS, st.sampled_from([1, 8 << 20]))
def test_by_arrival_a_late_record_comes_with_the_latest_tick_of_its_file(
    tmp_path_factory, logs, group
) -> None:
    root = tmp_path_factory.mktemp("order")
    write(root / "in", logs)
    expected = []
    for file, times in enumerate(logs):
        latest = -(10**9)
        for place, tenth in enumerate(times):
            latest = max(latest, tenth // 10)
            expected.append((latest, file, place))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GROUP_BYTES", group)
        result = prepared(stream(root / "in/*.csv", order="arrival"), root / "store")
    assert result.column("n") == [file * 100 + place for _, file, place in sorted(expected)]
    assert result.column("_tick") == [tick for tick, *_ in sorted(expected)]


def test_the_order_in_which_files_are_found_does_not_matter(tmp_path, monkeypatch) -> None:
    write(tmp_path / "in", [[random.Random(file).randint(0, 9) for _ in range(50)] for file in range(9)])
    stores = []
    for seed in range(3):
        found = module._glob(str(tmp_path / "in/*.csv"))
        random.Random(seed).shuffle(found)
        monkeypatch.setattr(module, "_glob", lambda pattern, found=found: found)
        prepared(stream(tmp_path / "in/*.csv"), tmp_path / f"store{seed}")
        stores.append({path.name: path.read_bytes() for path in (tmp_path / f"store{seed}").iterdir()})
    assert stores[0] == stores[1] == stores[2]


@pytest.mark.slow
def test_ten_thousand_files_take_seconds(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    for taxi in range(10_000):
        rows = "".join(f"t{taxi},{taxi % 180},{step},{step * 30},{step}\n" for step in range(5))
        (tmp_path / "in" / f"{taxi}.csv").write_text(HEAD + rows)
    begin = time.process_time()
    result = prepared(stream(tmp_path / "in/*.csv"), tmp_path / "store")
    assert result.store.rows == 50_000
    assert result.column("n")[::10_000] == [0, 1, 2, 3, 4]
    assert time.process_time() - begin < 20


def test_what_is_prepared_is_not_prepared_again(tmp_path) -> None:
    write(tmp_path / "in", [[1, 2, 3]])
    prepared(stream(tmp_path / "in/*.csv"), tmp_path / "store")
    (tmp_path / "in/0.csv").unlink()
    assert prepared(stream(tmp_path / "in/*.csv"), tmp_path / "store").store.rows == 3


def test_a_preparation_that_was_cut_off_begins_again(tmp_path, monkeypatch) -> None:
    write(tmp_path / "in", [[1, 2, 3]])

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(preparing.StoreWriter, "finish", die)
        prepared(stream(tmp_path / "in/*.csv"), tmp_path / "store")
    assert read_manifest(tmp_path / "store") is None
    (tmp_path / "store" / "seg-000007.arrow").write_bytes(b"half")
    assert prepared(stream(tmp_path / "in/*.csv"), tmp_path / "store").store.rows == 3
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == [
        "dead_letters.jsonl",
        "manifest.json",
        "seg-000000.arrow",
        "seg-000000.ticks.npy",
    ]
