"""New queries of a batch: what many of them share is there once, and what differs is in arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from stqsh.core.chunks import pack, unpack

Array = npt.NDArray[Any]
Spec = dict[str, Any]

NUMBERS = ("x1", "y1", "x2", "y2", "x", "y", "radius")
"""The numbers of a region that may be others for each query of a pattern."""


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Queries that come together, by id.

    ids: int64 (n,), ascending. patterns: specs; a query registered by itself has one of its own. which: the
    pattern of each query, int32 (n,). numbers: what differs in their regions, as float64 (n,) by name; NaN
    where the pattern says it.
    """

    ids: Array
    patterns: Sequence[Spec]
    which: Array
    numbers: dict[str, Array]

    @staticmethod
    def of(specs: Sequence[Spec]) -> Newcomers:
        """Queries with a spec each, in the order of their ids."""
        ids = np.array([spec["id"] for spec in specs], np.int64)
        return Newcomers(ids, specs, np.arange(len(specs), dtype=np.int32), {})

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Spec]:
        """Their specs one by one: slow where they are many."""
        for row, (id_, which) in enumerate(zip(self.ids.tolist(), self.which.tolist(), strict=True)):
            pattern = self.patterns[which]
            told = {name: float(values[row]) for name, values in self.numbers.items()}
            own = {name: value for name, value in told.items() if not isnan(value)}
            yield {**pattern, "id": id_, "region": {**pattern["region"], **own}}

    def those(self, rows: Array) -> Newcomers:
        """Some of them: positions in ascending order, or a mask."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        return replace(self, ids=self.ids[rows], which=self.which[rows], numbers=numbers)

    def of_kind(self, kind: str) -> Newcomers:
        """Those whose specs are of a kind."""
        mine = np.array([pattern["kind"] == kind for pattern in self.patterns], np.bool_)
        return self if mine.all() else self.those(mine[self.which])

    def with_patterns(self, changed: dict[int, Spec]) -> Newcomers:
        """The same queries, some of the patterns changed."""
        return replace(self, patterns=[changed.get(i, spec) for i, spec in enumerate(self.patterns)])

    def spread(self, values: Sequence[Any], dtype: npt.DTypeLike) -> Array:
        """What holds for patterns, as an array of the queries."""
        return np.array(values, dtype)[self.which]

    def regions(self, of: Callable[[Spec], bool]) -> tuple[Array, list[Spec]]:
        """The positions of the queries whose patterns' regions are so, and the region of each of them."""
        chosen = [of(pattern["region"]) for pattern in self.patterns]
        rows = np.flatnonzero(self.spread(chosen, np.bool_)) if any(chosen) else np.empty(0, np.int64)
        return rows, [self.patterns[which]["region"] for which in self.which[rows].tolist()]


def gathered(some: Iterable[Newcomers]) -> Newcomers:
    """All of them as one, in the order of their ids."""
    parts = [part for part in some if len(part)]
    if not parts:
        return Newcomers.of([])
    before = np.cumsum([0, *(len(part.patterns) for part in parts)])
    ids = np.concatenate([part.ids for part in parts])
    names = sorted({name for part in parts for name in part.numbers})
    numbers = {
        name: np.concatenate([part.numbers.get(name, np.full(len(part), np.nan)) for part in parts])
        for name in names
    }
    which = np.concatenate([part.which + start for part, start in zip(parts, before.tolist(), strict=False)])
    patterns = [spec for part in parts for spec in part.patterns]
    return Newcomers(ids, patterns, which.astype(np.int32), numbers).those(np.argsort(ids, kind="stable"))


def pack_alike(pattern: Spec, ids: Array, numbers: dict[str, Array]) -> bytes:
    """Queries of one pattern as a payload, for `unpack_alike`: ids int64 (n,), numbers float64 (n,) each."""
    fields: list[tuple[str, pa.DataType]] = [("id", pa.int64())]
    fields += [(name, pa.float64()) for name in numbers]
    schema = pa.schema(fields, metadata={b"pattern": orjson.dumps(pattern)})
    columns: list[Any] = [pa.array(ids), *(pa.array(values) for values in numbers.values())]
    return pack(pa.RecordBatch.from_arrays(columns, schema=schema))


def unpack_alike(payload: bytes) -> Newcomers:
    """The queries within a payload that `pack_alike` made."""
    batch = unpack(payload)
    pattern = orjson.loads((batch.schema.metadata or {})[b"pattern"])
    numbers = {name: batch.column(name).to_numpy() for name in batch.schema.names[1:]}
    return Newcomers(batch.column("id").to_numpy(), [pattern], np.zeros(len(batch), np.int32), numbers)
