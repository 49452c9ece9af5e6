"""What depends on NOW, and queries that NOW changes in steps without records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Spec
from support.oracle import accepted, parts_of
from support.strategies.functions import function, literal
from support.strategies.streams import Scope


@st.composite
def elapsed(draw: st.DrawFn, case: Case | Scope) -> Any:
    """Whether a record is younger than a duration."""
    ago = draw(st.sampled_from([0, 1, 2, 3])) * case.clock.tick_us + draw(st.integers(0, 1))
    since = ["arith", "-", ["now"], ["dur", ago]]
    return ["cmp", draw(st.sampled_from([">", "<="])), ["col", case.spec["time"]], since]


def seconds(case: Case | Scope) -> Any:
    """The seconds since a record's time."""
    return ["arith", "/", ["arith", "-", ["now"], ["col", case.spec["time"]]], ["dur", 1_000_000]]


_MOST_STEPS = 60
"""The most steps of a case in which the oracle looks at each one."""


def may_turn(case: Case | Scope) -> bool:
    """Whether queries of a case may depend on NOW other than in comparisons of times."""
    return isinstance(case, Case) and case.steps <= _MOST_STEPS and case.spec["keep_us"] != 0


@st.composite
def turning(draw: st.DrawFn, case: Case | Scope) -> Any:
    """A condition that NOW changes at other instants than those of comparisons with it."""
    if draw(st.booleans()):
        rest = ["arith", "%", function("SECOND", ["now"]), literal(draw(st.sampled_from([2, 3])), "BIGINT")]
        return ["cmp", "=", rest, literal(0, "BIGINT")]
    doubled = ["arith", "*", seconds(case), literal(2.0, "DOUBLE")]
    limit = draw(st.sampled_from([0, 1, 2, 3, 6])) * case.clock.tick_us / 1e6
    return ["cmp", draw(st.sampled_from(["<", ">=", "="])), doubled, literal(limit, "DOUBLE")]


def timed(case: Case | Scope) -> st.SearchStrategy[Any]:
    """A value that depends on NOW."""
    more = [turning(case), st.just(seconds(case))] if may_turn(case) else []
    return st.one_of(elapsed(case), *more)


@st.composite
def restless(draw: st.DrawFn, case: Case | Scope, query: Spec) -> Spec:
    """The query with a further condition that NOW changes always."""
    parts = [part for part in (query["condition"], draw(turning(case))) if part is not None]
    return query | {"condition": ["and", parts] if len(parts) > 1 else parts[0]}


QUIET = (1, 1, 2, 3, 5)
"""The steps after which something comes in again, where the oracle looks at each one."""


@st.composite
def restless_rows(draw: st.DrawFn, case: Case, query: Spec, id_: int) -> Spec:
    """A lasting query for rows that NOW changes in its condition, its order or what it shows."""
    tick, is_nearest = case.clock.tick_us, query["region"]["type"] == "nearest"
    query = query | {"id": id_, "name": f"q{id_}", "for_us": None, "options": {}}
    shown = [one for one in query["select"] if not parts_of([one], "distance")] or [["oid", ["col", "oid"]]]
    order: list[Any] = [[["distance"], False, False]] if is_nearest else []
    first: Spec = {"order": order, "limit": draw(st.sampled_from([1, 2, 2**31 - 1])), "each_step": True}
    part = draw(st.sampled_from(["condition", "order", "select"]))
    if part == "condition":
        query = draw(restless(case, query))
    elif part == "order":
        by = draw(st.sampled_from([seconds(case), draw(turning(case))]))
        first["order"] = [[by, draw(st.booleans()), False], *order]
    else:
        timed = draw(st.sampled_from([seconds(case), draw(turning(case))]))
        shown, query["options"] = [*shown, ["timed", timed]], {"changes": True}
        first["timed"] = [timed]
    kind = "refreshed_nearest_first" if is_nearest else "first"
    if draw(st.booleans()):
        kind = "refreshed_nearest_first" if is_nearest else "refreshed_first"
        first |= {
            "sync_us": draw(st.sampled_from([tick, 2 * tick, 3 * tick + 1])),
            "each_step": part != "condition",
        }
    if draw(st.integers(0, 2)) == 0:
        query["options"] |= {"dwell_us": draw(st.sampled_from([tick, 2 * tick + 1]))}
    return query | {"kind": kind, "select": shown, "first": first}


