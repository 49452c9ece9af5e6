"""New queries of a batch: common values are stored once, different values in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace as changed_struct

from stqsh.arrays import Array
from stqsh.spec.chunk import Chunk, ChunkKind
from stqsh.spec.command import SlotCommand, unpack_commands
from stqsh.spec.expression import (
    ColumnExpr,
    CompareExpr,
    LiteralExpr,
    conjunction,
    conjuncts,
    focal_keys_in,
)
from stqsh.spec.query import SlotQuery, with_members
from stqsh.spec.query_rows import FOCAL_PATH, QueryRows, filled, is_measure, unpack_query_rows
from stqsh.spec.region import Key, RegionBase
from stqsh.spec.stream import ARRIVED

Keys: TypeAlias = "pa.Array[Any]"
_Shape = TypeVar("_Shape", bound=RegionBase)

FOCAL = "focal"
"""The name of the field with the key of a region's focal object."""


@dataclass(frozen=True, eq=False)
class NewQueries:
    """Queries registered together, by id.

    Attributes:
        ids: int64 (n,), ascending.
        patterns: Specs; a query that is registered alone has its own pattern.
        which: The pattern of each query, int32 (n,).
        numbers: Numbers of regions that differ, float64 (n,) by name; NaN if the pattern has the value.
        focals: The keys of focal objects that differ, (n,); null if the pattern has the key, None if all
            patterns do.
        steps: The step in which each was registered, int64 (n,), if other slots have had it since then; -1
            for new queries, None if all are new. A query that a slot gets later has no members there.
    """

    ids: Array
    patterns: Sequence[SlotQuery]
    which: Array
    numbers: dict[str, Array]
    focals: Keys | None = None
    steps: Array | None = None

    @staticmethod
    def of(specs: Sequence[SlotQuery], steps: Sequence[int] | None = None) -> NewQueries:
        """Return queries with one spec each, in the order of their ids."""
        ids = np.array([spec.id for spec in specs], np.int64)
        known = None if steps is None else np.array(steps, np.int64)
        return NewQueries(ids, specs, np.arange(len(specs), dtype=np.int32), {}, steps=known)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[SlotQuery]:
        """Yield the specs one by one, which is slow for many queries."""
        for row, (id_, which) in enumerate(zip(self.ids.tolist(), self.which.tolist(), strict=True)):
            pattern = self.patterns[which]
            own_numbers = {name: float(values[row]) for name, values in self.numbers.items()}
            own: dict[str, float | Key] = {
                name: value for name, value in own_numbers.items() if not isnan(value)
            }
            if self.focals is not None and self.focals[row].is_valid:
                own[FOCAL] = self.focals[row].as_py()
            yield with_members(changed_struct(pattern, id=id_), region=changed_struct(pattern.region, **own))

    def those(self, rows: Array) -> NewQueries:
        """Return some of the queries, by a mask or by positions in ascending order."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        focals = None if self.focals is None else self.focals.take(np.arange(len(self))[rows])
        steps = None if self.steps is None else self.steps[rows]
        return replace(
            self, ids=self.ids[rows], which=self.which[rows], numbers=numbers, focals=focals, steps=steps
        )

    def of_kind(self, kind: str) -> NewQueries:
        """Return the queries of a kind."""
        mine = np.array([pattern.kind == kind for pattern in self.patterns], np.bool_)
        return self if mine.all() else self.those(mine[self.which])

    def with_patterns(self, changed: dict[int, SlotQuery]) -> NewQueries:
        """Return the same queries with some of the patterns changed."""
        return replace(self, patterns=[changed.get(i, spec) for i, spec in enumerate(self.patterns)])

    @property
    def are_new(self) -> Array:
        """Which queries are new, not only new to this slot; bool (n,)."""
        new: Array = np.ones(len(self), np.bool_) if self.steps is None else self.steps < 0
        return new

    def begun(self, first: int) -> Array:
        """Return the step in which each was registered, int64 (n,); `first` for new queries."""
        return np.full(len(self), first) if self.steps is None else np.where(self.are_new, first, self.steps)

    def since(self, first: int) -> NewQueries:
        """Add a condition to queries with SINCE NOW: an event must come in the query's step or later.

        New queries are registered in the step `first`.
        """
        waiting = [i for i, spec in enumerate(self.patterns) if spec.members.since_now]
        begun, changed = self.begun(first), {}
        for i in waiting:
            step = int(begun[self.which == i].max(initial=0))  # one pattern was registered at once
            parts = [*conjuncts(self.patterns[i].condition), _arrives(step)]
            changed[i] = with_members(self.patterns[i], condition=conjunction(parts))
        return self.with_patterns(changed)

    def spread(self, values: Sequence[Any], dtype: npt.DTypeLike) -> Array:
        """Spread values of patterns to an array with one element for each query."""
        return np.array(values, dtype)[self.which]

    def regions(self, shape: type[_Shape]) -> tuple[Array, list[_Shape]]:
        """Return the positions of queries with regions of a shape, and the region of each one's pattern."""
        found = {i: spec.region for i, spec in enumerate(self.patterns) if isinstance(spec.region, shape)}
        rows = np.flatnonzero(np.isin(self.which, list(found))) if found else np.empty(0, np.int64)
        return rows, [found[which] for which in self.which[rows].tolist()]

    def moving(self, key_type: pa.DataType) -> tuple[Array, Keys]:
        """Return the positions of queries with moving regions, int64, and the keys of their focal objects."""
        focal_keys = [pattern.region.focal_key for pattern in self.patterns]
        if all(key is None for key in focal_keys):
            return np.empty(0, np.int64), pa.array([], key_type)
        keys: Keys = pa.array(focal_keys, key_type).take(self.which)
        if self.focals is not None:
            keys = pc.coalesce(self.focals.cast(key_type), keys)
        rows: Array = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
        return rows, keys.take(rows)

    def focal_objects(self, key_type: pa.DataType) -> tuple[Array, Keys]:
        """Return each query's focal objects, those of its region and of the regions in its condition.

        Returns:
            The positions of the queries, int64, and the keys.
        """
        rows, keys = self.moving(key_type)
        around = [(i, key) for i, one in enumerate(self.patterns) for key in focal_keys_in(one.condition)]
        if not around:
            return rows, keys
        which, own = zip(*around, strict=True)
        order = np.argsort(self.which, kind="stable")
        begin = np.searchsorted(self.which[order], np.arange(len(self.patterns) + 1))
        queries = [order[begin[i] : begin[i + 1]] for i in which]
        each: Any = pa.array(np.repeat(np.arange(len(own)), [len(some) for some in queries]))
        theirs = pa.array(own, key_type).take(each)
        return np.concatenate([rows, *queries]), pa.concat_arrays([keys, theirs])


