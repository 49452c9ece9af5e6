"""Aggregate queries over a case's stream, in place of those that show members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Command, Spec
from support.oracle.expressions import parts_of
from support.oracle.whole import changes_always, reads_now
from support.strategies.functions import function, literal

ALL = {"type": "all"}
Value = tuple[Any, str]
"""An expression over records, and its type."""
FAR: dict[str, Value] = {"far": (["distance"], "DOUBLE")}
COMPUTED: dict[str, Value] = {
    "bucket": (function("DATE_TRUNC", literal("minute", "STRING"), ["col", "ts"]), "TIMESTAMP"),
    "loud": (function("UPPER", ["col", "status"]), "STRING"),
    "known": (function("COALESCE", ["col", "n"], literal(0, "BIGINT"), kind="BIGINT"), "BIGINT"),
    "pace": (function("ROUND", ["col", "speed"], kind="DOUBLE"), "DOUBLE"),
    "side": (["case", [["col", "flag"]], [literal("a", "STRING"), ["col", "status"]], "STRING"], "STRING"),
}
"""Values computed of columns, for streams that have these."""
FEATURES = {
    "rectangles": frozenset(),
    "circles": frozenset({"circles", "nearest"}),
    "polygons": frozenset({"polygons", "inside", "events"}),
    "texts": frozenset({"events", "text"}),
    "joins": frozenset({"joins", "expressions", "text"}),
    "neighbours": frozenset({"nearest", "events", "text"}),
    "neighbours in regions": frozenset({"nearest", "inside", "polygons", "joins", "expressions"}),
    "around": frozenset({"around", "nearest", "circles"}),
    "zones": frozenset({"nearest", "polygons", "circles"}),
}
"""By name: what the cases of a law of aggregates have."""
NUMBERS = {"n", "small", "speed", "level", "far"}


@st.composite
def group_cases(draw: st.DrawFn, cases: st.SearchStrategy[Case], *, distinct: bool = False) -> Case:
    """A case whose queries are aggregates, with `distinct` all of DISTINCT: regions and conditions stay."""
    case = draw(cases)
    forms = draw(st.lists(forms_over(values_of(case), distinct=distinct), min_size=1, max_size=3))
    far = forms
    if any(has_distances(case, query, "circle", "nearest") for query in case.queries):
        far = draw(st.lists(forms_over(values_of(case) | FAR, distinct=distinct), min_size=1, max_size=2))

    def aggregated(command: Command) -> Command:
        if command["op"] != "register":
            return command
        query = command["query"]
        form = draw(st.sampled_from(far if has_distances(case, query, "circle", "nearest") else forms))
        return command | {"query": _aggregated(query, form)}

    return replace(case, commands=[(step, aggregated(command)) for step, command in case.commands])


def has_distances(case: Case, query: Spec, *centred: str) -> bool:
    """Whether a query has one of these regions, and distances that the oracle has to the last digit."""
    return bool(case.spec["planar"]) and query["region"]["type"] in centred


def values_of(case: Case) -> dict[str, Value]:
    """What the records of a case have: columns, and the region of a set."""
    sets = [area.spec["id"] for area in case.areas.values() if area.spec["set"]]
    values: dict[str, Value] = {name: (["col", name], kind) for name, kind in case.spec["columns"]}
    values |= {
        name: found
        for name, found in COMPUTED.items()
        if {column for _, column in parts_of(found[0], "col")} <= set(values)
    }
    return values | {f"zone{id_}": (["region_of", id_], "STRING") for id_ in sets}


def _aggregated(query: Spec, form: Spec) -> Spec:
    nearest = query["kind"] == "nearest"
    kept = ("since_now",) if nearest else ("since_now", "dwell_us")
    options = {name: value for name, value in query["options"].items() if name in kept}
    kind = "dwelling_aggregate" if "dwell_us" in options else "aggregate"
    zones = {area for _, area in parts_of([form["groups"], form["measures"]], "region_of")}
    return query | {
        "areas": sorted(zones.union(query["areas"])),
        "kind": "nearest_aggregate" if nearest else kind,
        "select": [],
        "options": options,
        "aggregates": form,
    }


def dwelling(query: Spec, dwell_us: int) -> Spec:
    """The aggregates with DWELL, as the binder has them: those of a query for rows, where rows dwell."""
    form, is_nearest = query["aggregates"], query["region"]["type"] == "nearest"
    query = query | {"options": query["options"] | {"dwell_us": dwell_us}}
    read = [e for e, _ in form["groups"]] + [one[1] for one in form["measures"] if one[1] is not None]
    timed, far = [e for e in read if reads_now(e)], parts_of(read, "distance") and not is_nearest
    sync = {name: form.get(name) for name in ("sync_us", "window_us")}
    strays = far and query["region"]["type"] == "moving_circle"
    refreshed = sync["sync_us"] is not None
    if is_nearest:
        again = refreshed or timed or form.get("each_step")
        kind = "refreshed_nearest_first" if again else "nearest_first"
    elif refreshed or form.get("each_step") or strays:
        kind = "refreshed_first" if refreshed else "first"
    else:
        return query | {"kind": "dwelling_aggregate"}
    always = not refreshed and changes_always(query["condition"])
    each_step = bool(timed or far or always)
    order = [[["distance"], False, False]] if is_nearest else []
    first = {"order": order, "limit": 2**31 - 1, "each_step": each_step, "timed": timed}
    return query | {"kind": kind, "first": first | sync}


@st.composite
def forms_over(draw: st.DrawFn, values: dict[str, Value], *, distinct: bool = False) -> Spec:
    """What a query computes of members that have these values."""
    types = {name: kind for name, (_, kind) in values.items()}
    columns = sorted(types)
    groups = draw(st.lists(st.sampled_from(columns), unique=True, min_size=int(distinct), max_size=2))
    measures = draw(st.lists(measures_of(values), min_size=0, max_size=3))
    if not groups and not measures:
        measures = [["count", None, "BIGINT", 0]]
    shown = [(f"g{i}", types[name]) for i, name in enumerate(groups)]
    shown += [(f"m{j}", _type(measure)) for j, measure in enumerate(measures)]
    chosen = draw(st.lists(st.sampled_from(shown), min_size=1, unique=True))
    form: Spec = {
        "groups": [list(values[name]) for name in groups],
        "measures": measures,
        "select": [[f"c{i}", ["col", name], kind] for i, (name, kind) in enumerate(chosen)],
    }
    if groups and (distinct or draw(st.integers(0, 5)) == 0):
        form["distinct"] = True
    counts = [name for name, kind in shown if kind in ("BIGINT", "INT", "DOUBLE")]
    if counts and draw(st.integers(0, 2)) == 0:
        form["having"] = ["cmp", draw(st.sampled_from([">", "<="])), ["col", draw(st.sampled_from(counts))],
                          ["lit", draw(st.integers(0, 2)), "BIGINT"]]  # fmt: skip
    ordered = chosen if "distinct" in form else shown
    orders = [name for name, kind in ordered if kind not in ("TOPK", "BOOLEAN")]
    if draw(st.integers(0, 2)) == 0:
        form["limit"] = draw(st.sampled_from([0, 1, 1, 2, 3]))
        by = st.tuples(st.sampled_from(orders).map(lambda name: ["col", name]), st.booleans()).map(list)
        form["order"] = draw(st.lists(by, max_size=2)) if orders else []
    return form


@st.composite
def measures_of(draw: st.DrawFn, values: dict[str, Value]) -> list[Any]:
    """An aggregate function of a value."""
    types = {name: kind for name, (_, kind) in values.items()}
    function = draw(
        st.sampled_from(["count", "count", "some", "distinct", "sum", "avg", "min", "max", "topk"])
    )
    numbers = [*sorted(NUMBERS & set(types)), "x"]
    texts = sorted(name for name, kind in types.items() if kind == "STRING")
    if function in ("sum", "avg"):
        name = draw(st.sampled_from(numbers))
    elif function in ("min", "max"):
        name = draw(st.sampled_from(sorted(name for name, kind in types.items() if kind != "BOOLEAN")))
    elif function == "topk" and texts:
        name = draw(st.sampled_from(texts))
    elif function in ("some", "distinct"):
        name = draw(st.sampled_from(sorted(types)))
    else:
        return ["count", None, "BIGINT", 0]
    k = draw(st.integers(1, 3)) if function == "topk" else 0
    return ["count" if function == "some" else function, *values[name], k]


def _type(measure: list[Any]) -> str:
    function, _, kind, _ = measure
    match function:
        case "count" | "distinct":
            return "BIGINT"
        case "sum":
            return "BIGINT" if kind in ("INT", "BIGINT") else "DOUBLE"
        case "avg":
            return "DOUBLE"
        case "topk":
            return "TOPK"
    return str(kind)
