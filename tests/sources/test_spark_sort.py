"""Larger than memory: the Spark job gives the store that sorting in memory gives."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.streams import COLUMNS, prepared, stream

from stqsh.engine.config import EngineSettings
from stqsh.engine.spark.spark_session import remove_scratch, start_spark
from stqsh.errors import SourceError
from stqsh.sources.replay_store import preparation as preparing

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = EngineSettings(tmp_path_factory.mktemp("home"), memory="1g")
    session = start_spark(settings)
    yield session
    session.stop()
    remove_scratch(settings)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is larger than this memory, and a partition holds little."""
    monkeypatch.setattr(preparing, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(preparing, "PARTITION_BYTES", 4000)
    monkeypatch.setattr(preparing, "GROUP_BYTES", 3000)


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
def test_spark_sorts_as_memory_does(tmp_path, spark, small, order) -> None:
    write(tmp_path / "in")
    spec = stream(tmp_path / "in/*", format="csv", columns=ALL_TYPES, order=order, tick_us=700_000)
    here = prepared(spec, tmp_path / "here")
    there = prepared(spec, tmp_path / "there", spark=spark)
    assert len(there.store._manifest.segments) > 3 and len(here.store._manifest.segments) == 1
    assert there.store.read(0, 10**6).equals(here.store.read(0, 10**6))
    assert there.dead == here.dead
    ticks = range(here.store.first_tick - 1, here.store.last_tick + 2)
    assert [there.store.rows_until(t) for t in ticks] == [here.store.rows_until(t) for t in ticks]
    assert all(not path.name.startswith(".") for path in (tmp_path / "there").iterdir())


@pytest.mark.parametrize(("order", "keep_us"), [("time", None), ("time", 2_000_000), ("arrival", 1_500_000)])
def test_spark_finds_the_duplicates_of_events_that_memory_finds(
    tmp_path, spark, small, order, keep_us
) -> None:
    write(tmp_path / "in")
    event = {"kind": "event", "keep_us": keep_us, "order": order, "tick_us": 700_000}
    spec = stream(tmp_path / "in/*", format="csv", columns=ALL_TYPES, **event)
    here = prepared(spec, tmp_path / "here")
    there = prepared(spec, tmp_path / "there", spark=spark)
    assert 7 <= here.store.rows < 300 and here.store.manifest.duplicates > 100
    assert there.store.read(0, 10**6).equals(here.store.read(0, 10**6))
    assert there.store.manifest.duplicates == here.store.manifest.duplicates
    assert there.store.manifest.bounds == here.store.manifest.bounds
    assert there.store.manifest.sample == here.store.manifest.sample
    assert there.dead == here.dead


def test_a_missing_column_is_the_same_clear_error(tmp_path, spark, small) -> None:
    (tmp_path / "a.csv").write_text("oid,lon,lat,n\n")
    with pytest.raises(SourceError, match="no column ts in"):
        prepared(stream(tmp_path / "a.csv"), tmp_path / "store", spark=spark)
