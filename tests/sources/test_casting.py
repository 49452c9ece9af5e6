"""Casting whole columns: a value is good or bad by itself, whatever stands beside it."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.sources.formats.casting import cast_column
from stqsh.sources.formats.pyarrow_typing import parquet
from stqsh.sources.formats.time_formats import TimeFormat

KINDS = ["STRING", "BIGINT", "INT", "DOUBLE", "FLOAT", "BOOLEAN", "TIMESTAMP"]
NUMBERS = st.one_of(st.integers(-(2**64), 2**64).map(str), st.floats(width=32).map(repr), st.just("1e400"))
TIMES = st.one_of(
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(datetime.isoformat),
    st.datetimes(datetime(1700, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat),
    st.sampled_from(["2020-01-01T00:00:00.123456789+02:00", "2020-02-30", "20:15", "2020-01-01 00:00Z"]),
)
VALUES = st.one_of(
    NUMBERS,
    TIMES,
    st.sampled_from(
        ["", " ", "true", "False", "1", "0", " 7 ", "-0", "x", "0x1f", "\ufeff5", "1,5", "5\x00"]
    ),
    st.text(max_size=4),
).map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(st.one_of(st.none(), VALUES, st.binary(max_size=3)), max_size=12))
def test_a_column_is_cast_as_each_of_its_values_is(kind, values) -> None:
    whole = cast_column(pa.array(values, pa.binary()), kind)
    for i, value in enumerate(values):
        alone = cast_column(pa.array([value], pa.binary()), kind)
        assert (whole.bad is not None and bool(whole.bad[i])) == (
            alone.bad is not None and bool(alone.bad[0])
        )
        assert whole.values[i].is_valid == alone.values[0].is_valid
        assert str(whole.values[i].cast("string") if kind != "TIMESTAMP" else whole.values[i].value) == str(
            alone.values[0].cast("string") if kind != "TIMESTAMP" else alone.values[0].value
        )


@pytest.mark.parametrize("kind", KINDS)
@given(value=st.one_of(VALUES, st.binary(max_size=5)))
def test_a_bad_neighbour_changes_nothing(kind, value) -> None:
    alone = cast_column(pa.array([value], pa.binary()), kind)
    beside = cast_column(pa.array([value, b"\xff?"], pa.binary()), kind)
    assert beside.values[0].equals(alone.values[0]) or str(alone.values[0]) == str(beside.values[0]) == "nan"
    assert beside.bad.tolist() == [alone.bad is not None, True]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("TIMESTAMP", "01/05/2015 12:40:41 PM"),
        ("TIMESTAMP", "1717000000000"),
        ("TIMESTAMP", "2024-13-03T04:05:06Z"),
        ("TIMESTAMP", "2024-02-30"),
        ("TIMESTAMP", "2023-02-29 04:05:06"),
        ("TIMESTAMP", "0000-02-20T05:05:06Z"),
        ("BIGINT", "9223372036854775808"),
        ("INT", "-2147483649"),
        ("INT", "0xfffffffff"),
        ("DOUBLE", "infinite"),
    ],
)
def test_plausible_but_bad_values_are_found_together(kind, value) -> None:
    """One by one, each of these columns takes a minute."""
    cast = cast_column(pa.array([value.encode()] * 150_000), kind)
    assert cast.bad.all()


@pytest.mark.timeout(20)
def test_a_column_that_mixes_forms_is_cast_form_by_form() -> None:
    forms = [
        b"2024-02-29T04:05:06Z",
        b"2024-02-29 04:05:06",
        b"1709179506",
        b"1709179506.0",
        b"2024-02-29T05:05:06.0000001+01:00",
    ]
    cast = cast_column(pa.array(forms * 30_000), "TIMESTAMP")
    assert cast.bad is None
    assert cast.values.unique().cast(pa.int64()).to_pylist() == [1_709_179_506_000_000]


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999))
def test_seconds_are_exact_to_the_microsecond_in_this_century(seconds, micros) -> None:
    if abs(seconds) > 2**32:
        micros = 0
    text = f"{seconds}.{micros:06d}" if seconds >= 0 else str(seconds)
    expected = seconds * 1_000_000 + (micros if seconds >= 0 else 0)
    assert cast_column(pa.array([text.encode()]), "TIMESTAMP").values[0].value == expected


TYPED = [
    (pa.array([1, None], pa.int8()), "DOUBLE", [1.0, None], None),
    (pa.array([2**60 + 1]), "DOUBLE", [float(2**60)], None),
    (pa.array([1.0, 1.5]), "BIGINT", [1, None], [False, True]),
    (pa.array([2**40, 5]), "INT", [None, 5], [True, False]),
    (pa.array([368]), "STRING", ["368"], None),
    (pa.array(["a", "b"]).dictionary_encode(), "STRING", ["a", "b"], None),
    (pa.array(["1", "x"], pa.large_string()), "BIGINT", [1, None], [False, True]),
    (pa.array([1, -1]), "TIMESTAMP", [1_000_000, -1_000_000], None),
    (pa.array([0.25]), "TIMESTAMP", [250_000], None),
    (pa.array([1_999], pa.timestamp("ns")), "TIMESTAMP", [1], None),
    (pa.array([7], pa.timestamp("s", tz="America/New_York")), "TIMESTAMP", [7_000_000], None),
    (pa.array([1], pa.date32()), "TIMESTAMP", [86_400_000_000], None),
    (pa.array([[1]]), "TIMESTAMP", [None], [True]),
    (pa.array([[1], None]), "DOUBLE", [None, None], [True, True]),
    (
        pa.array([2**31 - 1, 2**31, -(2**31), -(2**31) - 1]),
        "INT",
        [2147483647, None, -2147483648, None],
        [False, True, False, True],
    ),
    (pa.array([float("nan"), 2.0**63, -(2.0**62)]), "BIGINT", [None, None, -(2**62)], [True, True, False]),
    (pa.array([10**18], pa.timestamp("s")), "TIMESTAMP", [None], [True]),
    (pa.array([1, 2**63 - 1, 2**63, None], pa.uint64()), "BIGINT", [1, 2**63 - 1, None, None], [0, 0, 1, 0]),
    (pa.array([2**31 - 1, 2**63], pa.uint64()), "INT", [2**31 - 1, None], [False, True]),
    (pa.array([2**31 - 1, 2**31], pa.uint32()), "INT", [2**31 - 1, None], [False, True]),
    (pa.array([255], pa.uint8()), "INT", [255], None),
    (pa.array([1, 2**63], pa.uint64()), "TIMESTAMP", [1_000_000, None], [False, True]),
    # These are whole times 2^64 away from times of our years, in microseconds.
    (pa.array([2**63 - 1, -(2**63), 1], pa.timestamp("ms")), "TIMESTAMP", [None, None, 1_000], [1, 1, 0]),
    (pa.array([2**58, 1], pa.timestamp("s", tz="Asia/Tokyo")), "TIMESTAMP", [None, 1_000_000], [1, 0]),
    (pa.array([2**31 - 1, 1], pa.int32()).cast(pa.date32()), "TIMESTAMP", [None, 86_400_000_000], [1, 0]),
    (
        pa.array([253_402_300_799, 253_402_300_800], pa.timestamp("s")),
        "TIMESTAMP",
        [253_402_300_799 * 10**6, None],
        [0, 1],
    ),
]


@pytest.mark.parametrize(("raw", "kind", "values", "bad"), TYPED)
def test_typed_columns(raw, kind, values, bad) -> None:
    cast = cast_column(raw, kind)
    plain = cast.values.cast(pa.int64()) if kind == "TIMESTAMP" else cast.values
    assert plain.to_pylist() == values
    assert (None if cast.bad is None else cast.bad.tolist()) == bad


@pytest.mark.parametrize(
    "raw",
    [
        pa.array([-1_500, 1_999, -2_000]),
        pa.array([-1_500.0, 1_999.0, -2_000.0]),
        pa.array(["-1500", "1999", "-2000"]),
        pa.array(["-1500.0", "1999.0", "-2000.0"]),
        pa.array([-1_500, 1_999, -2_000], pa.timestamp("ns")),
        pa.array(
            ["1969-12-31T23:59:59.9999985", "1970-01-01T00:00:00.000001999", "1969-12-31T23:59:59.999998"]
        ),
    ],
)
def test_nanoseconds_are_cut_off_to_the_microsecond_before(raw) -> None:
    cast = cast_column(raw, "TIMESTAMP", TimeFormat(per_second=1_000_000_000))
    assert cast.values.cast(pa.int64()).to_pylist() == [-2, 1, -2]


def test_numbers_are_read_by_a_pattern() -> None:
    cast = cast_column(pa.array([20_240_229, 20_230_229, None]), "TIMESTAMP", TimeFormat("%Y%m%d"))
    assert cast.values.cast(pa.int64()).to_pylist() == [1_709_164_800_000_000, None, None]
    assert cast.bad.tolist() == [False, True, False]


def test_a_pattern_gives_no_time_beyond_the_years() -> None:
    assert cast_column(pa.array(["262002300800", "1"]), "TIMESTAMP", TimeFormat("%s")).bad.tolist() == [1, 0]


def test_a_zone_brings_a_time_back_into_the_years() -> None:
    late = pa.array([253_402_300_800], pa.timestamp("s"))  # the year 10000, but not yet so in UTC
    assert cast_column(late, "TIMESTAMP", TimeFormat(zone="Asia/Tokyo")).bad is None


WHOLE = {"1e400": "nan"}  # no whole number is written with an exponent
SPELLINGS = ["nan", "NaN", "inf", "-Infinity", "1e400"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_numbers_that_are_not_finite_are_null_in_every_format(load, name: str) -> None:
    rows = [
        ("o0", "1.5", "3"),
        *((f"o{i}", text, WHOLE.get(text, text)) for i, text in enumerate(SPELLINGS, start=1)),
    ]
    columns = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"]]
    columns += [["v", "DOUBLE"], ["f", "FLOAT"], ["n", "BIGINT"]]
    if name == "a.csv":
        lines = [f"{oid},1,2,{i},{v},{v},{n}" for i, (oid, v, n) in enumerate(rows)]
        content: str | bytes = "\n".join(["oid,lon,lat,ts,v,f,n", *lines])
    elif name == "a.jsonl":
        known = {"nan": '"nan"', "NaN": "NaN", "inf": '"inf"', "-Infinity": "-Infinity"}
        head = '{"oid":"%s","lon":1,"lat":2,"ts":%d,"v":%s,"f":%s,"n":%s}'
        content = "\n".join(
            head % (oid, i, *(known.get(text, text) for text in (v, v, n)))
            for i, (oid, v, n) in enumerate(rows)
        )
    else:
        table = {"oid": [oid for oid, _, _ in rows], "lon": [1.0] * 6, "lat": [2.0] * 6, "ts": list(range(6))}
        numbers = [float(v) for _, v, _ in rows]
        table |= {"v": numbers, "f": pa.array(numbers, pa.float32()), "n": [float(n) for _, _, n in rows]}
        sink = pa.BufferOutputStream()
        parquet.write_table(pa.table(table), sink)
        content = sink.getvalue().to_pybytes()
    result = load({name: content}, columns=columns)
    assert result.dead == []
    assert [(row["v"], row["f"], row["n"]) for row in result.rows()] == [(1.5, 1.5, 3), *[(None,) * 3] * 5]


def test_places_and_times_that_are_not_finite_are_dead_letters(load) -> None:
    lines = ['{"oid":"a","lon":NaN,"lat":2,"ts":1,"n":1}', '{"oid":"b","lon":1,"lat":2,"ts":NaN,"n":1}']
    result = load({"a.jsonl": "\n".join([*lines, '{"oid":"c","lon":1,"lat":2,"ts":1,"n":1}'])})
    assert result.column("oid") == ["c"]
    assert [line for _, line, _, _ in result.dead] == [1, 2]
