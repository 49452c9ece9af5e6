"""The fold of aggregate queries that follow every step: language.md section 7, by brute force."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, NamedTuple

from support.cases import Case, Row, Spec, by_step
from support.oracle.expressions import value
from support.oracle.fold import Live, Oracle, room_of, since_when, world_of
from support.oracle.text import terms
from support.oracle.whole import moments

GroupKey = tuple[Any, ...]
Member = dict[str, Any]
"""What is added up of a member, by the text of the expression."""


class GroupUpdate(NamedTuple):
    """One line of the update log of an aggregate: `row` is its select list."""

    step: int
    query: int
    op: str
    key: GroupKey
    why: str
    row: tuple[Any, ...]


@dataclass
class LiveGroups(Live):
    """A registered query, and the rows that its reader holds."""

    rows: dict[GroupKey, tuple[Any, ...]] = field(default_factory=dict)


class GroupOracle(Oracle):
    """A stream's state, and its aggregate queries."""

    _now = 0

    def step(self, n: int, commands: list[Any], records: list[Row]) -> list[GroupUpdate]:  # type: ignore[override]
        """Take a step's commands, then its records; what must be told."""
        out: list[GroupUpdate] = []
        for command in commands:
            match command["op"]:
                case "register":
                    self.begin(command["query"], n)
                case "pause" | "resume" if command["id"] in self.queries:
                    self.queries[command["id"]].paused = command["op"] == "pause"
                case "alter" if command["id"] in self.queries:
                    query = self.queries[command["id"]]
                    query.spec = query.spec | {name: command[name] for name in ("region", "condition")}
                case "drop":
                    out += self._gone(n, command["id"], "dropped")
        self.take(n, records)
        self.note_arrivals(n)
        for id_, query in list(self.queries.items()):
            assert isinstance(query, LiveGroups)
            if self._has_ended(query, n):
                out += self._gone(n, id_, "ended")
            elif query.paused:
                query.pause()
            else:
                out += self._changed(n, id_, query)
        return out

    def begin(self, query: Spec, n: int) -> None:
        """Take a query of a step in; of members it selects what is added up."""
        spec = since_when(query, n) | {"select": _over_records(query["aggregates"])}
        self.queries[query["id"]] = LiveGroups(spec, n)

    def _gone(self, n: int, id_: int, why: str) -> list[GroupUpdate]:
        if id_ not in self.queries:
            return []
        query = self.queries.pop(id_)
        assert isinstance(query, LiveGroups)
        return [GroupUpdate(n, id_, "-", key, why, row) for key, row in query.rows.items()]

    def _changed(self, n: int, id_: int, query: LiveGroups) -> list[GroupUpdate]:
        new, alive, passing = self._grouped(query.spec, n, self._counted(n, id_, query))
        out = []
        for key, row in query.rows.items():
            if new.get(key) != row:
                why = "changed" if key in new else "overtaken" if key in passing else "left"
                if why == "left" and self.is_event and alive is not None and key not in alive:
                    why = "expired"
                out.append(GroupUpdate(n, id_, "-", key, why, row))
        out += [
            GroupUpdate(n, id_, "+", key, "", row) for key, row in new.items() if query.rows.get(key) != row
        ]
        query.rows = new
        return out

    def _counted(self, n: int, id_: int, query: LiveGroups) -> list[Member]:
        """The members that count: with DWELL, those that have stayed in, and not yet out, for so long.

        Where rows dwell, each has the values with which it last was in the answer.
        """
        if not query.spec["options"].get("dwell_us"):
            return self._members(query.spec, n, self.answer(query.spec, n))
        self._difference(n, id_, query)
        if not query.is_held:
            return self._members(query.spec, n, query.sent)
        names = [name for name, _ in query.spec["select"]]
        held = [row for row in query.held.values() if row.is_sent]
        return [dict(zip(names, row.told[0], strict=True)) for row in held]

    def _members(self, query: Spec, n: int, names: Iterable[Any]) -> list[Member]:
        """The values of objects that are added up."""
        shown = query | {"select": _over_records(query["aggregates"])}
        listed = [name for name, _ in shown["select"]]
        return [dict(zip(listed, self._selected(name, shown, n), strict=True)) for name in names]

    def _grouped(
        self, query: Spec, n: int, members: list[Member]
    ) -> tuple[dict[GroupKey, tuple[Any, ...]], set[GroupKey] | None, set[GroupKey]]:
        """The answer after step n, the groups with members (None for DISTINCT), and those HAVING lets in."""
        spec, found = query["aggregates"], {}
        self._now = self.clock.at(n)
        for member in members:
            key = tuple(_plain(member[repr(e)]) for e, _ in spec.get("groups", []))
            found.setdefault(key, []).append(member)
        alive = set(found)
        if not spec.get("groups"):
            found.setdefault((), [])
        shown = {key: _shown(spec, key, members) for key, members in found.items()}
        having = spec.get("having")
        passing = {k for k, row in shown.items() if having is None or self._value(having, row) is True}
        if spec.get("distinct"):
            return self._distinct(spec, shown, passing)
        order = sorted(passing, key=cmp_to_key(lambda a, b: self._compare(spec, shown, a, b)))
        first = order[: spec.get("limit")] if spec.get("limit") is not None else order
        rows = {key: tuple(_plain(self._value(e, shown[key])) for _, e, _ in spec["select"]) for key in first}
        return rows, alive, passing

    def _distinct(
        self, spec: Spec, shown: dict[GroupKey, Row], passing: set[GroupKey]
    ) -> tuple[dict[GroupKey, tuple[Any, ...]], None, set[GroupKey]]:
        """The answer of a DISTINCT, whose rows are their own keys, and all rows before LIMIT."""
        rows: dict[GroupKey, tuple[Any, ...]] = {}
        holders: dict[GroupKey, Row] = {}
        for key in passing:
            row = tuple(_plain(self._value(e, shown[key])) for _, e, _ in spec["select"])
            name = tuple(_json(value) if isinstance(value, list) else value for value in row)
            rows[name], holders[name] = row, shown[key]
        order = sorted(rows, key=cmp_to_key(lambda a, b: self._compare(spec, holders, a, b)))
        return {name: rows[name] for name in order[: spec.get("limit")]}, None, set(rows)

    def _value(self, e: Any, row: Row) -> Any:
        return value(e, row, self._now, self.world)

    def _compare(self, spec: Spec, shown: dict[GroupKey, Row], a: GroupKey, b: GroupKey) -> int:
        for e, falls in spec.get("order", []):
            one, other = (_plain(self._value(e, shown[key])) for key in (a, b))
            if one != other:
                if one is None or other is None:
                    return 1 if one is None else -1
                return (1 if one > other else -1) * (-1 if falls else 1)
        return -1 if key_rank(a) < key_rank(b) else 1


