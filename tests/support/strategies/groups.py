"""Aggregate queries over a case's stream, in place of those that show members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.cases import Case, Spec

ALL = {"type": "all"}
NUMBERS = {"n", "small", "speed", "level"}


@st.composite
def group_cases(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A case whose queries are aggregates: the regions and conditions stay."""
    case = draw(cases)
    forms = draw(st.lists(forms_over(dict(case.spec["columns"])), min_size=1, max_size=3))
    commands = []
    for step, command in case.commands:
        form = draw(st.sampled_from(forms))
        is_new = command["op"] == "register"
        commands.append(
            (step, command | {"query": _aggregated(command["query"], form)} if is_new else command)
        )
    return replace(case, commands=commands)


def _aggregated(query: Spec, form: Spec) -> Spec:
    nearest = query["kind"] == "nearest"
    return query | {
        "kind": "nearest_aggregate" if nearest else "aggregate",
        "select": [],
        "options": {name: value for name, value in query["options"].items() if name == "since_now"},
        "aggregates": form,
    }


@st.composite
def forms_over(draw: st.DrawFn, types: dict[str, str]) -> Spec:
    """What a query computes of members with these columns."""
    columns = sorted(types)
    groups = draw(st.lists(st.sampled_from(columns), unique=True, max_size=2))
    measures = draw(st.lists(measures_of(types), min_size=0, max_size=3))
    if not groups and not measures:
        measures = [["count", None, "BIGINT", 0]]
    shown = [(f"g{i}", types[name]) for i, name in enumerate(groups)]
    shown += [(f"m{j}", _type(measure)) for j, measure in enumerate(measures)]
    chosen = draw(st.lists(st.sampled_from(shown), min_size=1, unique=True))
    form: Spec = {
        "groups": [[["col", name], types[name]] for name in groups],
        "measures": measures,
        "select": [[f"c{i}", ["col", name], kind] for i, (name, kind) in enumerate(chosen)],
    }
    counts = [name for name, kind in shown if kind in ("BIGINT", "INT", "DOUBLE")]
    if counts and draw(st.integers(0, 2)) == 0:
        form["having"] = ["cmp", draw(st.sampled_from([">", "<="])), ["col", draw(st.sampled_from(counts))],
                          ["lit", draw(st.integers(0, 2)), "BIGINT"]]  # fmt: skip
    orders = [name for name, kind in shown if kind not in ("TOPK", "BOOLEAN")]
    if draw(st.integers(0, 2)) == 0:
        form["limit"] = draw(st.sampled_from([0, 1, 1, 2, 3]))
        by = st.tuples(st.sampled_from(orders).map(lambda name: ["col", name]), st.booleans()).map(list)
        form["order"] = draw(st.lists(by, max_size=2)) if orders else []
    return form


@st.composite
def measures_of(draw: st.DrawFn, types: dict[str, str]) -> list[Any]:
    """An aggregate function of a column."""
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
    return ["count" if function == "some" else function, ["col", name], types[name], k]


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
