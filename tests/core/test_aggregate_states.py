"""Keys of groups and states of measures, against Python's own sums and sorted values."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stqsh.core.aggregates.answers import show_measures
from stqsh.core.aggregates.keys import canonical, decode_keys, number_groups
from stqsh.core.aggregates.states import Contribution, States, add_states, contribute
from stqsh.core.kernels.aggregates.exact_sums import add_doubles, add_to_few, double_places, rounded
from stqsh.core.kernels.events.versions import number_wholes
from stqsh.core.kernels.jit import frozen
from stqsh.spec.aggregate import Measure
from stqsh.spec.chunk import arrow_type
from stqsh.spec.expression import ColumnExpr

WHOLES = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    "STRING": st.text(alphabet="ab\0\x01ÿü", max_size=4),
    "BIGINT": WHOLES,
    "INT": st.integers(-(2**31), 2**31 - 1),
    "DOUBLE": st.floats(),
    "FLOAT": st.floats(width=32),
    "BOOLEAN": st.booleans(),
    "TIMESTAMP": WHOLES,
}
ARGUMENT = ColumnExpr("x")


def rank(value):
    return (value is None, 0 if value is None else value)


def finite(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value


def stored(values, kind):
    """Return values as a column has them, as ints for times."""
    column = pa.array(values, pa.int64()).cast(arrow_type(kind)) if kind == "TIMESTAMP" else None
    return pa.array(values, arrow_type(kind)) if column is None else column


def listed(column):
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


@given(st.data(), st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
def test_groups_are_numbered_in_the_order_of_their_values(data, types):
    row = st.tuples(*(st.none() | VALUES[kind] for kind in types))
    rows = data.draw(st.lists(row, max_size=8))
    columns = [stored([row[i] for row in rows], kind) for i, kind in enumerate(types)]
    plain = [tuple(finite(value) for value in row) for row in zip(*map(listed, columns), strict=True)]
    wanted = sorted(set(plain), key=lambda row: [rank(value) for value in row])
    groups = number_groups(columns, len(rows))
    decoded = [listed(column) for column in decode_keys(groups.keys, types)]
    assert list(zip(*decoded, strict=True)) == wanted
    assert [wanted[i] for i in groups.ids] == plain


@given(
    st.sampled_from([np.int8, np.int16, np.int32, np.int64]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(1, 70_000),
)
def test_many_whole_numbers_of_a_range_are_grouped_as_few_are(kind, low, size) -> None:
    first, last = np.iinfo(kind).min, np.iinfo(kind).max
    low = min(max(low, first), last)
    high = min(low + size - 1, last)
    values = np.random.default_rng(size).integers(low, high, 5_000, dtype=kind, endpoint=True)
    groups = number_groups([pa.array(values)], len(values))
    [decoded] = decode_keys(groups.keys, ["BIGINT"])
    distinct, ids = np.unique(values, return_inverse=True)
    assert decoded.to_pylist() == distinct.tolist()
    assert groups.ids.tolist() == ids.tolist()


def test_without_columns_there_is_one_group() -> None:
    ids, keys = number_groups([], 3)
    assert (ids.tolist(), keys.to_pylist()) == ([0, 0, 0], [b""])


def states(function, values, kind, rows, signs=None, count=1, lasting=True):
    by = pa.table({"key": pa.array(range(count))})
    records = Contribution(rows, signs)
    measures = (Measure(function, ARGUMENT, kind, 2),)
    return add_states([contribute(measures, [stored(values, kind)], by, records, lasting=lasting)])


def shown(function, kind, given: States):
    [value] = show_measures((Measure(function, ARGUMENT, kind, 2),), given).columns
    return value.to_pylist()


def double(total):
    try:
        return float(total)
    except OverflowError:
        return None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.randoms())
def test_sums_of_doubles_are_rounded_once_in_any_order(values, random):
    wanted = double(sum(map(Fraction, values)))
    random.shuffle(values)
    parts = [states("sum", [value], "DOUBLE", np.zeros(1, np.int32)) for value in values]
    assert shown("sum", "DOUBLE", add_states(parts)) == [wanted]
    whole = states("sum", values, "DOUBLE", np.zeros(len(values), np.int32))
    assert shown("sum", "DOUBLE", whole) == [wanted]
    mean = None if wanted is None else wanted / len(values)
    whole = states("avg", values, "DOUBLE", np.zeros(len(values), np.int32))
    assert shown("avg", "DOUBLE", whole) == [mean]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.integers(1, 3))
def test_sums_by_exponents_are_the_sums_term_by_term(values, count):
    bits = np.repeat(np.array(values).view(np.int64), 70)
    rows = np.arange(len(bits), dtype=np.int32) % count
    low, high = double_places(bits)
    places = [32 * place - 1088 for place in range(low, high + 1)]
    few, one_by_one = np.zeros((2, count, len(places)), np.int64)
    if places:
        add_to_few(frozen(bits), frozen(rows), low, few)
    add_doubles(frozen(bits), frozen(rows), frozen(np.ones(len(bits), np.int8)), low, one_by_one)
    for limbs, other in zip(few.tolist(), one_by_one.tolist(), strict=True):
        exact = [
            sum(Fraction(2) ** place * limb for place, limb in zip(places, found, strict=True))
            for found in (limbs, other)
        ]
        assert exact[0] == exact[1]


def test_the_widest_range_of_whole_numbers_is_not_numbered_by_a_table():
    values = np.array([2**63 - 1, -(2**63), 0])
    assert [found.tolist() for found in number_wholes(frozen(values), 1 << 16)] == [[], []]
    assert [found.tolist() for found in number_wholes(frozen(values[:1]), 1)] == [[0], [2**63 - 1]]


LIMBS = st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 2**31, 2**32 - 1]) | st.integers(-(2**61), 2**61)


@given(st.lists(LIMBS, max_size=7), st.data())
def test_limbs_are_rounded_once_though_carries_wait(lower, data):
    low = data.draw(st.integers(2, 60))
    top = data.draw(st.integers(-(2**40), 2**40) | st.sampled_from([0, -1]))
    limbs = np.array([[limb] for limb in (*lower, top)], np.int64)
    number = sum(limb << 32 * i for i, limb in enumerate([*lower, top]))
    wanted = double(Fraction(number) * Fraction(2) ** (32 * low - 1088))
    assert rounded(limbs, low)[0] == (wanted if wanted is not None else math.copysign(math.inf, number))


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([0.1, 0.2, 0.3], math.fsum([0.1, 0.2, 0.3])),
        ([1e308, 1e308, -1e308], 1e308),
        ([1e308, 1e308], None),
        ([1e16, 1.0, -1e16], 1.0),
        ([5e-324, 5e-324], 1e-323),
        ([5e-324, 1.0, -1.0], 5e-324),
        ([-0.0], 0.0),
        ([math.nan, math.inf, None], None),
    ],
)
def test_hard_sums(values, total):
    found = shown("sum", "DOUBLE", states("sum", values, "DOUBLE", np.zeros(len(values), np.int32)))
    assert found == [total]
    assert math.copysign(1, found[0] or 0.0) == math.copysign(1, total or 0.0)


@given(st.lists(WHOLES, min_size=1))
def test_sums_of_whole_numbers_are_exact_and_null_beyond_64_bits(values):
    total = sum(values)
    given = states("sum", values, "BIGINT", np.zeros(len(values), np.int32))
    assert shown("sum", "BIGINT", given) == [total if -(2**63) <= total < 2**63 else None]
    given = states("avg", values, "BIGINT", np.zeros(len(values), np.int32))
    assert shown("avg", "BIGINT", given) == [float(total) / len(values)]


@given(
    st.lists(WHOLES, min_size=1),
    st.lists(
        st.sampled_from([5e-324, 0.1, -3.5, 1e12, 2.0**63, -1e300]) | st.floats(allow_nan=False), min_size=1
    ),
)
@example([-1], [1e300])
@example([-(2**63)], [0.5])
@example([2**63 - 1, 1], [5e-324, 1e300])
@example([0], [math.inf])
def test_sums_of_whole_numbers_may_be_kept_with_sums_of_doubles(values, doubles):
    whole = states("sum", values, "BIGINT", np.zeros(len(values), np.int32))
    broken = states("sum", doubles, "DOUBLE", np.zeros(len(doubles), np.int32))
    both = add_states([whole, broken._replace(by=pa.table({"key": [1]}))])
    total = sum(values)
    assert shown("sum", "BIGINT", both)[0] == (total if -(2**63) <= total < 2**63 else None)
    finite = list(filter(math.isfinite, doubles))
    assert shown("sum", "DOUBLE", both)[1] == (double(sum(map(Fraction, finite))) if finite else None)


FUNCTIONS = ("count", "distinct", "sum", "avg", "min", "max", "topk")
RECORDS = st.lists(st.tuples(st.integers(0, 2), st.none() | st.sampled_from(["", "a b", "b", "B c", "ü"])))


@given(st.sampled_from(("count", "distinct", "min", "max", "topk")), RECORDS, RECORDS)
def test_what_leaves_again_never_counted(function, staying, leaving):
    records = [*((row, value, 1) for row, value in staying + leaving), *((*one, -1) for one in leaving)]
    rows, values, signs = (list(column) for column in zip(*records, strict=True)) if records else ([], [], [])
    changed = states(function, values, "STRING", np.array(rows, np.int32), np.array(signs, np.int8), count=3)
    rows, values = ([one[i] for one in staying] for i in (0, 1))
    plain = states(function, values, "STRING", np.array(rows, np.int32), count=3, lasting=False)
    assert shown(function, "STRING", changed) == shown(function, "STRING", plain)


@given(st.lists(st.floats(), min_size=1), st.sampled_from(("sum", "avg", "min", "max", "distinct", "count")))
def test_a_state_and_its_opposite_are_nothing(values, function):
    rows = np.zeros(len(values), np.int32)
    come = states(function, values, "DOUBLE", rows)
    gone = states(function, values, "DOUBLE", rows, -np.ones(len(values), np.int8))
    left = add_states([come, gone])
    assert (left.by.num_rows, left.values.num_rows) == (0, 0)


def test_top_terms_count_once_a_record_and_tie_by_term() -> None:
    texts = ["Rain jam", "jam jam, JAM!", "rain", None, "", "air"]
    given = states("topk", texts, "STRING", np.array([0, 0, 0, 0, 1, 2], np.int32), count=3)
    found = [[(one["term"], one["count"]) for one in row] for row in shown("topk", "STRING", given)]
    assert found == [[("jam", 2), ("rain", 2)], [], [("air", 1)]]


@pytest.mark.parametrize("lasting", [True, False])
def test_extremes_of_every_type(lasting):
    for kind, values in [
        ("TIMESTAMP", [-5, 7, None]),
        ("INT", [3, -2, None]),
        ("FLOAT", [1.5, -2.5, math.nan]),
        ("STRING", ["b", "a\0", None]),
    ]:
        for function, wanted in (("min", min), ("max", max)):
            given = states(function, values, kind, np.zeros(3, np.int32), lasting=lasting)
            [column] = show_measures((Measure(function, ARGUMENT, kind),), given).columns
            assert column.type == arrow_type(kind)
            assert listed(column) == [wanted(values[:2])]


def test_canonical_values() -> None:
    assert str(canonical(pa.array([-0.0]))[0]) == "0.0"
    assert canonical(pa.array([math.nan, math.inf, -math.inf, None, 1.0])).to_pylist() == [None] * 4 + [1.0]
