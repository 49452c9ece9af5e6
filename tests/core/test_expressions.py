"""Conditions follow SQL's three-valued logic."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from support.specs import stream_spec
from support.typed import expression

from stqsh.core.conditions import evaluation
from stqsh.core.conditions.column_functions import like_regex
from stqsh.core.conditions.evaluation import columns_read
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.matching import condition_templates
from stqsh.core.matching.condition_templates import parameter
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import columns_schema
from stqsh.spec.stream import TableSpec

COLUMNS = {
    "n": pa.array([1, None, 3], pa.int32()),
    "d": pa.array([0.5, 2.0, None]),
    "s": pa.array(["free", None, "50%\nb"]),
    "b": pa.array([True, False, None]),
    "t": pa.array([10, 20, None], pa.timestamp("us", tz="UTC")),
    "distance": pa.array([7.0, 8.0, None]),
    "x": pa.array([0.0, 1.0, None]),
    "y": pa.array([0.0, 3.0, None]),
}
N, D, S, B, T = (["col", name] for name in "ndsbt")


def evaluate(expr, columns, now, resolver=None):
    return evaluation.evaluate(expression(expr), columns, now, resolver)


def compute(expr, columns, now):
    return evaluation.compute(expression(expr), columns, now)


def split(expr):
    return condition_templates.split(expression(expr))


def lit(value):
    kind = {int: "BIGINT", float: "DOUBLE", str: "STRING", bool: "BOOLEAN", type(None): "BIGINT"}[type(value)]
    return ["lit", value, kind]


@pytest.mark.parametrize(
    ("expr", "truth"),
    [
        (["cmp", "=", N, lit(1)], [True, None, False]),
        (["cmp", "<>", N, lit(None)], [None, None, None]),
        (["cmp", "<", N, D], [False, None, None]),
        (["cmp", ">", ["arith", "/", N, lit(2)], lit(0.5)], [False, None, True]),
        (["isnull", ["arith", "/", lit(1), ["arith", "-", N, lit(1)]]], [True, True, False]),
        (["cmp", "=", ["neg", N], lit(-3)], [False, None, True]),
        (["between", N, lit(1), lit(2)], [True, None, False]),
        (["between", N, lit(2), lit(None)], [False, None, None]),
        (["in", N, [lit(3), lit(None)]], [None, None, True]),
        (["in", N, []], [False, False, False]),
        (["in", N, [lit(2.0), lit(3.0)]], [False, None, True]),
        (["in", D, [lit(2), lit(0.5)]], [True, True, None]),
        (["in", D, [lit(2**53 + 1), lit(0.5)]], [True, False, None]),
        (["in", N, [lit(2**53 + 1), lit(0.5)]], [False, None, False]),
        (["in", N, [D, lit(3)]], [False, None, True]),
        (["in", lit(3), [lit(3), lit(None)]], [True, True, True]),
        (["not", ["in", S, [lit("free")]]], [False, None, True]),
        (["contains", S, "FREE", "all"], [True, None, False]),
        (["contains", S, "b free", "all"], [False, None, False]),
        (["contains", S, "b free", "any"], [True, None, True]),
        (["contains", lit("a-b"), "B", "all"], [True, True, True]),
        (["cmp", "=", ["distance"], lit(7)], [True, False, None]),
        (["like", S, "%ee"], [True, None, False]),
        (["like", S, "50\\%_b"], [False, None, True]),
        (["and", [B, ["isnull", S]]], [False, False, False]),
        (["or", [B, ["cmp", "=", N, lit(2)]]], [True, None, None]),
        (["not", B], [False, True, None]),
        (["cmp", ">", T, ["arith", "-", ["now"], ["dur", 5]]], [False, True, None]),
        (["cmp", "<=", T, ["lit", 10, "TIMESTAMP"]], [True, False, None]),
        (lit(True), [True, True, True]),
    ],
)
def test_truth(expr, truth):
    assert evaluate(expr, COLUMNS, 15).to_pylist() == truth


def test_now_may_differ_by_row():
    now = pa.array([10, 21, 0])
    assert evaluate(["cmp", "=", T, ["now"]], COLUMNS, now).to_pylist() == [True, False, None]


def test_an_unknown_operation_is_named():
    with pytest.raises(ValueError, match="'frobnicate'"):
        evaluate(["frobnicate", S, "a"], COLUMNS, 0)


MOST, LEAST = 2**63 - 1, -(2**63)


def _remainder(a, b):
    """PostgreSQL: the sign is the dividend's; here, a division by 0 is NULL."""
    return None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


