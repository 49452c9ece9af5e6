"""Conditions and values to select, of every form that the language has."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.cases import Clock, Spec
from support.strategies.functions import computed
from support.strategies.regions import ZONES, moving_regions, named_ids, still_regions
from support.strategies.streams import EXTRAS, STRING_KEYS, Scope

Join = dict[str, Any]
ASKED = [
    "light",
    "LIGHT street",
    "hole",
    "ärger straße",
    "日本",
    "taxi",
    "b a",
    "X²Y",
    "ΟΔΟΣ",
    "no light",
    "hole light",
]


@st.composite
def conditions(draw: st.DrawFn, scope: Scope, join: Join | None = None, depth: int = 2) -> Any:
    """A typed condition over the stream's columns, and the joined table's where there is a join."""
    if depth and draw(st.booleans()):
        inner = conditions(scope, join, depth - 1)
        op = draw(st.sampled_from(["and", "or", "not"]))
        return ["not", draw(inner)] if op == "not" else [op, draw(st.lists(inner, min_size=2, max_size=3))]
    if "inside" in scope.features and draw(st.integers(0, 4)) == 0:
        return ["inside", draw(still_regions(scope))]
    if moves_in_conditions(scope) and draw(st.integers(0, 3)) > 0:
        return ["inside", draw(moving_regions(scope))]
    if scope.areas and draw(st.integers(0, 4)) == 0:
        same = st.builds(lambda op, name: ["cmp", op, zone_of(scope), name], _COMPARISONS, _ZONES)
        return draw(st.one_of(same, st.just(["isnull", zone_of(scope)])))
    column, kind = draw(_columns(scope, join))
    if draw(st.integers(0, 7)) == 0:
        return ["isnull", column]
    if "functions" in scope.features and draw(st.integers(0, 2)) == 0:
        column, kind = draw(computed(column, kind))
        if kind == "TIMESTAMP":
            return draw(_time_conditions(column, scope.clock))
    if kind == "STRING":
        asked = "text" in scope.features and draw(st.integers(0, 2)) > 0
        return draw(contained(column) if asked else _text_conditions(column))
    if kind == "BOOLEAN":
        same = ["cmp", draw(st.sampled_from(["=", "<>"])), column, draw(_literals([True, False], kind))]
        return draw(st.sampled_from([column, same]))
    if kind == "TIMESTAMP":
        functions = "expressions" in scope.features and draw(st.booleans())
        return draw(_function_conditions(column) if functions else _time_conditions(column, scope.clock))
    return draw(_number_conditions(column, kind))


def moves_in_conditions(scope: Scope) -> bool:
    """Whether regions of conditions may move."""
    return "around" in scope.features and scope.moving


@st.composite
def _columns(draw: st.DrawFn, scope: Scope, join: Join | None) -> tuple[Any, str]:
    """A column of the stream or of the table, with its type."""
    if join is not None and draw(st.booleans()):
        one = draw(st.sampled_from(joins_of(join)))
        table = scope.tables[one["table_id"]]
        name, kind = draw(st.sampled_from([tuple(c) for c in table.spec["columns"]]))
        return joined(one, name), kind
    name, kind = draw(st.sampled_from([tuple(c) for c in scope.spec["columns"]]))
    return ["col", name], kind


@st.composite
def equalities(draw: st.DrawFn, scope: Scope) -> Any:
    """A column equals a constant, which may be a number of another type, on either side."""
    column, kind = draw(_columns(scope, None))
    match kind:
        case "STRING":
            literal = draw(_literals([*STRING_KEYS[:3], *EXTRAS["status"][1]], kind))
        case "BOOLEAN":
            literal = draw(_literals([True, False], kind))
        case "TIMESTAMP":
            literal = draw(_literals([scope.clock.at(step) for step in (1, 2, 3)], kind))
        case _:
            whole, real = _literals([-1, 0, 1, 2], "BIGINT"), _literals([-0.0, 0.5, 1.0], "DOUBLE")
            literal = draw(st.one_of(whole, real))
    return ["cmp", "=", *draw(st.permutations([column, literal]))]


def zone_of(scope: Scope) -> Any:
    """The region of the scope's set that holds a location."""
    return ["region_of", named_ids(scope.spec["id"])[1]]


def joins_of(join: Join | None) -> list[Join]:
    """The join of a query, and those after it."""
    return [] if join is None else [join, *join.get("further", [])]


def joined(join: Join, column: str) -> Any:
    """A column of the joined table."""
    return ["join", join["table_id"], join["column"], column]


def contained(column: Any) -> st.SearchStrategy[Any]:
    """CONTAINS and CONTAINS ANY."""
    return st.builds(
        lambda asked, how: ["contains", column, asked, how],
        st.sampled_from(ASKED),
        st.sampled_from(["all", "any"]),
    )


def _literals(values: list[Any], kind: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *values]).map(lambda v: ["lit", v, kind])


def _typed(literal: Any) -> Any:
    """A literal with the type of its own value."""
    kinds = {int: "BIGINT", bool: "BOOLEAN"}
    return ["lit", literal[1], kinds.get(type(literal[1]), "STRING")]


_COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


_ZONES = _literals(ZONES, "STRING")


