"""Make posts about topics, uniform on the unit square, for aggregate queries over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stqsh.bench.harness.posts import made_posts

CREATE = (
    "CREATE EVENT STREAM m (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, topic STRING, len DOUBLE, "
    "body STRING) "
    "KEY id LOCATION (x, y) TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1) TICK 1 s KEEP {keep} s;"
)
"""The stream of a file that `write_posts` wrote; it keeps posts for this many seconds."""


def write_posts(path: Path, ticks: int, per_tick: int, topics: int, *, said: bool, seed: int = 1) -> None:
    """Write posts as one Parquet file, a tick each second; texts come from `made_posts`.

    Args:
        path: The file.
        ticks: The number of ticks.
        per_tick: The posts of a tick.
        topics: How many topics there are, equally often.
        said: Whether posts have texts, too.
        seed: The same seed gives the same posts.
    """
    draw = np.random.default_rng(seed)
    texts: Any = made_posts().texts if said else pa.array([None], pa.string())
    names: Any = pa.array([f"topic {number}" for number in range(topics)])
    writer = None
    for tick in range(ticks):
        about: Any = draw.integers(0, topics, per_tick)
        which: Any = draw.integers(0, len(texts), per_tick)
        columns = {
            "id": np.arange(tick * per_tick, (tick + 1) * per_tick),
            "x": draw.random(per_tick),
            "y": draw.random(per_tick),
            "ts": np.full(per_tick, tick * 1_000_000, "datetime64[us]"),
            "topic": names.take(pa.array(about)),
            "len": draw.integers(1, 2800, per_tick) / 10,
            "body": texts.take(pa.array(which)),
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    if writer is not None:
        writer.close()
