"""The outcome of MAP: scenes of a stream, one for each step that changes something."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.map.object_places import ObjectColumns, PlacesRequest, QueryMembers, places
from stqsh.client.map.region_outlines import RegionOutline, RegionOutlines
from stqsh.client.map.region_shades import GroupAnswers, RegionShades
from stqsh.lang.binder.bind import bind
from stqsh.lang.catalogue import Catalogue
from stqsh.lang.syntax.parse import parse
from stqsh.routing.table import HASHED
from stqsh.sources.routing_plans import current_table
from stqsh.spec.expression import extent_tests
from stqsh.spec.region import CircleSpec, NamedRegionSpec
from stqsh.storage.catalogue import live_areas, live_queries
from stqsh.storage.control_log import last_seq
from stqsh.storage.rows import Progress, QueryRow, StreamRow

if TYPE_CHECKING:
    from stqsh.client.read.snapshots import SnapshotReader

MOST_QUERIES = 52
"""The maximum number of queries on a map: one for each letter of the alphabet, in upper and lower case."""
MOST_CELLS = 64
"""The maximum number of cells per side that a map draws; of a finer grid, every second cell or fewer."""
TOGETHER_S = 0.6
"""How long to wait until places and answers are of the same step."""

_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class SlotCells:
    """The slots of an event stream: equal cells over a box.

    Attributes:
        bounds: the box: x1, y1, x2, y2.
        owners: the cells' slots, int16 (rows, columns), rows from south to north; -1 where several slots get
            records.
    """

    bounds: tuple[float, float, float, float]
    owners: NDArray[Any]


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """A query on a map: its region, and which of the scene's objects are in its answer.

    Attributes:
        members: int64 (m,), positions among the places.
        size: the number of rows of the whole answer.
        focal: the position of the focal object; None if there is none, or it is absent.
        shades: the values by region of an aggregate query.
    """

    query: QueryRow
    outline: RegionOutline
    members: NDArray[Any]
    size: int
    focal: int | None = None
    shades: RegionShades | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of a map after a step; the answers are those after `progress.step`, usually the same step.

    Attributes:
        areas: the named regions, except those that a query shades.
        cells: the cells of a stream that is routed by cells.
        left_out: the number of queries that are not drawn.
    """

    stream: StreamRow
    progress: Progress
    places: ObjectColumns
    drawn: tuple[DrawnQuery, ...]
    areas: tuple[RegionOutline, ...]
    cells: SlotCells | None = None
    left_out: int = 0

    @property
    def planar(self) -> bool:
        """Whether places are in a plane's units rather than in degrees."""
        return self.stream.spec.planar


