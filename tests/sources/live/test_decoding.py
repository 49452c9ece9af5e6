"""Messages become records: by format, with Kafka's own columns, tombstones, and letters for what is bad."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.sources.formats.text_values import TextValues
from stqsh.sources.live.decoding import Decoded, MessageDecoder, Messages, Payloads
from stqsh.spec.stream import ColumnSpec, KafkaSourceSpec, StreamSpec

COLUMNS = (("oid", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))
AT = 1_700_000_000


def stream(form: str = "jsonl", columns: Any = COLUMNS, key: str = "oid", **more: Any) -> StreamSpec:
    source = KafkaSourceSpec("b", ("t",), form, more.pop("options", {}))
    specs = tuple(ColumnSpec(*column) for column in columns)
    return StreamSpec(name="s", columns=specs, key=key, x="lon", y="lat", time="ts", source=source, **more)


def decode(spec: StreamSpec, values: list[bytes | None], keys: list[bytes | None] | None = None) -> Decoded:
    count = len(values)
    messages = Messages(
        "t/1",
        np.arange(count) + 10,
        values,
        keys or [None] * count,
        np.full(count, AT * 1000),
        np.ones(count, np.int64),
    )
    return MessageDecoder.of(spec).decode(messages)


def row(oid: str, lon: float = 1, ts: object = AT) -> bytes:
    return orjson.dumps({"oid": oid, "lon": lon, "lat": 2, "ts": ts})


def keys_of(found: Decoded) -> list[str]:
    return found.records.column("oid").to_pylist()


def test_json_of_several_lines_is_one_message() -> None:
    found = decode(stream(), [row("a").replace(b",", b",\n"), row("b")])
    assert keys_of(found) == ["a", "b"]
    assert not found.dead


def test_bad_messages_are_told_with_partition_offset_and_reason() -> None:
    found = decode(stream(), [row("a"), b"oops", b"", row(""), row("b"), b"\xff", row("c", lon=500)])
    assert keys_of(found) == ["a", "b"]
    assert [(letter.file, letter.line) for letter in found.dead] == [
        ("t/1", 11), ("t/1", 12), ("t/1", 13), ("t/1", 15), ("t/1", 16),
    ]  # fmt: skip
    assert [letter.reason.split(":")[0] for letter in found.dead] == [
        "not JSON", "an empty message", "oid", "not JSON", "lon",
    ]  # fmt: skip


def test_numbers_of_times_mean_the_same_whatever_stands_beside_them() -> None:
    times = [AT, AT * 1000, AT * 10**6, AT * 10**9, "2023-11-14T22:13:20Z"]
    for others in ([], [b"oops"], [row("x", ts="2023-11-14T22:13:20Z")]):
        for at in times:
            found = decode(stream(), [row("a", ts=at), *others])
            assert found.records.column("ts").cast(pa.int64()).to_pylist()[0] == AT * 10**6, (at, others)


def test_a_tombstone_says_that_the_object_of_its_key_leaves() -> None:
    found = decode(stream(), [row("a"), None, row("b")], [b"a", b"a", b"b"])
    assert keys_of(found) == ["a", "a", "b"]
    assert found.records.column("lon").to_pylist() == [1, None, 1]
    assert found.records.column("ts").cast(pa.int64()).to_pylist()[1] == AT * 10**6


def test_a_tombstone_of_an_event_is_a_dead_letter() -> None:
    found = decode(stream(kind="event"), [row("a"), None])
    assert keys_of(found) == ["a"]
    assert [letter.line for letter in found.dead] == [11]


def test_the_columns_of_kafka() -> None:
    columns = (("_key", "STRING"), *COLUMNS[1:], ("_partition", "INT"), ("_offset", "BIGINT"),
               ("_timestamp", "TIMESTAMP"))  # fmt: skip
    found = decode(
        stream(columns=columns, key="_key"), [row("x"), b"bad", row("y"), None], [b"k", b"l", b"m", b"n"]
    )
    assert found.records.column("_key").to_pylist() == ["k", "m", "n"]
    assert found.records.column("_partition").to_pylist() == [1, 1, 1]
    assert found.records.column("_offset").to_pylist() == [10, 12, 13]
    assert found.records.column("_timestamp").cast(pa.int64()).to_pylist() == [AT * 10**6] * 3


def test_a_message_without_its_key_is_dead() -> None:
    columns = (("_key", "STRING"), *COLUMNS[1:])
    found = decode(stream(columns=columns, key="_key"), [row("x"), row("y")], [None, b"m"])
    assert found.records.column("_key").to_pylist() == ["m"]
    assert [letter.line for letter in found.dead] == [10]


@pytest.mark.parametrize("value", [b"null", b" null", b"null\n", b"\xef\xbb\xbfnull"])
def test_null_is_a_dead_letter_wherever_it_stands(value: bytes) -> None:
    for values in ([value], [value, row("a")], [row("a"), value, value], [value, b"oops"]):
        found = decode(stream(), list(values))
        assert found.records.num_rows == values.count(row("a"))
        assert len(found.dead) == len(values) - found.records.num_rows


def test_csv() -> None:
    values: list[bytes | None] = [
        b"a,1,2,1700000000\n",
        b'"b,c",1.5,2,1700000000000',
        b"d,1,2",
        b"e,1,2,17\nf,1,2,3",
    ]
    found = decode(stream("csv"), [*values, b'"g,1,2,3', b"h,1,2,1700000000", None])
    assert keys_of(found)[:3] == ["a", "b,c", "h"]
    assert [letter.line for letter in found.dead] == [12, 13, 14, 16]
    assert found.records.column("ts").cast(pa.int64()).to_pylist() == [AT * 10**6] * 3


def test_a_quote_of_csv_reaches_into_no_other_message() -> None:
    values: list[bytes | None] = [b'a"b"c,1,2,1700000000', b'd,1,2,"17', b'e",1,2,1700000000', b'"f",1,2,"17']
    found = decode(stream("csv"), [*values, b"g,1,2,1700000000", b'h,":",2,3'])
    assert keys_of(found) == ['a"b"c', 'e"', "g"]
    assert [(letter.line, letter.reason) for letter in found.dead] == [
        (11, "a quote that opens here is not closed"),
        (13, "a quote that opens here is not closed"),
        (15, "lon: ':' is not a valid DOUBLE"),
    ]


def arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_arrow_messages_hold_many_records() -> None:
    table = pa.table(
        {"lat": [1.0, 2.0], "lon": [1.0, 200.0], "oid": ["a", "b"], "ts": [AT, AT], "more": [1, 2]}
    )
    encoded = table.set_column(2, "oid", table["oid"].dictionary_encode())
    found = decode(
        stream("arrow"), [arrow(table), b"oops", arrow(encoded), arrow(table.drop_columns(["ts"]))]
    )
    assert keys_of(found) == ["a", "a"]
    assert [letter.line for letter in found.dead] == [10, 11, 12, 13]


@given(st.lists(st.one_of(st.binary(max_size=30), st.none(), st.sampled_from([row("a"), row("b", 400)]))),
       st.sampled_from(["jsonl", "csv", "arrow"]))  # fmt: skip
def test_no_message_is_lost_whatever_it_is(values: list[bytes | None], form: str) -> None:
    found = decode(stream(form), values, [b"k"] * len(values))
    assert found.records.num_rows + len(found.dead) == len(values)


ODD = (
    b"oops",
    b"",
    b"[1]",
    b"null",
    b"\n\x00",
    b'{"oid":"e"',
    row("f")[:-1] + b',"lon":NaN}',
    row("g")[:-1] + b',"more":{"a":[1]}}',
)


@given(
    st.lists(
        st.sampled_from(
            [row("a"), row("b", 400), *ODD, row("c", ts="x"), row("d", ts=AT * 1000), row("\xe9")]
        )
    )
)
def test_a_message_means_the_same_alone_and_among_others(values: list[bytes | None]) -> None:
    alone = [decode(stream(), [value]) for value in values]
    found = decode(stream(), values)
    assert found.records.to_pylist() == [record for each in alone for record in each.records.to_pylist()]
    assert [letter.reason for letter in found.dead] == [
        letter.reason for each in alone for letter in each.dead
    ]


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("of", [list, TextValues.of])
@pytest.mark.parametrize(
    ("form", "good"),
    [("jsonl", row("a")), ("csv", b"a,1,2,1700000000"), ("csv", b'"a",1,2,1700000000\r\n')],
)
def test_byte_order_marks_say_nothing(form: str, good: bytes, of: Callable[[list[bytes]], Payloads]) -> None:
    decoder = MessageDecoder.of(stream(form))
    for values in ([MARK + good, good], [good, MARK + good], [MARK + MARK + good], [good, MARK, good]):
        found = decoder.decode(Messages("t/1", np.arange(len(values)), of(values)))
        assert set(keys_of(found)) == {"a"}
        assert [letter.reason for letter in found.dead] == ["an empty message"] * values.count(MARK)


NUMBERS = tuple(
    b'{"oid":"n","lon":%s,"lat":2,"ts":%s,"f":%s}' % written
    for written in [
        (b"-0", b"1700000000", b"-0"),
        (b"-0.0", b"1700000000123456789", b"1.0000000596046448"),
        (b"1", b"1.7e18", b"NaN"),
        (b"1", b"1700000000.123456", b"1e300"),
        (b"1", b"-1500", b"-0.0"),
        (b"1", b"253402300800", b"0.1"),
        (b"1", b"-62135596801", b"1"),
        (b"1", b"-62135596801.0", b"1"),
        (b"1", b"9223372036854775807", b"1"),
        (b"1", b'"20240229"', b"1"),
        (b"1", b"20240229", b"1"),
        (b"1", b"true", b"1"),
    ]
)


@given(
    st.lists(st.sampled_from(NUMBERS), min_size=2, max_size=6),
    st.sampled_from(["", "s", "ms", "us", "ns", "%Y%m%d", "%d.%m.%Y"]),
)
def test_a_number_means_the_same_alone_and_among_others(values: list[bytes], timestamp: str) -> None:
    options = {"timestamp": timestamp} if timestamp else {}
    spec = stream(columns=(*COLUMNS, ("f", "FLOAT")), options=options)
    alone = [decode(spec, [value]) for value in values]
    found = decode(spec, list(values))
    assert shown(found) == [record for each in alone for record in shown(each)]
    assert [letter.reason for letter in found.dead] == [
        letter.reason for each in alone for letter in each.dead
    ]


def shown(found: Decoded) -> list[str]:
    """The records as text, in which -0.0 is not 0.0."""
    return [repr(record) for record in found.records.to_pylist()]


def test_numbers_are_read_by_the_pattern_of_times() -> None:
    spec = stream(options={"timestamp": "%Y%m%d"})
    found = decode(spec, [row("a", ts=20240229), row("b", ts=20230229), row("c", ts=AT)])
    assert keys_of(found) == ["a"]
    assert [letter.reason for letter in found.dead] == [
        "ts: '20230229' is not a time of the form %Y%m%d",
        "ts: '1700000000' is not a time of the form %Y%m%d",
    ]


def test_zeros_in_lists_stay_as_they_are_written() -> None:
    found = decode(stream(columns=(*COLUMNS, ("more", "STRING"))), [row("a")[:-1] + b',"more":[0, -0]}'])
    assert found.records.column("more").to_pylist() == ["[0,0]"]


def test_a_member_of_an_object_within_an_object_is_a_column() -> None:
    found = decode(
        stream(columns=(*COLUMNS, ("driver.name", "STRING"))),
        [
            orjson.dumps({"oid": "a", "lon": 1, "lat": 2, "ts": AT, "driver": {"name": "Ada", "age": 40}}),
            row("b"),
            b"{",
            orjson.dumps({"oid": "c", "lon": 1, "lat": 2, "ts": AT, "driver": "none"}),
        ],
    )
    assert keys_of(found) == ["a", "b", "c"]
    assert found.records.column("driver.name").to_pylist() == ["Ada", None, None]
