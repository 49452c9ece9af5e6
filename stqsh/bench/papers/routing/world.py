"""The stream of the figures: events with places and perhaps texts, and the queries over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.bench.harness.one_slot import MOVING
from stqsh.bench.papers.routing.maps import UNIT
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.routing.cells import Cells
from stqsh.routing.load import Load
from stqsh.spec.expression import ColumnExpr, ContainsExpr
from stqsh.spec.query import Members, SlotQuery, with_members
from stqsh.spec.query_rows import REGION_PATH, Path, QueryRows
from stqsh.spec.region import NearestSpec, RectangleSpec
from stqsh.spec.stream import ColumnSpec

SECOND = 1_000_000
"""The length of a step in µs; each batch is one step."""

KEPT = 1
"""The steps for which an event is kept after its own."""

SIDE = 256
"""Cells a side."""

_TYPES = {"id": "BIGINT", "x": "DOUBLE", "y": "DOUBLE", "ts": "TIMESTAMP"}
_TIME = pa.timestamp("us", tz="UTC")

EVENTS = msgspec.structs.replace(
    MOVING,
    name="events",
    kind="event",
    columns=tuple(ColumnSpec(*column) for column in _TYPES.items()),
    key="id",
    bounds=UNIT,
    keep_us=KEPT * SECOND,
)

POSTS = msgspec.structs.replace(EVENTS, columns=(*EVENTS.columns, ColumnSpec("body", "STRING")), text="body")
"""The same stream with texts."""


@dataclass(frozen=True, eq=False)
class Records:
    """The records of a step.

    Attributes:
        places: float64 (n, 2).
        hashes: uint64 (n,), those of their keys.
        batch: the records as slots get them.
    """

    step: int
    places: Floats
    hashes: NDArray[np.uint64]
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.places)


def records(step: int, places: Floats, texts: pa.Array[Any] | None = None) -> Records:
    """Make the records of a step at places, float64 (n, 2), with texts of their own if the stream has any."""
    count = len(places)
    numbers: Any = pa.array(np.arange(count) + (step << 32))
    hashes = hash_keys(numbers)
    times: Any = pa.array(np.full(count, step * SECOND)).cast(_TIME)
    columns = {"id": numbers, "x": places[:, 0], "y": places[:, 1], "ts": times}
    if texts is not None:
        columns["body"] = texts
    batch = pa.RecordBatch.from_pydict(columns | {"_step": np.full(count, step), "_hash": hashes})
    return Records(step, places, hashes, batch)


RANGE_QUERY = SlotQuery(kind="range", members=Members(region=RectangleSpec(*UNIT)))


def range_queries(boxes: Floats, phrases: Sequence[str] | None = None) -> QueryRows:
    """Make a range query for each box, see `queries_like`."""
    return queries_like(RANGE_QUERY, boxes, phrases)


def queries_like(pattern: SlotQuery, boxes: Floats, phrases: Sequence[str] | None = None) -> QueryRows:
    """Make a query like a pattern for each box, float64 (n, 4), or for the neighbours of its centre.

    With phrases, they are for posts with all words of one.
    """
    if isinstance(pattern.region, NearestSpec):
        regions = {"x": boxes[:, [0, 2]].mean(axis=1), "y": boxes[:, [1, 3]].mean(axis=1)}
    else:
        regions = {name: boxes[:, at].copy() for at, name in enumerate(("x1", "y1", "x2", "y2"))}
    paths: list[Path] = [(*REGION_PATH, name) for name in regions]
    values: list[Any] = [pa.array(numbers) for numbers in regions.values()]
    condition = None if phrases is None else ContainsExpr(ColumnExpr("body"), phrases[0], "all")
    if phrases is not None:
        paths.append(("members", "condition", 2))
        values.append(pa.array(phrases))
    pattern = with_members(msgspec.structs.replace(pattern, id=1), condition=condition)
    return QueryRows(pattern, np.arange(1, len(boxes) + 1), tuple(paths), tuple(values))


def load_by(places: Floats, boxes: Floats, side: int = SIDE) -> Load:
    """Return the load of records at places, float64 (n, 2), under queries with boxes, float64 (m, 4)."""
    return Load.of(Cells(UNIT, side), places[:, 0], places[:, 1], boxes)
