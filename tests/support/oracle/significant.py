"""RETAIN SIGNIFICANT: which objects a stream keeps, who asks for them, and what shedding takes (SOLE 4 to 6).

A step takes its records into what was kept, looks at who is of interest to whom, drops the others, and
answers over what is left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import pyarrow as pa

from stqsh.core.kernels.index.hashing import hash_keys
from support.cases import Case, Command, Row, Spec, by_step
from support.oracle.caches import FULL, Caches, Memory, Past, least
from support.oracle.expressions import parts_of
from support.oracle.fold import Live, Oracle, Update, in_log_order, world_of
from support.oracle.geometry import Place, distance
from support.oracle.groups import GroupOracle, LiveGroups, group_order


@dataclass
class Significant(Oracle):
    """The state of a stream that retains what is significant; `stored` is what is kept.

    refs: the queries that are interested in each kept object. shadow: what was shed. focals: last records of
    the focal objects of queries that have not been dropped, as every slot gets them. past: of kNN queries;
    judged: the same before the step, by which its objects are judged. home: the slot of each object. seen: by
    step, whom someone else kept, who may take them in another order: to be followed in what is shed, and
    refuted; None to go by the order of names.
    """

    memory: Memory = FULL
    refs: dict[Any, set[int]] = field(default_factory=dict)
    shadow: dict[Any, Row] = field(default_factory=dict)
    focals: dict[Any, Row] = field(default_factory=dict)
    past: dict[int, Past] = field(default_factory=dict)
    judged: dict[int, Past] = field(default_factory=dict)
    home: Callable[[Any], int] = lambda name: 0
    seen: dict[int, set[Any]] | None = None
    followed: dict[int, set[Any]] = field(default_factory=dict)
    fresh: set[Any] = field(default_factory=set)
    lost: dict[Any, str] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case) -> Self:
        """The state before a case's first step."""
        return cls(case.spec, case.clock, world_of(case))

    def step(self, n: int, commands: list[Command], records: list[Row]) -> list[Update]:
        """Take a step's commands, then its records, then decide what stays; what must be told."""
        for command in commands:
            if command["op"] == "memory":
                self.memory = Memory(**{name: value for name, value in command.items() if name != "op"})
        before, self.fresh, self.lost = replace(self, stored=dict(self.stored)), set(), {}
        out = [u for command in commands for u in self._command_after(n, command, before)]
        self._follow(commands)
        for row in records:
            self._record(row)
        self._select(n)
        for query_id, query in list(self.queries.items()):
            if self._has_ended(query, n):
                out += self._leave(n, query_id, "ended", before)
            elif query.paused:
                query.pause()
            else:
                out += self._told(n, query_id, query)
        for name in self.lost:
            del self.stored[name]
        neighbours = [(id_, q) for id_, q in self.active(n).items() if q.spec["region"]["type"] == "nearest"]
        self.past = {id_: self._reached(live.spec, n) for id_, live in neighbours}
        return self._in_order(out)

    @staticmethod
    def _in_order(updates: list[Update]) -> list[Update]:
        return in_log_order(updates)

    # --- what is kept ---

    def active(self, n: int) -> dict[int, Live]:
        """The queries that ask for objects after a step."""
        return {i: q for i, q in self.queries.items() if not q.paused and not self._has_ended(q, n)}

    def focal_names(self, n: int) -> set[Any]:
        """The focal objects of active queries."""
        return {live.spec["region"].get("focal") for live in self.active(n).values()} - {None}

    def interested(self, row: Row, n: int) -> set[int]:
        """The queries that are interested in a record: it is in their regions or caches (definition 3).

        Also after the step neighbours are judged by the circles before it, as `refs` are.
        """
        if self._silent(row, n) or self.world.place(row) is None:
            return set()
        return {id_ for id_, live in self.active(n).items() if self._is_near(row, id_, live.spec, n)}

    @property
    def caches(self) -> Caches:
        """The queries' regions as they are just now."""
        return Caches.of(self.world, self.spec, self.clock, self.memory)

    def _is_near(self, row: Row, query_id: int, query: Spec, n: int) -> bool:
        name, place = row[self.spec["key"]], self.world.place(row)
        centre = self.centre(query["region"], n)
        if place is None or name == query["region"].get("focal"):
            return False
        if query["region"]["type"] != "nearest":
            return self.caches.near(query, place, centre)
        past = self.judged.get(query_id, Past())
        return self.caches.near_neighbours(query, place, centre, past) or (
            name in past.members and centre is not None
        )

    def _select(self, n: int) -> None:
        """Decide which candidates stay; the others are lost, and are still there to be shown."""
        self.judged = self.past
        self.refs = {name: self.interested(row, n) for name, row in self.stored.items()}
        focals = self.focal_names(n)
        self.lost = {
            name: "left"
            for name, ids in self.refs.items()
            if self.place(name, n) is None or not (ids or name in focals)
        }
        self.shadow = {
            name: row
            for name, row in self.shadow.items()
            if name not in self.fresh and self.interested(row, n)
        }
        self._shed(n)
        self.refs = {name: ids for name, ids in self.refs.items() if name not in self.lost}

    def _shed(self, n: int) -> None:
        """Drop accessed objects with too few references, where no query is locked (SOLE 6.4, 6.5)."""
        weak = {name for name in self.fresh if self._is_weak(name)} - self.focal_names(n)
        seen = set() if self.seen is None else self.seen.get(n, set())
        for name in sorted(weak - seen):
            if not self._is_held_fast(name, n):
                self.lost[name], self.shadow[name] = "shed", self.stored[name]
            elif self.seen is not None:
                raise AssertionError(f"step {n}: {name!r} was shed, though a query is locked")
        for name in weak & seen:
            if not self._is_held_fast(name, n):
                raise AssertionError(f"step {n}: {name!r} was not shed, though no query is locked")

    def _is_weak(self, name: Any) -> bool:
        """Whether an object has too few references; of those that lack one, a part of all keys has."""
        count, k = len(self.refs[name]), self.memory.k
        low = int(hash_keys(pa.array([name]))[0]) % 2**32
        return 0 < count < k - 1 or (0 < count == k - 1 and low < self.memory.part * 2**32)

    def _is_held_fast(self, name: Any, n: int) -> bool:
        queries = tallies(self, n, self.home(name))
        return any(queries[id_].is_locked for id_ in self.refs[name])

    # --- answers, and what is told ---

    def answer(self, query: Spec, n: int) -> set[Any]:
        """The objects that the query's SELECT returns on what is kept after step n."""
        if query["region"]["type"] == "nearest":
            return super().answer(query, n)
        found = {
            name
            for name in self.stored
            if self._is_inside_now(name, query, n) and self.satisfies(name, query, n)
        }
        return set(self._first(found, query, n)) if query.get("first") else found

    def _is_inside_now(self, name: Any, query: Spec, n: int) -> bool:
        return self.caches.inside(query, self.place(name, n), self.centre(query["region"], n))

    def satisfies(self, name: Any, query: Spec, n: int) -> bool:
        """As ever, of what is kept."""
        return name not in self.lost and super().satisfies(name, query, n)

    def centre(self, region: Spec, n: int) -> Place | None:
        """What a region lies around; where a focal object is every slot knows."""
        if "focal" not in region:
            return super().centre(region, n)
        row = self.focals.get(region["focal"])
        return None if row is None or self._silent(row, n) else self.world.place(row)

    def _reached(self, query: Spec, n: int) -> Past:
        members = self.answer({name: part for name, part in query.items() if name != "first"}, n)
        centre = self.centre(query["region"], n)
        places = [place for name in members if (place := self.place(name, n)) is not None]
        if centre is None or len(places) < query["region"]["k"]:
            return Past(math.inf, frozenset(members))
        far = max(distance(centre, place, self.world.planar) for place in places)
        return Past(far, frozenset(members))

    def _why(self, name: Any, query: Spec, n: int) -> str:
        if name not in self.stored:  # it was forgotten while the query paused, or waited
            return "left"
        why = super()._why(name, query, n)
        if why in ("disconnected", "gone"):
            return why
        place, centre = self.place(name, n), self.centre(query["region"], n)
        cut = (
            query["region"]["type"] != "nearest"
            and self.caches.inside(query, place, centre, full=True)
            and not self.caches.inside(query, place, centre)
        )
        return "shed" if cut or self.lost.get(name) == "shed" else why

    def _update(self, n: int, query_id: int, query: Spec, name: Any, why: str) -> Update:
        """Of an object that was forgotten before, nothing is left to be shown but its key."""
        if name in self.stored:
            return super()._update(n, query_id, query, name, why)
        shown = tuple(name if column == self.spec["key"] else None for column, _ in self.spec["columns"])
        return Update(n, query_id, "-", name, why, shown)

    def _command_after(self, n: int, command: Command, before: Significant) -> list[Update]:
        if command["op"] == "drop":
            return self._leave(n, command["id"], "dropped", before)
        if command["op"] == "drop_stream":
            return [u for id_ in list(self.queries) for u in self._leave(n, id_, "dropped", before)]
        return self._command(n, command, {})

    def _leave(self, n: int, query_id: int, why: str, before: Significant) -> list[Update]:
        """A minus for whatever was told and not taken back, as things were before the step."""
        if query_id not in self.queries:
            return []
        query = self.queries.pop(query_id)
        return [
            before._update(n - 1, query_id, query.spec, name, why)._replace(step=n) for name in query.sent
        ]

    # --- what comes in ---

    def _follow(self, commands: list[Command]) -> None:
        """Begin to follow the focal objects of new queries, from what is kept of them."""
        for command in commands:
            if command["op"] == "register":
                self.followed[command["query"]["id"]] = _focals(command["query"])
            elif command["op"] == "drop":
                self.followed.pop(command["id"], None)
        names = {name for focals in self.followed.values() for name in focals}
        known = {name: self.stored[name] for name in names & set(self.stored)} | self.focals
        self.focals = {name: row for name, row in known.items() if name in names}

    def _record(self, row: Row) -> None:
        super()._record(row)
        name, time = row[self.spec["key"]], self.spec["time"]
        if self.stored[name] is row:
            self.fresh.add(name)
        known = self.focals.get(name)
        is_focal = any(name in focals for focals in self.followed.values())
        if is_focal and (known is None or row[time] >= known[time]):
            self.focals[name] = row


