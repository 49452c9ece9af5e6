"""Cases of aggregate queries whose rows change as time passes, and as moving objects move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Command, Spec
from support.oracle.whole import reads_now
from support.strategies.groups import FAR, forms_over, has_distances, values_of
from support.strategies.turning import may_turn, restless, seconds, turning
from support.strategies.whole import cases


@st.composite
def timely_cases(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of aggregate queries whose rows change as time passes."""
    some = cases(features).filter(lambda case: bool(case.records and case.queries))
    case = draw(some)

    def timely(command: Command) -> Command:
        if command["op"] != "register":
            return command
        query = command["query"]
        nearest = query["region"]["type"] == "nearest"
        form = draw(timely_forms(case, query, nearest))
        kind = "aggregate"
        if nearest:
            refreshed = form["each_step"] or form["sync_us"] is not None
            kind = "refreshed_nearest" if refreshed else "nearest_aggregate"
        if may_turn(case) and draw(st.integers(0, 2)) == 0:
            query = draw(restless(case, query))
            form["each_step"] = form["sync_us"] is None
            kind = "refreshed_nearest" if nearest else kind
        since = {name: value for name, value in query["options"].items() if name == "since_now"}
        changed = {"kind": kind, "select": [], "options": since, "aggregates": form}
        return command | {"query": query | changed}

    commands = [(step, timely(command)) for step, command in case.commands]
    first = next(command["query"] for _, command in commands if command["op"] == "register")
    lasting = first | {"id": 900, "for_us": None, "condition": None, "areas": []}
    return replace(case, commands=[(1, {"op": "register", "query": lasting}), *commands])


@st.composite
def timely_forms(draw: st.DrawFn, case: Case, query: Spec, nearest: bool) -> Spec:
    """What a query computes, with comparisons with NOW in one place or another."""
    tick = case.clock.tick_us
    values = {name: one for name, one in values_of(case).items() if not name.startswith("zone")}
    if not nearest or draw(st.booleans()):
        fresh = draw(recent(["col", "ts"], tick) | (turning(case) if may_turn(case) else st.nothing()))
        values |= {"fresh": (fresh, "BOOLEAN")}
    if may_turn(case) and draw(st.integers(0, 2)) == 0:
        values |= {"age": (seconds(case), "DOUBLE")}
    if not nearest:
        values |= FAR if has_distances(case, query, "circle", "moving_circle") else {}
    form = draw(forms_over(values))
    latest = [
        i for i, one in enumerate(form["measures"]) if one[0] in ("min", "max") and one[2] == "TIMESTAMP"
    ]
    if not latest:
        form["measures"].append(["max", ["col", "ts"], "TIMESTAMP", 0])
        latest = [len(form["measures"]) - 1]
    last = ["col", f"m{latest[0]}"]
    age = ["arith", "/", ["arith", "-", ["now"], last], ["dur", 1_000_000]]
    ages = st.just(age) if may_turn(case) else st.nothing()
    where = draw(st.sampled_from(["select", "having", "order", "none"]))
    if where == "select":
        shown = recent(last, tick).map(lambda one: ["recent", one, "BOOLEAN"])
        form["select"].append(draw(shown | ages.map(lambda one: ["age", one, "DOUBLE"])))
    elif where == "having":
        late = ages.map(lambda one: ["cmp", ">", one, ["lit", 1.5 * tick / 1e6, "DOUBLE"]])
        form["having"] = draw(recent(last, tick) | late)
    elif where == "order":
        first = draw(recent(last, tick) | ages)
        form |= {"order": [[first, draw(st.booleans())]], "limit": draw(st.integers(1, 2))}
    form |= {"sync_us": draw(st.sampled_from([None, None, tick, 2 * tick, 3 * tick + 1])), "window_us": None}
    timed = reads_now([form["groups"], form["measures"]])
    return form | {"each_step": form["sync_us"] is None and (timed or not nearest)}


def recent(value: Any, tick: int) -> st.SearchStrategy[Any]:
    """Whether a value is later than so long ago."""
    ago = st.sampled_from([0, 1, tick, 2 * tick, 5 * tick + 1]).map(lambda us: ["dur", us])
    shifted = st.builds(lambda op, us: ["arith", op, ["now"], us], st.sampled_from(["+", "-"]), ago)
    return st.builds(lambda op, now: ["cmp", op, value, now], st.sampled_from([">", ">=", "=", "<"]), shifted)