@pytest.mark.parametrize(
    ("expr", "texts"),
    [
        (["concat", S, lit("!")], ["free!", None, "50%\nb!"]),
        (["concat", N, S], ["1free", None, "350%\nb"]),
        (["concat", lit(""), B], ["true", "false", None]),
        (["concat", lit("a"), ["lit", None, "STRING"]], [None] * 3),
        (["concat", ["concat", lit("ä"), lit(-7)], lit("日")], ["ä-7日"] * 3),
    ],
)
def test_texts_are_joined_and_null_stays_null(expr, texts):
    assert compute(expr, COLUMNS, 0).to_pylist() == texts


@pytest.mark.parametrize("op", "+-*%")
def test_whole_numbers_that_do_not_fit_are_null(op):
    numbers = [0, 1, -1, 2, -2, 3037000500, -3037000500, MOST, LEAST, MOST - 1, LEAST + 1, None]
    a, b = zip(*[(a, b) for a in numbers for b in numbers], strict=True)
    columns = {"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64())}
    found = compute(["arith", op, ["col", "a"], ["col", "b"]], columns, 0).to_pylist()
    exact = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "%": _remainder}[op]
    for left, right, value in zip(a, b, found, strict=True):
        want = None if None in (left, right) else exact(left, right)
        assert value == (want if want is not None and LEAST <= want <= MOST else None)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (["neg", lit(LEAST)], None),
        (["neg", lit(MOST)], -MOST),
        (["arith", "+", lit(MOST), lit(1)], None),
        (["arith", "+", lit(MOST), lit(1.0)], 2.0**63),
        (["arith", "*", lit(1), lit(None)], None),
    ],
)
def test_constants_overflow_as_columns_do(expr, value):
    assert compute(expr, COLUMNS, 0).to_pylist() == [value] * 3


@pytest.mark.parametrize(
    ("us", "parts"),
    [
        (0, ("1970-01-01", 0, 0)),
        (-1, ("1969-12-31", 23, 59)),
        (1_201_967_999_999_999, ("2008-02-02", 15, 59)),
        (None, (None, None, None)),
    ],
)
def test_moments_have_a_date_an_hour_and_a_minute(us, parts):
    columns = {"t": pa.array([us, 0], pa.timestamp("us", tz="UTC"))}
    for name, want in zip(("DATE", "HOUR", "MINUTE"), parts, strict=True):
        assert compute(["fn", name, T], columns, 0).to_pylist()[0] == want
        assert compute(["fn", name, ["lit", us, "TIMESTAMP"]], columns, 0).to_pylist() == [want, want]


def test_no_other_function_of_a_moment():
    with pytest.raises(KeyError, match="'DECADE'"):
        compute(["fn", "DECADE", T], COLUMNS, 0)


STREAM = {"x": "x", "y": "y", "planar": True}
RECT = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 1.0, "y2": 1.0}
CIRCLE = {"type": "circle", "x": 1.0, "y": 0.0, "radius": 3.0}
SQUARE = {"type": "polygon", "rings": [[[-1, 1], [2, 1], [2, 4], [-1, 4], [-1, 1]]]}


def resolver():
    state = SlotState.fresh(0)
    out = Resolver(state, stream_spec(STREAM))
    columns = [["n", "BIGINT"], ["name", "STRING"], ["since", "TIMESTAMP"]]
    source = {"type": "file", "glob": "none"}
    spec = {"id": 4, "name": "t", "columns": columns, "key": "n", "source": source}
    out.tables.define(msgspec.convert(spec, TableSpec))
    rows = [{"n": 1, "name": "one", "since": 5}, {"n": 2, "name": "two", "since": None}]
    out.tables.add(4, pa.RecordBatch.from_pylist(rows, columns_schema(columns)))
    shapes = {"west": shapely.box(-1, -1, 0, 5), "north": shapely.box(-1, 3, 5, 5)}
    zones = {"member": list(shapes), "wkb": [shapely.to_wkb(shape) for shape in shapes.values()]}
    out.areas.define(6, pa.RecordBatch.from_pydict(zones))
    return out


def zone(member):
    return {"type": "area", "area": 6, "name": "zones", "member": member}


