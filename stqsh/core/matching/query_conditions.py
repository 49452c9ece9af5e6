"""Conditions of queries. Each shape is evaluated once for all candidate pairs of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.conditions.evaluation import evaluate
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.matching.condition_templates import (
    RegionAround,
    Template,
    focal_columns,
    parameter,
    read_template,
    split,
)
from stqsh.core.matching.equal_constants import clear_unequal_pairs
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.columns import DTYPES, StoredColumn, decode
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import add_reference

_AT_ONCE = 1 << 18
"""The most versions evaluated at once: a column of their texts must stay below Arrow's 2 GB."""


class MovingRegions(NamedTuple):
    """Regions of conditions that move, (n,) each.

    Attributes:
        query: The position of the query, int64; -1 if it is not one particular query.
        focal: The focal object, int32; -1 if it is unknown.
        xdist, ydist: Width and height, float64.
        radius: The radius of a circle, float64; -1 for a rectangle.
    """

    query: Array
    focal: Array
    xdist: Array
    ydist: Array
    radius: Array

    @staticmethod
    def joined(some: Sequence[MovingRegions]) -> MovingRegions:
        """Concatenate tables of regions."""
        kinds = (np.int64, np.int32, np.float64, np.float64, np.float64)
        none = MovingRegions(*(np.empty(0, kind) for kind in kinds))
        return MovingRegions(*(np.concatenate(columns) for columns in zip(none, *some, strict=True)))

    def known(self) -> MovingRegions:
        """Return the regions whose focal object is known."""
        known = self.focal >= 0
        return MovingRegions(*(column[known] for column in self))


