"""Values computed by functions, CAST and CASE, with their types."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Typed = tuple[Any, str]
"""An expression and its type."""
WHOLE = ("BIGINT", "INT")
PARTS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "ISODOW", "HOUR", "MINUTE", "SECOND"]


def function(name: str, *arguments: Any, kind: str = "") -> Any:
    """A call as it is bound; `kind` is given where the type depends on the arguments."""
    return ["fn", name, arguments[0], list(arguments[1:]), kind]


def literal(value: Any, kind: str) -> Any:
    return ["lit", value, kind]


def computed(column: Any, kind: str) -> st.SearchStrategy[Typed]:
    """A value made of a column."""
    if column[-1] in ("oid", "tk") and kind != "STRING":
        return st.just((column, kind))  # keys are too large for arithmetic
    if kind == "STRING":
        return _of_text(column)
    if kind == "TIMESTAMP":
        return _of_time(column)
    return _of_truth(column) if kind == "BOOLEAN" else _of_number(column, kind)


@st.composite
def _of_number(draw: st.DrawFn, column: Any, kind: str) -> Typed:
    whole = kind in WHOLE
    own = "BIGINT" if whole else "DOUBLE"
    constant = literal(draw(st.sampled_from([-1, 0, 1, 2] if whole else [-0.5, 0.0, 0.5, 2.0])), own)
    match draw(st.integers(0, 5)):
        case 0:
            name = draw(st.sampled_from(["ABS", "CEIL", "FLOOR", "TRUNC", "SIGN", "ROUND"]))
            return function(name, column, kind=own), own
        case 1:
            digits = draw(st.sampled_from([column, *(literal(n, "BIGINT") for n in (-1, 0, 1))]))
            digits = digits if whole else literal(draw(st.integers(-1, 2)), "BIGINT")
            return function("ROUND", column, digits, kind=own), own
        case 2:
            name = draw(st.sampled_from(["COALESCE", "LEAST", "GREATEST", "NULLIF"]))
            return function(name, column, constant, kind=own), own
        case 3:
            test = ["cmp", draw(st.sampled_from(["<", "=", ">"])), column, constant]
            results = draw(st.permutations([column, constant, literal(None, own)]))
            return ["case", [test, ["isnull", column]], results, own], own
        case 4:
            wanted = draw(st.sampled_from(["STRING", "BIGINT", "BOOLEAN"]))
            return (["cast", column, kind, wanted], wanted) if wanted != own else (column, kind)
    if whole and draw(st.booleans()):
        return ["arith", "DIV", column, constant], own
    return function("SQRT", column), "DOUBLE"


@st.composite
def _of_text(draw: st.DrawFn, column: Any) -> Typed:
    place = literal(draw(st.integers(-2, 3)), "BIGINT")
    piece = literal(draw(st.sampled_from(["", "a", "e", " ", "light", "ß"])), "STRING")
    match draw(st.integers(0, 7)):
        case 0:
            return function(draw(st.sampled_from(["UPPER", "LOWER", "REVERSE", "TRIM"])), column), "STRING"
        case 1:
            return function("SUBSTRING", column, place, literal(draw(st.integers(-1, 3)), "BIGINT")), "STRING"
        case 2:
            return function(draw(st.sampled_from(["LEFT", "RIGHT"])), column, place), "STRING"
        case 3:
            return function("REPLACE", column, piece, literal("x", "STRING")), "STRING"
        case 4:
            name = draw(st.sampled_from(["COALESCE", "NULLIF", "LEAST", "GREATEST"]))
            return function(name, column, piece, kind="STRING"), "STRING"
        case 5:
            return function("CONCAT", column, piece, column), "STRING"
        case 6:
            wanted = draw(st.sampled_from(["BIGINT", "INT", "DOUBLE", "BOOLEAN"]))
            return ["cast", column, "STRING", wanted], {"INT": "BIGINT"}.get(wanted, wanted)
    if draw(st.booleans()):
        return function("STARTS_WITH", column, piece), "BOOLEAN"
    of_length = function("LENGTH", column), function("STRPOS", column, piece)
    return draw(st.sampled_from(of_length)), "BIGINT"


@st.composite
def _of_time(draw: st.DrawFn, column: Any) -> Typed:
    match draw(st.integers(0, 4)):
        case 0:
            return function(draw(st.sampled_from(PARTS)), column), "BIGINT"
        case 1:
            unit = draw(st.sampled_from(["minute", "hour", "day", "week", "month", "year"]))
            return function("DATE_TRUNC", literal(unit, "STRING"), column), "TIMESTAMP"
        case 2:
            return function(
                "TIME_BUCKET", ["dur", draw(st.sampled_from([2_000, 7_000_000]))], column
            ), "TIMESTAMP"
        case 3:
            return ["cast", column, "TIMESTAMP", "STRING"], "STRING"
    return function("COALESCE", literal(None, "TIMESTAMP"), column, kind="TIMESTAMP"), "TIMESTAMP"


@st.composite
def _of_truth(draw: st.DrawFn, column: Any) -> Typed:
    if draw(st.booleans()):
        return ["cast", column, "BOOLEAN", "BIGINT"], "BIGINT"
    return ["case", [column], [literal("yes", "STRING"), literal("no", "STRING")], "STRING"], "STRING"