@st.composite
def _text_conditions(draw: st.DrawFn, column: Any) -> Any:
    words = _literals([*STRING_KEYS[:6], *EXTRAS["status"][1]], "STRING")
    if draw(st.integers(0, 5)) == 0:
        beside = draw(_literals(["b", "", -1, True], "STRING"))
        column = ["concat", *draw(st.permutations([column, _typed(beside)]))]
    patterns = ["%", "_", "b%", "%e", "50\\%", "a\\_b", "a_b", "", "%u%y", "_%", "ä", "日_"]
    return draw(
        st.one_of(
            st.builds(lambda op, w: ["cmp", op, column, w], _COMPARISONS, words),
            st.builds(lambda ws: ["in", column, ws], st.lists(words, min_size=1, max_size=3)),
            st.sampled_from(patterns).map(lambda p: ["like", column, p]),
            st.builds(lambda a, b: ["between", column, a, b], words, words),
        )
    )


def _numbers(kind: str) -> st.SearchStrategy[Any]:
    return _literals([-1, 0, 1, 2], kind) if _is_whole(kind) else _literals([-0.5, 0.0, 0.5, 1.0], "DOUBLE")


def _is_whole(kind: str) -> bool:
    return kind in ("BIGINT", "INT")


def terms(column: Any, kind: str) -> st.SearchStrategy[Any]:
    """A number made of a column; keys are too large for arithmetic."""
    if column[-1] in ("oid", "tk"):
        return st.just(column)
    operators = ["+", "-", "*", "/", *("%" if _is_whole(kind) else "")]
    scaled = st.builds(lambda op, n: ["arith", op, column, n], st.sampled_from(operators), _numbers(kind))
    return st.one_of(st.just(column), st.just(column), scaled, st.just(["neg", column]))


@st.composite
def _number_conditions(draw: st.DrawFn, column: Any, kind: str) -> Any:
    literals, term = _numbers(kind), draw(terms(column, kind))
    return draw(
        st.one_of(
            st.builds(lambda op, n: ["cmp", op, term, n], _COMPARISONS, literals),
            st.builds(lambda ns: ["in", term, ns], st.lists(literals, min_size=1, max_size=3)),
            st.builds(lambda a, b: ["between", term, a, b], literals, literals),
        )
    )


@st.composite
def _time_conditions(draw: st.DrawFn, column: Any, clock: Clock) -> Any:
    instants = _literals([clock.at(1), clock.at(3), clock.at(6) - 1], "TIMESTAMP")
    spans = st.sampled_from([0, 1, 2 * clock.tick_us, 5 * clock.tick_us + 1]).map(lambda d: ["dur", d])
    shifted = st.builds(lambda op, d: ["arith", op, ["now"], d], st.sampled_from(["+", "-"]), spans)
    reported = spans.map(lambda d: ["arith", "+", ["col", "ts"], d])
    return draw(
        st.one_of(
            st.builds(
                lambda op, n: ["cmp", op, column, n], _COMPARISONS, st.one_of(st.just(["now"]), shifted)
            ),
            st.builds(lambda op, n: ["cmp", op, column, n], _COMPARISONS, shifted),
            st.builds(lambda op, t: ["cmp", op, column, t], _COMPARISONS, reported),
            st.builds(lambda op, t: ["cmp", op, column, t], _COMPARISONS, instants),
            st.builds(lambda a, b: ["between", column, a, b], instants, instants),
        )
    )


@st.composite
def _function_conditions(draw: st.DrawFn, column: Any) -> Any:
    name, values, kind = draw(
        st.sampled_from(
            [
                ("DATE", ["1970-01-01", "2008-02-02"], "STRING"),
                ("HOUR", [0, 12, 23], "BIGINT"),
                ("MINUTE", [0, 45, 59], "BIGINT"),
            ]
        )
    )
    return ["cmp", draw(_COMPARISONS), ["fn", name, column], draw(_literals(values, kind))]


# --- what is selected ---


@st.composite
def select_lists(draw: st.DrawFn, scope: Scope, region: Spec, join: Join | None) -> list[Any]:
    """All columns, and computed ones after them where the case has such."""
    out = [[name, ["col", name]] for name, _ in scope.spec["columns"]]
    if "expressions" in scope.features:
        for number in range(draw(st.sampled_from([0, 0, 1, 2]))):
            column, kind = draw(_columns(scope, join))
            if "functions" in scope.features and draw(st.booleans()):
                out.append([f"e{number}", draw(computed(column, kind))[0]])
            else:
                out.append([f"e{number}", draw(_values(column, kind))])
    if scope.areas and draw(st.booleans()):
        out.append(["zone", zone_of(scope)])
    if scope.areas and "inside" in scope.features and draw(st.integers(0, 3)) == 0:
        out.append(["here", ["inside", draw(still_regions(scope))]])
    if ("x" in region or "focal" in region) and region["type"] != "moving_rect" and draw(st.booleans()):
        out.append(["far", ["distance"]])
    for one in joins_of(join):
        names = [name for name, _ in scope.tables[one["table_id"]].spec["columns"]]
        shown = draw(st.lists(st.sampled_from(names), unique=True))
        out += [[f"t_{name}", joined(one, name)] for name in shown]
    return out


def _values(column: Any, kind: str) -> st.SearchStrategy[Any]:
    """A value made of a column."""
    if kind == "TIMESTAMP":
        apart = ["arith", "/", ["arith", "-", column, ["col", "ts"]], ["dur", 1_000_000]]
        later = ["arith", "+", column, ["dur", 90_000_000]]
        of_part = st.sampled_from(["DATE", "HOUR", "MINUTE"]).map(lambda name: ["fn", name, column])
        return st.one_of(of_part, st.sampled_from([apart, later]))
    if kind == "STRING":
        return st.sampled_from([column, ["concat", column, ["lit", "ü ", "STRING"]]])
    return st.just(column) if kind == "BOOLEAN" else terms(column, kind)
