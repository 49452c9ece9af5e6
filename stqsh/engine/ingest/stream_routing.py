"""The routing of a batch's streams in a worker: assign records, new queries and older queries to slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from stqsh.engine.ingest.crossing_records import RowRouting
from stqsh.engine.ingest.slot_commands import Concerned
from stqsh.engine.planning.tasks import SourceTask
from stqsh.routing.query_routing import MemberBoxes, QueryRouting
from stqsh.routing.table import RoutingTable
from stqsh.sources.replay_store.manifest import Manifest, read_manifest
from stqsh.sources.replay_store.spatial_extent import initial_table
from stqsh.spec.stream import StreamSpec
from stqsh.storage.queries.living_queries import LivingQueries, OlderQueries, ids_of
from stqsh.storage.queries.query_commands import Command
from stqsh.storage.stream_routes import INITIAL, published_table

NO_AREAS: Mapping[int, MemberBoxes] = {}


class StreamRouting:
    """The routing tables of the streams of a task.

    Args:
        task: the task.
        areas: the boxes of the areas that queries use.
    """

    def __init__(self, task: SourceTask, areas: Mapping[int, MemberBoxes] = NO_AREAS) -> None:
        self._task, self._areas = task, areas
        self._table = cache(self._read_table)

    def records(self, stream_id: int, manifest: Manifest | None = None) -> RoutingTable | None:
        """Return the table that deals a stream's records; None while the stream is being prepared.

        `manifest` is the manifest of the stream's store, if already read.
        """
        route, stream = self._routes(stream_id)[-1], self._task.streams[stream_id]
        if route == INITIAL and manifest is not None:
            return initial_table(manifest, stream, self._task.slots)
        return self._table(stream_id, route)

    def rows(self, stream_id: int) -> RowRouting:
        """Return the tables that deal the rows of a moving stream that has been repartitioned."""
        dealt = self._task.dealt[stream_id]

        def table(number: int) -> RoutingTable:
            found = self._table(stream_id, dealt[number][0])
            assert found is not None, "its records are there"
            return found

        return RowRouting([start for _, start in dealt], table)

    def queries(self, up_to: int | None = None) -> QueryRouting:
        """Return the routing of queries to slots.

        Args:
            up_to: ignore routings after this row of the control log; None to use all.
        """

        def tables(stream_id: int) -> list[RoutingTable]:
            return self._tables(stream_id, up_to)

        return QueryRouting(self._task.slots, tables, self._areas.__getitem__)

    def with_routes(self, stream_id: int, routes: tuple[int, ...]) -> StreamRouting:
        """Return a copy with other routings in use for a stream."""
        routes_by_stream = {**self._task.routes, stream_id: routes}
        return StreamRouting(replace(self._task, routes=routes_by_stream), self._areas)

    def are_everywhere(self, stream_id: int, up_to: int) -> bool:
        """Return whether all slots know all queries, given the routings up to a row of the control log."""
        tables = self._tables(stream_id, up_to)
        return any(table.is_hashed and table.slots == self._task.slots for table in tables)

    def _tables(self, stream_id: int, up_to: int | None) -> list[RoutingTable]:
        routes = [route for route in self._routes(stream_id) if up_to is None or route <= up_to]
        found = [self._table(stream_id, route) for route in routes]
        return [table for table in found if table is not None]

    def _routes(self, stream_id: int) -> tuple[int, ...]:
        return self._task.routes.get(stream_id, (INITIAL,))

    def _read_table(self, stream_id: int, route: int) -> RoutingTable | None:
        if route != INITIAL:
            return published_table(self._task.blobs, route).over(self._task.slots)
        manifest = read_manifest(self._task.blobs.below(f"streams/{stream_id}"))
        stream = self._task.streams[stream_id]
        return initial_table(manifest, stream, self._task.slots)


def adoptions(
    routing: StreamRouting, before: int, stream: StreamSpec, older: LivingQueries
) -> tuple[list[Command], Concerned]:
    """Return the commands that send older queries to slots under a new routing, and their slots.

    When a routing changes, records stay and queries move (SSTD section 5.2). A slot that did not know a query
    holds no record in its region, so adding the query causes no update.

    Args:
        routing: the routings in use.
        before: the last row of the log that took effect before the batch.
        stream: the stream.
        older: the queries alive before the batch.

    Returns:
        The commands, and the slots that each concerns: bool (queries, slots).
    """
    queries, paused = older
    if not queries or routing.are_everywhere(stream.id, before):
        return [], []
    wanted, known = routing.queries(), routing.queries(before)
    boxes = [wanted.boxes(stream, command) for command in queries]
    asked = stream.id, np.concatenate(boxes), wanted.sought(stream, queries)
    new = wanted.slots_touching(*asked) & ~known.slots_touching(*asked)
    news = np.split(new, np.cumsum([len(some) for some in boxes])[:-1])
    learned = [pair for pair in zip(queries, news, strict=True) if pair[1].any()]
    commands: list[Command] = [command for command, _ in learned]
    concerned: Concerned = [slots for _, slots in learned]
    return [*commands, *paused], [*concerned, *(np.ones((1, wanted.slots), np.bool_) for _ in paused)]


def releases(
    before: StreamRouting, left: tuple[int, ...], stream: StreamSpec, queries: OlderQueries
) -> list[list[int]]:
    """Return the queries that each slot can forget after the batch because a routing is retired, by slot.

    The records that the retired routing dealt are no longer kept, so the slot has none in the regions of
    these queries.

    Args:
        before: the routings in use in the batch.
        left: the stream's routings that remain in use after it.
        stream: the stream.
        queries: the queries alive after the batch.
    """
    routing, remaining = before.queries(), before.with_routes(stream.id, left).queries()
    boxes = np.concatenate([np.empty((0, 4)), *(routing.boxes(stream, some) for some in queries)])
    asked = stream.id, boxes, routing.sought(stream, queries)
    ids = np.array([id_ for some in queries for id_ in ids_of(some)], np.int64)
    known, needed = (some.slots_touching(*asked) for some in (routing, remaining))
    return [ids[rows].tolist() for rows in (known & ~needed).T]
