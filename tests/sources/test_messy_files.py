"""Files as people have them: each is read without being described, or refused with what to type."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Message
from stqsh.lang.errors import BindError
from stqsh.sources.formats import row_blocks
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.source_files import file_source, find_files, read_group
from stqsh.storage.catalogue import find_stream

DAY = "2024-07-03"


@dataclass(frozen=True)
class Read:
    """A file that is read.

    Attributes:
        content: the file's text or bytes.
        roles: the columns that are key, x, y and time.
        first, last: the first and the last record that is read: key, x, y and time of the day 2024-07-03.
        told: what CREATE says besides.
        name: the file's name.
        kind: of the stream.
        also: the values of another column, by its name.
        clauses: what the statement says.
    """

    content: str | bytes
    roles: str
    first: tuple[object, float, float, str]
    last: tuple[object, float, float, str]
    told: Sequence[str] = ()
    name: str = "in.csv"
    kind: str = "MOVING"
    also: tuple[str, list[object]] | None = None
    clauses: str = ""


def lines(head: str, *rows: str) -> str:
    return "\n".join([head, *rows, ""])


PLAIN = lines("id,lon,lat,ts", f"a,13.5,52.5,{DAY}T08:00:00Z", f"b,13.25,52.25,{DAY}T09:30:00Z")
A, B = ("a", 13.5, 52.5, "08:00:00"), ("b", 13.25, 52.25, "09:30:00")
USUAL = "id lon lat ts"
CITIES = lines(
    "id,lon,lat,ts,city", f"a,13.5,52.5,{DAY}T08:00:00Z,Zürich", f"b,13.25,52.25,{DAY}T09:30:00Z,Köln"
)
EUROS = CITIES.replace("Köln", "€ 5")

READ = {
    "semicolons": Read(PLAIN.replace(",", ";"), USUAL, A, B, ["FORMAT CSV (separator => ';')"]),
    "tabs under .csv": Read(PLAIN.replace(",", "\t"), USUAL, A, B, ["FORMAT CSV (separator => '\\t')"]),
    "bars": Read(PLAIN.replace(",", "|"), USUAL, A, B, ["FORMAT CSV (separator => '|')"]),
    "semicolons and decimal commas": Read(
        PLAIN.replace(",", ";").replace(".", ","),
        USUAL,
        A,
        B,
        ["FORMAT CSV (separator => ';', decimal => ',')"],
    ),
    "decimal commas in quotes": Read(
        lines("id,lon,lat,ts", f'a,"13,5","52,5",{DAY}T08:00:00Z', f'b,"13,25","52,25",{DAY}T09:30:00Z'),
        USUAL,
        A,
        B,
        ["FORMAT CSV (decimal => ',')"],
    ),
    "semicolons, compressed": Read(
        gzip.compress(PLAIN.replace(",", ";").encode()), USUAL, A, B, name="in.csv.gz"
    ),
    "UTF-16 with a byte-order mark": Read(
        CITIES.encode("utf-16"), USUAL, A, B, also=("city", ["Zürich", "Köln"])
    ),
    "UTF-16 without one": Read(
        CITIES.encode("utf-16-be"),
        USUAL,
        A,
        B,
        ["FORMAT CSV (encoding => 'utf-16-be')"],
        also=("city", ["Zürich", "Köln"]),
    ),
    "UTF-8 with a byte-order mark": Read(
        CITIES.encode("utf-8-sig"), USUAL, A, B, also=("city", ["Zürich", "Köln"])
    ),
    "Latin-1": Read(
        CITIES.encode("latin-1"),
        USUAL,
        A,
        B,
        ["FORMAT CSV (encoding => 'utf-8, cp1252')"],
        also=("city", ["Zürich", "Köln"]),
    ),
    "Windows-1252": Read(EUROS.encode("cp1252"), USUAL, A, B, also=("city", ["Zürich", "€ 5"])),
    "a column of row numbers without a name, as pandas writes it": Read(
        lines(",id,lon,lat,ts", f"470600,a,13.5,52.5,{DAY}T08:00:00Z", f"7,b,13.25,52.25,{DAY}T09:30:00Z"),
        USUAL,
        A,
        B,
        also=("", [470600, 7]),
    ),
    "blanks": Read(PLAIN.replace(",", " "), USUAL, A, B, ["FORMAT CSV (separator => ' ')"]),
    "fractions of seconds": Read(
        lines("id,lon,lat,ts", "a,13.5,52.5,03/07/2024 08:00:00.25", "b,13.25,52.25,31/07/2024 09:30:00.5"),
        USUAL,
        A,
        B,
        ["are read by '%d/%m/%Y %H:%M:%S.%f'"],
    ),
    "a date and a time of digits": Read(
        lines("id,lon,lat,date,time", "a,13.5,52.5,20240703,080000", "b,13.25,52.25,20240731,093000"),
        "id lon lat date",
        A,
        B,
        ["date: with the time of day in time", "are read by '%Y%m%d %H%M%S'"],
    ),
    "line ends of an old Mac": Read(PLAIN.replace("\n", "\r"), USUAL, A, B),
    "the separator in Excel's first line": Read(
        "sep=;\n" + PLAIN.replace(",", ";"), USUAL, A, B, ["FORMAT CSV (separator => ';', skip => 1)"]
    ),
    "a title before the header": Read(
        "Export of 3 July\n\n" + PLAIN, USUAL, A, B, ["FORMAT CSV (skip => 2)"]
    ),
    "comments before the header": Read(
        "# made by a logger\n# version 2\n" + PLAIN, USUAL, A, B, ["FORMAT CSV (skip => 2)"]
    ),
    "a header that begins with a hash": Read(
        "# Timestamp,MMSI,Latitude,Longitude\n"
        "03/07/2024 08:00:00,219000001,52.5,13.5\n31/07/2024 09:30:00,219000002,52.25,13.25\n",
        "MMSI Longitude Latitude # Timestamp",
        (219000001, 13.5, 52.5, "08:00:00"),
        (219000002, 13.25, 52.25, "09:30:00"),
        ["# Timestamp: times as '03/07/2024 08:00:00' are read by '%d/%m/%Y %H:%M:%S'"],
    ),
    "no header, with the roles said": Read(
        lines(f"a,{DAY} 08:00:00,13.5,52.5", f"b,{DAY} 09:30:00,13.25,52.25"),
        "c1 c3 c4 c2",
        A,
        B,
        ["FORMAT CSV (header => false)"],
        clauses="KEY c1 LOCATION (c3, c4) TIME c2",
    ),
    "date and time in two columns": Read(
        lines("id,lon,lat,Date,Time", f"a,13.5,52.5,{DAY},08:00:00", f"b,13.25,52.25,{DAY},09:30:00"),
        "id lon lat Date",
        A,
        B,
        ["Date: with the time of day in Time"],
    ),
    "a German date and time of day": Read(
        lines(
            "Kennung;Breite;Länge;Datum;Uhrzeit",
            "a;52,5;13,5;03.07.2024;8:00",
            "b;52,25;13,25;31.07.2024;9:30",
        ),
        "Kennung Länge Breite Datum",
        A,
        B,
        ["Datum: with the time of day in Uhrzeit", "times as '03.07.2024 8:00' are read by '%d.%m.%Y %H:%M'"],
    ),
    "the day first": Read(
        lines(
            "ID,ais_pos_timestamp,longitude,latitude",
            "1,03/07/2024 08:00,13.5,52.5",
            "2,31/07/2024 09:30,13.25,52.25",
        ),
        "ID longitude latitude ais_pos_timestamp",
        (1, 13.5, 52.5, "08:00:00"),
        (2, 13.25, 52.25, "09:30:00"),
        ["are read by '%d/%m/%Y %H:%M'"],
    ),
    "the month first, with AM and PM": Read(
        lines(
            "CASE_ENQUIRY_ID,OPEN_DT,LATITUDE,LONGITUDE",
            "101,07/03/2024 08:00:00 AM,52.5,13.5",
            "102,07/31/2024 01:30:00 PM,52.25,13.25",
        ),
        "CASE_ENQUIRY_ID LONGITUDE LATITUDE OPEN_DT",
        (101, 13.5, 52.5, "08:00:00"),
        (102, 13.25, 52.25, "13:30:00"),
        ["are read by '%m/%d/%Y %I:%M:%S %p'"],
        kind="EVENT",
    ),
    "day or month first, as the order of the rows says": Read(
        lines(
            "id,lon,lat,ts", *(f"a,13.5,52.5,{7 + n // 9:02}/{3 + n % 9:02}/2024 08:00" for n in range(18))
        ),
        USUAL,
        ("a", 13.5, 52.5, "08:00:00"),
        ("a", 13.5, 52.5, "08:00:00"),
        [
            "are read by '%m/%d/%Y %H:%M'; the month comes first, which is not certain:"
            " FORMAT CSV (timestamp => '%d/%m/%Y %H:%M') says otherwise"
        ],
    ),
    "day or month first, and nothing says which": Read(
        lines("id,lon,lat,ts", "a,13.5,52.5,03/07/2024 08:00", "b,13.25,52.25,03/07/2024 09:30"),
        USUAL,
        A,
        B,
        ["the day comes first, which is not certain: FORMAT CSV (timestamp => '%m/%d/%Y %H:%M')"],
    ),
    "years of two digits": Read(
        lines("id,lon,lat,ts", "a,13.5,52.5,03.07.24 08:00", "b,13.25,52.25,31.07.24 09:30"), USUAL, A, B
    ),
    "digits alone": Read(
        lines("id,lon,lat,ts", "a,13.5,52.5,20240703080000", "b,13.25,52.25,20240731093000"), USUAL, A, B
    ),
    "UTC in words": Read(PLAIN.replace("T", " ").replace("Z", " UTC"), USUAL, A, B),
    "milliseconds called unix": Read(
        lines("vehicleId,lng,lat,unix", "a,13.5,52.5,1719993600000", "b,13.25,52.25,1719999000000"),
        "vehicleId lng lat unix",
        A,
        B,
        ["unix: milliseconds since the epoch"],
    ),
    "a column called zeit": Read(
        PLAIN.replace("ts", "zeit").replace("id", "fahrzeug"), "fahrzeug lon lat zeit", A, B
    ),
    "dashes and dots in names": Read(
        PLAIN.replace("id,lon,lat,ts", "individual-local-identifier,location-long,location-lat,event.time"),
        "individual-local-identifier location-long location-lat event.time",
        A,
        B,
    ),
    "n/a among numbers": Read(
        lines(
            "id,lon,lat,ts,speed",
            *(
                f"a,13.5,52.5,{DAY}T08:00:00Z,{word}"
                for word in ("1.5", "n/a", "NA", "-", "null", "", "NULL")
            ),
        ),
        USUAL,
        A,
        A,
        also=("speed", [1.5, None, None, None, None, None, None]),
    ),
    "events without a key": Read(
        lines("lon,lat,ts,note", f"13.5,52.5,{DAY}T08:00:00Z,x", "broken", f"13.25,52.25,{DAY}T09:30:00Z,y"),
        "row lon lat ts",
        (1, 13.5, 52.5, "08:00:00"),
        (3, 13.25, 52.25, "09:30:00"),
        ["KEY row: the number of the row", "1 of 3 records is set aside: 1 column instead of 4"],
        kind="EVENT",
    ),
    "events of few objects": Read(
        lines("id,lon,lat,ts", *(f"a,13.5,52.5,{DAY}T08:00:{n:02d}Z" for n in range(10))),
        "row lon lat ts",
        (1, 13.5, 52.5, "08:00:00"),
        (10, 13.5, 52.5, "08:00:09"),
        ["id is no key: it repeats; KEY id says otherwise"],
        kind="EVENT",
    ),
    "JSON lines with US dates": Read(
        '{"id":"a","lon":13.5,"lat":52.5,"when":"07/03/2024 8:00 AM"}\n'
        '{"id":"b","lon":13.25,"lat":52.25,"when":"07/31/2024 9:30 AM"}\n',
        "id lon lat when",
        A,
        B,
        name="in.jsonl",
    ),
}


def created(session: Session, path: Path | str, kind: str = "MOVING", clauses: str = "") -> str:
    [message] = session.execute(f"CREATE {kind} STREAM s {clauses} FROM FILE '{path}';")
    assert isinstance(message, Message)
    return message.text


@pytest.mark.parametrize("case", READ.values(), ids=READ.keys())
def test_a_messy_file_is_read(tmp_path: Path, case: Read) -> None:
    path = tmp_path / case.name
    path.write_bytes(case.content.encode() if isinstance(case.content, str) else case.content)
    with local_session(tmp_path) as session:
        told = created(session, path, case.kind, case.clauses)
        row = find_stream(session.connection.db, "s")
    assert row is not None
    spec = row.spec
    assert " ".join(spec.roles) == case.roles
    for said in case.told:
        assert said in told
    layout, source = RecordSchema.of(spec), file_source(spec)
    [part] = [part for part in read_group(find_files(source), source, layout) if len(part.times)]
    columns = dict(zip(layout.names, part.columns, strict=True))
    values = list(zip(*(columns[name].to_pylist() for name in spec.roles), strict=True))
    for found, (*wanted, clock) in ((values[0], case.first), (values[-1], case.last)):
        assert list(found[:3]) == wanted
        assert found[3].astimezone(UTC).strftime("%H:%M:%S") == clock
    assert {found[3].year for found in values} == {2024}
    if case.also is not None:
        assert columns[case.also[0]].to_pylist() == case.also[1]


REFUSED = {
    "no key": (
        PLAIN.replace("id,", "colour,"),
        "s has no column that looks like its key",
        "without one type CREATE EVENT STREAM, whose key is then the number of the row; the columns are"
        " colour STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP",
    ),
    "no header": (
        lines(f"a,{DAY} 08:00:00,13.5,52.5", f"b,{DAY} 09:30:00,13.25,52.25"),
        "s has no column that looks like its key, location or time",
        "the file has no header; perhaps type KEY c1 LOCATION (c3, c4) TIME c2; the columns are c1 STRING, c2"
        " TIMESTAMP, c3 DOUBLE, c4 DOUBLE",
    ),
    "names that say nothing": (
        PLAIN.replace("id,lon,lat,ts", "a,b,c,d"),
        "s has no column that looks like its key, location or time",
        "the columns are a STRING, b DOUBLE, c DOUBLE, d TIMESTAMP",
    ),
    "times that are none": (
        PLAIN.replace(DAY, "soon"),
        "ts holds 'soonT08:00:00Z', and cannot be TIME",
        "FORMAT CSV (timestamp => '%d.%m.%Y %H:%M') says how times are written",
    ),
    "places that are none": (PLAIN.replace("13", "east"), "lon holds 'east.5', and cannot be LOCATION", None),
    "20,000 columns": (
        lines("id,lon,lat,ts" + "".join(f",c{n}" for n in range(19996)), "a,1,2,3" + ",0" * 19996),
        "in.csv has 20,000 columns, and a stream or table has 10,000 at most",
        "list those that are needed after its name: (id STRING, lon DOUBLE, lat DOUBLE, …)",
    ),
    "a header alone": (
        "id,lon,lat,ts\n",
        "lon has no value in the first rows, so its type is not known",
        "list the columns after the stream's name: (id STRING, lon DOUBLE, lat DOUBLE, …)",
    ),
    "no text": (
        "PK\3\4\0\0\0",
        "in.csv holds no text",
        "if it is no CSV file, rename it, or say what it is: FORMAT PARQUET",
    ),
    "nothing": ("", "in.csv contains no records from which to infer the columns", "give the column list"),
}


@pytest.mark.parametrize(("content", "message", "hint"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_that_cannot_be_read_is_refused_with_what_to_type(
    tmp_path: Path, content: str, message: str, hint: str | None
) -> None:
    path = tmp_path / "in.csv"
    path.write_text(content, encoding="utf-8")
    with local_session(tmp_path) as session, pytest.raises(BindError) as caught:
        created(session, path)
    assert caught.value.message.removeprefix(f"{tmp_path}/") == message
    assert caught.value.hint == hint


def test_a_glob_that_matches_a_licence_is_refused_with_the_pattern_to_type(tmp_path: Path) -> None:
    for name, content in {"a.csv": PLAIN, "b.csv": PLAIN, "LICENSE": "MIT", "README.md": "# Data"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with local_session(tmp_path / "home") as session:
        with pytest.raises(BindError) as caught:
            created(session, tmp_path / "*")
        assert (
            caught.value.message == f"{tmp_path}/* also matches LICENSE and 1 more, whose name say no format"
        )
        assert caught.value.hint == f"'{tmp_path}/*.csv' leaves it out"
        assert "KEY id" in created(session, tmp_path / "*.csv")


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "LONGEST_ROW", 1 << 20)
    path = tmp_path / "in.csv"
    path.write_text("x" * (3 << 20), encoding="utf-8")
    with local_session(tmp_path) as session, pytest.raises(BindError, match="line 1 is longer than 1 MB"):
        created(session, path)


def test_a_long_line_among_others_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "LONGEST_ROW", 1 << 20)
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 1 << 16)
    path = tmp_path / "in.csv"
    path.write_text(PLAIN + "x" * (3 << 20), encoding="utf-8")
    with local_session(tmp_path) as session:
        told = created(session, path)
    assert "the file cannot be read: line 4 is longer than 1 MB" in told


def test_a_directory_s_columns_are_those_of_the_files_that_lie_there(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with local_session(tmp_path) as session:
        with pytest.raises(BindError) as caught:
            session.execute(f"CREATE MOVING STREAM s FROM DIRECTORY '{folder}';")
        assert caught.value.message == f"there is no file in {folder} yet whose columns could be taken"
        (folder / "a.csv").write_text(PLAIN.replace(",", ";"), encoding="utf-8")
        (folder / "README.md").write_text("# Data", encoding="utf-8")
        [message] = session.execute(f"CREATE MOVING STREAM s FROM DIRECTORY '{folder}';")
        row = find_stream(session.connection.db, "s")
    assert isinstance(message, Message)
    assert "guessed: KEY id  LOCATION (lon, lat)  TIME ts" in message.text
    assert row is not None
    assert row.spec.source.options == {"separator": ";"}


def test_latitudes_in_the_place_of_longitudes_are_told_by_their_range(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(lines("id,lon,lat,ts", f"a,40.1,116.4,{DAY}T08:00:00Z"), encoding="utf-8")
    with local_session(tmp_path) as session:
        assert "if latitudes are in lon, type LOCATION (lat, lon)" in created(session, path)


def test_a_region_with_latitude_first_is_told_when_it_is_registered(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(PLAIN, encoding="utf-8")
    with local_session(tmp_path) as session:
        created(session, path)
        told = []
        for number, region in enumerate(["(52, 13, 53, 14)", "(13, 52, 14, 53)", "(80, 60, 81, 61)"]):
            [message] = session.execute(f"REGISTER QUERY q{number} AS SELECT id FROM s INSIDE {region};")
            assert isinstance(message, Message)
            told.append("longitude comes first, in regions and in LOCATION" in message.text)
    assert told == [True, False, False]


def test_a_messy_file_is_asked_from_end_to_end(tmp_path: Path) -> None:
    case = READ["a German date and time of day"]
    path = tmp_path / "in.csv"
    path.write_bytes(str(case.content).encode("cp1252"))
    with local_session(tmp_path) as session:
        created(session, path, "EVENT")
        for _ in session.outcomes("RUN;"):
            pass
        [answer] = session.execute("SELECT Kennung, Länge, Datum FROM s INSIDE (13.4, 52, 14, 53);")
    [row] = answer.table.to_pylist()
    assert (row["Kennung"], row["Länge"], row["Datum"]) == ("a", 13.5, datetime(2024, 7, 3, 8, 0, tzinfo=UTC))
