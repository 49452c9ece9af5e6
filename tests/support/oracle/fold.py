"""The fold: one stream's state, its queries' answers, and what must be told, from the law's own words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from typing import Any, NamedTuple

from support.cases import Case, Clock, Command, Row, Spec, by_step
from support.oracle.expressions import World, parts_of, value
from support.oracle.geometry import Place, distance


class Update(NamedTuple):
    """One line of the update log: `op` is "+" or "-", `row` the values of all declared columns in order.

    `distance`: from the centre, where the query selects it.
    """

    step: int
    query: int
    op: str
    key: Any
    why: str
    row: tuple[Any, ...]
    distance: float | None = None


@dataclass(frozen=True)
class Instant(Clock):
    """A clock that stands at an instant, whatever the step."""

    at_us: int = 0

    def at(self, step: int) -> int:
        return self.at_us


def in_log_order(updates: list[Update]) -> list[Update]:
    """By step, query, minus before plus, key."""
    return sorted(updates, key=lambda u: (u.step, u.query, u.op == "+", u.key))


def alike(a: Update, b: Update) -> bool:
    """Equal, but for the last digits of the distances."""
    if a.distance is None or b.distance is None:
        return a == b
    return a[:-1] == b[:-1] and math.isclose(a.distance, b.distance, rel_tol=1e-12)


@dataclass
class HeldRow:
    """A row of an answer that is held back.

    name: the object. told: what is selected of it as it last was in the answer, and the row. parting: how it
    left. since: when it began to differ from what the reader holds, in µs.
    """

    name: Any
    told: tuple[list[Any], Update]
    is_member: bool = True
    is_sent: bool = False
    parting: Update | None = None
    since: int | None = None


@dataclass
class Live:
    """A registered query: since which step, what its reader holds, what changed but has not dwelt yet.

    `told`, of a query with `changes`: what it selects of each object that its reader holds, and the row.
    `earlier`: the query as it was before the step, if that gives it another region or condition.
    """

    spec: Spec
    since: int
    sent: set[Any] = field(default_factory=set)
    paused: bool = False
    changed: dict[Any, int] = field(default_factory=dict)
    told: dict[Any, tuple[list[Any], Update]] = field(default_factory=dict)
    earlier: Spec | None = None
    held: dict[Any, HeldRow] = field(default_factory=dict)

    @property
    def is_held(self) -> bool:
        """Whether the rows of its answer dwell, and not the objects in its region."""
        is_merged = self.spec["region"]["type"] == "nearest" or self.spec.get("first")
        return bool(is_merged and self.spec["options"].get("dwell_us"))

    def pause(self) -> None:
        """While it is paused, nothing waits."""
        self.changed = {}
        for row in self.held.values():
            row.since = None


def world_of(case: Case) -> World:
    """What a case's expressions may look at."""
    return World(case.spec["x"], case.spec["y"], case.spec["planar"], case.tables, case.areas)


WIDTHS = {"BIGINT": 8, "DOUBLE": 8, "TIMESTAMP": 8, "INT": 4, "FLOAT": 4, "BOOLEAN": 1}


def size_of(row: Row, spec: Spec) -> int:
    """The bytes that a record counts."""
    texts = [row[name] or "" for name, kind in spec["columns"] if kind == "STRING"]
    return sum(WIDTHS.get(kind, 0) for _, kind in spec["columns"]) + sum(len(text.encode()) for text in texts)


