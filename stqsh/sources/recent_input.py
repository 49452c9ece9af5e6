"""A stream's recent records and the regions of its queries, by which routings are planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.core.state.slot_state import SlotState
from stqsh.errors import NotPublishedError
from stqsh.routing.cells import Bounds, Cells
from stqsh.routing.load import Load
from stqsh.routing.neighbour_reach import Neighbours, reach_of
from stqsh.routing.query_counts import coverage
from stqsh.routing.query_routing import QueryRouting
from stqsh.routing.table import RoutingTable
from stqsh.routing.text_leaves import SoughtTerms, TextTerms
from stqsh.routing.text_splits import TextSample
from stqsh.sources.replay_store.spatial_extent import SAMPLE, bounds_of
from stqsh.sources.replay_store.store import ReplayStore, open_store
from stqsh.sources.route_settings import RouteSettings
from stqsh.spec.command import RegisterCommand
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import Members, OrderColumn, Result, SelectColumn, SnapshotSpec
from stqsh.spec.region import EverywhereSpec, NearestSpec
from stqsh.spec.stream import StreamSpec
from stqsh.storage.asked_questions import AskedSnapshots, recent_snapshots
from stqsh.storage.catalogue import area_boxes
from stqsh.storage.control_log import ControlDb, get_meta, keeps_heads_in_spark, last_seq
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.queries.living_queries import OlderQueries, ids_of, living_queries
from stqsh.storage.rows import Progress
from stqsh.storage.slot_files import PublishedSlots

_PATIENCE_S = 10.0
"""How long to wait for the slots' objects during a batch, in seconds."""
_OUTSIDE = 0.5
"""Cells cover the recent records if a larger share of these is outside the stream's bounds."""

Texts: TypeAlias = "pa.Array[Any]"


Ask: TypeAlias = "Callable[[SnapshotSpec], pa.Table]"
"""Answers a snapshot of slots on other hosts; raises `NotPublishedError` if they do not answer now."""


class RecentTexts(NamedTuple):
    """The terms of recent records, and the terms of which queries require one."""

    terms: TextTerms
    sought: SoughtTerms


@dataclass(frozen=True, eq=False)
class RecentInput:
    """A stream's recent records and the regions of its queries.

    Attributes:
        bounds: the bounds of the stream.
        x, y: the places of recent records, float64 (n,) each.
        boxes: a box around the region of each continuous query, float64 (m, 4).
        texts: the records' terms, if leaves are or may be split by texts.
        settings: the settings of routings.
        asked: the snapshots that were asked while these records came.
        is_event: whether it is a stream of events.
        neighbours: the continuous queries for the neighbours of places.
        of_neighbours: bool (m,), which rows of `boxes` are theirs.
        ids: the ids of these queries, int64 (m,).
        looked: a row of the log: queries that were registered or altered after it may be missing.
    """

    bounds: Bounds
    x: Floats
    y: Floats
    boxes: Floats
    texts: RecentTexts | None = None
    settings: RouteSettings = field(default_factory=RouteSettings)
    asked: AskedSnapshots = field(default_factory=AskedSnapshots.none)
    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    looked: int = 0
    is_event: bool = False
    neighbours: Neighbours = field(default_factory=Neighbours.none)
    of_neighbours: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    _loads: dict[Cells, Load] = field(default_factory=dict, init=False, repr=False)

    def load(self, cells: Cells) -> Load:
        """Return the load of each cell."""
        if cells not in self._loads:
            load = replace(Load.of(cells, self.x, self.y, self.boxes), weights=self.settings.weights)
            if load.weights.reaches and len(self.neighbours.k):
                load = load.with_queries(self._reached(cells, load.records))
            if len(self.asked.boxes):
                asked = cells.of_boxes(self.asked_boxes(cells, load.records))
                load = replace(load, asked=coverage(asked, cells.side), is_sorted=self.is_event)
            if self.texts is not None:
                terms, sought = self.texts
                of_records, of_queries = cells.of_places(self.x, self.y), cells.of_boxes(self.boxes)
                similar = self.settings.similar
                sample = TextSample(cells, of_records, terms, of_queries, sought, similar)
                load = replace(load, texts=sample)
            self._loads[cells] = load
        return self._loads[cells]

    def _reached(self, cells: Cells, records: Floats) -> Floats:
        """Return the boxes of continuous queries, those for neighbours as far as these are expected."""
        boxes = self.boxes.copy()
        boxes[self.of_neighbours] = reach_of(cells, records, self.neighbours)
        return boxes

    def asked_boxes(self, cells: Cells, records: Floats) -> Floats:
        """Return the boxes of snapshots, float64 (n, 4), those for neighbours as far as these are expected.

        Args:
            cells: cells.
            records: the number of records in each, float64 (side, side).
        """
        near, boxes = np.flatnonzero(self.asked.k), self.asked.boxes.copy()
        boxes[near] = reach_of(cells, records, Neighbours(boxes[near, :2], self.asked.k[near]))
        return boxes

    def measured(self, table: RoutingTable) -> RoutingTable:
        """Return a table with the measured load of the children of its leaves that are split by texts."""
        sample = None if table.texts is None else self.load(table.cells).texts
        return table if sample is None else sample.measured(table)

    @property
    def cells(self) -> Cells:
        """The cells of a new table."""
        x1, y1, x2, y2 = self.bounds
        outside = (self.x < x1) | (self.x > x2) | (self.y < y1) | (self.y > y2)
        if len(outside) and outside.mean() > _OUTSIDE:
            return Cells(bounds_of(np.column_stack([self.x, self.y])), self.settings.cells)
        return Cells(self.bounds, self.settings.cells)


