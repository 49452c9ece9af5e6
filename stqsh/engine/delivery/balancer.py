"""Balance: reroute streams whose slots are unevenly loaded, if SET balance is on.

A check takes time, so a thread does it while batches continue. Only the decision depends on its timing: it is
a row of the control log, which takes effect with a step like any other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from stqsh.errors import NotPublishedError, StqshError
from stqsh.profile import Profile
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.sources.recent_input import Ask, EarlierInput, RecentInput, recent_input
from stqsh.sources.route_settings import RouteSettings
from stqsh.sources.routing_plans import (
    CLEARLY,
    current_table,
    load_ratio,
    plan_cheapest,
    plan_rebalance,
    put_in_force,
)
from stqsh.spec.clock import BatchClock
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb, get_meta, set_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import step_taken
from stqsh.storage.rows import StreamRow
from stqsh.storage.stream_routes import BALANCE_ERROR, StreamRoute, stream_routes

REST, SHORT_REST, LONGEST_REST = 4, 0, 128
"""Checks without a change: after a change by others, after one that had its predicted effect, and the maximum
after changes with less than half of their predicted effect."""
AHEAD = 1.5
"""For how many checks a moving load is extrapolated from its movement since the previous check."""

_log = logging.getLogger("stqsh.engine")


@dataclass
class _Watched:
    """The balancer's state for one stream.

    Attributes:
        uneven: the number of consecutive checks that found it uneven.
        rest: the number of further checks that skip it.
        pause: the number of checks to skip after the next change.
        follows: whether the balancer's last change had at least half of its predicted effect.
        route: the number of the last known routing, 0 for the initial one.
        judged: the number of the last automatic routing whose effect was measured.
        seen: its input at the last check of its load, None before the first.
        seen_at: the number of that check.
    """

    uneven: int = 0
    rest: int = 0
    pause: int = SHORT_REST
    follows: bool = False
    route: int = 0
    judged: int = 0
    seen: RecentInput | None = None
    seen_at: int = 0

    def judge(self, route: StreamRoute, ratio: float) -> None:
        """Determine at the first check after an automatic change if it had half of its predicted effect."""
        if route.seq == self.judged or not route.entry.is_automatic:
            return
        self.judged, promised = route.seq, route.entry.before - route.entry.predicted
        self.follows = route.entry.before - ratio >= promised / 2
        self.pause = SHORT_REST if self.follows else min(2 * max(self.pause, REST), LONGEST_REST)

    def earlier(self, look: int) -> EarlierInput | None:
        """Return the stream's input at the previous check."""
        return None if self.seen is None else EarlierInput(self.seen, AHEAD / (look - self.seen_at))


class Balancer:
    """Checks the loads of slots periodically, and reroutes uneven streams.

    Args:
        home: the session's home.
        control: its control log.
        settings: returns the settings in force.

    Attributes:
        ask: asks slots on other hosts for the objects of live streams; None on one machine.
    """

    def __init__(self, home: SessionHome, control: ControlDb, settings: Callable[[], Profile]) -> None:
        self._home, self._control, self._settings = home, control, settings
        self.ask: Ask | None = None
        self._batches = self._looks = 0
        self._streams: dict[int, _Watched] = {}
        self._thread: threading.Thread | None = None

    def delivered(self, clock: BatchClock) -> None:
        """Record a batch, and start a check if one is due."""
        self._batches += clock.steps > 0
        if not clock.steps or (self._thread is not None and self._thread.is_alive()):
            return
        settings = self._settings()
        if self._batches < settings.number("balance.every"):
            return
        self._batches = 0
        if settings.text("balance") != "off":
            self._thread = threading.Thread(target=self.look, name="balance", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Check all streams once. Errors are logged, shown by SHOW ROUTING, and retried."""
        settings, failed = self._settings(), ""
        self._looks += 1
        try:
            streams = live_streams(self._control)
            for dropped in self._streams.keys() - {stream.id for stream in streams}:
                del self._streams[dropped]
            for stream in streams:
                try:
                    self._look_at(stream, settings)
                except NotPublishedError as error:  # as while its slots are busy: the next check asks again
                    failed = f"the places of {stream.name}'s objects are not known: {error}"
        except Exception as error:
            _log.exception("the loads of slots cannot be balanced")
            failed = f"{type(error).__name__}: {error}"
        if failed != (get_meta(self._control, BALANCE_ERROR) or ""):
            set_meta(self._control, BALANCE_ERROR, failed)

    def _look_at(self, stream: StreamRow, settings: Profile) -> None:
        how, above = settings.text("balance"), settings.share("balance.above")
        watched = self._streams.setdefault(stream.id, _Watched())
        routes = stream_routes(self._control, stream.id)
        newest = routes[-1].seq if routes else 0
        if newest != watched.route:  # not this balancer's change: leave it alone for a while
            watched.route, watched.rest, watched.uneven = newest, max(REST, watched.pause), 0
            watched.follows, watched.seen = False, None
        if routes and step_taken(self._control, newest) is None:
            return
        if watched.rest > 0:
            watched.rest -= 1
            return
        table = current_table(self._home, self._control, stream)
        if table is None or table.is_hashed:
            return
        adjuster = None if how == "auto" else how
        if adjuster and table.strategy not in ADJUSTERS[adjuster].fits:
            return
        by_texts = table.texts is not None
        recent = recent_input(
            self._home,
            self._control,
            stream.spec,
            RouteSettings.of(settings),
            with_texts=by_texts,
            ask=self.ask,
        )
        ratio = load_ratio(recent, table)
        earlier = watched.earlier(self._looks)
        watched.seen, watched.seen_at = recent, self._looks
        if routes:
            watched.judge(routes[-1], ratio)
        watched.uneven = watched.uneven + 1 if ratio > above else 0
        if watched.uneven < (1 if watched.follows else settings.number("balance.looks")):
            return
        watched.uneven = 0
        plan = plan_rebalance(recent, table, adjuster, above, earlier)
        if adjuster is None and not routes:  # nobody has chosen the strategy
            cheapest = plan_cheapest(recent, table, is_event=stream.spec.is_event)
            if cheapest.after * CLEARLY <= (ratio if plan is None else plan.after):
                plan = cheapest
        if plan is not None:
            _log.info("stream %s is balanced by %s: max/mean %.2f", stream.name, plan.adjuster, ratio)
            try:
                row = put_in_force(self._control, stream, plan, after=newest, is_automatic=True)
            except StqshError as error:  # another change was quicker
                _log.info("%s", error)
                return
            watched.route, watched.rest = row.seq, watched.pause