@pytest.mark.parametrize(
    ("expr", "truth"),
    [
        (["inside", RECT], [True, False, False]),
        (["inside", CIRCLE], [True, True, False]),
        (["inside", SQUARE], [False, True, False]),
        (["not", ["inside", RECT]], [False, True, True]),
        (["inside", zone("west")], [True, False, False]),
        (["inside", zone("nowhere")], [False, False, False]),
        (["cmp", "=", ["join", 4, "n", "name"], lit("one")], [True, None, None]),
        (["not", ["isnull", ["join", 4, "n", "n"]]], [True, False, False]),
        (["cmp", "<", ["join", 4, "n", "since"], ["now"]], [True, None, None]),
    ],
)
def test_places_and_tables_are_looked_up(expr, truth):
    assert evaluate(expr, COLUMNS, 15, resolver()).to_pylist() == truth


def test_tables_and_regions_need_a_resolver():
    with pytest.raises(ValueError, match="resolver"):
        evaluate(["inside", RECT], COLUMNS, 0)


def test_columns_are_those_that_an_expression_reads():
    expr = expression(["and", [["cmp", "=", ["join", 4, "n", "name"], S], ["in", D, [lit(1), B]]]])
    assert columns_read(expr, ("lon", "lat")) == {"n", "s", "d", "b"}
    assert columns_read(expression(["not", ["inside", RECT]]), ("lon", "lat")) == {"lon", "lat"}


# --- templates: what differs between queries is a constant of their shape ---


def together(conditions):
    """The truth of conditions of one shape over `COLUMNS`, each for all rows, evaluated in one go."""
    templates = [split(condition) for condition in conditions]
    assert len({template for template, _ in templates}) == 1
    template, rows = templates[0][0], 3
    columns = {name: pa.concat_arrays([column] * len(conditions)) for name, column in COLUMNS.items()}
    for j, kind in enumerate(template.kinds):
        values = [constants[j] for _, constants in templates for _ in range(rows)]
        columns[parameter(j)] = pa.array(values, pa.float64() if kind == "DOUBLE" else None)
    found = evaluation.evaluate(template.shape, columns, 15, resolver()).to_pylist()
    return [found[i : i + rows] for i in range(0, len(found), rows)]


@pytest.mark.parametrize(
    "conditions",
    [
        [["contains", S, text, "any"] for text in ("free", "b 50", "x y z", "free x")],
        [["contains", S, text, "all"] for text in ("free", "b 50", "x y z", "")],
        [["inside", RECT | {"x2": float(x), "y2": 9.0}] for x in range(4)],
        [["inside", CIRCLE | {"radius": r}] for r in (0.5, 1.0, 3.0)],
        [["inside", zone(member)] for member in ("west", "north", "nowhere")],
        [["in", N, [lit(n + i) for i in range(5)]] for n in (-4, -2, 1, 9)],
        [["in", N, [lit(None), *(lit(n + i) for i in range(length))]] for n in (0, 7) for length in (5, 9)],
        [["in", D, [lit(v) for v in (0.5, 1, 2, 3, -0.0, other)]] for other in (None, 7, 2.5)],
        [["in", D, [lit(v) for v in (0.5, 1, 3, 4, 2**53 + other)]] for other in (1, 3)],
        [["in", S, [lit(f"{text}{i or ''}") for i in range(5)]] for text in ("free", "busy")],
    ],
)
def test_many_constants_are_looked_at_together(conditions):
    assert together(conditions) == [evaluate(c, COLUMNS, 15, resolver()).to_pylist() for c in conditions]


_NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([-0.0, 0.5, 2.0]))


@given(st.lists(_NUMBERS, min_size=5, max_size=8), st.lists(_NUMBERS, max_size=20), st.booleans())
def test_a_long_list_is_a_chain_of_comparisons(constants, values, whole):
    values = [v for v in values if not whole or not isinstance(v, float)]
    column = {"v": pa.array(values, pa.int64() if whole else pa.float64())}
    items = [lit(constant) for constant in constants]
    chain = ["or", [["cmp", "=", ["col", "v"], item] for item in items]]
    want = evaluate(chain, column, 0).to_pylist()
    assert evaluate(["in", ["col", "v"], items], column, 0).to_pylist() == want
    template, (text,) = split(["in", ["col", "v"], items])
    column[parameter(0)] = pa.array([text] * len(values), pa.string())
    assert evaluation.evaluate(template.shape, column, 0).to_pylist() == want


@pytest.mark.parametrize("text", ["", "a.b", "日本", "(", "\\", "a\nb", "\U0001f695"])
def test_like_takes_text_literally(text):
    pattern = text.replace("\\", "\\\\")
    assert evaluate(["like", ["col", "x"], pattern], {"x": pa.array([text, text + "x"])}, 0).to_pylist() == [
        True,
        False,
    ]
    assert like_regex("%") != like_regex("_")
