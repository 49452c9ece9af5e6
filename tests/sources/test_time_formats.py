"""Times as other people write them: patterns, zones, and numbers that are no seconds."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.errors import SourceError
from stqsh.sources.formats.casting import cast_column
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.sources.inference import infer
from stqsh.spec.stream import FileSourceSpec

HEAD = "oid,lon,lat,ts,n\n"


def rows(*times: str) -> dict[str, str]:
    return {"a.csv": HEAD + "".join(f"o{n},1,2,{time},{n}\n" for n, time in enumerate(times))}


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"timestamp": "%m/%d/%Y %I:%M:%S %p"}, "01/14/2015 03:04:41 PM", at(2015, 1, 14, 15, 4, 41)),
        ({"timestamp": "%d/%m/%Y %H:%M"}, " 20/03/2021 00:22 ", at(2021, 3, 20, 0, 22)),
        ({"timestamp": "%m/%d/%Y"}, "01/02/1965", at(1965, 1, 2)),
        (
            {"timestamp": "%m/%d/%Y %H:%M:%S", "zone": "America/New_York"},
            "07/14/2015 12:00:00",
            at(2015, 7, 14, 16),
        ),
        ({"zone": "America/New_York"}, "2015-01-14T12:00:00", at(2015, 1, 14, 17)),
        ({"zone": "America/New_York"}, "2015-01-14T12:00:00Z", at(2015, 1, 14, 12)),
        # A change of clocks: the earlier one of two, and the change where there is none.
        ({"zone": "America/New_York"}, "2015-11-01T01:30:00", at(2015, 11, 1, 5, 30)),
        ({"zone": "America/New_York"}, "2015-03-08T02:30:00", at(2015, 3, 8, 7)),
        ({"timestamp": "ms"}, "1533101250500", at(2018, 8, 1, 5, 27, 30, 500_000)),
        ({"timestamp": "us"}, "1533101250500001", at(2018, 8, 1, 5, 27, 30, 500_001)),
        ({"timestamp": "ms"}, "2018-08-01", at(2018, 8, 1)),
    ],
)
def test_times_are_read_as_the_options_say(load, options, text, expected) -> None:
    result = load(rows(text), options=options)
    assert result.column("ts") == [expected]
    assert result.dead == []


def test_a_time_that_does_not_fit_is_a_dead_letter_that_names_the_form(load) -> None:
    result = load(
        rows("14/01/2015 10:00", "2015-01-14", "15/01/2015 10:00 x", "16/01/2015 10:00"),
        options={"timestamp": "%d/%m/%Y %H:%M"},
    )
    assert result.column("n") == [0, 3]
    assert [reason for _, _, reason, _ in result.dead] == [
        "ts: '2015-01-14' is not a time of the form %d/%m/%Y %H:%M",
        "ts: '15/01/2015 10:00 x' is not a time of the form %d/%m/%Y %H:%M",
    ]


def test_a_day_that_its_month_has_not_is_no_time(load) -> None:
    times = ["02/28/2015", "02/29/2015", "02/29/2016", "02/30/2016", "04/31/2015", "05/01/2015", "03/31/2015"]
    result = load(rows(*times), options={"timestamp": "%m/%d/%Y"})
    assert sorted(result.column("n")) == [0, 2, 5, 6]
    assert [line for _, line, _, _ in result.dead] == [3, 5, 6]


@pytest.mark.parametrize("pattern", ["%m/%e/%Y %H:%M", "%m/%d/%Y %R"])
def test_short_forms_are_understood(load, pattern) -> None:
    result = load(rows("03/2/2015 10:30", "02/30/2015 10:30"), options={"timestamp": pattern})
    assert result.column("ts") == [at(2015, 3, 2, 10, 30)]


@pytest.mark.parametrize(
    ("pattern", "times", "good"),
    [
        ("%F %T", ["2015-01-02 12:30:00", "2015-02-30 12:30:00", "2015-01-31 00:00:00"], [0, 2]),
        ("%h %e %Y %k:%M", ["Jan 2 2015 12:30", "Feb 30 2015 12:30", "Jan 30 2015 2:30"], [0, 2]),
        ("%d/%m/%y %l:%M %p", ["02/01/15 1:30 PM", "29/02/15 1:30 PM", "29/02/16 1:30 PM"], [0, 2]),
        (
            "%m/%d/%Y %H:%M %Z",
            ["01/02/2015 12:30 EST", "02/29/2015 12:30 EST", "02/28/2015 12:30 EST"],
            [0, 2],
        ),
        ("%a %d.%m.%Y", ["Fri 02.01.2015", "Mon 30.02.2015", "Fri 30.01.2015"], [0, 2]),
        ("%c", ["Fri Jan  2 12:30:00 2015", "Mon Feb 30 12:30:00 2015", "Fri Jan 30 12:30:00 2015"], [0, 2]),
        # The offset brings the day of UTC into another month, or away from the days that are looked at.
        (
            "%m/%d/%Y %H:%M %z",
            ["02/31/2015 23:30 -0500", "02/29/2015 01:30 +1200", "01/31/2015 23:30 -0500"],
            [2],
        ),
        ("%d%m%Y%H%M", ["020120152930", "300220152230", "310120150030"], [2]),
        ("%d.%m.%Y %%d", ["02.01.2029 %d", "30.02.2029 %d"], [0]),
    ],
)
def test_a_good_day_stays_good_whatever_the_pattern_is(load, pattern, times, good) -> None:
    result = load(rows(*times), options={"timestamp": pattern})
    assert sorted(result.column("n")) == good


@given(st.lists(st.tuples(st.dates(), st.integers(28, 31), st.integers(-14, 14)), max_size=20))
def test_days_are_those_of_the_calendar(days) -> None:
    texts = [f"{day.year:04}-{day.month:02}-{number} 12:29 {hours:+03}00" for day, number, hours in days]
    cast = cast_column(pa.array(texts, pa.string()), "TIMESTAMP", TimeFormat("%Y-%m-%d %H:%M %z"))
    has_day = [number <= monthrange(day.year, day.month)[1] for day, number, _ in days]
    assert ([True] * len(days) if cast.bad is None else (~cast.bad).tolist()) == has_day


def test_an_offset_in_the_text_counts_more_than_the_zone(load) -> None:
    options = {"timestamp": "%d/%m/%Y %H:%M %z", "zone": "Europe/Berlin"}
    result = load(rows("20/03/2021 12:00 +0500"), options=options)
    assert result.column("ts") == [at(2021, 3, 20, 7)]


def test_bytes_that_are_no_text_are_no_time(load) -> None:
    files = {"a.csv": HEAD.encode() + b"a,1,2,\xff\xfe,1\nb,1,2,,2\nc,1,2,20/03/2021,3\n"}
    result = load(files, options={"timestamp": "%d/%m/%Y"})
    assert result.column("n") == [3]
    assert [reason for _, _, reason, _ in result.dead][1] == "ts: the time is empty"


def test_json_takes_the_same_options(load) -> None:
    line = '{"oid":"a","lon":1,"lat":2,"ts":%s,"n":1}\n'
    files = {"a.jsonl": line % '"20/03/2021 00:22"'}
    assert load(files, options={"timestamp": "%d/%m/%Y %H:%M"}).column("ts") == [at(2021, 3, 20, 0, 22)]


def test_milliseconds_in_json(load) -> None:
    files = {"a.jsonl": '{"oid":"a","lon":1,"lat":2,"ts":1533101250000,"n":1}\n'}
    assert load(files, options={"timestamp": "ms"}).column("ts") == [at(2018, 8, 1, 5, 27, 30)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timestamp": "MM/DD/YYYY"}, "timestamp must be a pattern, not 'MM/DD/YYYY'"),
        ({"timestamp": 5}, "timestamp must be a pattern, not 5"),
        ({"zone": "Mars"}, "there is no time zone 'Mars'"),
        ({"zone": 1}, "there is no time zone 1"),
        ({"timestamps": "%d"}, "FORMAT CSV has no option timestamps"),
    ],
)
def test_options_that_mean_nothing_are_refused(load, options, message) -> None:
    with pytest.raises(SourceError, match=message):
        load(rows("1"), options=options)


def test_columns_that_fit_the_pattern_are_found_to_be_times(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("oid,when,day\n7,20/03/2021 00:22,21/03/2021\n")
    source = FileSourceSpec(str(tmp_path / "a.csv"), options={"timestamp": "%d/%m/%Y %H:%M"})
    assert infer(source) == [["oid", "BIGINT"], ["when", "TIMESTAMP"], ["day", "STRING"]]