class EarlierInput(NamedTuple):
    """A stream's earlier input.

    Attributes:
        recent: that input.
        ahead: how long the change since then is expected to continue, as a multiple of the time since then.
    """

    recent: RecentInput
    ahead: float


class _Records(NamedTuple):
    """The places of records, float64 (n,) each, and their texts, if wanted."""

    x: Floats
    y: Floats
    texts: Texts | None


def recent_input(
    home: SessionHome,
    control: ControlDb,
    stream: StreamSpec,
    settings: RouteSettings,
    *,
    with_texts: bool = False,
    ask: Ask | None = None,
) -> RecentInput:
    """Return a stream's recent records and the regions of its queries.

    For a replayed stream these are its last records, or a sample before the first record; for a live stream
    the last records of its objects, or its last events.

    Args:
        home: the session's home.
        control: its control log.
        stream: the stream.
        settings: the settings of routings.
        with_texts: whether terms are wanted, too, which takes 2 µs for each record of a stream with texts.
        ask: asks slots on other hosts for the objects of a live stream.

    Raises:
        SourceError: the stream's store is not readable.
        NotPublishedError: the objects of a live stream are not on this host.
    """
    progress, bounds, text = read_progress(control), stream.bounds, None
    if with_texts and stream.is_event and stream.searches_text:
        text = stream.text
    if stream.is_live and keeps_heads_in_spark(control):
        found = _asked_records(stream, text, ask, settings.recent)
    elif stream.is_live:
        found = _present_records(home, control, stream, progress, text, settings.recent)
    else:
        store = open_store(home.stream(stream.id))
        taken = progress.stats.rows.get(stream.id, 0)
        found = _stored_records(store, stream, taken, text, settings.recent)
        bounds = store.manifest.bounds or bounds
    present = ~(np.isnan(found.x) | np.isnan(found.y))
    x, y = found.x[present], found.y[present]
    bounds = bounds or bounds_of(np.column_stack([x, y]))
    geometry = QueryRouting(1, lambda _: [], lambda area: area_boxes(control, area))
    looked = last_seq(control)
    living = living_queries(control, stream.id, 1 << 62, progress.tick_us, progress.step + 1)
    boxes = [geometry.boxes(stream, one) for one in living.queries]
    texts = None
    if found.texts is not None:
        from stqsh.routing.slot_terms import sought_terms  # numba: only when needed

        sought, mask = sought_terms(living.queries, stream), pa.array(present)
        texts = RecentTexts(TextTerms.of(found.texts.filter(mask)).among(sought.term), sought)
    asked = recent_snapshots(home, stream.id, _first_step(progress, stream, settings.recent))
    every = np.concatenate([np.empty((0, 4)), *boxes])
    ids = np.array([id_ for one in living.queries for id_ in ids_of(one)], np.int64)
    near, of_neighbours = _neighbours(living.queries)
    found_input = RecentInput(bounds, x, y, every, texts, settings, asked, ids, looked, stream.is_event)
    return replace(found_input, neighbours=near, of_neighbours=of_neighbours)