@st.composite
def restless_groups(draw: st.DrawFn, case: Case, query: Spec, id_: int) -> Spec:
    """A lasting query for groups that NOW changes in its condition, values or groups."""
    tick, is_nearest = case.clock.tick_us, query["region"]["type"] == "nearest"
    query = query | {"id": id_, "name": f"q{id_}", "for_us": None, "options": {}, "select": []}
    measures: list[Any] = [["count", None, "BIGINT", 0], ["max", ["col", case.spec["time"]], "TIMESTAMP", 0]]
    form: Spec = {"groups": [], "measures": measures, "select": [["n", ["col", "m0"], "BIGINT"]]}
    form |= {
        "having": None,
        "order": [],
        "limit": None,
        "window_us": None,
        "each_step": True,
        "sync_us": None,
    }
    age = ["arith", "/", ["arith", "-", ["now"], ["col", "m1"]], ["dur", 1_000_000]]
    part = draw(st.sampled_from(["condition", "value", "group", "select", "having"]))
    if part == "condition":
        query = draw(restless(case, query))
    elif part == "value":
        form["measures"] = [*measures, ["max", seconds(case), "DOUBLE", 0]]
        form["select"] = [["age", ["col", "m2"], "DOUBLE"]]
    elif part == "group":
        form["groups"] = [[draw(turning(case)), "BOOLEAN"]]
        form["select"] = [["fresh", ["col", "g0"], "BOOLEAN"], *form["select"]]
    elif part == "select":
        form["select"] = [["age", age, "DOUBLE"]]
    else:
        form["having"] = ["cmp", ">", age, ["lit", 1.5 * tick / 1e6, "DOUBLE"]]
    over_groups, kind = part in ("select", "having"), "refreshed_nearest" if is_nearest else "aggregate"
    if over_groups and draw(st.booleans()):
        form["each_step"], kind = False, "nearest_aggregate" if is_nearest else kind
    elif draw(st.booleans()):
        form |= {"sync_us": draw(st.sampled_from([tick, 2 * tick, 3 * tick + 1])), "each_step": False}
    return query | {"kind": kind, "aggregates": form}


def _everywhere(query: Spec) -> Spec:
    """The query over all objects, unless it joins them or is for neighbours."""
    if query["join"] is not None or query["region"]["type"] == "nearest":
        return query
    shown = [one for one in query["select"] if not parts_of([one], "distance")]
    return query | {"region": {"type": "all"}, "condition": None, "areas": [], "select": shown}


@st.composite
def restless_cases(draw: st.DrawFn, cases: st.SearchStrategy[Case], of: Any) -> Case:
    """A case of queries that NOW changes always, and of others, most of whose steps bring nothing.

    `of` is `restless_rows` or `restless_groups`.
    """
    case = draw(cases.filter(lambda one: bool(one.records and one.queries)))
    came = sorted({1, *(step for step, _ in (*case.records, *case.commands))})
    at = {step: 1 + sum(QUIET[n % len(QUIET)] for n in range(i)) for i, step in enumerate(came)}
    late = {step: (at[step] - step) * case.clock.tick_us for step in came}
    time = case.spec["time"]
    records = [(at[step], row | {time: row[time] + late[step]}) for step, row in case.records]
    commands = [(at[step], command) for step, command in case.commands]
    records = accepted(case.spec, case.clock, records)
    case = replace(case, steps=max(at.values()) + 5, records=records, commands=commands)
    asked = draw(st.lists(st.sampled_from(case.queries).map(_everywhere), min_size=2, max_size=4))
    added = [(1, {"op": "register", "query": draw(of(case, one, 900 + i))}) for i, one in enumerate(asked)]
    return replace(case, commands=[*added, *commands])
