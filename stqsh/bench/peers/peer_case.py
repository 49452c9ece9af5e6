"""Make the input of stqsh and its peers: the same reports, step by step, and the same range queries.

Objects walk on the unit square and report in turn, none of them twice in a step. Every object reports in the
first `fill` steps; then the queries come, and their first answers count as those of step `fill`; then come
the measured steps. A slow peer takes only the first of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stqsh.bench.harness.workload import Motion, rectangles, ticks_to_fill

Reports = tuple[NDArray[np.int64], NDArray[np.float64]]
"""The objects of a step, int64 (n,), and their places, float64 (n, 2)."""


@dataclass(frozen=True)
class PeerCase:
    """The sizes of the case. Steps count from 1.

    Attributes:
        per_step: reports a step.
        steps, peer_steps: measured steps of stqsh and of a peer.
        side: the side of a query, which is a square.
    """

    objects: int
    queries: int
    per_step: int
    steps: int
    peer_steps: int
    side: float = 0.01

    @property
    def fill(self) -> int:
        """The number of steps until every object has reported."""
        return ticks_to_fill(self.objects, self.per_step)

    @property
    def peer_records(self) -> int:
        """The number of measured records of a peer."""
        return self.peer_steps * self.per_step

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The queries, closed squares: x1, y1, x2, y2, float64 (queries, 4)."""
        return rectangles(self.queries, self.side)

    @cached_property
    def reports(self) -> list[Reports]:
        """The reports of each step; those of step n are at index n - 1."""
        motion = Motion(self.objects, self.per_step, self.fill + self.steps)
        return list(motion.reports())

    def table(self, first: int, last: int) -> pa.Table:
        """Return the reports of the steps first to last: step int32, oid int64, x, y float64."""
        some = self.reports[first - 1 : last]
        sizes = [len(who) for who, _ in some]
        places = np.concatenate([at for _, at in some])
        columns = [
            np.repeat(np.arange(first, last + 1, dtype=np.int32), sizes),
            np.concatenate([who for who, _ in some]),
            places[:, 0],
            places[:, 1],
        ]
        return pa.table(list(map(pa.array, columns)), names=["step", "oid", "x", "y"])

    def share(self, first: int, last: int, number: int, of: int) -> pa.Table:
        """Return the reports of these steps that one of several connections sends."""
        table = self.table(first, last)
        return table.filter(pa.array(table.column("oid").to_numpy() % of == number))

    def regions(self) -> pa.Table:
        """Return the queries as a table: id int64, x1, y1, x2, y2 float64."""
        columns = [np.arange(self.queries), *self.squares.T]
        return pa.table(list(map(pa.array, columns)), names=["id", "x1", "y1", "x2", "y2"])

    def write(self, file: Path) -> None:
        """Write all reports as Parquet for stqsh, with a tick of one second for each step."""
        table = self.table(1, self.fill + self.steps)
        seconds = (table.column("step").to_numpy().astype(np.int64) - 1) * 1_000_000
        stamped = table.append_column("ts", pa.array(seconds.astype("datetime64[us]")))
        pq.write_table(stamped.drop_columns(["step"]), file, compression="none")
