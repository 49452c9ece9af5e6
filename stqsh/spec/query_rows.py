"""Queries registered together, in the form sent to slots: one spec, and columns of the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.spec.chunk import pack, unpack
from stqsh.spec.older_queries import composed, composed_path
from stqsh.spec.query import SlotQuery

Path = tuple[str | int, ...]
"""The path to a part of a spec: `("members", "region", "x1")`."""
REGION_PATH: Path = ("members", "region")
FOCAL_PATH: Path = (*REGION_PATH, "focal")
"""The path to the key of a region's focal object."""
_MEASURES = frozenset({"x1", "y1", "x2", "y2", "x", "y", "xdist", "ydist", "radius"})


@dataclass(frozen=True, eq=False)
class QueryRows:
    """New queries of one template, in the form sent to slots.

    Attributes:
        pattern: the spec of one of them.
        ids: int64 (n,), ascending.
        paths: the paths to the values that differ.
        values: for each of the paths, the queries' own values, (n,).
        step: the step in which they were registered, if a later routing sends them to a slot; None for new
            queries.
    """

    pattern: SlotQuery
    ids: NDArray[Any]
    paths: tuple[Path, ...]
    values: tuple[pa.Array[Any], ...]
    step: int | None = None

    @cached_property
    def numbers(self) -> dict[str, NDArray[Any]]:
        """The numbers of their regions that differ, by name, float64 (n,) each."""
        pairs = zip(self.paths, self.values, strict=True)
        return {str(path[-1]): some.to_numpy() for path, some in pairs if is_measure(path)}

    def those(self, rows: NDArray[Any]) -> QueryRows:
        """Return the queries that a mask selects."""
        kept = pa.array(rows)
        return replace(self, ids=self.ids[rows], values=tuple(some.filter(kept) for some in self.values))


def pack_alike(queries: QueryRows) -> bytes:
    """Return queries of one template as a payload, see `stqsh.core.queries.registrations.unpack_alike`."""
    names = ["id", *map(str, range(len(queries.paths)))]
    batch = pa.RecordBatch.from_arrays([pa.array(queries.ids), *queries.values], names=names)
    shared = {b"pattern": msgspec.json.encode(queries.pattern), b"paths": msgspec.json.encode(queries.paths)}
    if queries.step is not None:
        shared[b"step"] = str(queries.step).encode()
    return pack(batch.replace_schema_metadata(shared))


def unpack_query_rows(payload: bytes) -> QueryRows:
    """Return the queries in a payload that `pack_alike` made."""
    batch = unpack(payload)
    shared = batch.schema.metadata or {}
    paths = msgspec.json.decode(shared[b"paths"], type=tuple[Path, ...])
    try:
        pattern = msgspec.json.decode(shared[b"pattern"], type=SlotQuery)
    except msgspec.ValidationError:  # of an earlier version, from a slot's log
        pattern = msgspec.convert(composed(msgspec.json.decode(shared[b"pattern"])), SlotQuery)
        paths = tuple(map(composed_path, paths))
    ids, *values = batch.columns
    step = int(shared[b"step"]) if b"step" in shared else None
    return QueryRows(pattern, ids.to_numpy(), paths, tuple(values), step)


def is_measure(path: Path) -> bool:
    """Return whether a path leads to a number of a region, for which slots keep an array."""
    return path[:-1] == REGION_PATH and path[-1] in _MEASURES


def filled(spec: Mapping[str, Any], paths: Sequence[Path], content: Sequence[Any]) -> Mapping[str, Any]:
    """Return a copy of a spec with new content at the end of each path; all other parts are shared."""
    copied: dict[Path, Any] = {(): dict(spec)}
    for path, value in zip(paths, content, strict=True):
        for depth in range(1, len(path)):
            if path[:depth] not in copied:
                part = copied[path[: depth - 1]][path[depth - 1]]
                part = dict(part) if isinstance(part, Mapping) else list(part)
                copied[path[: depth - 1]][path[depth - 1]] = copied[path[:depth]] = part
        copied[path[:-1]][path[-1]] = value
    whole: Mapping[str, Any] = copied[()]
    return whole
