"""The routings of a stream by which records were dealt that are still kept (SSTD section 5.2).

Records stay where they are when the routing changes, so what asks for records has to look wherever one of
these tables may have put them.
"""

from __future__ import annotations

from functools import partial

from stqsh.routing.table import RoutingTable
from stqsh.sources.replay_store.manifest import read_manifest
from stqsh.sources.replay_store.spatial_extent import initial_table
from stqsh.spec.stream import StreamSpec
from stqsh.storage.control_log import ControlDb, get_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import step_after_dealt
from stqsh.storage.stream_routes import INITIAL, read_table, routes_kept, stream_routes


class KeptTables:
    """Finds the tables of a session's streams; reads each only once.

    Args:
        home: the session's home.
        control: its control log.
    """

    def __init__(self, home: SessionHome, control: ControlDb) -> None:
        self._home, self._control = home, control
        self._read: dict[tuple[int, int], RoutingTable] = {}

    def of(self, stream: StreamSpec, step: int, tick_us: int | None) -> list[RoutingTable]:
        """Return the tables by which records were dealt that are kept after a step; the last is the newest.

        There is none while it is not known how records are dealt: before an engine has started, and while
        the stream is being read.
        """
        rows = (INITIAL, *(route.seq for route in stream_routes(self._control, stream.id)))
        taken = partial(step_after_dealt, self._control, stream.id)
        kept = routes_kept(stream, rows, taken, step, tick_us)
        tables = [self._table(stream, row) for row in kept]
        found = [table for table in tables if table is not None]
        return found if len(found) == len(tables) else []

    def _table(self, stream: StreamSpec, row: int) -> RoutingTable | None:
        key = stream.id, row
        if key not in self._read:
            table = read_table(self._control, row) if row != INITIAL else self._initial(stream)
            if table is None:
                return None
            self._read[key] = table
        return self._read[key]

    def _initial(self, stream: StreamSpec) -> RoutingTable | None:
        slots = get_meta(self._control, "slots")
        manifest = read_manifest(self._home.stream(stream.id))
        return None if slots is None else initial_table(manifest, stream, int(slots))