@dataclass
class Room:
    """What KEEP with a size leaves of an event stream: each kept event as its tick and its bytes.

    floor: the tick before which events are gone, None while none are. repeated: the duplicates of each step,
    which take room where they are not known in advance.
    """

    limit: int | None
    events: list[tuple[int, int]] = field(default_factory=list)
    floor: int | None = None
    repeated: dict[int, list[Row]] = field(default_factory=dict)

    def take(self, tick: int, size: int) -> None:
        if self.floor is None or tick >= self.floor:
            self.events.append((tick, size))

    def let_go(self, now: int) -> None:
        """After a tick: as long as there is too much, the oldest time slot goes."""
        while self.limit is not None and sum(size for _, size in self.events) > self.limit:
            oldest = min(tick for tick, _ in self.events)
            ends = {k: (oldest // 2**k + 1) * 2**k for k in range(39)}
            old_enough = [end for k, end in ends.items() if now - end >= 1024 * 2**k]
            self.floor = max([oldest + 1, *old_enough])
            self.events = [(tick, size) for tick, size in self.events if tick >= self.floor]


def room_of(case: Case) -> Room:
    """The room of a case's stream before its first step."""
    return Room(case.spec.get("keep_bytes"), repeated=by_step(case.repeated))


@dataclass
class Oracle:
    """One stream's state after some step, and its queries.

    An object's name in `stored` is its key; each event is an object of its own, named (key, number).
    `closing` is the step after the end of all streams, if there is one.
    """

    spec: Spec
    clock: Clock
    world: World
    stored: dict[Any, Row] = field(default_factory=dict)
    queries: dict[int, Live] = field(default_factory=dict)
    stale: int = 0
    arrived: dict[Any, int] = field(default_factory=dict)
    closing: int = 0
    room: Room = field(default_factory=lambda: Room(None))
    floor: int | None = None
    _window: tuple[int, int | None] | None = None

    @staticmethod
    def of(case: Case) -> Oracle:
        """The state before a case's first step."""
        return Oracle(case.spec, case.clock, world_of(case), room=room_of(case))

    def step(self, n: int, commands: list[Command], records: list[Row]) -> list[Update]:
        """Take a step's commands, then its records; what must be told."""
        before, out = dict(self.stored), []
        for command in commands:
            out += self._command(n, command, before)
        floor_before = self.floor
        self.take(n, records)
        self.note_arrivals(n)
        for query_id, query in list(self.queries.items()):
            if self._has_ended(query, n):
                out += self._farewell(n, query_id, "ended", before)
            elif query.paused:
                query.pause()
            elif (query.spec.get("first") or {}).get("sync_us") is None:
                out += self._told(n, query_id, query)
            elif (instant := self.instant(n, query.spec["first"]["sync_us"])) is not None:
                with self.as_of(instant, before, query.spec["first"].get("window_us"), floor_before):
                    out += self._told(n, query_id, query)
        for query in self.queries.values():
            query.earlier = None
        if self.spec["keep_us"] == 0:
            self._forget()
        return in_log_order(out)

    def _told(self, n: int, query_id: int, query: Live) -> list[Update]:
        return self._difference(n, query_id, query) + self._changes(n, query_id, query)

    # --- refreshes ---

    def instant(self, n: int, every: int) -> int | None:
        """When a query with SYNC is refreshed in step n, if it is."""
        if n == self.closing:
            return self.clock.at(n)
        last = (self.clock.at(n + 1) - 1) // every * every
        return last if last >= self.clock.at(n) else None

    @contextmanager
    def as_of(
        self, instant: int, stored: dict[Any, Row], window_us: int | None, floor: int | None
    ) -> Iterator[None]:
        """Look at what was stored as of an instant; with a window at the records of that time only."""
        here = self.clock, self.stored, self.floor
        self.clock = Instant(self.clock.base_tick, self.clock.tick_us, instant)
        self.stored, self._window, self.floor = stored, (instant, window_us), floor
        try:
            yield
        finally:
            (self.clock, self.stored, self.floor), self._window = here, None

    def _in_window(self, row: Row) -> bool:
        if self._window is None or self._window[1] is None:
            return True
        end, length = self._window
        return end - length <= row[self.spec["time"]] < end

    def _is_too_old(self, row: Row) -> bool:
        if self._window is None or self._window[1] is None:
            return False
        return row[self.spec["time"]] < self._window[0] - self._window[1]

    def note_arrivals(self, n: int) -> None:
        """Write down that all new objects came in step n."""
        self.arrived |= dict.fromkeys(self.stored.keys() - self.arrived.keys(), n)

    def _forget(self) -> None:
        """KEEP NONE: nothing is stored, and nothing stands that was told."""
        self.stored.clear()
        self.arrived.clear()
        for query in self.queries.values():
            query.sent.clear()
            query.changed.clear()
            query.told.clear()

    # --- answers ---

    def answer(self, query: Spec, n: int) -> set[Any]:
        """The objects that the query's SELECT returns on the state after step n."""
        nearest = query["region"]["type"] == "nearest"
        found = {
            name
            for name in self.stored
            if (nearest or self._inside(name, query["region"], n)) and self.satisfies(name, query, n)
        }
        if nearest:
            found = set(self._nearest(found, query["region"], n))
        return set(self._first(found, query, n)) if query.get("first") else found

    def _first(self, found: set[Any], query: Spec, n: int) -> list[Any]:
        """The first by (ORDER BY, key): NULLs last, or first where it says so."""
        first, centre = query["first"], self.centre(query["region"], n)

        def of(e: Any, name: Any) -> Any:
            return value(e, self.stored[name], self.clock.at(n), self.world, centre)

        members = sorted(found, key=self.key)
        for e, *how in reversed(first["order"]):
            members.sort(key=cmp_to_key(lambda a, b, e=e, how=how: compare(of(e, a), of(e, b), *how)))
        return members[: first["limit"]]

    def satisfies(self, name: Any, query: Spec, n: int) -> bool:
        """Whether an object is there, is not the focal one, and the condition holds for it."""
        if self.place(name, n) is None or name == query["region"].get("focal"):
            return False
        if not self._in_window(self.stored[name]):
            return False
        if self.arrived.get(name, n) < query.get("first_step", 0):
            return False
        world = replace(self.world, focal=lambda key: self.centre({"focal": key}, n))
        truth = value(query["condition"] or ["lit", True], self.stored[name], self.clock.at(n), world)
        return truth is True

    def _inside(self, name: Any, region: Spec, n: int) -> bool:
        place, centre = self.place(name, n), self.centre(region, n)
        if "focal" not in region or place is None:
            return self.world.inside(place, region)
        return centre is not None and self.world.around(place, centre, region)

    def _is_inside_now(self, name: Any, query: Spec, n: int) -> bool:
        """Whether an object is in the region of a query, as it is after step n."""
        return self._inside(name, query["region"], n)

    def _nearest(self, found: set[Any], region: Spec, n: int) -> list[Any]:
        centre = self.centre(region, n)
        if centre is None:
            return []

        def rank(name: Any) -> tuple[float, Any]:
            return distance(centre, self.place(name, n), self.world.planar), self.key(name)

        return sorted(found, key=rank)[: region["k"]]

    def centre(self, region: Spec, n: int) -> Place | None:
        """What a region lies around after step n, if there is such a point just now."""
        return self.place(region["focal"], n) if "focal" in region else _fixed_centre(region)

    def place(self, name: Any, n: int) -> Place | None:
        """Where the object is after step n; None while it is unknown, silent for too long, or gone."""
        row = self.stored.get(name)
        return None if row is None or self._silent(row, n) else self.world.place(row)

    def _silent(self, row: Row, n: int) -> bool:
        """Disconnected, or (an event) expired."""
        lasts, time = self.spec["keep_us" if self.is_event else "report_every_us"], row[self.spec["time"]]
        is_gone = self.floor is not None and time < self.floor * self.clock.tick_us
        return is_gone or (bool(lasts) and time < self.clock.at(n) - lasts)

    @property
    def is_event(self) -> bool:
        return self.spec["kind"] == "event"

    def key(self, name: Any) -> Any:
        """The key of an object."""
        return self.stored[name][self.spec["key"]]

    # --- what comes in ---

    def take(self, n: int, records: list[Row]) -> None:
        """Take the records of a step."""
        for row in records:
            self._record(row)
        for row in [*records, *self.room.repeated.get(n, [])] if self.room.limit is not None else []:
            self.room.take(row[self.spec["time"]] // self.clock.tick_us, size_of(row, self.spec))
        self.room.let_go(self.clock.base_tick + n - 1)
        self.floor = self.room.floor

    def _record(self, row: Row) -> None:
        key, time = row[self.spec["key"]], self.spec["time"]
        if self.is_event:
            self.stored[key, len(self.stored)] = row
        elif key in self.stored and row[time] < self.stored[key][time]:
            self.stale += 1
        else:
            self.stored[key] = row

    def _command(self, n: int, command: Command, before: dict[Any, Row]) -> list[Update]:
        match command["op"]:
            case "register":
                self.queries[command["query"]["id"]] = Live(since_when(command["query"], n), n)
            case "pause" | "resume" if command["id"] in self.queries:
                self.queries[command["id"]].paused = command["op"] == "pause"
            case "alter" if command["id"] in self.queries:
                query = self.queries[command["id"]]
                query.earlier = query.earlier or query.spec
                query.spec = query.spec | {name: command[name] for name in ("region", "condition")}
            case "drop":
                return self._farewell(n, command["id"], "dropped", before)
            case "drop_stream":
                return [u for q in list(self.queries) for u in self._farewell(n, q, "dropped", before)]
        return []

    # --- what is told ---

    def _has_ended(self, query: Live, n: int) -> bool:
        lasts = query.spec["for_us"]
        return lasts is not None and self.clock.at(n) >= self.clock.at(query.since) + lasts

    def _farewell(self, n: int, query_id: int, why: str, before: dict[Any, Row]) -> list[Update]:
        """Nobody is left holding a stale answer: a minus for whatever was told and not taken back."""
        if query_id not in self.queries:  # its FOR has passed already
            return []
        query = self.queries.pop(query_id)
        then = Oracle(self.spec, self.clock, self.world, before)
        spec = query.earlier or query.spec
        if query.is_held:
            held = [row for row in query.held.values() if row.is_sent]
            return [
                row.parting._replace(step=n, why=why)
                if row.parting
                else then._update(n - 1, query_id, spec, row.name, why)._replace(step=n)
                for row in held
            ]
        return [then._update(n - 1, query_id, spec, name, why)._replace(step=n) for name in query.sent]

    def _held(self, n: int, query_id: int, query: Live) -> list[Update]:
        """What is due of the rows of an answer. One that has left stays as it left."""
        now, out = self.answer(query.spec, n), []
        for name in now:
            told = self._selected(name, query.spec, n), self._update(n, query_id, query.spec, name, "")
            row = query.held.setdefault(name, HeldRow(name, told))
            if row.is_sent and query.spec["options"].get("changes") and row.told[0] != told[0]:
                out += [row.told[1]._replace(step=n, op="-", why="changed"), told[1]]
            row.told, row.is_member, row.parting = told, True, None
        for name, row in query.held.items():
            if row.is_member and name not in now:
                why = self._why(name, query.spec, n)
                row.is_member, row.parting = False, self._update(n, query_id, query.spec, name, why)
        for row in query.held.values():
            if row.is_member == row.is_sent:
                row.since = None
                continue
            row.since = self.clock.at(n) if row.since is None else row.since
            waits = self.clock.at(n) < row.since + query.spec["options"]["dwell_us"]
            if waits and (row.is_member or row.parting.why in ("left", "overtaken")):
                continue
            out.append(row.told[1] if row.is_member else row.parting._replace(step=n))
            row.is_sent, row.since = row.is_member, None
        query.held = {name: row for name, row in query.held.items() if row.is_member or row.is_sent}
        return out

    def _difference(self, n: int, query_id: int, query: Live) -> list[Update]:
        if query.is_held:
            return self._held(n, query_id, query)
        turned = query.sent ^ self.answer(query.spec, n)
        query.changed = {name: query.changed.get(name, n) for name in turned}
        dwell = query.spec["options"].get("dwell_us", 0)
        dwelt = {
            name
            for name in turned
            if self.clock.at(n) >= self.clock.at(query.changed[name]) + dwell
            or (name in query.sent and self._why(name, query.spec, n) in ("disconnected", "gone", "expired"))
        }
        out = []
        for name in dwelt:
            why = self._why(name, query.spec, n) if name in query.sent else ""
            out.append(self._update(n, query_id, query.spec, name, why))
            del query.changed[name]
        query.sent ^= dwelt
        return out

    def _changes(self, n: int, query_id: int, query: Live) -> list[Update]:
        """With `changes`: the old and the new row of members that stay, where what is selected differs."""
        if query.is_held or not query.spec["options"].get("changes"):
            return []
        told, out = query.told, []
        query.told = {
            name: (self._selected(name, query.spec, n), self._update(n, query_id, query.spec, name, ""))
            for name in query.sent
        }
        for name in told.keys() & query.told.keys():
            (old, shown), (new, showing) = told[name], query.told[name]
            if old != new:
                out += [shown._replace(step=n, op="-", why="changed"), showing]
        return out

    def _selected(self, name: Any, query: Spec, n: int) -> list[Any]:
        """What a query selects of the stored record of an object."""
        row, centre = self.stored[name], self.centre(query["region"], n)
        return [value(e, row, self.clock.at(n), self.world, centre) for _, e in query["select"]]

    def _why(self, name: Any, query: Spec, n: int) -> str:
        row = self.stored[name]
        if self._silent(row, n) or self._is_too_old(row):
            return "expired" if self.is_event else "disconnected"
        if self.world.place(row) is None:
            return "gone"
        if query["region"]["type"] == "nearest":
            is_near = self.satisfies(name, query, n) and self.centre(query["region"], n) is not None
            return "overtaken" if is_near else "left"
        limited = query.get("first") and self._is_inside_now(name, query, n)
        return "overtaken" if limited and self.satisfies(name, query, n) else "left"

    def _update(self, n: int, query_id: int, query: Spec, name: Any, why: str) -> Update:
        """A plus, or a minus for a reason; shown as things are after step n."""
        row, key = self.stored[name], self.key(name)
        shown = tuple(row.get(column) for column, _ in self.spec["columns"])
        place, centre = self.world.place(row), self.centre(query["region"], n)
        asked = parts_of(query["select"], "distance")
        missing = not asked or place is None or centre is None
        far = None if missing else distance(centre, place, self.world.planar)
        return Update(n, query_id, "-" if why else "+", key, why, shown, far)


def compare(a: Any, b: Any, descending: bool, nulls_first: bool = False) -> int:
    """Whether a value of ORDER BY comes before another (-1), after it (1), or neither."""
    if a is None or b is None:
        return ((a is None) - (b is None)) * (-1 if nulls_first else 1)
    return ((a > b) - (a < b)) * (-1 if descending else 1)


def since_when(query: Spec, n: int) -> Spec:
    """A query that is registered in step n; with SINCE NOW it has the first step whose events count."""
    return query | {"first_step": n} if query["options"].get("since_now") else query


def _fixed_centre(region: Spec) -> Place | None:
    return (region["x"], region["y"]) if "x" in region else None


def fold(updates: list[Update]) -> dict[int, set[Any]]:
    """Per query, the keys told and not taken back. Raises AssertionError on a double or a stray."""
    held: dict[int, set[Any]] = {}
    for u in updates:
        members = held.setdefault(u.query, set())
        if (u.op == "+") == (u.key in members):
            raise AssertionError(f"{u} does not fit the answer so far")
        (members.add if u.op == "+" else members.remove)(u.key)
    return held
