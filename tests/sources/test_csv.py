"""CSV files: every way to write one, and exactly the bad rows put aside, with file, line and reason."""

from __future__ import annotations

import gzip
import os
import random
from datetime import UTC, datetime

import pytest
import zstandard

from stqsh.errors import SourceError

HEAD = "oid,lon,lat,ts,n\n"
GOOD = "a,1.5,2.5,2020-01-01T00:00:00Z,7\n"
ROW = {
    "oid": "a",
    "lon": 1.5,
    "lat": 2.5,
    "ts": datetime(2020, 1, 1, tzinfo=UTC),
    "n": 7,
    "_tick": 1577836800,
}

SAME = {
    "plain": (HEAD + GOOD, {}),
    "no line end at the end": (HEAD + GOOD.rstrip(), {}),
    "byte-order mark": ("\ufeff" + HEAD + GOOD, {}),
    "CR LF": ((HEAD + GOOD).replace("\n", "\r\n"), {}),
    "CR alone": ((HEAD + GOOD).replace("\n", "\r"), {}),
    "blank lines": ("\n" + HEAD + "\n\n" + GOOD + "\n", {}),
    "quotes": ('"oid","lon",lat,ts,n\n"a",1.5,"2.5","2020-01-01T00:00:00Z","7"\n', {}),
    "other case": (HEAD.upper() + GOOD, {}),
    "other order, more columns": ("x,n,ts,lat,lon,oid\n,7,2020-01-01T00:00:00Z,2.5,1.5,a\n", {}),
    "semicolons": ((HEAD + GOOD).replace(",", ";"), {"separator": ";"}),
    "tabs": ((HEAD + GOOD).replace(",", "\t"), {"separator": "\\t"}),
    "no header": (GOOD, {"header": False}),
    "no header, blanks": ("a 1.5 2.5 1577836800 7\n", {"header": False, "separator": " "}),
    "other quote": ("oid,lon,lat,ts,n\n'a',1.5,2.5,1577836800,7\n", {"quote": "'"}),
    "blanks around values": (HEAD + "a, 1.5 ,2.5 , 2020-01-01T00:00:00Z, 7\n", {}),
    "blanks around names": ("oid, lon, lat, ts, n\n" + GOOD, {}),
}


@pytest.mark.parametrize(("text", "options"), SAME.values(), ids=SAME)
def test_the_same_record_however_it_is_written(load, text, options) -> None:
    result = load({"a.csv": text}, options=options)
    assert result.rows() == [ROW]
    assert result.dead == []


TIMES = {
    "2020-01-01": 1577836800,
    "2020-01-01 00:00": 1577836800,
    "2020-01-01 00:00:00": 1577836800,
    "2020-01-01T01:00:00+01:00": 1577836800,
    "2019-12-31T18:00:00-0600": 1577836800,
    "2020-01-01T00:00:00.25Z": 1577836800.25,
    "2020-01-01T00:00:00.123456789": 1577836800.123456,
    "1577836800": 1577836800,
    "1577836800.25": 1577836800.25,
    "1.5778368e9": 1577836800,
    "-86400": -86400,
    "-0.5": -0.5,
    "1965-01-02T00:00:00": -157680000,
}