def _arrives(step: int) -> CompareExpr:
    """Return the condition that an event comes in a step or later."""
    return CompareExpr(">=", ColumnExpr(ARRIVED), LiteralExpr(step, "BIGINT"))


def gathered(some: Iterable[NewQueries]) -> NewQueries:
    """Concatenate new queries, in the order of their ids."""
    parts = [part for part in some if len(part)]
    if not parts:
        return NewQueries.of([])
    before = np.cumsum([0, *(len(part.patterns) for part in parts)])
    ids = np.concatenate([part.ids for part in parts])
    names = sorted({name for part in parts for name in part.numbers})
    numbers = {
        name: np.concatenate([part.numbers.get(name, np.full(len(part), np.nan)) for part in parts])
        for name in names
    }
    which = np.concatenate([part.which + start for part, start in zip(parts, before.tolist(), strict=False)])
    patterns = [spec for part in parts for spec in part.patterns]
    steps = None
    if any(part.steps is not None for part in parts):
        steps = np.concatenate([part.begun(-1) for part in parts])
    together = NewQueries(ids, patterns, which.astype(np.int32), numbers, _focals(parts), steps)
    return together.those(np.argsort(ids, kind="stable"))


def _focals(parts: Sequence[NewQueries]) -> Keys | None:
    """Return the focal keys of all queries, null if the pattern has it; None if all patterns have."""
    kind = next((part.focals.type for part in parts if part.focals is not None), None)
    if kind is None:
        return None
    return pa.concat_arrays(
        [pa.nulls(len(part), kind) if part.focals is None else part.focals for part in parts]
    )


def unpack_alike(payload: bytes) -> NewQueries:
    """Return the queries in a payload from `pack_alike`."""
    queries = unpack_query_rows(payload)
    pairs = zip(queries.paths, queries.values, strict=True)
    focals = next((some for path, some in pairs if path == FOCAL_PATH), None)
    patterns, which = _patterns(queries)
    steps = None if queries.step is None else np.full(len(queries.ids), queries.step)
    return NewQueries(queries.ids, patterns, which, queries.numbers, focals, steps)


def commands_in(chunks: Iterable[Chunk], before: str = "") -> Iterator[SlotCommand | NewQueries]:
    """Yield the commands in chunks, in the log's order; their kinds begin with `before`."""
    for chunk in chunks:
        if chunk.kind == before + ChunkKind.COMMANDS:
            yield from unpack_commands(chunk.payload)
        elif chunk.kind == before + ChunkKind.REGISTER_ALIKE:
            yield unpack_alike(chunk.payload)


def _patterns(queries: QueryRows) -> tuple[list[SlotQuery], Array]:
    """Return a spec for each occurring combination of values without arrays, and the spec of each query."""
    pairs = zip(queries.paths, queries.values, strict=True)
    others = [(path, some) for path, some in pairs if not is_measure(path) and path != FOCAL_PATH]
    which = np.zeros(len(queries.ids), np.int64)
    for _, some in others:
        codes = some.dictionary_encode().indices.to_numpy().astype(np.int64)
        pair_codes: Any = pa.array(which * (int(codes.max(initial=0)) + 1) + codes)
        which = pair_codes.dictionary_encode().indices.to_numpy().astype(np.int64)
    first: Any = pa.array(np.unique(which, return_index=True)[1])
    columns = [some.take(first).to_pylist() for _, some in others]
    contents = zip(*columns, strict=True) if columns else [() for _ in first]
    paths = [path for path, _ in others]
    pattern = msgspec.to_builtins(queries.pattern)
    specs = [msgspec.convert(filled(pattern, paths, content), SlotQuery) for content in contents]
    return specs, which.astype(np.int32)
