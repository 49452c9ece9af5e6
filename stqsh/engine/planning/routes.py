"""Find the routings of a stream that a batch needs: the one in force, and those that dealt kept records.

SSTD (section 5.2) keeps the mapping tables of older versions while events are stored according to them.
Records stay where they are when a routing changes. A new query must be on every slot where records in its
region may be. A moving object stays until its next record, or until it is disconnected.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from stqsh.engine.planning.planner_state import PlannerState
from stqsh.engine.planning.stream_inputs import SessionView
from stqsh.sources.recent_input import recent_input
from stqsh.sources.route_settings import RouteSettings
from stqsh.sources.routing_plans import current_table, plan_first, put_in_force
from stqsh.spec.offset import Offset
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import step_after_dealt
from stqsh.storage.queries.living_queries import MovedQueries
from stqsh.storage.rows import StreamRow
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import INITIAL, read_move, routes_kept, stream_routes


def routes_in_use(
    control: ControlDb, planner_state: PlannerState, first: Offset, last: Offset
) -> dict[int, tuple[int, ...]]:
    """Return the routings in use of repartitioned streams, by stream; the last one is in force.

    Queries take effect in the batch's first step, so the records kept then decide, including those that
    expire within the batch.
    """
    found = {}
    for stream, changes in planner_state.routes.items():
        spec, taken = planner_state.streams[stream], partial(_taken, control, first, stream)
        found[stream] = routes_kept(spec, (INITIAL, *changes), taken, first.step, last.tick_us)
    return found


def routes_left(
    control: ControlDb,
    planner_state: PlannerState,
    routes: Mapping[int, tuple[int, ...]],
    first: Offset,
    last: Offset,
) -> dict[int, tuple[int, ...]]:
    """Return the routings in use after a batch, by stream, for streams with a routing retired in it.

    Args:
        control: the control log.
        planner_state: the log, folded up to the end of the batch.
        routes: the routings in use in the batch, as `routes_in_use` returns them.
        first, last: the offsets that the batch is between.
    """
    found = {}
    for stream, rows in routes.items():
        spec, taken = planner_state.streams[stream], partial(_taken, control, first, stream)
        left = routes_kept(spec, rows, taken, last.step, last.tick_us)
        if left != rows:
            found[stream] = left
    return found


def _taken(control: ControlDb, first: Offset, stream: int, row: int) -> int | None:
    """Return a step after all records that were dealt before a stream's routing took effect."""
    return step_after_dealt(control, stream, row, None if row <= first.seq else first.step + 1)


def moved_queries(control: ControlDb, stream: int, routes: Sequence[int]) -> MovedQueries | None:
    """Return the queries that slots may learn of when routings of a stream take effect.

    Args:
        control: the control log.
        stream: the stream.
        routes: the numbers of the routings, which take effect in one batch.

    Returns:
        None if it is not known for all of them, so that every query has to be looked at.
    """
    moves = [read_move(control, route) for route in routes]
    known = [move.queries[0] for move in moves if move is not None]
    if len(known) < len(moves):
        return None
    looked = {route.seq: route.entry.looked for route in stream_routes(control, stream)}
    return MovedQueries(np.unique(np.concatenate(known)), min(looked[route] for route in routes))


def rows_dealt(planner_state: PlannerState, offset: Offset) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return the first row that each routing deals, by moving stream without a dealer.

    Args:
        planner_state: the log, with the routings that take effect with the step after `offset`.
        offset: the end of the previous batch, which has the earlier routings.
    """
    return {
        stream: (
            *offset.dealt.get(stream, ((INITIAL, 0),)),
            *((row, offset.rows.get(stream, 0)) for row in rows if row > offset.seq),
        )
        for stream, rows in planner_state.routes.items()
        if not (planner_state.streams[stream].is_event or planner_state.streams[stream].needs_dealer)
    }


_log = logging.getLogger("stqsh.engine")


class FirstRouting:
    """Chooses the strategies of streams before their first records are taken; checks each stream once.

    Args:
        view: the session.
    """

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._home = SessionHome(view.home)
        self._seen: set[int] = set()

    def choose(self, offset: Offset, fewest: int) -> bool:
        """Log the routings of streams that are about to start and whose best strategy is not a grid.

        On an error, which is logged, the stream starts with its grid.

        Args:
            offset: the session's position, with the clock rows up to now.
            fewest: the minimum number of records for a choice.

        Returns:
            Whether the log has new rows.
        """
        if not (offset.run or offset.play) or self._view.streams().keys() <= self._seen:
            return False
        inputs = [
            each
            for each in self._view.inputs(offset)
            if each.stream_id not in self._seen
            and (offset.run or (offset.play and each.stream_id in offset.play.streams))
        ]
        self._seen.update(each.stream_id for each in inputs)
        large = {
            each.stream_id: each.store.rows
            for each in inputs
            if each.row == 0 and each.store.complete and each.store.rows >= fewest
        }
        found = [
            self._route(stream, large[stream.id])
            for stream in (live_streams(self._view.control) if large else ())
            if stream.id in large and stream.spec.is_event and not stream.spec.is_sifted
        ]
        return any(found)

    def _route(self, stream: StreamRow, rows: int) -> bool:
        """Log the routing of a stream if its best strategy is not a grid; return whether it is not."""
        control = self._view.control
        table = current_table(self._home, control, stream)
        if table is None or stream_routes(control, stream.id):
            return False
        try:
            settings = RouteSettings.of(session_settings(control))
            recent = recent_input(self._home, control, stream.spec, settings)
            plan = plan_first(recent, table, rows) if len(recent.boxes) else None
            if plan is None:
                return False
            put_in_force(control, stream, plan, after=INITIAL)
        except Exception:
            _log.exception("the strategy of stream %s cannot be chosen", stream.name)
            return False
        _log.info("stream %s is %s", stream.name, plan.adjuster)
        return True
