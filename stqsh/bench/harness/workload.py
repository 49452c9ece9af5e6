"""Synthetic inputs: objects that move about the unit square, and squares over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

_WALK = 0.003
"""The greatest change of a coordinate between two reports in the motion `walk`."""


@dataclass(frozen=True)
class Motion:
    """Objects on the unit square, of which `per_tick` report in each tick of one second, in turn.

    Attributes:
        kind: `walk` (a short way from the last report) or `jump` (anywhere).
        every: only each `every`th tick has reports.
        seed: the same seed gives the same reports.
    """

    objects: int
    per_tick: int
    ticks: int
    kind: str = "walk"
    every: int = 1
    seed: int = 1

    def write(self, path: Path) -> None:
        """Write the reports as one Parquet file with the columns oid (string), x, y, ts."""
        tables = self._tables()
        first = next(tables)
        with pq.ParquetWriter(path, first.schema, compression="none") as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)

    def _tables(self) -> Iterator[pa.Table]:
        names = pa.array([f"o{number}" for number in range(self.objects)])
        for tick, (who, at) in enumerate(self.reports()):
            seconds = np.full(len(who), tick * self.every * 1_000_000, dtype="datetime64[us]")
            columns: list[Any] = [names.take(pa.array(who, pa.int64())), at[:, 0], at[:, 1], seconds]
            yield pa.table(dict(zip(("oid", "x", "y", "ts"), columns, strict=True)))

    def reports(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield the reports of each tick: the objects, int64 (n,), and their places, float64 (n, 2)."""
        rng = np.random.default_rng(self.seed)
        at = rng.random((self.objects, 2))
        turn = rng.permutation(self.objects)
        for tick in range(self.ticks):
            who = turn[np.arange(tick * self.per_tick, (tick + 1) * self.per_tick) % self.objects]
            at[who] = self._moved(rng, at[who])
            yield who, at[who]

    def _moved(self, rng: np.random.Generator, at: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.kind == "jump":
            return rng.random(at.shape)
        return np.clip(at + rng.uniform(-_WALK, _WALK, at.shape), 0.0, 1.0)


def ticks_to_fill(objects: int, per_tick: int) -> int:
    """Return the number of ticks until every object has reported."""
    return -(-objects // per_tick)


def rectangles(count: int, side: float = 0.01, seed: int = 2) -> NDArray[np.float64]:
    """Return squares, uniform on the unit square: x1, y1, x2, y2, float64 (count, 4)."""
    low = np.random.default_rng(seed).random((count, 2)) * (1 - side)
    return np.hstack([low, low + side])