def _neighbours(queries: OlderQueries) -> tuple[Neighbours, NDArray[np.bool_]]:
    """Return the queries for neighbours of places, and which of all queries they are, bool (m,)."""
    places, ks, are_near = [np.empty((0, 2))], [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for one in queries:
        count = 1 if isinstance(one, RegisterCommand) else len(one.ids)
        region = one.query.region if isinstance(one, RegisterCommand) else one.pattern.region
        is_near = isinstance(region, NearestSpec) and region.place is not None
        are_near.append(np.full(count, is_near))
        if isinstance(region, NearestSpec) and region.place is not None:
            numbers = {} if isinstance(one, RegisterCommand) else one.numbers
            named = zip("xy", region.place, strict=True)
            at = [numbers.get(name, np.full(count, value)) for name, value in named]
            places.append(np.column_stack(at))
            ks.append(np.full(count, region.k))
    return Neighbours(np.concatenate(places), np.concatenate(ks)), np.concatenate(are_near)


def _first_step(progress: Progress, stream: StreamSpec, recent: int) -> int:
    """Return about the step from which on the recent records came, as if records came evenly."""
    taken = progress.stats.rows.get(stream.id, 0)
    return progress.step - int(progress.step * min(recent / taken, 1.0)) if taken else 0


def _stored_records(
    store: ReplayStore, stream: StreamSpec, taken: int, text: str | None, most: int
) -> _Records:
    """Return the last records taken from a store, or a sample before the first record."""
    gone = store.manifest.gone_rows
    if taken:
        recent = store.read(max(gone, taken - most), taken)
    else:
        count = min(store.rows - gone, SAMPLE)
        recent = store.take(np.linspace(gone, store.rows - 1, count).astype(np.int64))
    x, y = (recent.column(name).to_numpy(zero_copy_only=False) for name in (stream.x, stream.y))
    return _Records(x, y, None if text is None else recent.column(text))


def _asked_records(stream: StreamSpec, text: str | None, ask: Ask | None, most: int) -> _Records:
    """Return the objects in the slots of a cluster, or a large sample of them; for events, the last ones."""
    if ask is None:
        raise NotPublishedError("the slots are on other hosts")
    table = ask(question(stream, [stream.x, stream.y, *([] if text is None else [text])], most))
    table = table.take(np.arange(0, table.num_rows, 1 + table.num_rows // most)).combine_chunks()
    x, y = (table.column(name).to_numpy().astype(np.float64) for name in (stream.x, stream.y))
    return _Records(x, y, None if text is None else pa.concat_arrays(table.column(text).chunks))


def question(stream: StreamSpec, columns: list[str], most: int) -> SnapshotSpec:
    """Return the snapshot of columns of a stream's objects; for events, of the `most` latest ones."""
    latest = (OrderColumn(ColumnExpr(stream.time), is_descending=True),) if stream.is_event else ()
    select = tuple(SelectColumn(column, ColumnExpr(column)) for column in columns)
    return SnapshotSpec(
        stream=stream.name,
        stream_id=stream.id,
        kind="range",
        members=Members(region=EverywhereSpec()),
        result=Result(select=select, order=latest, limit=most if latest else None),
    )


def _present_records(
    home: SessionHome, control: ControlDb, stream: StreamSpec, progress: Progress, text: str | None, most: int
) -> _Records:
    """Return the objects in the slots, or a large sample of them; for events, the last ones."""
    slots = get_meta(control, "slots")
    none = None if text is None else pa.array([], pa.string())
    if not progress.step or slots is None:
        return _Records(np.empty(0), np.empty(0), none)

    def records(states: list[SlotState]) -> _Records:
        own = f"s{stream.id}/objects"
        mine = [state for state in states if f"{own}/known" in state]
        known = [np.flatnonzero(state.array(f"{own}/known")) for state in mine]
        if stream.is_event:
            times = [state.array(f"{own}/ts") for state in mine]
            newest = np.sort(np.concatenate([np.empty(0, np.int64), *times]))[-most:]
            known = [np.flatnonzero(some >= newest[0]) if len(newest) else some for some in times]
        every = 1 + sum(map(len, known)) // most
        chosen = [some[::every] for some in known]
        found = [
            [state.array(f"{own}/{axis}")[some] for axis in "xy"]
            for state, some in zip(mine, chosen, strict=True)
        ]
        x, y = np.concatenate([np.empty((2, 0)), *found], axis=1)
        return _Records(x, y, none if text is None else _present_texts(stream, text, mine, chosen))

    return PublishedSlots(home.arena.folders, int(slots)).read(records, progress.step, lambda: _PATIENCE_S)


def _present_texts(
    stream: StreamSpec, text: str, states: Sequence[SlotState], chosen: Sequence[NDArray[np.int64]]
) -> Texts:
    """Return the texts of the chosen events of each slot, one slot after the other."""
    from stqsh.core.objects.object_table import ObjectTable  # numba: only when needed

    found: list[Texts] = [pa.array([], pa.string())]
    for state, some in zip(states, chosen, strict=True):
        table, events = ObjectTable(state, f"s{stream.id}/objects", stream), some.astype(np.int32)
        found.append(table.read(text, events))
    return pa.concat_arrays(found)
