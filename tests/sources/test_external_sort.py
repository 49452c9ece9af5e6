"""Larger than memory: sorted runs on disk give the store, byte for byte, that sorting in memory gives."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams import COLUMNS, Prepared, prepared, stream

from stqsh.core.objects import kept_keys
from stqsh.sources import source_files
from stqsh.sources.replay_store import replay_order
from stqsh.sources.replay_store.manifest import manifest_seal
from stqsh.sources.replay_store.replay_order import cut_runs
from stqsh.spec.stream import StreamSpec


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, a segment and a group of files hold little, and keys are forgotten soon."""
    monkeypatch.setattr(replay_order, "SEGMENT_ROWS", 100)
    monkeypatch.setattr(source_files, "GROUP_BYTES", 3000)
    monkeypatch.setattr(kept_keys, "_FORGET_KEYS", 2)


def both(spec: StreamSpec, directory: Path) -> tuple[Prepared, Prepared]:
    """Return a store that was sorted in memory, and one that was sorted in runs."""
    return prepared(spec, directory / "here"), prepared(spec, directory / "there", run_bytes=4000)


def write(directory: Path) -> None:
    """Write files whose times overlap, with equal times, nulls, all types and bad rows."""
    directory.mkdir()
    chance = random.Random(5)
    for file in range(8):
        rows = ["oid,lon,lat,ts,n,A,b,f"]
        for place in range(120):
            lon = chance.choice(["", str(chance.uniform(-200, 185))])
            lat = "" if lon == "" else str(chance.uniform(-90, 90))
            flag = chance.choice(["true", "0", "", "maybe"] if place == 50 else ["true", "0", ""])
            time, number = chance.randint(-9, 9) / 2, file * 1000 + place
            rows.append(f"o{place % 7},{lon},{lat},{time},{number},é{place},{flag},.5")
        text = "\n".join(rows).encode()
        (directory / f"{file} x.csv{'.gz' if file % 2 else ''}").write_bytes(
            gzip.compress(text) if file % 2 else text
        )
    (directory / "9.csv.gz").write_bytes(b"no gzip")


ALL_TYPES = [*COLUMNS, ["A", "STRING"], ["b", "BOOLEAN"], ["f", "FLOAT"]]


@pytest.mark.parametrize("order", ["time", "arrival"])
def test_runs_give_the_store_that_memory_gives(tmp_path, small, order) -> None:
    write(tmp_path / "in")
    spec = stream(tmp_path / "in/*", format="csv", columns=ALL_TYPES, order=order, tick_us=700_000)
    here, there = both(spec, tmp_path)
    assert here.store.rows > 900 and here.dead
    assert there.store.read(0, 10**6).equals(here.store.read(0, 10**6))
    assert there.dead == here.dead
    assert manifest_seal(tmp_path / "there") == manifest_seal(tmp_path / "here")
    assert all(not path.name.startswith(".") for path in (tmp_path / "there").iterdir())


@pytest.mark.parametrize(("order", "keep_us"), [("time", None), ("time", 2_000_000), ("arrival", 1_500_000)])
def test_runs_give_the_events_that_memory_gives(tmp_path, small, order, keep_us) -> None:
    write(tmp_path / "in")
    event = {"kind": "event", "keep_us": keep_us, "order": order, "tick_us": 700_000}
    spec = stream(tmp_path / "in/*", format="csv", columns=ALL_TYPES, **event)
    here, there = both(spec, tmp_path)
    assert 7 <= here.store.rows < 300 and here.store.manifest.duplicates > 100
    assert there.store.read(0, 10**6).equals(here.store.read(0, 10**6))
    assert manifest_seal(tmp_path / "there") == manifest_seal(tmp_path / "here")


@given(st.lists(st.lists(st.integers(-3, 3), max_size=6), max_size=4), st.integers(0, 30))
def test_a_cut_takes_the_first_records_of_a_stable_sort(runs: list[list[int]], count: int) -> None:
    keys = [np.array(sorted(run), np.int64) for run in runs if run]
    owners = np.repeat(np.arange(len(keys)), [len(run) for run in keys])
    everything: Any = np.concatenate([np.empty(0, np.int64), *keys])
    first = owners[np.argsort(everything, kind="stable")[:count]]
    assert cut_runs(keys, count) == np.bincount(first, minlength=len(keys)).tolist()
