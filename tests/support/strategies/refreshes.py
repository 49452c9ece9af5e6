"""Cases of aggregate queries that are refreshed every so often."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from support.cases import Case, Command, Spec
from support.oracle import parts_of
from support.oracle.whole import reads_now
from support.strategies.groups import ALL, FAR, forms_over, group_cases, has_distances, values_of
from support.strategies.top_n import top_n_cases
from support.strategies.turning import elapsed, may_turn, restless, timed
from support.strategies.whole import cases


@st.composite
def refreshed_cases(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of aggregate queries of which most are refreshed every so often, some over a window."""
    some = group_cases(cases(features)).filter(lambda case: bool(case.records and case.queries))
    case = draw(some)
    tick = case.clock.tick_us
    commands = [(1, draw(lasting_queries(case, 900 + i))) for i in range(draw(st.integers(2, 3)))]
    for step, command in case.commands:
        query = command.get("query")
        if query is not None and draw(st.booleans()):
            form = draw(refreshed(query["aggregates"], tick))
            changed = {"kind": _kind_over(query["region"]), "aggregates": form}
            commands.append((step, command | {"query": query | changed}))
        else:
            commands.append((step, command))
    return replace(case, commands=commands)


@st.composite
def lasting_queries(draw: st.DrawFn, case: Case, id_: int) -> Command:
    """The registration of a query with SYNC that lasts and has members more often than not."""
    inside = {"type": "rect", "x1": -0.5, "y1": -1.0, "x2": 1.0, "y2": 1.0}
    regions = [ALL, ALL, ALL, inside, *(query["region"] for query in case.queries)]
    if any(query["region"]["type"] == "nearest" for query in case.queries):
        near = {"type": "nearest", "k": draw(st.integers(1, 4)), "x": 0.0, "y": 0.0}
        regions += [near] * len(regions)
    region = draw(st.sampled_from(regions))
    first = case.queries[0]
    conditions = [None, None, None, *(query["condition"] for query in case.queries)]
    query = first | {
        "id": id_,
        "kind": _kind_over(region),
        "for_us": None,
        "region": region,
        "condition": draw(st.sampled_from(conditions)),
    }
    far = FAR if has_distances(case, query, "circle", "moving_circle") else {}
    form = draw(refreshed(draw(forms_over(values_of(case) | far)), case.clock.tick_us))
    return {"op": "register", "query": query | {"aggregates": form}}


@st.composite
def cases_with_equals(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of refreshed queries, most of which are registered several times, for different durations."""
    case = draw(refreshed_cases(features))
    often = [(step, command) for step, command in case.commands if command["op"] == "register"]
    more = []
    for number, (step, command) in enumerate(often * 2):
        later = draw(st.sampled_from([step, step, step + 1, step + 4]))
        lasts = draw(st.sampled_from([command["query"].get("for_us"), None, 6 * case.clock.tick_us]))
        more.append((later, command | {"query": command["query"] | {"id": 2000 + number, "for_us": lasts}}))
    return replace(case, commands=[*case.commands, *more])


@st.composite
def summed_cases(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of refreshed queries whose measures are numbers of values, sums, means and extremes."""
    case = draw(cases_with_equals(features))

    def summed(command: Command) -> Command:
        if command["op"] != "register":
            return command
        query = command["query"]
        return command | {"query": query | {"aggregates": _summed(query["aggregates"])}}

    return replace(case, commands=[(step, summed(command)) for step, command in case.commands])


def _summed(form: Spec) -> Spec:
    """A form that counts values where another looks at single ones."""
    listed = {f"m{j}" for j, one in enumerate(form["measures"]) if one[0] in ("distinct", "topk")}
    measures = [
        ["count", *one[1:3], 0] if f"m{j}" in listed else one for j, one in enumerate(form["measures"])
    ]
    select = [
        [name, value, "BIGINT" if value[0] == "col" and value[1] in listed else kind]
        for name, value, kind in form["select"]
    ]
    return form | {"measures": measures, "select": select}


@st.composite
def refreshed_rows(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A case of queries that show rows, most of which are refreshed every so often."""
    some = st.one_of(cases(features), top_n_cases(cases(features)))
    case = draw(some.filter(lambda case: bool(case.records and case.queries)))
    whole = [query | {"for_us": None} for query in case.queries]
    commands = [
        (1, {"op": "register", "query": draw(rows_refreshed(case, query | {"id": 900 + i}))})
        for i, query in enumerate(draw(st.lists(st.sampled_from(whole), min_size=1, max_size=3)))
    ]
    for step, command in case.commands:
        query = command.get("query")
        changes = query is not None and draw(st.integers(0, 3)) > 0
        changed = {"query": draw(rows_refreshed(case, query))} if changes else {}
        commands.append((step, command | changed))
    return replace(case, commands=commands)


@st.composite
def rows_refreshed(draw: st.DrawFn, case: Case, query: Spec) -> Spec:
    """A query for rows, now and then; it may look at a window, and one over a region at all objects.

    Rows of some dwell.
    """
    is_nearest = query["region"]["type"] == "nearest"
    if not is_nearest and query["join"] is None and draw(st.integers(0, 3)) == 0:
        query = query | {"region": {"type": "all"}, "condition": None, "areas": []}
        query["select"] = [one for one in query["select"] if not parts_of([one], "distance")]
    order = [[["distance"], False, False]] if is_nearest else []
    first = {"order": order, "limit": 2**31 - 1} | (query.get("first") or {})
    first["order"] = [one for one in first["order"] if is_nearest or not parts_of([one], "distance")]
    shown = [first["order"], query["select"]]
    strays = query["region"]["type"] == "moving_circle" and parts_of(shown, "distance")
    tick = case.clock.tick_us
    timing = draw(refreshed({}, tick))
    options = {name: value for name, value in query["options"].items() if name != "dwell_us"}
    if case.spec["keep_us"] != 0:
        dwell = draw(st.sampled_from([None, None, None, 1, tick, 2 * tick + 1, 6 * tick]))
        options |= {} if dwell is None else {"dwell_us": dwell}
    if draw(st.integers(0, 3)) == 0:
        fresh = draw(timed(case))
        query, options = query | {"select": [*query["select"], ["fresh", fresh]]}, options | {"changes": True}
        first["timed"] = [fresh]
    if is_nearest and draw(st.integers(0, 2)) == 0:
        first["order"] = [[draw(elapsed(case)), draw(st.booleans()), False], *first["order"]]
        timing = draw(st.sampled_from([timing, {}]))
    first["each_step"] = bool(strays or first.get("timed") or reads_now(first["order"]))
    if may_turn(case) and draw(st.integers(0, 3)) == 0:
        query = draw(restless(case, query))
        if is_nearest and draw(st.booleans()):
            timing, first["each_step"] = {}, True
    if not first["each_step"] and not timing:
        timing = {"sync_us": tick}
    kind = "refreshed_nearest_first" if is_nearest else "refreshed_first"
    return query | {"kind": kind, "options": options, "first": first | timing}


def _kind_over(region: Spec) -> str:
    return "refreshed_nearest" if region["type"] == "nearest" else "aggregate"


@st.composite
def refreshed(draw: st.DrawFn, form: Spec, tick: int) -> Spec:
    """What a query computes, now and then."""
    often = st.sampled_from([tick, tick, 2 * tick, 5 * tick, 3 * tick + 1, max(tick // 2, 1)])
    lengths = st.sampled_from([None, None, 1, tick, 3 * tick, 7 * tick + 1, 20 * tick])
    return form | {"sync_us": draw(often), "window_us": draw(lengths)}