def _over_records(spec: Spec) -> list[list[Any]]:
    """What is added up, or grouped by, of each record: a name and an expression each."""
    values = [e for e, _ in spec.get("groups", [])]
    values += [argument for _, argument, _, _ in spec.get("measures", []) if argument is not None]
    return [[repr(e), e] for e in values]


def _shown(spec: Spec, key: GroupKey, members: list[Member]) -> Row:
    """The columns of a group."""
    shown = {f"g{i}": one for i, one in enumerate(key)}
    for j, measure in enumerate(spec.get("measures", [])):
        function, argument, _, k = measure
        values = [1 if argument is None else _plain(member[repr(argument)]) for member in members]
        shown[f"m{j}"] = measured(function, values, k)
    return shown


def _json(terms: list[Any]) -> str:
    """A TOPK as the text by which rows are told apart."""
    return json.dumps([list(one) for one in terms], separators=(",", ":"), ensure_ascii=False)


def _plain(v: Any) -> Any:
    """NaN and infinities count as NULL; -0.0 is 0.0."""
    if isinstance(v, float):
        return v + 0.0 if math.isfinite(v) else None
    return v


def key_rank(key: GroupKey) -> Any:
    """Keys in order: value by value, NULL last."""
    return tuple((v is None, 0 if v is None else v) for v in key)


def measured(function: str, values: list[Any], k: int) -> Any:
    """The value of a measure over the values of its argument."""
    known = [v for v in values if v is not None]
    match function:
        case "count":
            return len(known)
        case "distinct":
            return len(set(known))
        case "topk":
            counts = Counter(term for text in known for term in set(terms(text)))
            return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:k]
    if not known:
        return None
    if function in ("min", "max"):
        return min(known) if function == "min" else max(known)
    total = _double(sum(map(Fraction, known)))
    if function == "avg":
        return None if total is None else total / len(known)
    if isinstance(known[0], int):
        return sum(known) if -(2**63) <= sum(known) < 2**63 else None
    return total


def _double(exact: Fraction) -> float | None:
    try:
        return float(exact)
    except OverflowError:
        return None


def run_groups(case: Case) -> list[GroupUpdate]:
    """All updates of a case of aggregate queries in log order."""
    oracle = GroupOracle(case.spec, case.clock, world_of(case), room=room_of(case))
    records, commands = by_step(case.records), by_step(case.commands)
    told = [u for n in moments(case) for u in oracle.step(n, commands.get(n, []), records.get(n, []))]
    return group_order(told)


def group_order(updates: list[GroupUpdate]) -> list[GroupUpdate]:
    """By step, query, minus before plus, key."""
    return sorted(updates, key=lambda u: (u.step, u.query, u.op == "+", key_rank(u.key)))
