"""The routing of a large event stream as it begins: by the strategy that is cheapest for its queries."""

from __future__ import annotations

import logging

from stqsh.engine.planning.stream_inputs import SessionView
from stqsh.sources.recent_input import recent_input
from stqsh.sources.routing_plans import current_table, plan_first, put_in_force
from stqsh.spec.offset import Offset
from stqsh.storage.catalogue import live_streams
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import StreamRow
from stqsh.storage.stream_routes import INITIAL, stream_routes

_log = logging.getLogger("stqsh.engine")


class FirstRouting:
    """Chooses the strategies of streams before their first records are taken; each is looked at once.

    Args:
        view: the session.
    """

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._home = SessionHome(view.home)
        self._seen: set[int] = set()

    def choose(self, offset: Offset, fewest: int) -> bool:
        """Log the routings of streams that are about to begin and have another strategy than a grid.

        What goes wrong is logged, and the stream begins with its grid.

        Args:
            offset: where the session is, with the clock rows up to now.
            fewest: streams of fewer records are not worth a choice.

        Returns:
            Whether the log has new rows.
        """
        if not (offset.run or offset.play) or self._view.streams().keys() <= self._seen:
            return False
        feeds = [
            feed
            for feed in self._view.feeds(offset)
            if feed.stream_id not in self._seen
            and (offset.run or (offset.play and feed.stream_id in offset.play.streams))
        ]
        self._seen.update(feed.stream_id for feed in feeds)
        large = {
            feed.stream_id: feed.store.rows
            for feed in feeds
            if feed.row == 0 and feed.store.complete and feed.store.rows >= fewest
        }
        found = [
            self._route(stream, large[stream.id])
            for stream in (live_streams(self._view.control) if large else ())
            if stream.id in large and stream.spec.is_event and not stream.spec.is_sifted
        ]
        return any(found)

    def _route(self, stream: StreamRow, rows: int) -> bool:
        """Log the routing of a stream that has another strategy than a grid; return whether it has one."""
        control = self._view.control
        table = current_table(self._home, control, stream)
        if table is None or stream_routes(control, stream.id):
            return False
        try:
            recent = recent_input(self._home, control, stream.spec)
            plan = plan_first(recent, table, rows) if len(recent.boxes) else None
            if plan is None:
                return False
            put_in_force(control, stream, plan, after=INITIAL)
        except Exception:
            _log.exception("the strategy of stream %s cannot be chosen", stream.name)
            return False
        _log.info("stream %s is %s", stream.name, plan.adjuster)
        return True