def _focals(query: Spec) -> set[Any]:
    """The objects around which a query's region and those of its condition lie."""
    regions = [query["region"], *(region for _, region in parts_of(query["condition"], "inside"))]
    return {region["focal"] for region in regions if "focal" in region}


class SignificantGroups(Significant, GroupOracle):
    """The same of aggregate queries."""

    def _told(self, n: int, query_id: int, query: Live) -> list[Any]:
        assert isinstance(query, LiveGroups)
        return self._changed(n, query_id, query)

    def _leave(self, n: int, query_id: int, why: str, before: Significant) -> list[Any]:
        return self._gone(n, query_id, why)

    def _command(self, n: int, command: Command, before: dict[Any, Row]) -> list[Any]:
        if command["op"] != "register":
            return super()._command(n, command, before)
        self.begin(command["query"], n)
        return []

    @staticmethod
    def _in_order(updates: list[Any]) -> list[Any]:
        return group_order(updates)


class Tally(NamedTuple):
    """Of one query on one slot: kept objects in its region, and beyond it in its cache; those shed; `least`
    is the accuracy that it must not go below.
    """

    inside: int
    cached: int
    shed: int
    least: float

    @property
    def accuracy(self) -> float:
        """What is kept, of what should be (SOLE 6.2)."""
        held = self.inside + self.cached
        return held / (held + self.shed) if held + self.shed else 1.0

    @property
    def is_locked(self) -> bool:
        """Whether one object less would be too little (SOLE 6.5); a query without a minimum never is."""
        held = self.inside + self.cached
        return self.least > 0 and held - 1 < self.least * (held + self.shed)


