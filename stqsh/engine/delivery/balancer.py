"""Balance: reroute streams whose slots are unevenly loaded, if SET balance is on.

A check takes time, so a thread does it while batches continue. Only the decision depends on its timing: it is
a row of the control log, which takes effect with a step like any other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from stqsh.errors import NotPublishedError, StqshError
from stqsh.profile import Profile
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.load import Balance
from stqsh.routing.table import RoutingTable
from stqsh.settings import USUAL_TOLERANCE
from stqsh.sources.recent_input import Ask, EarlierInput, RecentInput, recent_input
from stqsh.sources.route_settings import RouteSettings
from stqsh.sources.routing_plans import (
    CLEARLY,
    EVEN,
    RoutePlan,
    current_table,
    in_packages,
    load_balance,
    plan_cheapest,
    plan_rebalance,
    put_in_force,
)
from stqsh.spec.clock import BatchClock
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb, get_meta, set_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import StreamRow
from stqsh.storage.stream_routes import (
    BALANCE_ERROR,
    INITIAL,
    StreamRoute,
    is_in_force,
    stream_routes,
    write_looks,
)
from stqsh.units import counted

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
        change: the version with which the last known change began, 0 for the initial routing.
        judged: the number of the last automatic routing whose effect was measured.
        seen: its input at the last check of its load, None before the first.
        seen_at: the number of that check.
    """

    uneven: int = 0
    rest: int = 0
    pause: int = SHORT_REST
    follows: bool = False
    change: int = 0
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


class Tolerance(NamedTuple):
    """How uneven a stream may be.

    Attributes:
        measure: the measure of evenness.
        above: the value above which a stream is uneven.
    """

    measure: str
    above: float

    @staticmethod
    def of(settings: Profile) -> Tolerance:
        """Return the tolerance of settings."""
        measure = settings.text("balance.measure")
        return Tolerance(measure, settings.share("balance.above") or USUAL_TOLERANCE[measure])

    def value(self, balance: Balance) -> float:
        """Return the value of the measure."""
        return {"mean": balance.ratio, "spread": balance.spread, "variance": balance.variance}[self.measure]

    def is_exceeded(self, balance: Balance) -> bool:
        """Return whether loads are uneven."""
        return self.value(balance) > self.above

    def judge(self, balance: Balance) -> str:
        """Return the value and its limit, in words."""
        name = {"mean": "max/mean", "spread": "max/min", "variance": "the variance over mean²"}[self.measure]
        than = "above" if self.is_exceeded(balance) else "not above"
        return f"{name} is {self.value(balance):.2f}, {than} {self.above:g}"

    @property
    def limit(self) -> float:
        """The ratio of the largest load to the mean that adjusters aim at."""
        return self.above if self.measure == "mean" else EVEN


