"""What stqsh and its peers are all given: the same reports, step by step, and the same range queries.

Objects walk on the unit square, and all of them report in turn, so none twice in a step. The first `fill`
steps bring every object in; then the queries come, and their answers so far are the answers of step `fill`;
then come the measured steps. A slow peer takes the first ones of these only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stqsh.bench.harness.workload import Motion, rectangles

Reports = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Who, int64 [n], and where, float64 [n, 2]."""


@dataclass(frozen=True)
class PeerCase:
    """Sizes: objects, queries (squares), reports a step, measured steps of stqsh and of a peer, side.

    Step numbers begin with 1, as stqsh's do.
    """

    objects: int
    queries: int
    per_step: int
    steps: int
    peer_steps: int
    side: float = 0.01

    @property
    def fill(self) -> int:
        """Steps until every object has reported."""
        return -(-self.objects // self.per_step)

    @property
    def peer_records(self) -> int:
        """Measured records of a peer."""
        return self.peer_steps * self.per_step

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The queries, closed squares of this side: float64 [queries, 4], x1 y1 x2 y2."""
        return rectangles(self.queries, self.side)

    @cached_property
    def reports(self) -> list[Reports]:
        """The reports of each step; step n is at place n - 1."""
        motion = Motion(self.objects, self.per_step, self.fill + self.steps)
        return list(motion.reports())

    def table(self, first: int, last: int) -> pa.Table:
        """Return the reports of the steps first to last as one table: step int32, oid int64, x, y float64."""
        some = self.reports[first - 1 : last]
        sizes = [len(who) for who, _ in some]
        places = np.concatenate([at for _, at in some])
        columns: dict[str, Any] = {
            "step": np.repeat(np.arange(first, last + 1, dtype=np.int32), sizes),
            "oid": np.concatenate([who for who, _ in some]),
            "x": places[:, 0],
            "y": places[:, 1],
        }
        return pa.table(columns)

    def share(self, first: int, last: int, number: int, of: int) -> pa.Table:
        """Return the reports of these steps by the objects of one connection among several."""
        table = self.table(first, last)
        return table.filter(pa.array(table["oid"].to_numpy() % of == number))

    def regions(self) -> pa.Table:
        """Return the queries as a table: id int64, x1, y1, x2, y2 float64."""
        sides: dict[str, Any] = dict(zip(("x1", "y1", "x2", "y2"), self.squares.T, strict=True))
        return pa.table({"id": pa.array(np.arange(self.queries)), **sides})

    def write(self, file: Path) -> None:
        """Write all reports as stqsh reads them: a tick of one second for each step, in Parquet."""
        table = self.table(1, self.fill + self.steps)
        seconds = (table["step"].to_numpy().astype(np.int64) - 1) * 1_000_000
        stamped = table.append_column("ts", pa.array(seconds.astype("datetime64[us]")))
        pq.write_table(stamped.drop_columns(["step"]), file, compression="none")