@dataclass
class MapFeed:
    """The outcome of MAP: yields scenes of a stream to a view. Not thread-safe.

    Attributes:
        names: the queries to draw; None for all queries of the stream.
        file: the file to which a page is written; None for a terminal.
        once: whether one picture is enough, as in a script.
    """

    stream: StreamRow
    names: tuple[str, ...] | None
    file: str | None
    connection: Connection = field(repr=False)
    snapshots: SnapshotReader = field(repr=False)
    once: bool = False
    _members: QueryMembers = field(init=False, repr=False)
    _groups: GroupAnswers = field(init=False, repr=False)
    _outlines: RegionOutlines = field(init=False, repr=False)
    _seen: tuple[int, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._members = QueryMembers(self.connection, self.stream.id)
        self._groups = GroupAnswers(self.connection)
        self._outlines = RegionOutlines(self.connection.db)

    def look(self, most: int, *, records: bool = False) -> Scene | None:
        """Return the current scene, None if nothing has changed since the last call.

        Raises as `SnapshotReader.ask` does.

        Args:
            most: the approximate maximum number of objects; of more, return a sample that prefers members of
                answers and always has the focal objects.
            records: whether to return all columns of the objects, too.
        """
        progress = self.connection.progress()
        stamp = (progress.batch, last_seq(self.connection.db))
        if stamp == self._seen:
            return None
        scene = self._scene(most, records)
        self._seen = (scene.progress.batch, stamp[1])
        return scene

    def record(self, key: Any) -> dict[str, Any] | None:
        """Return all columns of one object now, or None if it is absent.

        Raises as `SnapshotReader.ask` does.
        """
        spec = self.stream.spec
        name, column = (part.replace('"', '""') for part in (spec.name, spec.key))
        said = str(key) if isinstance(key, int) else "'" + str(key).replace("'", "''") + "'"
        [statement] = parse(f'SELECT * FROM "{name}" WHERE "{column}" = {said}')
        bound = bind(statement, Catalogue({spec.name: spec})).spec
        rows = self.snapshots.ask(bound, spec).table.to_pylist()
        return rows[0] if rows else None

    def _scene(self, most: int, records: bool) -> Scene:
        queries, left_out = self._queries()
        found, progress = self._together(queries, most, records)
        self._groups.advance(queries, progress.batch)
        drawn = tuple(self._drawn(query, found) for query in queries)
        shaded = {query.shades.area for query in drawn if query.shades is not None}
        regions = [query.spec.region for query in queries]
        used = {region.area for region in regions if isinstance(region, NamedRegionSpec | CircleSpec)}
        used |= {test.area for query in queries for test in extent_tests(query.spec.condition)}
        areas = [area for area in live_areas(self.connection.db) if self.names is None or area.id in used]
        areas = [area for area in areas if area.id not in shaded]
        outlines = tuple(
            outline for area in areas for outline in self._outlines.of_area(area, self.stream.spec.planar)
        )
        return Scene(
            self.stream, progress, found, drawn, outlines, cells_of(self.connection, self.stream), left_out
        )

    def _queries(self) -> tuple[list[QueryRow], int]:
        """Return the queries to draw, and the number of those left out."""
        mine = [query for query in live_queries(self.connection.db) if query.stream_id == self.stream.id]
        if self.names is not None:
            by_name = {query.name: query for query in mine}
            mine = [by_name[name] for name in self.names if name in by_name]
        return mine[:MOST_QUERIES], max(0, len(mine) - MOST_QUERIES)

    def _together(self, queries: list[QueryRow], most: int, records: bool) -> tuple[ObjectColumns, Progress]:
        """Return places and answers of the same step, or of different steps if waiting takes too long."""
        ids = [query.id for query in queries]
        focal = self._focal_keys(queries)
        deadline = time.monotonic() + TOGETHER_S
        progress = self.connection.progress()
        while True:
            self._members.advance(progress.batch)
            wish = PlacesRequest(most, self._members.keys_of_any(ids), records, focal)
            found = places(self.snapshots, self.stream.spec, wish, progress.step)
            # The slots publish a step a moment before Deliver records it.
            while (progress := self.connection.progress()).step < found.step and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            if progress.step <= found.step or time.monotonic() > deadline:
                self._members.advance(progress.batch)
                return found, progress

    def _focal_keys(self, queries: list[QueryRow]) -> pa.Array[Any] | None:
        focal_keys = (query.spec.region.focal_key for query in queries)
        keys = [key for key in focal_keys if key is not None]
        return pa.array(keys) if keys else None

    def _drawn(self, query: QueryRow, found: ObjectColumns) -> DrawnQuery:
        region, keys = query.spec.region, self._members.keys(query.id)
        shades = self._groups.shades(query, self._outlines)
        size = 0 if keys is None else len(keys)
        if query.spec.aggregates is not None:
            size = self._groups.size(query.id)
        members = np.empty(0, np.int64) if keys is None else found.find(keys)
        focal, place = None, None
        if region.focal_key is not None:
            at = found.find(pa.array([region.focal_key]))
            if len(at):
                focal = int(at[0])
                place = found.place(focal, self.stream.spec.planar)
        outline = self._outlines.of_query(query, self.stream.spec.planar, place)
        return DrawnQuery(query, outline, members, size, focal, shades)


def cells_of(connection: Connection, stream: StreamRow) -> SlotCells | None:
    """Return a stream's cells; None if it is not routed by cells, and while it is being read."""
    table = current_table(connection.home, connection.db, stream)
    if table is None or table.is_hashed:
        return None
    every = max(1, table.cells.side // MOST_CELLS)
    return SlotCells(table.cells.bounds, np.maximum(table.owners[::every, ::every], HASHED))