class _Look(NamedTuple):
    """A stream that is looked at: its state, its routings, its table, and the settings in force."""

    stream: StreamRow
    watched: _Watched
    routes: list[StreamRoute]
    table: RoutingTable
    settings: Profile

    @property
    def adjuster(self) -> str | None:
        """The only adjuster that may be used; None for any."""
        how = self.settings.text("balance")
        return None if how == "auto" else how


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
        looks: dict[int, str] = {}
        self._looks += 1
        try:
            streams = live_streams(self._control)
            for dropped in self._streams.keys() - {stream.id for stream in streams}:
                del self._streams[dropped]
            for stream in streams:
                try:
                    looks[stream.id] = self._look_at(stream, settings)
                except NotPublishedError as error:  # as while its slots are busy: the next check asks again
                    failed = f"the places of {stream.name}'s objects are not known: {error}"
        except Exception as error:
            _log.exception("the loads of slots cannot be balanced")
            failed = f"{type(error).__name__}: {error}"
        write_looks(self._control, looks)
        if failed != (get_meta(self._control, BALANCE_ERROR) or ""):
            set_meta(self._control, BALANCE_ERROR, failed)

    def _look_at(self, stream: StreamRow, settings: Profile) -> str:
        """Check a stream, and reroute it if it is due; return what was found and done, in words."""
        watched = self._streams.setdefault(stream.id, _Watched())
        routes = stream_routes(self._control, stream.id)
        change = routes[-1].entry.change if routes else INITIAL
        if change != watched.change:  # not this balancer's: leave it alone for a while
            watched.change, watched.rest, watched.uneven = change, max(REST, watched.pause), 0
            watched.follows, watched.seen = False, None
        if routes and not is_in_force(self._control, routes[-1]):
            return "waits until the last change is in force"
        if watched.rest > 0:
            watched.rest -= 1
            return f"rests after a change, for {counted(watched.rest, 'more look')}"
        table = current_table(self._home, self._control, stream)
        if table is None or table.is_hashed:
            return "waits until the stream is read" if table is None else "has nothing to do: dealt by hash"
        look = _Look(stream, watched, routes, table, settings)
        if look.adjuster and table.strategy not in ADJUSTERS[look.adjuster].fits:
            return f"cannot act: {look.adjuster} does not fit {table.strategy}"
        return self._check_load(look)

    def _check_load(self, look: _Look) -> str:
        """Measure the load of a stream, and reroute it if it has been uneven for long enough."""
        recent = recent_input(
            self._home,
            self._control,
            look.stream.spec,
            RouteSettings.of(look.settings),
            with_texts=look.table.texts is not None,
            ask=self.ask,
        )
        watched, balance = look.watched, load_balance(recent, look.table)
        earlier = watched.earlier(self._looks)
        watched.seen, watched.seen_at = recent, self._looks
        if look.routes:
            watched.judge(look.routes[-1], balance.ratio)
        tolerance = Tolerance.of(look.settings)
        found = tolerance.judge(balance)
        if not tolerance.is_exceeded(balance):
            watched.uneven = 0
            return f"even: {found}"
        watched.uneven += 1
        wanted = 1 if watched.follows else look.settings.number("balance.looks")
        if watched.uneven < wanted:
            return f"acts if {counted(wanted - watched.uneven, 'more look')} shows this: {found}"
        watched.uneven = 0
        return f"{self._even_out(look, recent, earlier, balance)}: {found}"

    def _even_out(
        self, look: _Look, recent: RecentInput, earlier: EarlierInput | None, balance: Balance
    ) -> str:
        """Reroute a stream if that pays off: if Cr > Ct (Tornado section 4.2)."""
        plan, transfer = self._plan(look, recent, earlier), look.settings.share("balance.transfer")
        if look.adjuster is None and not look.routes:  # nobody has chosen the strategy
            cheapest = plan_cheapest(recent, look.table, is_event=look.stream.spec.is_event)
            if cheapest.after * CLEARLY <= (balance.ratio if plan is None else plan.after):
                plan = cheapest
        if plan is None:
            return "does not act, because no change makes it more even"
        price = transfer * plan.copies
        if plan.gain <= price:
            saved, spent = (counted(round(records), "record") for records in (plan.gain, price))
            return (
                f"does not act, because the best change saves the time of {saved}"
                f" and moves queries for that of {spent}"
            )
        _log.info(
            "stream %s is balanced by %s: max/mean %.2f", look.stream.name, plan.adjuster, balance.ratio
        )
        newest = look.routes[-1].seq if look.routes else INITIAL
        try:
            plan = in_packages(plan, look.table, recent)
            entry = put_in_force(self._control, look.stream, plan, after=newest, is_automatic=True)
        except StqshError as error:  # another change was quicker
            _log.info("%s", error)
            return "does not act, because another change was quicker"
        look.watched.change, look.watched.rest = entry.change, look.watched.pause
        return "has acted"

    def _plan(self, look: _Look, recent: RecentInput, earlier: EarlierInput | None) -> RoutePlan | None:
        """Return the best change that pays off; if none does, the best one, and None if there is none."""
        limit, transfer = Tolerance.of(look.settings).limit, look.settings.share("balance.transfer")
        plan = plan_rebalance(recent, look.table, look.adjuster, limit, earlier, transfer)
        if plan is None and transfer:
            plan = plan_rebalance(recent, look.table, look.adjuster, limit, earlier)
        return plan