class QueryConditions:
    """The conditions of a table of queries.

    The header's entry `prefix` lists the shapes. The constants of shape t are the arrays `{prefix}/t{t}/{j}`,
    with one row for each query of that shape. A query's `template` and `constants` are its shape and row.
    """

    def __init__(
        self, state: SlotState, prefix: str, queries: QueryTable, objects: BatchObjects, focal: BatchObjects
    ) -> None:
        self._state, self._prefix, self.queries, self._objects = state, prefix, queries, objects
        self._focal = focal
        self.resolver = Resolver(state, objects.table.spec)
        saved = state.entry("templates").setdefault(prefix, [])
        self._saved: list[list[Any]] = saved
        self.templates = [read_template(shape, tuple(kinds)) for shape, kinds in saved]

    def add(self, positions: Array, new: NewQueries) -> None:
        """Add the conditions of new queries, which are at the given positions."""
        known = {template: t for t, template in enumerate(self.templates)}
        constants: dict[int, list[list[Any]]] = {}
        shape, entry = np.full((2, len(new.patterns)), -1)
        for number, spec in enumerate(new.patterns):
            if spec.condition is None:
                continue
            template, values = split(spec.condition)
            if template not in known:
                known[template] = self._create(template)
            shape[number] = known[template]
            entry[number] = len(constants.setdefault(int(shape[number]), []))
            constants[int(shape[number])].append(values)
        for t, entries in constants.items():
            mine = np.flatnonzero(shape[new.which] == t)
            self._append(t, positions[mine], entry[new.which[mine]], entries)

    def exchange(self, positions: Array, new: NewQueries) -> None:
        """Replace the conditions of queries, which are at the given positions, by those of `new`."""
        self.queries.template[positions] = -1
        self.add(positions, new)

    def _create(self, template: Template) -> int:
        t = len(self.templates)
        self.templates.append(template)
        self._saved.append(template.saved())
        for j, kind in enumerate(template.kinds):
            self._state.create(f"{self._prefix}/t{t}/{j}", DTYPES[kind])
            if kind == "STRING":
                add_reference(self._state, f"{self._prefix}/t{t}/{j}", "strings")
        return t

    def _append(self, t: int, positions: Array, entry: Array, entries: list[list[Any]]) -> None:
        """Set the shape of queries at positions to t, and store the entry of constants of each."""
        held = self._compact(t)
        for j, kind in enumerate(self.templates[t].kinds):
            values: Any = [constants[j] for constants in entries]
            if kind == "STRING":
                values = self._objects.table.pool.intern(pa.array(values, pa.string()))
            self._state.append(f"{self._prefix}/t{t}/{j}", np.array(values, DTYPES[kind])[entry])
        self.queries.template[positions] = t
        self.queries.constants[positions] = held + np.arange(len(positions))

    def _compact(self, t: int) -> int:
        """Drop the constants of removed queries, and return the number of remaining rows."""
        mine = np.flatnonzero(self.queries.template == t)
        rows = self.queries.constants[mine]
        for j in range(len(self.templates[t].kinds)):
            name = f"{self._prefix}/t{t}/{j}"
            self._state.replace(name, self._state.array(name)[rows])
        self.queries.constants[mine] = np.arange(len(mine))
        return len(mine)

    def constant(self, t: int, j: int, queries: Array) -> StoredColumn:
        """Return constant j of the queries at these positions, which all have shape t; (n,)."""
        rows = self.queries.constants[queries]
        return StoredColumn(self._state.array(f"{self._prefix}/t{t}/{j}")[rows], np.ones(len(rows), np.bool_))

    def filter_pairs(self, pairs: CandidatePairs, events: Transitions) -> CandidatePairs:
        """Clear WAS and IS where a condition did not or does not hold.

        WAS tests the version before the event with NOW one step earlier; IS tests the version after it.
        """
        if (self.queries.template < 0).all():
            return pairs
        pairs = pairs._replace(flags=pairs.flags.copy())
        done = clear_unequal_pairs(
            pairs, events, self._objects, self.templates, self.queries.template, self.constant
        )
        flags, left = pairs.flags, np.flatnonzero(pairs.flags)
        for t, chosen in _by_shape(self.queries.template[pairs.query[left]]):
            if t in done:
                continue
            mine = left[chosen]
            was, now = mine[flags[mine] & WAS != 0], mine[flags[mine] & IS != 0]
            versions = np.concatenate([events.old[pairs.event[was]], events.new[pairs.event[now]]])
            steps = np.concatenate([events.step[pairs.event[was]] - 1, events.step[pairs.event[now]]])
            truth = self._truth(t, versions, pairs.query[np.concatenate([was, now])], steps)
            flags[was[~truth[: len(was)]]] &= ~np.uint8(WAS)
            flags[now[~truth[len(was) :]]] &= ~np.uint8(IS)
        return pairs

    def hold(self, position: int, versions: Array, step: int) -> Array:
        """Return whether one query's condition holds for versions, int32 (n,), at a step; bool (n,)."""
        t = int(self.queries.template[position])
        if t < 0:
            return np.ones(len(versions), np.bool_)
        return self._truth(t, versions, np.full(len(versions), position), np.full(len(versions), step))

    def hold_as_of(self, queries: Array, versions: Array, instants: Array) -> Array:
        """Return whether conditions of queries, by position, hold for versions as of instants; bool (n,)."""
        shapes, held = self.queries.template[queries], np.ones(len(queries), np.bool_)
        for t, mine in _by_shape(shapes):
            assert not self.templates[t].around, "an instant does not say where focal objects are"
            held[mine] = self._truth_as_of(t, versions[mine], queries[mine], instants[mine], None)
        return held

    def _truth(self, t: int, versions: Array, queries: Array, steps: Array) -> Array:
        """Return whether shape t holds for versions, with the constants of queries, at steps; bool (n,)."""
        return self._truth_as_of(t, versions, queries, self._objects.timing.at(steps), steps)

    def _truth_as_of(
        self, t: int, versions: Array, queries: Array, instants: Array, steps: Array | None
    ) -> Array:
        some = [slice(at, at + _AT_ONCE) for at in range(0, len(versions), _AT_ONCE)]
        found = [
            self._truth_of_some(
                t, versions[part], queries[part], instants[part], None if steps is None else steps[part]
            )
            for part in some
        ]
        return np.concatenate(found) if found else np.empty(0, np.bool_)

    def _truth_of_some(
        self, t: int, versions: Array, queries: Array, instants: Array, steps: Array | None
    ) -> Array:
        template = self.templates[t]
        names = template.columns(self.resolver.location)
        columns = self.columns((name for name in names if name not in template.extents), versions)
        for name in template.extents:
            shapes = self.coded(name, versions)  # these texts are long
            assert shapes is not None, "a column of extents is a text"
            columns[name] = shapes
        texts = self._objects.table.pool.strings()
        for j, kind in enumerate(template.kinds):
            columns[parameter(j)] = decode(self.constant(t, j, queries), kind, texts)
        if steps is not None:
            for j in {region.focal for region in template.around}:
                places = self._focal.places_of(self.focal_objects(t, j, queries), steps)
                columns |= dict(zip(focal_columns(j), map(pa.array, places), strict=True))
        now: Any = pa.array(instants)
        truth = evaluate(template.shape, columns, now, self.resolver)
        verdict: Array = truth.fill_null(False).to_numpy(zero_copy_only=False)
        return verdict

    def focal_objects(self, t: int, j: int, queries: Array) -> Array:
        """Return the focal object whose key is constant j of each query; int32 (n,), -1 if unknown."""
        stored, kind = self.constant(t, j, queries), self.templates[t].kinds[j]
        values, which = np.unique(stored.values, return_inverse=True)
        distinct = StoredColumn(values, np.ones(len(values), np.bool_))
        keys = decode(distinct, kind, self._objects.table.pool.strings())
        table = self._focal.table
        found: Array = table.keys.find(keys.cast(table.key_type))[which]
        return found

    def regions_around(self, covered: Array) -> MovingRegions:
        """Return the moving regions in conditions of active queries, each once, without covering regions.

        `covered`, bool (queries,), marks the queries that are matched only in the regions of
        `Template.cover`.
        """
        found = [
            self._moving_regions(t, region, mine[~covered[mine]] if region in template.cover else mine)
            for t, template, mine in self._with_moving_regions()
            for region in template.around
        ]
        rows = np.column_stack(MovingRegions.joined(found)[1:])
        focal, *sizes = np.unique(rows, axis=0).T if len(rows) else rows.T
        return MovingRegions(np.full(len(focal), -1), focal.astype(np.int32), *(one.copy() for one in sizes))

    def covering_regions(self, covered: Array) -> MovingRegions:
        """Return the covering regions of the active ones among `covered`, bool (queries,)."""
        found = [
            self._moving_regions(t, region, mine[covered[mine]])
            for t, template, mine in self._with_moving_regions()
            for region in template.cover
        ]
        return MovingRegions.joined(found)

    def _with_moving_regions(self) -> Iterator[tuple[int, Template, Array]]:
        """Yield each template with moving regions: its number, the template, and its active queries."""
        for t, template in enumerate(self.templates):
            if template.around:
                yield (
                    t,
                    template,
                    np.flatnonzero((self.queries.mode == ACTIVE) & (self.queries.template == t)),
                )

    def _moving_regions(self, t: int, region: RegionAround, queries: Array) -> MovingRegions:
        sizes = [self.constant(t, j, queries).values for j in region.sizes]
        none = np.zeros(len(queries))
        sides = (*sizes, none - 1) if len(sizes) > 1 else (none, none, *sizes)
        return MovingRegions(queries, self.focal_objects(t, region.focal, queries), *sides)

    @property
    def are_covered(self) -> Array:
        """Whether each query's condition holds only within moving regions of its own; bool (queries,)."""
        return self._where([bool(template.cover) for template in self.templates])

    @property
    def move(self) -> Array:
        """Whether the condition of each query has a region that moves; bool (queries,)."""
        return self._where([bool(template.around) for template in self.templates])

    @property
    def read_now(self) -> Array:
        """Whether the condition of each query depends on NOW; bool (queries,)."""
        return self._where([template.reads_now for template in self.templates])

    @property
    def change_always(self) -> Array:
        """Whether NOW changes each query's condition at unknown instants; bool (queries,)."""
        return self._where([template.changes_always for template in self.templates])

    def _where(self, holds: list[bool]) -> Array:
        """Return what holds for the template of each query, False without a condition; bool (queries,)."""
        found: Array = np.array([*holds, False])[self.queries.template]
        return found

    def columns(self, names: Iterable[str], versions: Array) -> dict[str, pa.Array[Any]]:
        """Return columns of versions by name, and an unnamed one that determines the length of constants."""
        movement = self._objects
        table, rows, key = movement.table, movement.rows, movement.table.spec.key
        found = {
            name: table.show_keys(movement.numbers.objects_of(versions))
            if name == key
            else table.columns.show(name, rows, versions)
            for name in names
        }
        return found | {"": pa.nulls(len(versions))}

    def coded(self, name: str, versions: Array) -> pa.Array[Any] | None:
        """Return a text column of versions as a dictionary, with an entry for NULL; None for other types."""
        return self._objects.table.columns.show_coded(name, self._objects.rows, versions)


def _by_shape(shapes: Array) -> Iterator[tuple[int, Array]]:
    """Yield each shape with the positions at which it occurs, ascending; -1 stands for none.

    Cost: one sort, by the digits of short numbers, rather than one comparison for each shape and position.
    """
    short = shapes.astype(np.int16) if shapes.max(initial=0) <= np.iinfo(np.int16).max else shapes
    order = np.argsort(short, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(shapes + 1, minlength=1))])
    for t in np.flatnonzero(np.diff(start[1:])).tolist():
        yield t, order[start[t + 1] : start[t + 2]]
