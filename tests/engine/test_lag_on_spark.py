"""A load that is too much: the engine lags, says so, and catches up; nothing is lost."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stqsh.client.api import Session, connect
from stqsh.client.results import Rows
from stqsh.shell.status import lag_text
from stqsh.storage.rows import Progress

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PATIENCE_S = 300
#: So many ticks of a burst with so many records each, then ticks with a record each.
BURST, DENSE, CALM = 40, 500, 40_000
#: The burst is due within a tenth of a second, in which no engine goes through its ten batches.
SPEED = 400
GREATEST = 2_000
CREATE = (
    "CREATE MOVING STREAM s (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid LOCATION (x, y) TIME ts "
    "FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1) TICK 1 s;"
    "REGISTER QUERY low AS SELECT oid FROM s INSIDE (0, 0, 1, 0.5);"
)


def write_burst(file: Path) -> None:
    ticks = np.concatenate([np.repeat(np.arange(BURST), DENSE), np.arange(BURST, BURST + CALM)])
    keys = pa.array([f"o{number % DENSE}" for number in range(len(ticks))])
    places = np.random.default_rng(7).random((2, len(ticks)))
    times = (ticks * 1_000_000).astype("datetime64[us]")
    pq.write_table(pa.table({"oid": keys, "x": places[0], "y": places[1], "ts": times}), file)


def execute(session: Session, text: str) -> None:
    for _ in session.outcomes(text):
        pass


def caught_up(session: Session) -> list[Progress]:
    """Every batch's progress that was seen until one had nothing left behind it after one that had."""
    seen: dict[int, Progress] = {}
    deadline = time.monotonic() + PATIENCE_S
    lagged = False
    while time.monotonic() < deadline:
        progress = session.progress()
        if progress.stats.lag_s is not None:
            seen[progress.batch] = progress
            lagged = lagged or progress.stats.backlog > 0
            if lagged and not progress.stats.backlog:
                return list(seen.values())
        time.sleep(0.05)
    pytest.fail(f"not caught up: {[p.stats.backlog for p in seen.values()]}")


def test_a_burst_beyond_its_power_makes_the_engine_lag_say_so_and_catch_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_ENGINE_MAX_RECORDS_PER_BATCH", str(GREATEST))
    monkeypatch.setenv("STQSH_ENGINE_MEMORY", "1g")
    write_burst(tmp_path / "burst.parquet")
    with connect(home=tmp_path / "home", temporary=True, autoplay=False) as session:
        execute(session, CREATE.format(file=tmp_path / "burst.parquet"))
        execute(session, "RUN 1 STEPS;")
        execute(session, f"PLAY s AT {SPEED}x;")
        batches = caught_up(session)
        behind = [progress.stats.backlog for progress in batches]
        worst = batches[int(np.argmax(behind))]
        assert max(behind) > GREATEST
        assert worst.stats.lag_s > 0
        assert f"{worst.stats.lag_s:.1f} s, " in lag_text(worst)
        assert lag_text(batches[-1]) == f"lag {batches[-1].stats.lag_s:.1f} s"
        assert all(progress.stats.records <= GREATEST for progress in batches)

        (status,) = session.execute("SHOW STATUS;")
        assert isinstance(status, Rows)
        said = dict(status.rows)
        assert said["behind: records"] is not None
        assert said["records a batch"] == GREATEST
        execute(session, "PAUSE s;")
        taken = session.progress().stats.records_total
        assert taken >= BURST * DENSE
