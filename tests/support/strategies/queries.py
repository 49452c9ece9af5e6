"""Queries, and the schedules of commands about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from support.cases import Command, Spec, Table
from support.oracle.expressions import parts_of
from support.strategies.conditions import (
    Join,
    conditions,
    contained,
    equalities,
    joined,
    joins_of,
    moves_in_conditions,
    select_lists,
)
from support.strategies.regions import moving_regions, neighbourhoods, regions
from support.strategies.streams import Scope

Schedule = list[tuple[int, Command]]


@st.composite
def selects(draw: st.DrawFn, scope: Scope) -> Spec:
    """What a continuous query and a snapshot have in common."""
    nearest = "nearest" in scope.features and scope.spec["keep_us"] != 0
    kind = "nearest" if nearest and draw(st.integers(0, 2)) == 0 else "range"
    region = draw(neighbourhoods(scope) if kind == "nearest" else regions(scope))
    join = draw(_joins(scope)) if scope.tables and draw(st.booleans()) else None
    either = []
    if kind == "range" and moves_in_conditions(scope) and draw(st.integers(0, 3)) == 0:
        region = {"type": "all"}
        some = st.lists(moving_regions(scope).map(lambda one: ["inside", one]), min_size=2, max_size=3)
        either = [["or", draw(some)]]
    condition = draw(whole_conditions(scope, region, join, either))
    select = draw(select_lists(scope, region, join))
    return {
        "stream": scope.spec["name"],
        "stream_id": scope.spec["id"],
        "text": "",
        "kind": kind,
        "region": region,
        "condition": condition,
        "join": join,
        "areas": areas_in(region, condition, select),
        "select": select,
    }


@st.composite
def whole_conditions(
    draw: st.DrawFn, scope: Scope, region: Spec, join: Join | None, parts: Sequence[Any] = ()
) -> Any:
    """The condition of a query over a region, which has some parts at least; None for none."""
    parts = [*parts]
    asks = scope.spec["text"] and "text" in scope.features
    if asks and ("keywords" in scope.features or draw(st.booleans())):
        parts.append(draw(contained(["col", scope.spec["text"]])))
    if draw(st.integers(0, 3)) == 0:
        parts.append(draw(equalities(scope)))
    if draw(st.integers(0, 2)) == 0 or (moves_in_conditions(scope) and draw(st.booleans())):
        parts.append(_within(draw(conditions(scope, join)), region))
    parts += _others(scope, parts)
    parts += [["not", ["isnull", joined(one, one["key"])]] for one in joins_of(join)]
    return ["and", parts] if len(parts) > 1 else (parts or [None])[0]


def _within(condition: Any, region: Spec) -> Any:
    """A condition that leaves the query its own region, although AND joins one that moves with it."""
    is_own = "focal" in region or not any("focal" in one for one in _joined_regions(condition))
    return condition if is_own else ["not", ["not", condition]]


def _joined_regions(condition: Any) -> list[Spec]:
    if condition[0] == "and":
        return [region for part in condition[1] for region in _joined_regions(part)]
    return [condition[1]] if condition[0] == "inside" else []


def _others(scope: Scope, parts: list[Any]) -> list[Any]:
    """That an object is not at the centre of a region of the condition, for each that moves."""
    key = scope.spec["key"]
    focals = [region["focal"] for _, region in parts_of(parts, "inside") if "focal" in region]
    return [["cmp", "<>", ["col", key], ["lit", focal, scope.types[key]]] for focal in dict.fromkeys(focals)]


def areas_in(*parts: Any) -> list[int]:
    """The ids of all named regions in a query."""
    found: set[int] = set()
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "area":
            found.add(part["area"])
        elif isinstance(part, list | tuple) and part[:1] == ["region_of"]:
            found.add(part[1])
        elif isinstance(part, list | tuple):
            found.update(areas_in(*part))
    return sorted(found)


def _joins(scope: Scope) -> st.SearchStrategy[Join]:
    """A join with the first table of a scope, and some with the one after it."""
    first, *rest = map(_join, scope.tables.values())
    return st.sampled_from([first, first | {"further": rest}] if rest else [first])


def _join(table: Table) -> Join:
    return {
        "table": table.spec["name"],
        "table_id": table.spec["id"],
        "key": table.spec["key"],
        "column": table.spec["joins"],
    }


@st.composite
def queries(draw: st.DrawFn, scope: Scope, query_id: int) -> Spec:
    """One continuous query."""
    tick, select = scope.clock.tick_us, draw(selects(scope))
    lasts = draw(st.sampled_from([*[None] * 6, 1, tick, 3 * tick, 100 * tick + 1]))
    options: dict[str, Any] = {}
    if not scope.moving and draw(st.integers(0, 3)) == 0:
        options["since_now"] = True
    lingers = "dwell" in scope.features and scope.spec["keep_us"] != 0
    if lingers and draw(st.booleans()):
        options["dwell_us"] = draw(st.sampled_from([1, tick, 2 * tick, 2 * tick + 1, 4 * tick]))
    waits = "dwell_us" in options and scope.spec.get("retain") == "significant"
    if not waits and draw(st.integers(0, 2)) == 0:
        # Whether distances change depends on their last digits, which the oracle has on the plane.
        far = parts_of(select["select"], "distance")
        if not far or (scope.spec["planar"] and select["region"]["type"] != "moving_circle"):
            options["changes"] = True
    name = f"q{draw(st.integers(0, 3))}"
    return {"id": query_id, "name": name, **select, "for_us": lasts, "options": options}


@st.composite
def snapshots(draw: st.DrawFn, scope: Scope) -> Spec:
    """One SELECT that answers once: some by key, some counted, some in another order."""
    select = draw(selects(scope)) | {"lookup": None, "order": [], "limit": None, "aggregate": None}
    if draw(st.integers(0, 3)) == 0:
        key = draw(st.sampled_from(scope.used))
        same = ["cmp", "=", ["col", scope.spec["key"]], ["lit", key, scope.types[scope.spec["key"]]]]
        before = select["condition"]
        parts = before[1] if before and before[0] == "and" else [before] if before else []
        select |= {"condition": ["and", [same, *parts]] if parts else same, "lookup": key}
    if draw(st.integers(0, 3)) == 0:
        return select | {"aggregate": "count", "select": []}
    by = st.tuples(st.sampled_from([e for _, e in select["select"]]), st.booleans(), st.booleans()).map(list)
    order = draw(st.lists(by, max_size=2))
    return select | {"order": order, "limit": draw(st.sampled_from([None, None, 0, 1, 3]))}


def _command_steps(steps: list[int], max_size: int) -> st.SearchStrategy[list[int]]:
    """In order: mostly early and where records come in, so that much is said of each query."""
    likely = [1, 1, *steps[:2], *steps, *(s + 1 for s in steps)]
    return st.lists(st.sampled_from(likely), min_size=2, max_size=max_size).map(sorted)


@st.composite
def schedules(draw: st.DrawFn, scope: Scope, steps: list[int], first_id: int = 10) -> Schedule:
    """Registers, drops, pauses and resumes, in log order; several may share a step."""
    out: Schedule = []
    living: list[int] = []
    when = draw(_command_steps(steps, max_size=10))
    for query_id, step in enumerate(when, start=first_id):
        op = draw(st.sampled_from(["register", "register", "register", "pause", "resume", "resume", "drop"]))
        if op == "register" or not living:
            out.append((step, {"op": "register", "query": draw(queries(scope, query_id))}))
            living.append(query_id)
            continue
        target = draw(st.sampled_from(living))
        out.append((step, {"op": op, "id": target}))
        if op == "drop":
            living.remove(target)
    return out


@st.composite
def typed_schedules(draw: st.DrawFn, scope: Scope, steps: list[int]) -> Schedule:
    """Commands that a careful user types: never about a query that is gone, no second pause."""
    out: Schedule = []
    state: dict[int, tuple[str, bool]] = {}
    free = ["q3", "q2", "q10", "q1"]
    for query_id, step in enumerate(draw(_command_steps(steps, max_size=8)), start=10):
        op = draw(st.sampled_from(["register", "register", "toggle", "drop"]))
        if free and (op == "register" or not state):
            query = draw(queries(scope, query_id)) | {"name": free.pop()}
            tick = scope.clock.tick_us
            query["for_us"] = draw(st.sampled_from([*[None] * 5, tick, 5 * tick]))
            out.append((step, {"op": "register", "query": query}))
            if query["for_us"] is None:
                state[query_id] = (query["name"], False)
        elif state and op in ("drop", "toggle"):
            target = draw(st.sampled_from(sorted(state)))
            name, paused = state.pop(target)
            said = op if op == "drop" else ("resume" if paused else "pause")
            out.append((step, {"op": said, "id": target}))
            if op == "drop":
                free.append(name)
            else:
                state[target] = (name, not paused)
    return out