def tallies(oracle: Significant, n: int, slot: int = 0) -> dict[int, Tally]:
    """What each active query has on a slot, in a step or after it."""
    caches, out = oracle.caches, {}
    kept = [name for name in oracle.refs if name not in oracle.lost and oracle.home(name) == slot]
    shed = [row for name, row in oracle.shadow.items() if oracle.home(name) == slot]
    for id_, live in oracle.active(n).items():
        query, held = live.spec, [name for name in kept if id_ in oracle.refs[name]]
        centre = oracle.centre(query["region"], n)
        members = oracle.past.get(id_, Past()).members
        if (
            query["region"]["type"] == "nearest"
        ):  # neighbours that only other queries ask for take the places of others
            inside = min(len(members & set(kept)), len(held))
        else:
            inside = sum(caches.inside(query, oracle.place(name, n), centre) for name in held)
        missed = sum(id_ in oracle.interested(row, n) for row in shed)
        out[id_] = Tally(inside, len(held) - inside, missed, least(query))
    return out


def histogram(oracle: Significant, n: int, slot: int = 0) -> Counter[int]:
    """SOLE's S: how many kept objects have so many references, without the locked ones."""
    locked = {id_ for id_, tally in tallies(oracle, n, slot).items() if tally.is_locked}
    mine = [ids for name, ids in oracle.refs.items() if oracle.home(name) == slot]
    return Counter(len(ids) for ids in mine if ids and not ids & locked)


def run(
    case: Case,
    look: Callable[[Significant, int], None] = lambda oracle, n: None,
    start: Significant | None = None,
) -> list[Update]:
    """All updates of a case in log order; every step is visited, and `look` sees the state after each."""
    oracle = start or Significant.of(case)
    records, commands = by_step(case.records), by_step(case.commands)
    out = []
    for n in range(1, case.steps + 1):
        out += oracle.step(n, commands.get(n, []), records.get(n, []))
        look(oracle, n)
    return out


@dataclass
class Warmth:
    """Since when the queries of a case have known all that they ask for: after one REPORT EVERY of peace.

    There is none in a step in which a query begins or goes on, a focal object is not there, or memory is
    told to be less than exact.
    """

    since: dict[int, int] = field(default_factory=dict)

    def look(self, oracle: Significant, n: int) -> set[int]:
        """Take a step in: the queries whose answers are those of RETAIN ALL."""
        active = oracle.active(n)
        self.since = {id_: self.since.get(id_, n) for id_ in active}
        for id_, live in active.items():
            centres = [oracle.centre({"focal": name}, n) for name in _focals(live.spec)]
            if None in centres or oracle.memory != FULL:
                self.since[id_] = n + 1
        oldest = oracle.clock.step_of(oracle.clock.at(n) - oracle.spec["report_every_us"])
        return {id_ for id_, since in self.since.items() if since <= oldest}