@pytest.mark.parametrize("text", TIMES)
def test_times(load, text) -> None:
    result = load({"a.csv": f"{HEAD}a,1,2,{text},7\n"})
    assert result.dead == []
    micros = round(TIMES[text] * 1e6)
    assert result.store.read(0, 1)["ts"].cast("int64").to_pylist() == [micros]
    assert result.column("_tick") == [micros // 1_000_000]


def test_all_ways_to_write_times_within_one_file(load) -> None:
    rows = "".join(f"a,1,2,{text},{n}\n" for n, text in enumerate(TIMES))
    result = load({"a.csv": HEAD + rows})
    assert result.dead == []
    assert sorted(result.column("n")) == list(range(len(TIMES)))


def test_an_empty_field_is_null_and_an_empty_place_says_that_the_object_leaves(load) -> None:
    columns = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"], ["s", "STRING"]]
    result = load({"a.csv": 'oid,lon,lat,ts,s\na,,,1,""\n'}, columns=columns)
    assert result.rows()[0] | {"ts": None} == {
        "oid": "a",
        "lon": None,
        "lat": None,
        "ts": None,
        "s": "",
        "_tick": 1,
    }


def test_an_empty_string_in_quotes_is_a_string_and_else_it_is_null(load) -> None:
    columns = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"]]
    columns += [["s", "STRING"], ["n", "BIGINT"], ["b", "BOOLEAN"]]
    rows = [
        'a,"","",1,"","",""',
        "b,,,2,,,",
        '"c","1","2","3","é","7","true"',
        '"","1","2","3","x","7","true"',
    ]
    result = load({"a.csv": "oid,lon,lat,ts,s,n,b\n" + "\n".join(rows) + "\n"}, columns=columns)
    assert [result.column(name) for name in ("oid", "lon", "s", "n", "b")] == [
        ["a", "b", "c"],
        [None, None, 1.0],
        ["", None, "é"],
        [None, None, 7],
        [None, None, True],
    ]
    assert [reason for _, _, reason, _ in result.dead] == ["oid: the key is empty"]


BAD = {
    "a,1,2,1,x": "n: 'x' is not a valid BIGINT",
    "a,1,2,1,1.5": "n: '1.5' is not a valid BIGINT",
    "a,1,2,1,9223372036854775808": "n: '9223372036854775808' is not a valid BIGINT",
    "a,east,2,1,7": "lon: 'east' is not a valid DOUBLE",
    "a,1,2,yesterday,7": "ts: 'yesterday' is not a time (ISO 8601, or seconds since the epoch)",
    "a,1,2,2020-13-01,7": "ts: '2020-13-01' is not a time (ISO 8601, or seconds since the epoch)",
    "a,1,2,1533101250000,7": "ts: '1533101250000' is not a time (ISO 8601, or seconds since the epoch)",
    "a,1,2,nan,7": "ts: 'nan' is not a time (ISO 8601, or seconds since the epoch)",
    ",1,2,1,7": "oid: the key is empty",
    "a,1,2,,7": "ts: the time is empty",
    "a,1,90.5,1,7": "lat: 90.5 is beyond 90 degrees",
    "a,1,-91,1,7": "lat: -91.0 is beyond 90 degrees",
    "a,180.1,2,1,7": "lon: 180.1 is beyond 180 degrees",
    "a,,2,1,7": "lon: empty, while lat is not",
    "a,1,,1,7": "lat: empty, while lon is not",
    "a,nan,2,1,7": "lon: nan is not a coordinate",
    "a,1,-inf,1,7": "lat: -inf is not a coordinate",
    "a,1,2,1": "4 columns instead of 5",
    "a,1,2,1,7,8": "6 columns instead of 5",
    "a": "1 column instead of 5",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_row_is_put_aside_with_its_reason(load, text) -> None:
    result = load({"a.csv": f"{HEAD}{GOOD}\n{text}\n{GOOD}"})
    assert result.dead == [("a.csv", 4, BAD[text], text)]
    assert result.rows() == [ROW, ROW]


def test_all_bad_rows_of_a_file_at_once(load) -> None:
    result = load({"a.csv": HEAD + GOOD + "".join(f"{text}\n{GOOD}" for text in BAD)})
    expected = {("a.csv", 3 + 2 * i, reason, text) for i, (text, reason) in enumerate(BAD.items())}
    assert set(result.dead) == expected
    assert result.rows() == [ROW] * (len(BAD) + 1)


def test_invalid_utf8_is_bad_only_where_it_is_read(load) -> None:
    columns = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"], ["s", "STRING"]]
    text = b"oid,lon,lat,ts,s,unread\na,1,2,1,caf\xe9,x\nb,1,2,1,ok,\xff\nc\xff,1,2,1,ok,\nd,1\xff,2,1,ok,\n"
    result = load({"a.csv": text}, columns=columns)
    assert result.column("oid") == ["b"]
    assert [(line, reason) for _, line, reason, _ in result.dead] == [
        (2, "s: not valid UTF-8"),
        (4, "oid: not valid UTF-8"),
        (5, "lon: '1\ufffd' is not a valid DOUBLE"),
    ]


def test_lines_are_physical_after_quoted_line_ends(load) -> None:
    columns = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"], ["s", "STRING"]]
    text = 'oid,lon,lat,ts,s\r\na,1,2,1,"two\r\nlines"\r\nb,1,2,x,"one ""quoted"""\r\n'
    text += 'c,"1\n",2,1\nd,1,2,1,"e\n\nf"'
    result = load({"a.csv": text}, columns=columns)
    assert result.column("s") == ["two\r\nlines", "e\n\nf"]
    assert [(line, reason.split(" ")[0]) for _, line, reason, _ in result.dead] == [(4, "ts:"), (5, "4")]
    assert result.dead[0][3] == 'b,1,2,x,"one ""quoted"""'


def test_planar_places_know_no_degrees(load) -> None:
    result = load({"a.csv": HEAD + "a,5000,-300,1,7\nb,inf,1,1,7\n"}, planar=True)
    assert result.column("lon") == [5000.0]
    assert [reason for *_, reason, _ in result.dead] == ["lon: inf is not a coordinate"]


@pytest.mark.parametrize("kind", ["gz", "zst", "two gz members"])
def test_compressed_files(load, kind) -> None:
    if kind == "zst":
        name, content = "a.csv.zst", zstandard.compress((HEAD + GOOD).encode())
    else:
        parts = [HEAD, GOOD] if "two" in kind else [HEAD + GOOD]
        name, content = "a.csv.gz", b"".join(gzip.compress(part.encode()) for part in parts)
    assert load({name: content}).rows() == [ROW]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.csv.gz", b"no gzip at all"),
        ("b.csv.gz", gzip.compress(HEAD.encode() + GOOD.encode() * 99, mtime=0)[:16]),
        ("b.csv.zst", b"no"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_dead_letter(load, name, content) -> None:
    result = load({"a.csv": HEAD + GOOD, name: content, "c.csv": HEAD + GOOD})
    assert result.rows() == [ROW, ROW]
    ((file, line, reason, _),) = result.dead
    assert (file, line) == (name, 0)
    assert reason.startswith("the file cannot be read: ")


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("count", [300, 20_000])
def test_a_file_that_is_cut_off_gives_the_rows_before_the_cut(load, ending, count) -> None:
    draw = random.Random(1)
    rows = "".join(f"{draw.randbytes(8).hex()},1,2,{n},{n}\n" for n in range(count))
    packed = gzip.compress if ending == "gz" else zstandard.ZstdCompressor(write_checksum=False).compress
    whole = packed((HEAD + rows).encode())
    result = load({f"a.csv.{ending}": whole[: len(whole) * 3 // 4]})
    (letter,) = result.dead
    assert letter[1] == 0
    assert "the file cannot be read" in letter[2]
    assert result.column("n") == list(range(result.store.rows))
    least = {"gz": 0.6, "zst": 0.4 if count > 1_000 else 0}[ending]  # it has blocks of 128 KB
    assert result.store.rows >= count * least


def test_globs_find_files_with_blanks_and_in_all_folders(load) -> None:
    files = {"a b.csv": "1", "sub/deep/c d.csv": "2", "sub/e.csv": "3", "sub/f.txt.bak": "4"}
    result = load({name: f"{HEAD}o{n},1,2,{n},7\n" for name, n in files.items()}, glob="in/**/*.csv")
    assert result.column("oid") == ["o1", "o2", "o3"]


def test_empty_files_and_headers_alone_hold_no_records(load) -> None:
    result = load({"a.csv": "", "b.csv": HEAD, "c.csv": HEAD.rstrip(), "d.csv": HEAD + GOOD})
    assert (result.rows(), result.dead) == ([ROW], [])


def test_a_source_without_a_record_is_a_store_without_rows(load) -> None:
    store = load({"a.csv": HEAD}).store
    assert (store.rows, store.complete, store.rows_until(10**9)) == (0, True, 0)


def test_a_missing_column_names_itself_its_file_and_near_names(load) -> None:
    with pytest.raises(SourceError, match=r"no column lat in .*b\.csv") as caught:
        load({"a.csv": HEAD + GOOD, "b.csv": "oid,lon,latt,ts,n\n"})
    assert caught.value.hint == "did you mean latt?"


def test_an_unknown_option_names_near_ones(load) -> None:
    with pytest.raises(SourceError, match="FORMAT CSV has no option seperator") as caught:
        load({"a.csv": HEAD}, options={"seperator": ";"})
    assert caught.value.hint == "did you mean separator?"


def test_a_separator_is_one_character(load) -> None:
    with pytest.raises(SourceError, match="separator must be one character, not '::'"):
        load({"a.csv": HEAD}, options={"separator": "::"})


def test_no_file_and_no_format(load, tmp_path) -> None:
    with pytest.raises(SourceError, match="no file matches"):
        load({}, glob="in/*.csv")
    with pytest.raises(SourceError, match=r"no file matches .*: file name too long"):
        load({}, glob="a" * 300)
    with pytest.raises(SourceError, match="does not say what its format is"):
        load({"a.dat": HEAD})
    assert load({"a.dat": HEAD + GOOD}, format="csv").rows() == [ROW]


def test_a_quote_that_is_not_closed_takes_one_line(load) -> None:
    rows = [f"o{n},1,2,{n},{n}" for n in range(1000)]
    rows[8] = rows[8].replace("o8", '"o8')
    rows[990] = '"o990",1,2,990,990'
    result = load({"a.csv": "oid,lon,lat,ts,n\n" + "\n".join(rows) + "\n"})
    assert sorted(result.column("n")) == [n for n in range(1000) if n != 8]
    reason = "a quote that opens here is not closed within 32 lines"
    assert result.dead == [("a.csv", 10, reason, '"o8,1,2,8,8')]


def test_a_quote_at_the_end_of_the_file_takes_one_line(load) -> None:
    result = load({"a.csv": 'oid,lon,lat,ts,n\na,1,2,3,4\nb,1,2,3,"4\nc,1,2,3,4\nd,1,2,3,4'})
    assert sorted(result.column("oid")) == ["a", "c", "d"]
    assert [line for _, line, _, _ in result.dead] == [3]


def test_a_quote_that_the_next_one_closes_is_told_with_its_lines(load) -> None:
    result = load({"a.csv": 'oid,lon,lat,ts,n\n"a,1,2,3,4\nb,1,2,3,4\nc,"1",2,3,4\nd,1,2,3,4\n'})
    assert result.column("oid") == ["d"]
    ((_, line, reason, _),) = result.dead
    assert (line, reason) == (2, "4 columns instead of 5, in 3 lines from a quote that may not be closed")


def test_a_row_of_another_width_that_is_no_text_spoils_no_other_row(load) -> None:
    body = b"oid,lon,lat,ts,n\na,1,2,3,4\nb\xff,1,2\n\xe9,1,2,3,4\nc,1,2,3,4\n"
    result = load({"a.csv": body})
    assert result.column("oid") == ["a", "c"]
    assert [(line, reason) for _, line, reason, _ in result.dead] == [
        (3, "3 columns instead of 5"),
        (4, "oid: not valid UTF-8"),
    ]


def test_a_block_in_which_every_row_is_bad_is_no_unreadable_file(load) -> None:
    result = load({"a.csv": b"oid,lon,lat,ts,n\n\x80\n\xff,1\n"})
    assert [(line, reason) for _, line, reason, _ in result.dead] == [
        (2, "1 column instead of 5"),
        (3, "2 columns instead of 5"),
    ]


def test_a_first_row_that_is_no_header_is_an_error_that_names_the_file(load) -> None:
    with pytest.raises(SourceError, match=r"junk\.csv has no header: field larger than field limit"):
        load({"junk.csv": b"x" * 200_000})


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl"])
def test_a_name_of_a_file_may_be_any_bytes(load, ending) -> None:
    name = os.fsdecode(b"b\xfc.") + ending
    text = HEAD + "a,1,2,1,1\nb,1,2,x,1\n"
    if ending == "jsonl":
        text = '{"oid":"a","lon":1,"lat":2,"ts":1}\n{"oid":"b","lon":1,"lat":2,"ts":"x"}\n'
    result = load({name: gzip.compress(text.encode()) if ending == "csv.gz" else text})
    assert result.column("oid") == ["a"]
    assert [file for file, *_ in result.dead] == [rf"b\xfc.{ending}"]


def test_an_error_shows_a_name_of_any_bytes(load) -> None:
    with pytest.raises(SourceError) as error:
        load({os.fsdecode(b"b\xfc.csv"): "oid\na\n"})
    assert r"no column lon in" in error.value.text()
    assert error.value.text().encode().isascii()
